//! An empty pool, and damage to the map of one, for unit tests.
//! Room: onefold-pool.

use onefold_block::{Folder, SimFolder};

use crate::map::PAGE_BYTES;
use crate::pba::MapEntry;
use crate::{OpenOptions, Pool, PoolIdentity, PoolSettings};

/// A new pool in a folder, always the same one, opened for use.
pub fn new(folder: &dyn Folder, settings: &PoolSettings) -> Pool {
    let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
    Pool::create(folder, settings, identity).unwrap();
    Pool::open(folder, &OpenOptions::default()).unwrap()
}

/// Damage the one page of the map that has this entry for a block.
pub fn damage_leaf(folder: &SimFolder, block: u64, entry: MapEntry) {
    let map = folder.open("map").unwrap();
    let (page, mut damaged) = (PAGE_BYTES as u64, 0);
    for at in (0..map.len().unwrap()).step_by(PAGE_BYTES) {
        let mut word = [0; 8];
        map.read(at + block * 8 % page, &mut word).unwrap();
        if word == entry.raw().to_le_bytes() {
            map.write(at, &[0xA5]).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
}
