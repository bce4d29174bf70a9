//! Trees of files to estimate, and the calls that the tests share.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use onefold_estimate::{Options, Partial, Progress, Report, scan};

/// A folder that goes away with its owner.
pub struct Tree(tempfile::TempDir);

impl Tree {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }

    /// The path of a file or folder in the tree.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Write a file, making its folders.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("it is inside the tree"))
            .expect("the test set it up");
        fs::write(&path, bytes).expect("the test set it up");
        path
    }

    /// Write a file with holes around some data.
    pub fn sparse(&self, name: &str, len: u64, data: &[(u64, &[u8])]) -> PathBuf {
        let path = self.file(name, b"");
        let file = File::options().write(true).open(&path).expect("the test set it up");
        file.set_len(len).expect("the test set it up");
        for &(offset, bytes) in data {
            file.write_all_at(bytes, offset).expect("the test set it up");
        }
        path
    }
}

/// Bytes that look random, the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Bytes that compress to somewhat less than half, with every 64-byte piece distinct.
pub fn prose(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = noise(seed, len);
    bytes.chunks_mut(64).for_each(|piece| piece.iter_mut().skip(24).for_each(|b| *b = b'e'));
    bytes
}

/// Options for small tests: everything, two threads, little memory that is still enough.
pub fn options() -> Options {
    Options { threads: 2, memory_bytes: 64 << 20, ..Options::default() }
}

pub fn run(paths: &[&Path], options: &Options) -> Partial {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    scan(&paths, options, &Progress::new()).expect("the inputs are good")
}

/// The report without the one field that no two runs share.
pub fn timeless(partial: &Partial) -> Report {
    Report { elapsed_ns: 0, ..partial.report(50) }
}

pub fn report(paths: &[&Path], options: &Options) -> Report {
    timeless(&run(paths, options))
}

/// A tree with a bit of everything: duplicates within and between files, zeroes, short tails,
/// holes, more than one segment, empty and tiny files.
pub fn mixed() -> Tree {
    let tree = Tree::new();
    let base = prose(1, 300_000);
    tree.file("a/base.txt", &base);
    tree.file("a/copy.txt", &base);
    tree.file("b/shifted.log", &base[777..]);
    tree.file("b/noise.bin", &noise(2, 150_000));
    tree.file("b/zeroes.bin", &vec![0; 300_001]);
    tree.file(
        "c/deep/er/mix.dat",
        &[&noise(3, 5000)[..], &vec![0; 70_000], &base[..9000]].concat(),
    );
    tree.file("c/repeat.dat", &noise(4, 4096).repeat(40));
    tree.file("empty", b"");
    tree.file("one", b"1");
    tree.file("zero", b"\0");
    let (left, right) = (noise(5, 200_000), noise(4, 4096).repeat(3));
    let far = 40 << 20;
    tree.sparse("d/image.raw", 70 << 20, &[(100, &left), (far, &right), (far + 777_777, &base)]);
    tree
}

/// A little of everything, in so few bytes that looking at it takes no time: duplicates, zeroes,
/// tails, a hole, a file of two segments, links, empty and tiny files.
pub fn small() -> Tree {
    let tree = Tree::new();
    let base = prose(1, 20_000);
    tree.file("a/base.txt", &base);
    tree.file("a/copy.txt", &base);
    tree.file("b/shifted.log", &base[777..]);
    tree.file("b/zeroes.bin", &[0; 10_000]);
    tree.file("c/repeat.dat", &noise(4, 4096).repeat(5));
    tree.file("empty", b"");
    tree.file("one", b"1");
    let far = 33 << 20;
    tree.sparse("d/image.raw", far + 5000, &[(100, &base[..3000]), (far + 100, &base[..3000])]);
    std::os::unix::fs::symlink("empty", tree.at("link")).expect("the test set it up");
    fs::hard_link(tree.at("one"), tree.at("same")).expect("the test set it up");
    tree
}
