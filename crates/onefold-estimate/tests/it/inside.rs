//! Files that hold a disk or a stream: counted by what is inside, or refused.
//! Room: onefold-estimate.

use std::fs;
use std::path::PathBuf;

use onefold_estimate::{EstimateError, Options, Progress, scan};
use onefold_image::Choice;

use crate::tree::{Tree, noise, options, prose, report};

const CLUSTER: u64 = 64 << 10;

/// A qcow2 image of version 2 with clusters of 64 KiB: header, L1 and L2 table in the first three
/// clusters, then those of the disk that have bytes.
fn qcow2(size: u64, clusters: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"QFI\xfb".to_vec();
    file.extend(2u32.to_be_bytes());
    file.extend([0; 12]);
    file.extend(16u32.to_be_bytes());
    file.extend(size.to_be_bytes());
    file.extend(0u32.to_be_bytes());
    file.extend(1u32.to_be_bytes());
    file.extend(CLUSTER.to_be_bytes());
    file.resize(CLUSTER as usize, 0);
    file.extend((2 * CLUSTER).to_be_bytes());
    file.resize(2 * CLUSTER as usize, 0);
    let mut l2 = vec![0; CLUSTER as usize / 8];
    for (number, (at, _)) in (3..).zip(clusters) {
        l2[*at] = number * CLUSTER;
    }
    file.extend(l2.iter().flat_map(|place| place.to_be_bytes()));
    for (_, bytes) in clusters {
        file.extend(bytes);
    }
    file
}

/// The disk in such an image.
fn disk(size: u64, clusters: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut disk = vec![0; size as usize];
    for (at, bytes) in clusters {
        let start = at * CLUSTER as usize;
        let end = disk.len().min(start + bytes.len());
        disk[start..end].copy_from_slice(&bytes[..end - start]);
    }
    disk
}

