//! Archives on simulated disks, trees that change from version to version, and damage to them.

use std::path::Path;
use std::sync::Arc;

use onefold_archive::{Archive, ArchiveError, ArchiveSettings, RepairReport};
use onefold_block::kept_text::assert_text;
use onefold_block::{Folder, SimFolder, SplitMix64};

use crate::versions::create_in;
pub use crate::versions::{
    IDENTITY, Tree, add, add_with, assert_sound, entry, read, secret, small,
};

pub fn new_archive(settings: &ArchiveSettings) -> (SimFolder, Archive) {
    let folder = SimFolder::new();
    Archive::create(&folder, settings, IDENTITY).unwrap();
    let archive = open(&folder);
    (folder, archive)
}

pub fn open(folder: &SimFolder) -> Archive {
    try_open(folder).unwrap()
}

/// Open an archive, whether it is encrypted or not.
pub fn try_open(folder: &SimFolder) -> Result<Archive, ArchiveError> {
    Archive::open_with(Arc::new(folder.clone()), Some(&secret()))
}

/// Make an archive of small containers, encrypted or not.
pub fn create(folder: &SimFolder, encrypted: bool) -> Result<(), ArchiveError> {
    create_in(folder, encrypted)
}

/// Check an archive, encrypted or not, and repair it if told to.
pub fn check(folder: &SimFolder, repair: bool) -> Result<RepairReport, ArchiveError> {
    Archive::check_with(Arc::new(folder.clone()), repair, Some(&secret()))
}

/// A tree of a few folders and files.
pub fn tree(random: &mut SplitMix64, files: u64, bytes_max: u64) -> Tree {
    let mut tree = Tree::new();
    for number in 0..files {
        let folder = format!("d{}", random.below(4)).into_bytes();
        let len = random.below(bytes_max + 1) as usize;
        tree.insert(folder.clone(), None);
        tree.insert([folder, format!("/f{number}").into_bytes()].concat(), Some(random.bytes(len)));
    }
    tree.insert(b"empty".to_vec(), None);
    tree.insert(b"d0\xff\xfe".to_vec(), Some(b"not UTF-8".to_vec()));
    tree
}

/// The next version of a tree: some files edited, some gone, some new.
pub fn next(tree: &Tree, random: &mut SplitMix64) -> Tree {
    let mut next = tree.clone();
    let files: Vec<Vec<u8>> = tree.iter().filter(|f| f.1.is_some()).map(|f| f.0.clone()).collect();
    for path in files {
        let content = next.get_mut(&path).and_then(Option::as_mut).unwrap();
        match random.below(6) {
            0 => {
                let at = random.below(content.len() as u64 + 1) as usize;
                let len = random.below(300) as usize;
                content.splice(at..at, random.bytes(len));
            }
            1 => content.truncate(random.below(content.len() as u64 + 1) as usize),
            2 => {
                let copy = content.clone();
                next.insert([path, b"-copy".to_vec()].concat(), Some(copy));
            }
            3 if random.below(3) == 0 => {
                next.remove(&path);
            }
            _ => {}
        }
    }
    next
}

/// Flip a bit in the middle of a file of a simulated disk.
pub fn damage(folder: &SimFolder, name: &str, at: u64) {
    folder.flip_bit(name, at, 3).unwrap();
}

/// The names in one of the archive's folders.
pub fn names(folder: &SimFolder, sub: &str) -> Vec<String> {
    folder.subfolder(sub).unwrap().list().unwrap()
}

/// Compare with a file beside the tests; `ONEFOLD_UPDATE=1` writes it instead.
#[track_caller]
pub fn assert_golden(name: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(name);
    assert_text(&path, now, std::env::var_os("ONEFOLD_UPDATE").is_some());
}
