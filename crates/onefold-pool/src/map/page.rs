//! A map page, its key, and the reference that a parent holds.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Map".

use std::hash::{Hash, Hasher};

use crate::format::superblock::RawPageRef;
use crate::pba::{RAW_HOLE, RAW_LOST, RAW_ZERO};

/// Bytes of a page, and of the slot that it is kept in.
pub const PAGE_BYTES: usize = 4096;
/// Entries of a leaf; the words of any page.
pub const ENTRIES_PER_PAGE: usize = PAGE_BYTES / 8;
/// References of a page above the leaves.
pub const REFERENCES_PER_PAGE: usize = PAGE_BYTES / size_of::<RawPageRef>();
/// Base-two logarithms of these.
pub const LEAF_BITS: u32 = ENTRIES_PER_PAGE.trailing_zeros();
pub const FANOUT_BITS: u32 = REFERENCES_PER_PAGE.trailing_zeros();

/// Most levels above the leaves: six levels in all hold 2^49 blocks.
pub const HEIGHT_MAX: u8 = 5;
/// The largest number that a volume may have. The one above is never given out.
pub const VOLUME_NUMBER_MAX: u32 = u32::MAX - 1;

/// A page as numbers: map entries in a leaf, two for each page reference above.
pub type Page = [u64; ENTRIES_PER_PAGE];

/// Number of levels above the leaves that `blocks` blocks need.
pub fn height_for(blocks: u64) -> u8 {
    let mut height = 0u8;
    while blocks > blocks_under(height) {
        height += 1;
    }
    height
}

/// Base-two logarithm of the blocks under one page of this level.
const fn bits_under(level: u8) -> u32 {
    LEAF_BITS + level as u32 * FANOUT_BITS
}

/// Blocks under one page of this level; leaves are level 0.
pub const fn blocks_under(level: u8) -> u64 {
    let bits = bits_under(level);
    if bits >= 64 { u64::MAX } else { 1 << bits }
}

/// Which page: of which volume, how far above the leaves, and how far from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageKey {
    pub volume: u32,
    pub level: u8,
    pub index: u64,
}

impl Hash for PageKey {
    /// Numbers of volumes, levels and indexes are small: they hardly ever meet in one word.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let volume = u64::from(self.volume).rotate_left(40);
        state.write_u64(volume ^ u64::from(self.level) << 37 ^ self.index);
    }
}

impl PageKey {
    /// The page above all others of a tree of this height.
    pub const fn root(volume: u32, height: u8) -> Self {
        Self { volume, level: height, index: 0 }
    }

    /// The leaf that holds a block's entry.
    pub const fn leaf(volume: u32, lba: u64) -> Self {
        Self { volume, level: 0, index: lba >> LEAF_BITS }
    }

    /// The same page of another volume.
    pub const fn of(self, volume: u32) -> Self {
        Self { volume, ..self }
    }

    /// The page above, and this page's reference in it.
    pub const fn parent(self) -> (Self, usize) {
        let up = Self { level: self.level + 1, index: self.index >> FANOUT_BITS, ..self };
        (up, (self.index & (REFERENCES_PER_PAGE as u64 - 1)) as usize)
    }

    /// The ancestor (or itself) at `level`.
    pub const fn ancestor(self, level: u8) -> Self {
        let shift = (level - self.level) as u32 * FANOUT_BITS;
        Self { level, index: self.index >> shift, ..self }
    }

    /// First block under the page.
    pub const fn first_block(self) -> u64 {
        self.index << bits_under(self.level)
    }

    /// One past the last block under the page.
    pub const fn end_block(self) -> u64 {
        self.first_block().saturating_add(blocks_under(self.level))
    }
}

/// Where a page is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot of the map file.
    pub slot: u32,
    /// The checkpoint that wrote it.
    pub birth: u64,
}

/// What a parent says of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRef {
    /// There is no page: every entry below is this one: [`RAW_HOLE`], [`RAW_ZERO`] or
    /// [`RAW_LOST`].
    Uniform(u64),
    /// The page is there and has this CRC-32.
    Stored { place: Place, check: u32 },
}

const FIELD_BITS: u32 = 48;
const FIELD_MASK: u128 = (1 << FIELD_BITS) - 1;

impl PageRef {
    /// As it is stored: slot, birth and checksum from the lowest bit up.
    pub const fn raw(self) -> RawPageRef {
        match self {
            Self::Uniform(entry) => (entry as u128) << (2 * FIELD_BITS),
            Self::Stored { place, check } => {
                place.slot as u128
                    | (place.birth as u128) << FIELD_BITS
                    | (check as u128) << (2 * FIELD_BITS)
            }
        }
    }

