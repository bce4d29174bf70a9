//! Trees in memory, archives of them, and what their versions must be: for any kind of folder, so
//! that the tests of folders of objects use it as well.

use std::collections::BTreeMap;

use onefold_archive::format::entry::compare_paths;
use onefold_archive::tree::restore::read_file;
use onefold_archive::{
    AddOptions, Archive, ArchiveError, ArchiveIdentity, ArchiveSettings, Argon2Cost, Chunking,
    Entry, Kind, Metadata, NewKey, Recipe, Secret, Stamp, VersionInfo,
};
use onefold_block::Folder;
use onefold_content::Compression;

pub const IDENTITY: ArchiveIdentity = ArchiveIdentity { uuid: [0xab; 16], key: [0xcd; 32] };

/// What a path is in memory: content, or none for a folder.
pub type Tree = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Small containers and chunks, so that a little data makes many of them.
pub fn small() -> ArchiveSettings {
    ArchiveSettings {
        chunking: Chunking::FastCdc,
        chunk_bytes: 1 << 10,
        container_bytes: 128 << 10,
        compression: Compression::None,
    }
}

/// What opens the encrypted archives of tests.
pub fn secret() -> Secret {
    Secret::KeyFile(vec![0x5e; 32])
}

/// Make an archive of small containers, encrypted or not.
pub fn create_in(folder: &dyn Folder, encrypted: bool) -> Result<(), ArchiveError> {
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

/// What was acknowledged, or under way.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Made,
    Added(u32, usize),
    Removing(u32),
    Removed(u32),
}

/// Every version that counts is whole, and every acknowledged one counts.
pub fn assert_versions(archive: &Archive, trees: &[Tree], done: &[Step], context: &str) {
    for step in done {
        let Step::Added(number, tree) = step else { continue };
        let removing = done.contains(&Step::Removing(*number));
        let removed = done.contains(&Step::Removed(*number));
        match read(archive, *number) {
            Ok(found) => {
                assert!(!removed, "{context}: version {number} was removed");
                assert!(found == trees[*tree], "{context}: version {number} differs");
            }
            Err(ArchiveError::NoVersion { .. } | ArchiveError::NoVersions) if removing => {}
            Err(error) => panic!("{context}: version {number}: {error}"),
        }
    }
    // One that was not acknowledged is either not there or whole, which verifying has shown.
    for info in archive.versions() {
        read(archive, info.number).unwrap_or_else(|e| panic!("{context}: {e}"));
    }
}
