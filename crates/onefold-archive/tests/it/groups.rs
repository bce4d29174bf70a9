//! Chunks that are compressed together: what that saves, and what damage to one takes along.

use onefold_archive::tree::restore::read_file;
use onefold_archive::{ArchiveSettings, VersionInfo};
use onefold_block::{FaultKind, Folder as _, OpKind, SimFolder, SplitMix64};
use onefold_content::{Codec, Compression, Compressor};

use crate::support::{Tree, add, assert_sound, names, new_archive, open, read, small};

const ZSTD: Compression = Compression::Zstd(3);

fn compressing() -> ArchiveSettings {
    ArchiveSettings { compression: ZSTD, ..small() }
}

/// Text of words that come again and again, no two files alike.
fn text(random: &mut SplitMix64, words: u64) -> Vec<u8> {
    let list = ["container", "garbage", "collection", "journal", "checkpoint", "segment", "index"];
    let word = |random: &mut SplitMix64| list[random.below(list.len() as u64) as usize];
    let words = (0..words).map(|n| format!("{}_{} ", word(random), n * random.below(9)));
    words.collect::<String>().into_bytes()
}

fn texts(seed: u64, files: u64, words: u64) -> Tree {
    let mut random = SplitMix64::new(seed);
    (0..files).map(|n| (format!("f{n:04}").into_bytes(), Some(text(&mut random, words)))).collect()
}

fn container_bytes(folder: &SimFolder) -> u64 {
    let containers = folder.subfolder("containers").unwrap();
    let len = |name: String| containers.open(&name).unwrap().len().unwrap();
    names(folder, "containers").into_iter().map(len).sum()
}

#[test]
fn small_files_of_one_kind_take_half_of_what_each_takes_by_itself() {
    let (folder, mut archive) = new_archive(&compressing());
    let tree = texts(5, 500, 40);
    let VersionInfo { totals, .. } = add(&mut archive, &tree).unwrap();
    let mut compressor = Compressor::new(ZSTD);
    let alone = tree.values().flatten().map(|content| {
        let mut out = Vec::new();
        match compressor.compress_into(content, &mut out, content.len() - 1) {
            Codec::Raw => content.len() as u64,
            _ => out.len() as u64,
        }
    });
    let alone: u64 = alone.sum();
    assert!(totals.stored_bytes * 2 < alone, "{} and {alone}", totals.stored_bytes);
    let around = container_bytes(&folder) - totals.stored_bytes;
    assert!(around < 500 * 20 + 2000, "{around} bytes around what is stored");
    assert!(read(&archive, 1).unwrap() == tree);
    assert_sound(&archive, "added");
}

#[test]
fn a_container_whose_end_is_damaged_is_read_by_its_groups_and_named() {
    let (folder, mut archive) = new_archive(&compressing());
    let tree = texts(6, 300, 400);
    add(&mut archive, &tree).unwrap();
    let all = names(&folder, "containers");
    assert!(all.len() > 2, "{all:?}");
    for name in &all {
        let path = format!("containers/{name}");
        let len = folder.subfolder("containers").unwrap().open(name).unwrap().len().unwrap();
        // In the footer, and in the table of groups before it.
        for from_end in [1, 12, 40] {
            folder.flip_bit(&path, len - from_end, 2).unwrap();
            let archive = open(&folder);
            assert!(read(&archive, 1).unwrap() == tree, "{name}, {from_end} bytes from its end");
            assert!(!archive.verify(&mut |_, _| true).unwrap().is_sound());
            folder.flip_bit(&path, len - from_end, 2).unwrap();
        }
    }
    assert_sound(&open(&folder), "put right");
}

#[test]
fn what_is_needed_of_a_group_moves_and_the_rest_of_it_goes() {
    let (folder, mut archive) = new_archive(&compressing());
    let first = texts(7, 400, 200);
    // Every other file stays, so that no group is needed as a whole; in the last hundred all do.
    let kept = |n: usize| n >= 300 || n.is_multiple_of(2);
    let second: Tree =
        first.clone().into_iter().enumerate().filter(|(n, _)| kept(*n)).map(|f| f.1).collect();
    add(&mut archive, &first).unwrap();
    add(&mut archive, &second).unwrap();
    let before = container_bytes(&folder);
    archive.remove_all(&[1]).unwrap();
    let report = archive.compact(0, &mut |_, _| true).unwrap();
    assert_eq!((report.unused_bytes, report.obstacles.len()), (0, 0), "{report:?}");
    let after = container_bytes(&folder);
    assert!(after * 100 < before * 70, "{before} before, {after} after");
    assert!(read(&open(&folder), 2).unwrap() == second);
    assert_sound(&open(&folder), "moved");
    // What moved is found when it comes again.
    let again = add(&mut open(&folder), &second).unwrap();
    assert_eq!(again.totals.new_bytes, 0);
}

