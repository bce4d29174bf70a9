//! Archives on simulated stores, and locks on these.

use std::sync::Arc;

use onefold_archive::{Archive, ArchiveError};
use onefold_block::SplitMix64;
use onefold_objects::lease::Owner;
use onefold_objects::{Lease, LeaseError, ObjectFolder, Objects, SimObjects, Use};

use crate::versions::create_in;
pub use crate::versions::{Tree, add, assert_sound, read, secret};

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

/// Make an archive, encrypted or not.
pub fn create(store: &SimObjects, encrypted: bool) -> Result<(), ArchiveError> {
    create_in(&folder(store), encrypted)
}

/// Open an archive, encrypted or not, as a process of its own.
pub fn try_open(store: &SimObjects) -> Result<Archive, ArchiveError> {
    Archive::open_with(Arc::new(folder(store)), Some(&secret()))
}

pub fn open(store: &SimObjects) -> Archive {
    try_open(store).unwrap()
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