    /// Back from a number; `None` if no reference has it, or one to a slot past 16 TiB.
    pub const fn from_raw(raw: RawPageRef) -> Option<Self> {
        let slot = (raw & FIELD_MASK) as u64;
        let birth = (raw >> FIELD_BITS & FIELD_MASK) as u64;
        let check = (raw >> (2 * FIELD_BITS)) as u32;
        match (slot, birth) {
            (0, 0) if check as u64 <= RAW_LOST => Some(Self::Uniform(check as u64)),
            (0, _) | (_, 0) => None,
            (slot, birth) if slot < u32::MAX as u64 => {
                Some(Self::Stored { place: Place { slot: slot as u32, birth }, check })
            }
            _ => None,
        }
    }

    /// Where the page is, if there is one.
    pub const fn place(self) -> Option<Place> {
        match self {
            Self::Stored { place, .. } => Some(place),
            Self::Uniform(_) => None,
        }
    }
}

/// The reference with this number in a page above the leaves, as it is stored.
pub const fn raw_reference(page: &Page, number: usize) -> RawPageRef {
    page[2 * number] as u128 | (page[2 * number + 1] as u128) << 64
}

/// Let a page above the leaves refer so to the child with this number.
pub const fn set_reference(page: &mut Page, number: usize, reference: PageRef) {
    let raw = reference.raw();
    (page[2 * number], page[2 * number + 1]) = (raw as u64, (raw >> 64) as u64);
}

/// A page of this level under which all blocks have this entry.
pub fn uniform_page(level: u8, entry: u64) -> Box<Page> {
    let mut page = Box::new([entry; ENTRIES_PER_PAGE]);
    if level > 0 {
        for number in 0..REFERENCES_PER_PAGE {
            set_reference(&mut page, number, PageRef::Uniform(entry));
        }
    }
    page
}

/// What the words of a page are, which says when it may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Map entries.
    Entries,
    /// References to the pages below.
    References,
    /// Anything: numbers of an array.
    Numbers,
}

/// What a reference says instead of leading to this page, if it can: the one entry that all blocks
/// below have.
pub fn uniform(page: &Page, words: Words) -> Option<u64> {
    let candidates = match words {
        Words::Numbers => [RAW_HOLE; 3],
        Words::Entries | Words::References => [RAW_HOLE, RAW_ZERO, RAW_LOST],
    };
    candidates.into_iter().find(|&entry| match words {
        Words::Entries | Words::Numbers => page.iter().all(|&word| word == entry),
        Words::References => {
            let raw = PageRef::Uniform(entry).raw();
            (0..REFERENCES_PER_PAGE).all(|number| raw_reference(page, number) == raw)
        }
    })
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
    fn heights_grow_at_512_and_then_at_powers_of_256() {
        for (blocks, height) in
            [(0, 0), (1, 0), (512, 0), (513, 1), (1 << 17, 1), ((1 << 17) + 1, 2), (1 << 45, 5)]
        {
            assert_eq!(height_for(blocks), height, "{blocks} blocks");
        }
        assert!(blocks_under(HEIGHT_MAX) >= 1 << 45);
    }

    #[test]
    fn keys_know_their_place() {
        let leaf = PageKey::leaf(3, 256 * 512 + 5 * 512 + 7);
        assert_eq!(leaf.index, 261);
        assert_eq!(leaf.parent(), (PageKey { volume: 3, level: 1, index: 1 }, 5));
        assert_eq!(leaf.ancestor(1).first_block(), 256 * 512);
        assert_eq!(leaf.ancestor(0).end_block(), 262 * 512);
        assert_eq!(leaf.ancestor(1).end_block(), 2 * 256 * 512);
    }

    #[test]
    fn references_come_back_and_what_leads_nowhere_is_none() {
        let place = Place { slot: u32::MAX - 1, birth: (1 << 48) - 1 };
        let stored = PageRef::Stored { place, check: u32::MAX };
        for reference in [0, 1, 2].map(PageRef::Uniform).into_iter().chain([stored]) {
            assert_eq!(PageRef::from_raw(reference.raw()), Some(reference));
            let mut page = [7; ENTRIES_PER_PAGE];
            set_reference(&mut page, 255, reference);
            assert_eq!(raw_reference(&page, 255), reference.raw());
        }
        // Without a slot, without a birth, an entry that is no entry, slots past every file.
        let past = [1u128 << 47, u128::from(u32::MAX)].map(|slot| slot | 1 << 48);
        for raw in [1, 1 << 48, 3 << 96, past[0], past[1]] {
            assert_eq!(PageRef::from_raw(raw), None, "{raw:#x}");
        }
    }

    #[test]
    fn pages_that_need_not_be_there_are_known() {
        for entry in [RAW_HOLE, RAW_ZERO, RAW_LOST] {
            assert_eq!(uniform(&uniform_page(0, entry), Words::Entries), Some(entry));
            assert_eq!(uniform(&uniform_page(2, entry), Words::References), Some(entry));
        }
        let ones = uniform_page(0, RAW_ZERO);
        assert_eq!(uniform(&ones, Words::References), None);
        assert_eq!(uniform(&ones, Words::Numbers), None, "they are numbers, and no zeroes");
        assert_eq!(uniform(&[0; ENTRIES_PER_PAGE], Words::Numbers), Some(0));
    }
}
