//! What is read from an image is what `qemu-img convert` makes of it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use onefold_block::SplitMix64;
use onefold_image::{Extent, Format, ImageError, Qcow2};

/// Run `qemu-img`, which must succeed.
pub fn qemu_img(args: &[&str]) {
    let output = Command::new("qemu-img").args(args).output().expect("qemu-img is needed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "qemu-img {args:?}: {said}");
}

/// A disk of `size` bytes with runs of noise, of text and of nothing; as raw bytes.
pub fn disk(size: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let mut bytes = vec![0; size];
    let mut at = 0;
    while at < size {
        let len = (1 << (9 + random.next_u64() % 9)).min(size - at);
        let kind = random.next_u64() % 4;
        for byte in &mut bytes[at..at + len] {
            *byte = match kind {
                0 => random.next_u64() as u8,
                1 => b"onefold "[random.next_u64() as usize % 8],
                _ => 0,
            };
        }
        at += len;
    }
    bytes
}

pub fn image(folder: &Path, bytes: &[u8], options: &str, more: &[&str]) -> PathBuf {
    let (raw, made) = (folder.join("raw"), folder.join("made.qcow2"));
    fs::write(&raw, bytes).unwrap();
    let (raw, to) = (raw.to_str().unwrap(), made.to_str().unwrap());
    let args = [&["convert", "-f", "raw", "-O", "qcow2", "-o", options][..], more, &[raw, to]];
    qemu_img(&args.concat());
    made
}

/// All of a disk, extent by extent; holes must be holes.
pub fn read_all(image: &mut Qcow2) -> Result<(Vec<u8>, u64), ImageError> {
    let size = image.size_bytes();
    let (mut bytes, mut data) = (Vec::new(), 0);
    while (bytes.len() as u64) < size {
        let at = bytes.len() as u64;
        match image.extent(at, size)? {
            Extent::Hole(len) => {
                assert!(len > 0, "an empty extent at {at}");
                bytes.resize((at + len) as usize, 0);
            }
            Extent::Data(len) => {
                data += len;
                bytes.resize((at + len) as usize, 0xee);
                image.read_at(at, &mut bytes[at as usize..])?;
            }
        }
    }
    Ok((bytes, data))
}

#[test]
fn images_of_every_kind_hold_what_went_in() {
    let folder = tempfile::tempdir().unwrap();
    let odd = disk((1 << 20) + 512 * 7, 1);
    for (options, more) in [
        ("compat=0.10", &[][..]),
        ("compat=1.1", &[]),
        ("compat=1.1", &["-c"]),
        ("compat=0.10", &["-c"]),
        ("compat=1.1,compression_type=zstd", &["-c"]),
        ("compat=1.1,cluster_size=512", &[]),
        ("compat=1.1,cluster_size=512", &["-c"]),
        ("compat=1.1,cluster_size=2M", &[]),
        ("compat=1.1,cluster_size=2M,compression_type=zstd", &["-c"]),
        ("compat=1.1,extended_l2=on,cluster_size=128K", &[]),
        ("compat=1.1,extended_l2=on", &["-c"]),
        ("compat=1.1,preallocation=metadata", &[]),
        ("compat=1.1,lazy_refcounts=on,refcount_bits=1", &[]),
    ] {
        let path = image(folder.path(), &odd, options, more);
        let mut image = Qcow2::open(File::open(&path).unwrap()).unwrap();
        assert_eq!(image.size_bytes(), odd.len() as u64, "{options}");
        let (bytes, data) = read_all(&mut image).unwrap_or_else(|e| panic!("{options}: {e}"));
        assert!(bytes == odd, "{options} {more:?}");
        assert!(data < odd.len() as u64 || options.contains("metadata") || options.contains("2M"));
        // At random places and in random pieces as well.
        let mut random = SplitMix64::new(7);
        for _ in 0..30 {
            let at = random.next_u64() as usize % odd.len();
            let len = random.next_u64() as usize % (odd.len() - at).min(100_000);
            let mut piece = vec![1; len];
            image.read_at(at as u64, &mut piece).unwrap();
            assert!(piece == odd[at..at + len], "{options}: {len} bytes at {at}");
        }
        assert!(image.read_at(odd.len() as u64, &mut [0]).is_err());
        assert_eq!(image.extent(odd.len() as u64, u64::MAX).unwrap(), Extent::Hole(0));
    }
}

#[test]
fn a_large_empty_disk_is_one_hole_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.qcow2");
    qemu_img(&["create", "-q", "-f", "qcow2", path.to_str().unwrap(), "8T"]);
    let mut image = Qcow2::open(File::open(&path).unwrap()).unwrap();
    assert_eq!(image.extent(0, u64::MAX).unwrap(), Extent::Hole(8 << 40));
    assert_eq!(image.extent(5 << 40, (5 << 40) + 9).unwrap(), Extent::Hole(9));
}

#[test]
fn zeroed_clusters_are_holes_whether_allocated_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), &vec![7; 1 << 20], "compat=1.1", &[]);
    let path = path.to_str().unwrap();
    let args = ["-f", "qcow2", "-c", "write -z 128k 256k", "-c", "write -P 9 192k 4k", path];
    assert!(Command::new("qemu-io").args(args).output().unwrap().status.success());
    let mut image = Qcow2::open(File::open(path).unwrap()).unwrap();
    assert_eq!(image.extent(0, 1 << 20).unwrap(), Extent::Data(128 << 10));
    assert_eq!(image.extent(128 << 10, 1 << 20).unwrap(), Extent::Hole(64 << 10));
    let mut bytes = [0; 3];
    image.read_at((192 << 10) + 4095, &mut bytes).unwrap();
    assert_eq!(bytes, [9, 0, 0]);
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let base = image(folder.path(), &vec![7; 1 << 20], "compat=1.1", &[]);
    let base = base.to_str().unwrap();
    qemu_img(&["create", "-q", "-f", "qcow2", "-b", base, "-F", "qcow2", &at("over")]);
    // Making a key takes QEMU seconds; the header says LUKS all the same.
    fs::copy(base, at("luks")).unwrap();
    let luks = File::options().write(true).open(at("luks")).unwrap();
    luks.write_all_at(&2_u32.to_be_bytes(), 32).unwrap();
    let data = format!("data_file={}", at("data"));
    qemu_img(&["create", "-q", "-f", "qcow2", "-o", &data, &at("ext"), "1M"]);
    let open = |name: &str| Qcow2::open(File::open(at(name)).unwrap()).unwrap_err();
    assert!(matches!(open("over"), ImageError::Backing(name) if name == base));
    assert!(matches!(open("luks"), ImageError::Encrypted));
    assert!(matches!(open("ext"), ImageError::Feature(what) if what.contains("data file")));
    assert!(matches!(open("raw"), ImageError::NotQcow2(Format::Raw)));
    for (format, expected) in [
        ("vmdk", Format::Vmdk),
        ("vhdx", Format::Vhdx),
        ("vdi", Format::Vdi),
        ("vpc", Format::Vhd),
        ("qcow", Format::Qcow1),
        ("qcow2", Format::Qcow2),
        ("raw", Format::Raw),
    ] {
        qemu_img(&["create", "-q", "-f", format, &at(format), "4M"]);
        let mut head = [0; onefold_image::DETECT_BYTES];
        let read = File::open(at(format)).unwrap().read_at(&mut head, 0).unwrap();
        assert_eq!(Format::detect(&head[..read]), expected);
        if expected != Format::Qcow2 {
            assert!(matches!(open(format), ImageError::NotQcow2(found) if found == expected));
        }
    }
}
