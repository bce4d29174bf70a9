//! Trees in memory, archives on simulated stores, and how to compare them.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_archive::format::entry::compare_paths;
use onefold_archive::tree::restore::read_file;
use onefold_archive::{
    AddOptions, Archive, ArchiveError, ArchiveIdentity, ArchiveSettings, Argon2Cost, Chunking,
    Entry, Kind, Metadata, NewKey, Recipe, Secret, Stamp, VersionInfo,
};
use onefold_block::SplitMix64;
use onefold_content::Compression;
use onefold_objects::lease::Owner;
use onefold_objects::{Lease, LeaseError, ObjectFolder, Objects, SimObjects, Use};

/// What a path is in memory: content, or none for a folder.
pub type Tree = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A folder that nobody else uses.
pub fn folder(store: &SimObjects) -> ObjectFolder {
    ObjectFolder::new(Arc::new(store.clone()), None)
}

/// Somebody with a name of its own.
pub fn owner(token: u64) -> Owner {
    Owner { token, note: format!("process {token} on here") }
}

/// A lock, by a clock that stands.
pub fn lock(store: &SimObjects, usage: Use, token: u64) -> Result<Lease, LeaseError> {
    let objects: Arc<dyn Objects> = Arc::new(store.clone());
    Lease::take(&objects, usage, &owner(token), || 0, &mut |_| ())
}

/// Small containers and chunks, so that a little data makes many of them.
pub fn small() -> ArchiveSettings {
    ArchiveSettings {
        chunking: Chunking::FastCdc,
        chunk_bytes: 1 << 10,
        container_bytes: 128 << 10,
        compression: Compression::None,
    }
}

pub fn secret() -> Secret {
    Secret::KeyFile(vec![0x5e; 32])
}

pub fn create(store: &SimObjects, encrypted: bool) -> Result<(), ArchiveError> {
    let identity = ArchiveIdentity { uuid: [0xab; 16], key: [0xcd; 32] };
    let secret = secret();
    let cost = Argon2Cost::default();
    let key = NewKey { secret: &secret, cost, salt: [0x5a; 16], master: [0x3c; 32] };
    Archive::create_with(&folder(store), &small(), identity, encrypted.then_some(&key))
}

/// Open an archive, encrypted or not, as a process of its own.
pub fn try_open(store: &SimObjects) -> Result<Archive, ArchiveError> {
    Archive::open_with(Arc::new(folder(store)), Some(&secret()))
}

pub fn open(store: &SimObjects) -> Archive {
    try_open(store).unwrap()
}

pub fn add(archive: &mut Archive, tree: &Tree) -> Result<VersionInfo, ArchiveError> {
    let options = AddOptions { index_bytes: 1 << 20, ..AddOptions::default() };
    let mut adder = archive.add(options)?;
    let entry = |path: &[u8], kind| {
        let metadata = Metadata { mode: 0o644, mtime_s: 1_000_000, ..Metadata::default() };
        let (stamp, recipe) = (Stamp::default(), Recipe::default());
        Entry { path: path.to_vec(), kind, metadata, stamp, recipe }
    };
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

/// Versions of a tree, each with a part of the files of the one before it and new ones.
pub fn trees(seed: u64, versions: u64) -> Vec<Tree> {
    let mut random = SplitMix64::new(seed);
    let mut trees: Vec<Tree> = Vec::new();
    for version in 0..versions {
        let mut tree = Tree::new();
        tree.insert(b"empty".to_vec(), None);
        for number in 0..6 {
            let path = format!("d{}/f{number}", number % 3).into_bytes();
            let before = trees.last().and_then(|tree| tree.get(&path)).cloned();
            let content = match before {
                Some(content) if random.below(3) > 0 => content,
                _ => {
                    let len = random.below(60_000) as usize;
                    Some(random.bytes(len))
                }
            };
            tree.insert(format!("d{}", number % 3).into_bytes(), None);
            tree.insert(path, content);
        }
        tree.insert(b"number".to_vec(), Some(version.to_le_bytes().to_vec()));
        trees.push(tree);
    }
    trees
}