/// Bytes as gzip that does not compress: blocks of at most 65,535 bytes, each with its length.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    let mut blocks = bytes.chunks(65_535).peekable();
    while let Some(block) = blocks.next() {
        file.push(u8::from(blocks.peek().is_none()));
        let len = block.len() as u16;
        file.extend(len.to_le_bytes());
        file.extend((!len).to_le_bytes());
        file.extend(block);
    }
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    file.extend((!crc).to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

/// What both say of their bytes must be the same.
fn same_chunks(one: &onefold_estimate::Report, other: &onefold_estimate::Report) {
    assert_eq!(one.chunk_sizes, other.chunk_sizes);
    assert_eq!(one.compression, other.compression);
    assert_eq!((one.input.bytes, one.input.files), (other.input.bytes, other.input.files));
}

#[test]
fn a_disk_in_an_image_counts_as_the_disk_and_what_it_lacks_as_holes() {
    let cluster = |seed| noise(seed, CLUSTER as usize);
    // Blocks of 128 KiB: the first is full, the second a hole, of the third the second half is
    // there, and so are the 77 bytes at the end, behind a hole of 21 blocks.
    let there = [(0, cluster(1)), (1, cluster(2)), (5, cluster(1)), (48, cluster(3))];
    let size = (3 << 20) + 77;
    let hole = (128 << 10) + (3 << 20) - (384 << 10);
    for (clusters, holes) in [(&there[..], hole), (&there[..3], hole + 77)] {
        let (images, disks) = (Tree::new(), Tree::new());
        let image = images.file("disk.img", &qcow2(size, clusters));
        disks.file("disk.img", &disk(size, clusters));
        let plain = report(&[&disks.path()], &options());
        assert_eq!((plain.input.hole_bytes, plain.notes.len()), (0, 0));
        let found = report(&[&images.path()], &options());
        same_chunks(&found, &plain);
        assert_eq!(found.input.hole_bytes, holes);
        let told = "1 qcow2 or compressed image counted by what is inside (--format raw counts \
                    the bytes of the file)";
        assert_eq!(found.notes, [told]);
        // The same as an input of its own.
        let named = report(&[&image], &options());
        same_chunks(&named, &plain);
        assert_eq!((named.input.hole_bytes, named.notes), (holes, vec![told.to_owned()]));
        // Whoever wants the bytes of the file gets these.
        let raw = Options { images: Choice::Raw, ..options() };
        for path in [images.path(), image] {
            let bytes = report(&[&path], &raw);
            let len = (3 + clusters.len() as u64) * CLUSTER;
            assert_eq!((bytes.input.bytes, bytes.notes.len()), (len, 0));
        }
    }
}

#[test]
fn in_a_tree_only_files_of_64_kib_are_looked_into_and_images_that_cannot_be_are_counted_as_bytes() {
    let tree = Tree::new();
    let mut image = qcow2(1 << 20, &[]);
    image.truncate(3 * CLUSTER as usize);
    // A header, and an L1 table that is not there: still an image of one MiB of nothing.
    tree.file("long", &image[..CLUSTER as usize]);
    let looked = report(&[&tree.path()], &options());
    assert_eq!(looked.notes.len(), 1, "{:?}", looked.notes);
    tree.file("long", &image[..CLUSTER as usize - 1]);
    let short = report(&[&tree.path()], &options());
    assert_eq!((short.input.bytes, short.notes.len()), (CLUSTER - 1, 0));

    let tree = Tree::new();
    let mut other = b"KDMV".to_vec();
    other.resize(CLUSTER as usize, 7);
    tree.file("a.vmdk", &other);
    image[4..8].copy_from_slice(&9u32.to_be_bytes());
    tree.file("b.qcow2", &image);
    tree.file("c.gz", &gzip(&noise(1, 70_000)));
    let found = report(&[&tree.path()], &options());
    assert_eq!(found.input.bytes, CLUSTER + 3 * CLUSTER + 70_000 + 10 + 2 * 5 + 8);
    let told = "2 disk images of other formats counted as the bytes of the file: what is inside \
                may reduce better";
    assert_eq!(found.notes, [told]);
    let raw = Options { images: Choice::Raw, ..options() };
    assert_eq!(report(&[&tree.path()], &raw).notes.len(), 0);
}

#[test]
fn a_compressed_input_counts_as_what_it_decompresses_to() {
    let content = [prose(1, 150_000), vec![0; 128 << 10], noise(2, 130_000)].concat();
    let (packed, plain) = (Tree::new(), Tree::new());
    let file = packed.file("disk.img", &gzip(&content));
    let found = report(&[&file], &options());
    let wanted = report(&[&plain.file("disk.img", &content)], &options());
    same_chunks(&found, &wanted);
    assert!(found.is_clean() && found.notes.len() == 1, "{:?}", found.notes);
    // Two of them are two.
    let second = packed.file("second.img", &gzip(&content[..100]));
    let both = report(&[&file, &second], &options());
    assert_eq!((both.input.bytes, both.input.files), (content.len() as u64 + 100, 2));
    assert!(both.notes[0].starts_with("2 qcow2 or compressed images counted"), "{:?}", both.notes);
}

#[test]
fn a_compressed_input_that_is_cut_off_or_holds_an_image_is_refused() {
    let tree = Tree::new();
    let scanned = |path: PathBuf| scan(&[path], &options(), &Progress::new());
    let image = qcow2(1 << 20, &[]);
    let nested = tree.file("nested.gz", &gzip(&image));
    let error = scanned(nested).expect_err("it is refused");
    assert!(matches!(error, EstimateError::Image { .. }), "{error}");
    // What is missing shows when its length is looked for.
    let whole = gzip(&noise(1, 300_000));
    let cut = tree.file("cut.gz", &whole[..250_000]);
    let found = report(&[&cut], &options());
    assert_eq!((found.input.bytes, found.problems.unreadable_files), (0, 1));
    assert!(!found.is_clean());
    fs::write(&cut, &whole[..15]).expect("the test set it up");
    let error = scanned(cut).expect_err("it is refused");
    assert!(matches!(error, EstimateError::Input { .. } | EstimateError::Image { .. }), "{error}");
}

/// Blocks of 128 KiB that cannot be read are left out one by one; at the eighth the rest of the
/// segment is given up.
#[test]
fn seven_bad_blocks_are_passed_over_and_the_eighth_ends_the_reading() {
    const BLOCK: u64 = 128 << 10;
    let with = |bad: u64| {
        let size = (bad + 2) * BLOCK;
        let cluster = |at, seed| (at as usize, noise(seed, CLUSTER as usize));
        let last = 2 * (bad + 1);
        let mut image =
            qcow2(size, &[cluster(0, 1), cluster(1, 2), cluster(last, 3), cluster(last + 1, 4)]);
        // Those in between lie behind the end of the file.
        for at in 2..last {
            let entry = (2 * CLUSTER + 8 * at) as usize;
            image[entry..entry + 8].copy_from_slice(&((1 << 30) + at * CLUSTER).to_be_bytes());
        }
        let tree = Tree::new();
        tree.file("image", &image);
        let found = report(&[&tree.path()], &options());
        assert_eq!((found.problems.read_errors, found.problems.named.len()), (1, 1));
        assert!(!found.is_clean() && found.input.hole_bytes == 0);
        assert_eq!(found.primary().unique_bytes, found.input.bytes);
        (found.input.bytes / BLOCK, found.problems.unread_bytes / BLOCK)
    };
    assert_eq!(with(1), (2, 1));
    assert_eq!(with(7), (2, 7));
    assert_eq!(with(8), (1, 9));
    assert_eq!(with(9), (1, 10));
}
