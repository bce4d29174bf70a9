//! Where a chunk is, in 62 bits, and what a map entry says of a block.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Addresses".

use onefold_block::ContainerId;

/// Records begin and end on multiples of this many bytes: the allocation unit. A chunk is stored
/// compressed only if that saves at least one unit.
pub const UNIT_BYTES: usize = 16;

/// Largest container, directory and footer included, in bytes.
pub const CONTAINER_BYTES_MAX: usize = 4 << 20;

/// Most chunks in one container, so that an index entry names one in 13 bits.
pub const CHUNKS_PER_CONTAINER_MAX: usize = 1 << 13;

const LEN_BITS: u32 = 13;
const OFFSET_BITS: u32 = 18;
const LOCATION_BITS: u32 = LEN_BITS + OFFSET_BITS;

const _: () = assert!(CONTAINER_BYTES_MAX / UNIT_BYTES == 1 << OFFSET_BITS);
const _: () = assert!((65536 + 16) / UNIT_BYTES <= 1 << LEN_BITS, "a raw 64 KiB chunk fits");

/// A record's place in its container: offset and length in units, packed into 31 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location(u32);

impl Location {
    /// The place of a record of `len_units` (1 to 8,192) units, `offset_units` into a container.
    pub fn new(offset_units: usize, len_units: usize) -> Self {
        assert!(offset_units < 1 << OFFSET_BITS, "offset inside the largest container");
        assert!((1..=1 << LEN_BITS).contains(&len_units), "record length in range");
        Self((offset_units as u32) << LEN_BITS | (len_units as u32 - 1))
    }

    /// From the packed form; `None` if the top bit is set.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        if raw >> LOCATION_BITS == 0 { Some(Self(raw)) } else { None }
    }

    /// The packed form.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// First byte in the container.
    pub const fn offset_bytes(self) -> usize {
        (self.0 >> LEN_BITS) as usize * UNIT_BYTES
    }

    /// Length of the record in units.
    pub const fn len_units(self) -> usize {
        (self.0 & ((1 << LEN_BITS) - 1)) as usize + 1
    }

    /// Length of the record in bytes, padding included.
    pub const fn len_bytes(self) -> usize {
        self.len_units() * UNIT_BYTES
    }

    /// One past the last byte in the container.
    pub const fn end_bytes(self) -> usize {
        self.offset_bytes() + self.len_bytes()
    }
}

/// Physical block address: a container and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pba {
    /// The container.
    pub container: ContainerId,
    /// The place in it.
    pub location: Location,
}

/// What a map says of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapEntry {
    /// Never written, trimmed, or written as zeroes: reads as zeroes and takes no space.
    Hole,
    /// Zeroes that the client asked to be allocated.
    Zero,
    /// Stored data.
    Stored(Pba),
    /// It had data that a repair found nowhere: an error to read, until it is written or given up.
    Lost,
}

/// Raw form of [`MapEntry::Hole`]; also of a map subtree that holds nothing else.
pub const RAW_HOLE: u64 = 0;
/// Raw form of [`MapEntry::Zero`]; also of a map subtree that holds nothing else.
pub const RAW_ZERO: u64 = 1;
/// Raw form of [`MapEntry::Lost`]; also of a map subtree that holds nothing else.
pub const RAW_LOST: u64 = 2;

impl MapEntry {
    /// The eight bytes of a map page, as a number.
    pub const fn raw(self) -> u64 {
        match self {
            Self::Hole => RAW_HOLE,
            Self::Zero => RAW_ZERO,
            Self::Lost => RAW_LOST,
            Self::Stored(pba) => {
                (pba.container.get() as u64) << LOCATION_BITS | pba.location.raw() as u64
            }
        }
    }

    /// Back from a number; `None` if no entry has it.
    pub fn from_raw(raw: u64) -> Option<Self> {
        match raw {
            RAW_HOLE => Some(Self::Hole),
            RAW_ZERO => Some(Self::Zero),
            RAW_LOST => Some(Self::Lost),
            _ => {
                let container = u32::try_from(raw >> LOCATION_BITS).ok()?;
                if container == 0 || container > CONTAINER_ID_MAX {
                    return None;
                }
                let location = Location::from_raw((raw & ((1 << LOCATION_BITS) - 1)) as u32)?;
                let container = ContainerId::new(container);
                Some(Self::Stored(Pba { container, location }))
            }
        }
    }

    /// The address, if the entry has one.
    pub const fn pba(self) -> Option<Pba> {
        match self {
            Self::Stored(pba) => Some(pba),
            _ => None,
        }
    }
}

/// The last container number: at 4 MiB each, 8 EiB ever written.
pub const CONTAINER_ID_MAX: u32 = (1 << 31) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_corner_survives_packing() {
        for id in [1, 2, CONTAINER_ID_MAX] {
            for offset in [0, 1, (1 << OFFSET_BITS) - 1] {
                for len in [1, 2, 1 << LEN_BITS] {
                    let location = Location::new(offset, len);
                    assert_eq!(location.offset_bytes(), offset * UNIT_BYTES);
                    assert_eq!(location.len_units(), len);
                    let entry = MapEntry::Stored(Pba { container: ContainerId::new(id), location });
                    assert_eq!(MapEntry::from_raw(entry.raw()), Some(entry));
                }
            }
        }
        assert_eq!(MapEntry::from_raw(MapEntry::Hole.raw()), Some(MapEntry::Hole));
        assert_eq!(MapEntry::from_raw(MapEntry::Zero.raw()), Some(MapEntry::Zero));
    }

    #[test]
    fn numbers_that_are_no_entries_are_refused() {
        for raw in [3, 1 << 30, (1 << 31) - 1, 1 << 62, u64::MAX] {
            assert_eq!(MapEntry::from_raw(raw), None, "{raw:#x}");
        }
    }
}
