//! What the fast tier keeps: a run of a container's bytes, as stored.
//! Room: onefold-cache.
//! An extent is what one read asked for: to the 64 bytes where that is 16 KiB and more, so that
//! records which are read together are kept together and nothing else with them; less is widened
//! to cells of 16 KiB. Extents of a container do not overlap, and at most one begins in each cell,
//! by which the policy knows it.

use onefold_block::ContainerId;

/// Smallest extent, but at the end of a container and between two others, in bytes.
pub const CELL_BYTES: u32 = 16 << 10;
/// Largest extent, in bytes.
pub const EXTENT_MAX: u32 = 128 << 10;
/// Extents begin and end at multiples of this.
pub const UNIT: u32 = 64;
/// Largest container of which extents are kept.
pub const CONTAINER_MAX: u64 = 4 << 20;
/// Bytes under one checksum.
pub const BLOCK_BYTES: u32 = 4096;
/// Bytes of a checksum.
pub const SUM_BYTES: u32 = 4;
/// Extents begin in a segment at multiples of this.
pub const ALIGN: u32 = 512;

/// A run of a container's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// The container's number.
    pub container: u32,
    /// First byte, a multiple of [`UNIT`].
    pub start: u32,
    /// Bytes, a multiple of [`UNIT`]; past the container's end they are zeroes.
    pub len: u32,
}

impl Extent {
    /// One past its last byte.
    pub const fn end(&self) -> u32 {
        self.start + self.len
    }

    /// What the policy knows it by.
    pub const fn key(&self) -> u64 {
        key_at(self.container, self.start)
    }

    /// The container.
    pub const fn id(&self) -> ContainerId {
        ContainerId::new(self.container)
    }

    /// Bytes that it takes on the fast device.
    pub const fn flash_bytes(&self) -> u32 {
        let sums = self.len.div_ceil(BLOCK_BYTES) * SUM_BYTES;
        (self.len + sums).next_multiple_of(ALIGN)
    }

    /// Whether it may be one.
    pub const fn is_valid(&self) -> bool {
        let whole = self.start.is_multiple_of(UNIT) && self.len.is_multiple_of(UNIT);
        let sized = self.len > 0 && self.len <= EXTENT_MAX;
        whole && sized && self.start as u64 + self.len as u64 <= CONTAINER_MAX
    }
}

/// The key of an extent that begins at `start` of a container.
pub const fn key_at(container: u32, start: u32) -> u64 {
    (container as u64) << 8 | (start / CELL_BYTES) as u64
}

/// The container and the first byte of the cell of a key.
pub const fn of_key(key: u64) -> (u32, u32) {
    ((key >> 8) as u32, (key & 0xff) as u32 * CELL_BYTES)
}

/// The extents that are to be kept of a gap `from..upto` between two others, of which one ends at
/// `low` at the earliest and one begins at `high` at the latest.
pub fn of_gap(container: u32, from: u32, upto: u32, low: u32, high: u32) -> Vec<Extent> {
    let (start, end) = if upto - from < CELL_BYTES {
        (from / CELL_BYTES * CELL_BYTES, upto.next_multiple_of(CELL_BYTES))
    } else {
        (from / UNIT * UNIT, upto.next_multiple_of(UNIT))
    };
    let (start, end) = (start.max(low), end.min(high.next_multiple_of(UNIT)));
    // Of equal length, so that no scrap is left over.
    let count = (end - start).div_ceil(EXTENT_MAX).max(1);
    let each = (end - start).div_ceil(count).next_multiple_of(UNIT);
    let starts = (0..count).map(|number| start + number * each).filter(|&start| start < end);
    starts.map(|start| Extent { container, start, len: each.min(end - start) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_become_extents_that_cover_them_and_nothing_else() {
        let cut = |from, upto, low, high| -> Vec<(u32, u32)> {
            let extents = of_gap(3, from, upto, low, high);
            assert!(extents.iter().all(Extent::is_valid), "{extents:?}");
            extents.iter().map(|extent| (extent.start, extent.len)).collect()
        };
        let end = 4 << 20;
        assert_eq!(cut(5000, 9000, 0, end), [(0, 16384)], "small: the whole cell");
        assert_eq!(cut(16000, 17000, 0, end), [(0, 32768)], "over a border: both");
        assert_eq!(cut(5000, 9000, 4992, 8704), [(4992, 3712)], "between two others");
        assert_eq!(cut(5000, 70_792, 0, end), [(4992, 65_856)], "to the 64 bytes");
        assert_eq!(cut(0, 256 << 10, 0, end), [(0, 128 << 10), (128 << 10, 128 << 10)]);
        assert_eq!(cut(0, 131_136, 0, end), [(0, 65_600), (65_600, 65_536)], "no scrap");
        assert_eq!(cut(end - 5, end, 0, end), [(end - 16384, 16384)]);
        assert_eq!(cut(40_000, 40_001, 0, 40_001), [(32_768, 7296)], "the container's end");
    }

    #[test]
    fn keys_lead_back_to_container_and_cell() {
        let extent = Extent { container: 0x7fff_fff0, start: (3 << 20) + 64, len: 64 };
        assert_eq!(of_key(extent.key()), (0x7fff_fff0, 3 << 20));
    }

    #[test]
    fn what_may_be_an_extent_has_whole_units_and_fits() {
        let most = CONTAINER_MAX as u32;
        for (start, len, valid) in [
            (0, 64, true),
            (64, EXTENT_MAX, true),
            (0, EXTENT_MAX + 64, false),
            (0, 0, false),
            (1, 64, false),
            (64, 63, false),
            (most - 64, 64, true),
            (most, 64, false),
            (most - 64, 128, false),
        ] {
            let extent = Extent { container: 1, start, len };
            assert_eq!(extent.is_valid(), valid, "{extent:?}");
        }
        for (len, flash) in [(64, 512), (508, 512), (512, 1024), (4096, 4608), (8192, 8704)] {
            assert_eq!(Extent { container: 1, start: 0, len }.flash_bytes(), flash);
        }
        let extent = Extent { container: 5, start: 2 * CELL_BYTES + 64, len: 64 };
        assert_eq!((extent.key(), extent.end(), extent.id().get()), (5 << 8 | 2, 32_896, 5));
        assert_eq!(of_key(5 << 8 | 2), (5, 2 * CELL_BYTES));
    }

    #[test]
    fn a_cell_is_kept_of_less_than_one_and_large_gaps_are_halved() {
        let cut = |from, upto| -> Vec<(u32, u32)> {
            let extents = of_gap(3, from, upto, 0, 4 << 20);
            extents.iter().map(|extent| (extent.start, extent.len)).collect()
        };
        assert_eq!(cut(100, 100 + 16_383), [(0, 32_768)]);
        assert_eq!(cut(100, 100 + 16_384), [(64, 16_448)]);
        assert_eq!(cut(0, 131_072), [(0, 131_072)]);
        assert_eq!(cut(0, 131_073), [(0, 65_600), (65_600, 65_536)]);
        assert_eq!(cut(64, 393_216), [(64, 131_072), (131_136, 131_072), (262_208, 131_008)]);
    }
}
