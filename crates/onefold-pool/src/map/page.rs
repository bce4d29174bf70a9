//! A map page, its key, and the reference that a parent holds.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Map".

use crate::format::superblock::RawPageRef;
use crate::pba::{RAW_HOLE, RAW_ZERO};

/// Bytes of a page, and of the slot that it is kept in.
pub const PAGE_BYTES: usize = 4096;
/// Entries of a page.
pub const ENTRIES_PER_PAGE: usize = PAGE_BYTES / 8;
/// Base-two logarithm of that.
pub const FANOUT_BITS: u32 = ENTRIES_PER_PAGE.trailing_zeros();

/// Most levels above the leaves: five levels in all hold 2^45 blocks.
pub const HEIGHT_MAX: u8 = 4;
/// Most volumes ever made in a pool: a page's key has 24 bits for them.
pub const VOLUME_NUMBER_MAX: u32 = (1 << 24) - 1;

/// Entries as numbers: map entries in a leaf, page references above.
pub type Page = [u64; ENTRIES_PER_PAGE];

/// Number of levels above the leaves that `blocks` blocks need.
pub fn height_for(blocks: u64) -> u8 {
    let mut height = 0u8;
    while blocks > blocks_under(height) {
        height += 1;
    }
    height
}

/// Blocks under one page of this level; leaves are level 0.
pub const fn blocks_under(level: u8) -> u64 {
    let bits = (level as u32 + 1) * FANOUT_BITS;
    if bits >= 64 { u64::MAX } else { 1 << bits }
}

/// Which page: of which volume, how far above the leaves, and how far from the left. The volume
/// takes 24 bits, the level 4, the index 36: enough for 512 x 2^36 blocks a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    pub volume: u32,
    pub level: u8,
    pub index: u64,
}

impl PageKey {
    /// The leaf that holds a block's entry.
    pub const fn leaf(volume: u32, lba: u64) -> Self {
        Self { volume, level: 0, index: lba >> FANOUT_BITS }
    }

    /// The page above, and this page's entry in it.
    pub const fn parent(self) -> (Self, usize) {
        let up = Self { level: self.level + 1, index: self.index >> FANOUT_BITS, ..self };
        (up, (self.index & (ENTRIES_PER_PAGE as u64 - 1)) as usize)
    }

    /// The ancestor (or itself) at `level`.
    pub const fn ancestor(self, level: u8) -> Self {
        let shift = (level - self.level) as u32 * FANOUT_BITS;
        Self { level, index: self.index >> shift, ..self }
    }

    /// First block under the page.
    pub const fn first_block(self) -> u64 {
        self.index << ((self.level as u32 + 1) * FANOUT_BITS)
    }

    /// One past the last block under the page.
    pub const fn end_block(self) -> u64 {
        self.first_block().saturating_add(blocks_under(self.level))
    }

    /// For hashing.
    pub const fn packed(self) -> u64 {
        (self.volume as u64) << 40 | (self.level as u64) << 36 | self.index
    }
}

/// What a parent says of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRef {
    /// There is no page: every entry below is this one ([`RAW_HOLE`] or [`RAW_ZERO`]).
    Uniform(u64),
    /// The page is in this slot and has this CRC-32.
    Slot { slot: u32, check: u32 },
}

impl PageRef {
    pub const fn raw(self) -> RawPageRef {
        match self {
            Self::Uniform(entry) => entry,
            Self::Slot { slot, check } => (slot as u64) << 32 | check as u64,
        }
    }

    /// Back from a number; `None` if no reference has it.
    pub const fn from_raw(raw: RawPageRef) -> Option<Self> {
        match raw {
            RAW_HOLE | RAW_ZERO => Some(Self::Uniform(raw)),
            _ if raw >> 32 == 0 => None,
            _ => Some(Self::Slot { slot: (raw >> 32) as u32, check: raw as u32 }),
        }
    }
}

/// The one entry that all entries of a page are, if it is hole or zero.
pub fn uniform(page: &Page) -> Option<u64> {
    let first = page[0];
    (first <= RAW_ZERO && page.iter().all(|&entry| entry == first)).then_some(first)
}

/// The bytes of a page.
pub fn encode(page: &Page, out: &mut Vec<u8>) {
    for entry in page {
        out.extend_from_slice(&entry.to_le_bytes());
    }
}

/// A page from its bytes.
pub fn decode(bytes: &[u8; PAGE_BYTES]) -> Box<Page> {
    let mut page = Box::new([0; ENTRIES_PER_PAGE]);
    for (entry, bytes) in page.iter_mut().zip(bytes.chunks_exact(8)) {
        *entry = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_grow_at_powers_of_512() {
        for (blocks, height) in
            [(0, 0), (1, 0), (512, 0), (513, 1), (1 << 18, 1), ((1 << 18) + 1, 2), (1 << 45, 4)]
        {
            assert_eq!(height_for(blocks), height, "{blocks} blocks");
        }
    }

    #[test]
    fn keys_know_their_place() {
        let leaf = PageKey::leaf(3, 512 * 512 + 5 * 512 + 7);
        assert_eq!(leaf.index, 517);
        assert_eq!(leaf.parent(), (PageKey { volume: 3, level: 1, index: 1 }, 5));
        assert_eq!(leaf.ancestor(1).first_block(), 512 * 512);
        assert_eq!(leaf.ancestor(0).end_block(), 518 * 512);
        for page_ref in [PageRef::Uniform(1), PageRef::Slot { slot: 1, check: u32::MAX }] {
            assert_eq!(PageRef::from_raw(page_ref.raw()), Some(page_ref));
        }
        assert_eq!(PageRef::from_raw(2), None);
    }
}
