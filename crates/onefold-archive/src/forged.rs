//! What no addition writes, for tests of what is made of it.
//! Room: onefold-archive.

use std::sync::Arc;

use onefold_block::SimFolder;

use crate::archive::Archive;
use crate::format::version_file::Header;
use crate::manifest::Manifest;
use crate::settings::{ArchiveIdentity, ArchiveSettings};

/// An archive on a simulated disk, and the file of its first version before anything is in it.
pub fn first_version() -> (Archive, Manifest) {
    let folder = SimFolder::new();
    let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
    Archive::create(&folder, &ArchiveSettings::default(), identity).unwrap();
    let archive = Archive::open(Arc::new(folder)).unwrap();
    let header = Header { number: 1, generation: 0, settings: archive.settings, identity };
    let manifest = Manifest::create(Arc::clone(&archive.versions_folder), header).unwrap();
    (archive, manifest)
}

/// The bytes with another checksum at their end, as somebody makes them who means to.
pub fn with_checksum(mut bytes: Vec<u8>, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    bytes.truncate(bytes.len() - 4);
    change(&mut bytes);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}
