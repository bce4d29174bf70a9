//! What a repair found, will do, and cannot bring back.
//! Room: onefold-pool.

use std::collections::BTreeMap;

use onefold_block::Lba;

use crate::scrub::DamagedBlocks;

/// Ranges of blocks of one kind that are named; the rest are counted.
const RANGES_NAMED_MAX: usize = 10_000;

/// Blocks by volume and snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Neighbours joined, at most ten thousand ranges.
    pub ranges: Vec<DamagedBlocks>,
    /// How many ranges, named or not.
    pub ranges_total: u64,
    /// How many blocks, named or not.
    pub total: u64,
}

impl Blocks {
    /// Ranges of one volume or snapshot, in order.
    pub(crate) fn add(&mut self, name: &str, ranges: &Ranges) {
        for &(first, count) in &ranges.0 {
            self.total = self.total.saturating_add(count);
            self.ranges_total += 1;
            if self.ranges.len() < RANGES_NAMED_MAX {
                let volume = name.to_owned();
                self.ranges.push(DamagedBlocks { volume, first: Lba::new(first), count });
            }
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }
}

/// What a repair is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What is wrong, at most a thousand of it; nothing if the pool is sound.
    pub findings: Vec<String>,
    /// How much is wrong, named or not.
    pub findings_total: u64,
    /// What is unusual but no damage.
    pub notes: Vec<String>,
    /// A repair that was interrupted is put in place; what it could not have again is for a check
    /// to list.
    pub finishes: bool,
    /// What the repair does about it, in order.
    pub plan: Vec<String>,
    /// What may be missing, or older than it was, and cannot be listed by block.
    pub uncertain: Vec<String>,
    /// Blocks of which no good copy is left: errors to read from now on. Those that an earlier
    /// repair gave up are among them.
    pub lost: Blocks,
    /// Blocks that were had again from what containers say of them: each is something that was
    /// once written there, and may be older than what was there last.
    pub restored: Blocks,
    /// A volume of records that nothing refers to and that do not say whose they were, and how many
    /// these are.
    pub lost_and_found: Option<(String, u64)>,
    /// Bytes of files that the repair writes, about.
    pub bytes_to_write: u64,
    /// Pages of the map that were read to find that out.
    pub map_pages_read: u64,
}

impl RepairReport {
    /// Whether there is nothing to be done.
    pub const fn is_nothing_to_do(&self) -> bool {
        self.plan.is_empty()
    }

    /// Whether anything is gone, may be, or may be older than it was.
    pub const fn is_lossy(&self) -> bool {
        !self.lost.is_empty() || !self.restored.is_empty() || !self.uncertain.is_empty()
    }
}

/// Ranges of blocks of one volume: first and count, in order and apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(pub Vec<(u64, u64)>);

impl Ranges {
    /// Blocks that follow all others.
    pub fn push(&mut self, first: u64, count: u64) {
        match self.0.last_mut() {
            Some((from, len)) if *from + *len == first => *len += count,
            _ => self.0.push((first, count)),
        }
    }

    /// Whether a block is in one of them.
    pub fn contains(&self, block: u64) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= block);
        after > 0 && block - self.0[after - 1].0 < self.0[after - 1].1
    }

    /// Blocks in any order.
    pub fn of(mut blocks: Vec<u64>) -> Self {
        blocks.sort_unstable();
        blocks.dedup();
        let mut ranges = Self::default();
        for block in blocks {
            ranges.push(block, 1);
        }
        ranges
    }
}

/// Ranges by the number of a volume or snapshot.
pub(crate) type ByVolume = BTreeMap<u32, Ranges>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_any_order_and_told_twice_are_ranges_apart() {
        assert_eq!(Ranges::of(vec![9, 3, 4, 3, 7, 4]).0, [(3, 2), (7, 1), (9, 1)]);
    }

    #[test]
    fn ten_thousand_ranges_are_named_and_all_are_counted() {
        let mut blocks = Blocks::default();
        for _ in 0..2 {
            blocks.add("main", &Ranges((0..6_000).map(|n| (3 * n, 2)).collect()));
        }
        let (named, told) = (blocks.ranges.len(), (blocks.ranges_total, blocks.total));
        assert_eq!((named, told), (10_000, (12_000, 24_000)));
    }
}
