//! The map of every volume: from LBA to hole, zero or PBA.
//! Room: onefold-pool.
//! A copy-on-write radix tree per volume: leaves of 512 entries of 8 bytes, and above them pages of
//! 256 references of 16 bytes. All pages of all volumes are in one file and one cache. Between
//! checkpoints only memory changes.
//! Invariants: (1) every ancestor of a dirty page is in memory and dirty, and of one that is being
//! written either being written or dirty; (2) neither of them is evicted; (3) a slot that the
//! durable checkpoint refers to is never written; (4) a page that was born by the time of the
//! newest snapshot of its volume is the snapshot's too: it is not released with the volume's
//! reference, and the entries of a leaf count once more when it is copied.
//! Cost: 8 bytes per mapped block where they lie together; memory within `--map-memory`.

mod array;
mod below;
mod bitmap;
mod cache;
mod cursor;
#[cfg(test)]
mod family_tests;
#[cfg(test)]
mod filling_tests;
mod lineage;
#[cfg(test)]
mod memory_tests;
mod mended;
#[cfg(test)]
mod mending_tests;
mod page;
mod rescue;
mod settle;
#[cfg(test)]
mod sharing;
mod slots;
mod tree;
mod walk;
mod write_out;

pub use self::array::{NO_PAGE, PageArray};
pub use self::below::Below;
pub use self::bitmap::{BITMAP_PAGES_MAX, OnDamage, SlotBitmap};
pub use self::lineage::Share;
pub use self::mended::{Mender, Visited};
pub use self::page::{
    ENTRIES_PER_PAGE, HEIGHT_MAX, PAGE_BYTES, PageKey, PageRef, Place, REFERENCES_PER_PAGE,
    VOLUME_NUMBER_MAX, blocks_under, height_for,
};
pub use self::settle::Settled;
pub use self::tree::{Map, MapStats, NO_SNAPSHOT, Root, Watch};
pub use self::write_out::Frozen;
