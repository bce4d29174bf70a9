//! Trees in memory, archives on simulated disks, and how to compare them.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_archive::format::entry::compare_paths;
use onefold_archive::tree::restore::read_file;
use onefold_archive::{
    AddOptions, Archive, ArchiveError, ArchiveIdentity, ArchiveSettings, Argon2Cost, Chunking,
    Entry, Kind, Metadata, NewKey, Recipe, RepairReport, Secret, Stamp, VersionInfo,
};
use onefold_block::{Folder, SimFolder, SplitMix64};
use onefold_content::Compression;

pub const IDENTITY: ArchiveIdentity = ArchiveIdentity { uuid: [0xab; 16], key: [0xcd; 32] };

/// Small containers and chunks, so that a little data makes many of them.
pub fn small() -> ArchiveSettings {
    ArchiveSettings {
        chunking: Chunking::FastCdc,
        chunk_bytes: 1 << 10,
        container_bytes: 128 << 10,
        compression: Compression::None,
    }
}

/// What a path is in memory: content, or none for a folder.
pub type Tree = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

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

/// Check an archive, encrypted or not, and repair it if told to.
pub fn check(folder: &SimFolder, repair: bool) -> Result<RepairReport, ArchiveError> {
    Archive::check_with(Arc::new(folder.clone()), repair, Some(&secret()))
}

/// What opens the encrypted archives of tests.
pub fn secret() -> Secret {
    Secret::KeyFile(vec![0x5e; 32])
}

/// Make an archive of small containers, encrypted or not.
pub fn create(folder: &SimFolder, encrypted: bool) -> Result<(), ArchiveError> {
    let secret = secret();
    let cost = Argon2Cost::default();
    let key = NewKey { secret: &secret, cost, salt: [0x5a; 16], master: [0x3c; 32] };
    Archive::create_with(folder, &small(), IDENTITY, encrypted.then_some(&key))
}

pub fn entry(path: &[u8], kind: Kind) -> Entry {
    let metadata = Metadata { mode: 0o644, mtime_s: 1_000_000, ..Metadata::default() };
    let (stamp, recipe) = (Stamp::default(), Recipe::default());
    Entry { path: path.to_vec(), kind, metadata, stamp, recipe }
}

pub fn add_with(
    archive: &mut Archive,
    tree: &Tree,
    options: AddOptions,
) -> Result<VersionInfo, ArchiveError> {
    let mut adder = archive.add(options)?;
    let mut paths: Vec<_> = tree.iter().collect();
    paths.sort_by(|a, b| compare_paths(a.0, b.0));
    for (path, content) in paths {
        match content {
            None => adder.entry(entry(path, Kind::Directory))?,
            Some(bytes) => {
                let read = adder.file(entry(path, Kind::File), false, &mut bytes.as_slice())?;
                assert_eq!(read.unwrap(), bytes.len() as u64);
            }
        }
    }
    Ok(adder.commit()?.0)
}

pub fn add(archive: &mut Archive, tree: &Tree) -> Result<VersionInfo, ArchiveError> {
    add_with(archive, tree, AddOptions { index_bytes: 1 << 20, ..AddOptions::default() })
}

/// Everything that a version holds.
pub fn read(archive: &Archive, number: u32) -> Result<Tree, ArchiveError> {
    let version = archive.version(Some(number))?;
    let mut tree = Tree::new();
    for index in 0..version.len() {
        let entry = version.entry(index)?;
        let content = if entry.kind.has_content() {
            let mut bytes = Vec::new();
            read_file(archive, &version, &entry, 1 << 20, &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            Some(bytes)
        } else {
            None
        };
        tree.insert(entry.path, content);
    }
    Ok(tree)
}

#[track_caller]
pub fn assert_sound(archive: &Archive, context: &str) {
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(report.is_sound(), "{context}: {:#?}", report.findings);
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