#[test]
fn machine_code_that_moves_is_compressed_three_levels_more() {
    let mut random = SplitMix64::new(4);
    let words: Vec<u8> = random.bytes(24_000).iter().map(|byte| byte % 32).collect();
    let mut code = b"\x7FELF".to_vec();
    while code.len() < 1 << 20 {
        let at = random.below(2000) as usize * 12;
        code.extend_from_slice(&words[at..at + 12]);
    }
    let settings = ArchiveSettings { compression: ZSTD, ..ArchiveSettings::default() };
    let (_folder, mut archive) = new_archive(&settings);
    // All but the first 300 KiB of the file stays, so that its large group moves in part.
    let first = Tree::from([(b"code".to_vec(), Some(code.clone()))]);
    let shorter = [b"\x7FELF", &code[300 << 10..]].concat();
    let second = Tree::from([(b"code".to_vec(), Some(shorter))]);
    add(&mut archive, &first).unwrap();
    let VersionInfo { totals, .. } = add(&mut archive, &second).unwrap();
    archive.remove_all(&[1]).unwrap();
    let report = archive.compact(0, &mut |_, _| true).unwrap();
    let entry = archive.version(None).unwrap().find(b"code").unwrap();
    let version = archive.version(None).unwrap();
    let mut lens = version.chunks(entry.recipe).map(|chunk| chunk.unwrap().len as usize);
    // Its own beginning is in another container, and is left there.
    let mut begin = 0;
    while begin < totals.new_bytes as usize {
        begin += lens.next().unwrap();
    }
    let stays = &code[(300 << 10) + begin - 4..];
    let stored = [3, 4, 6].map(|level| {
        let mut out = Vec::new();
        Compressor::new(Compression::Zstd(level)).compress_into(stays, &mut out, stays.len());
        out.len() as u64
    });
    assert!(!stored[..2].contains(&stored[2]), "{stored:?}");
    assert_eq!(report.moved_bytes, stored[2], "{report:?}, {stored:?}");
    assert!(read(&archive, 2).unwrap() == second);
}

#[test]
fn content_that_shrinks_to_nothing_does_not_make_a_container_without_an_end() {
    let (folder, mut archive) = new_archive(&compressing());
    // No two chunks are alike, and each takes some bytes only.
    let mut bytes = vec![b'x'; 20 << 20];
    bytes.chunks_mut(500).enumerate().for_each(|(n, piece)| {
        piece[..8].copy_from_slice(&(n as u64).to_be_bytes());
    });
    let tree = Tree::from([(b"long".to_vec(), Some(bytes))]);
    add(&mut archive, &tree).unwrap();
    let containers = names(&folder, "containers").len();
    assert!(containers >= (20 << 20) / (32 * (128 << 10)), "{containers}");
    assert!(read(&open(&folder), 1).unwrap() == tree);
}

#[test]
fn a_read_that_fails_takes_along_nothing_that_can_be_read_by_itself() {
    let settings = ArchiveSettings { container_bytes: 2 << 20, ..small() };
    let (folder, mut archive) = new_archive(&settings);
    let content = SplitMix64::new(9).bytes(1 << 20);
    add(&mut archive, &Tree::from([(b"file".to_vec(), Some(content.clone()))])).unwrap();
    assert_eq!(names(&folder, "containers").len(), 1);
    // The end of the container, then all of its groups at once.
    for nth in 1..=2 {
        let archive = open(&folder);
        let version = archive.version(Some(1)).unwrap();
        let entry = version.find(b"file").unwrap();
        folder.fail_once(&[OpKind::Read], nth, FaultKind::Eio);
        let mut bytes = Vec::new();
        let read = read_file(&archive, &version, &entry, 4 << 20, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        read.unwrap_or_else(|error| panic!("read {nth}: {error}"));
        assert!(bytes == content, "read {nth}");
    }
    // What cannot be read at all is an error, and nothing wrong comes before it.
    let archive = open(&folder);
    let version = archive.version(Some(1)).unwrap();
    let entry = version.find(b"file").unwrap();
    folder.fail_from(&[OpKind::Read], 2, FaultKind::Eio);
    let mut bytes = Vec::new();
    let read = read_file(&archive, &version, &entry, 4 << 20, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    assert!(read.unwrap_err().is_corruption() && content.starts_with(&bytes));
}
