//! The tier's decisions about recorded reads, without a byte of data: what a policy would have
//! hit, and what it would have written.
//! Room: onefold-cache.
//! Invariant: the same reads of the same containers give the totals that the store counts, but for
//! the ends of containers that it looks at.

use super::decide::{Answer, Decider, Part};
use super::extent::CONTAINER_MAX;
use super::log::{Shape, Step};
use super::saved::TierTotals;
use super::segment::{HEADER_BYTES, TABLE_ENTRY_BYTES};
use super::wear::Wear;
use crate::options::OptionError;

/// A tier without data.
pub struct Replay {
    decider: Decider,
    totals: TierTotals,
    /// Bytes and extents of the segment that is being filled.
    filling: (u64, u64),
}

impl Replay {
    /// An empty tier of so many bytes, which may write `writes_per_day` thousandths of them in a
    /// day.
    ///
    /// # Errors
    /// What is wrong with the policy's text.
    pub fn new(policy: &str, bytes: u64, writes_per_day: Option<u32>) -> Result<Self, OptionError> {
        let shape = Shape::of(bytes);
        let per_day = writes_per_day.map(|share| shape.bytes() * u64::from(share) / 1000);
        let decider = Decider::new(policy, shape, Wear::new(per_day))?;
        Ok(Self { decider, totals: TierTotals::default(), filling: (0, 0) })
    }

    /// It is so many seconds after 1970.
    pub fn tick(&mut self, seconds: u64) {
        self.decider.wear.tick(seconds);
    }

    /// So many blocks refer to a container.
    pub fn set_references(&mut self, container: u32, references: u32) {
        self.decider.set_references(container, references);
    }

    /// A container of `container_len` bytes is read from `offset` on.
    pub fn read(&mut self, container: u32, container_len: u64, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes);
        if bytes == 0 || end > container_len || container_len > CONTAINER_MAX {
            self.totals.slow_bytes += bytes;
            return;
        }
        let (len, from, upto) = (container_len as u32, offset as u32, end as u32);
        let Answer { parts, promoted, .. } = self.decider.read(container, len, from, upto);
        self.totals.requests += 1;
        self.totals.bytes += bytes;
        for extent in promoted {
            let steps = self.decider.put(extent);
            self.count(&steps);
        }
        let mut missed = 0;
        for part in parts {
            let Part::Slow { from, upto, keep } = part else { continue };
            missed += u64::from(upto - from);
            let start = keep.first().map_or(from, |(first, _)| first.start.min(from));
            let end = keep.last().map_or(upto, |(last, _)| last.end().max(upto));
            self.totals.slow_bytes += u64::from(end.min(len) - start);
            for (extent, keep) in keep {
                let steps = self.decider.fetched(extent, keep);
                self.count(&steps);
            }
        }
        self.totals.hits += u64::from(missed == 0);
        self.totals.hit_bytes += bytes - missed;
    }

    fn count(&mut self, steps: &[Step]) {
        let totals = &mut self.totals;
        for step in steps {
            let mut put = |bytes: u32| {
                self.filling.0 += u64::from(bytes);
                self.filling.1 += 1;
            };
            match step {
                Step::Seal { .. } => {
                    let table = self.filling.1 * u64::from(TABLE_ENTRY_BYTES) + 4;
                    totals.written_bytes += u64::from(HEADER_BYTES) + self.filling.0 + table;
                    self.filling = (0, 0);
                }
                Step::Open { .. } => {}
                Step::Drop(_) => totals.dropped += 1,
                Step::Move { from, .. } => {
                    put(from.extent.flash_bytes());
                    totals.moved_bytes += u64::from(from.extent.flash_bytes());
                }
                Step::Put { extent, .. } => {
                    put(extent.flash_bytes());
                    totals.writes += 1;
                    totals.admitted_bytes += u64::from(extent.flash_bytes());
                }
            }
        }
    }

    /// What was counted.
    pub const fn totals(&self) -> TierTotals {
        self.totals
    }

    /// Bytes that the tier takes on its device.
    pub fn device_bytes(&self) -> u64 {
        self.decider.log.shape().bytes()
    }

    /// Bytes of memory of index and policy.
    pub fn memory_bytes(&self) -> [usize; 2] {
        self.decider.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_thousandths_of_the_device_and_time_and_references_are_told() {
        let mut replay = Replay::new("plc", 20 * 196_608, Some(300)).unwrap();
        assert_eq!(replay.device_bytes(), 20 * 196_608);
        assert_eq!(replay.decider.wear.per_day, Some(20 * 196_608 * 3 / 10));
        replay.tick(1_800_000_000);
        assert_eq!(replay.decider.wear.numbers()[0], 500_000);
        let before = replay.memory_bytes();
        replay.set_references(5, 3);
        assert!(replay.memory_bytes()[1] > before[1]);
        assert_eq!(Replay::new("lru", 0, None).unwrap().decider.wear.per_day, None);
    }

    #[test]
    fn what_no_store_would_keep_is_read_from_the_slow_one() {
        let max = CONTAINER_MAX;
        // Length of the container, offset, bytes, and whether that is a read of what may be kept.
        for (len, offset, bytes, counts) in [
            (1000, 0, 0, false),
            (1000, 0, 1, true),
            (1000, 999, 1, true),
            (1000, 999, 2, false),
            (1000, u64::MAX, 2, false),
            (max, max - 10, 10, true),
            (max + 1, 0, 10, false),
        ] {
            let mut replay = Replay::new("lru", 0, None).unwrap();
            for hits in 0..2 {
                let before = replay.totals();
                replay.read(1, len, offset, bytes);
                let totals = replay.totals();
                if counts {
                    let read = (totals.requests, totals.hits, totals.bytes, totals.hit_bytes);
                    assert_eq!(read, (hits + 1, hits, (hits + 1) * bytes, hits * bytes));
                    assert_eq!(totals.writes, 1, "{len}");
                    // All of the cell, as far as the container has it.
                    assert_eq!(totals.slow_bytes, len.min(16_384), "{len}");
                } else {
                    let slow_bytes = before.slow_bytes + bytes;
                    assert_eq!(totals, TierTotals { slow_bytes, ..before }, "{len}");
                }
            }
        }
    }

    #[test]
    fn a_segment_is_written_when_the_next_begins_with_header_table_and_all_that_is_in_it() {
        let mut replay = Replay::new("lru", 0, None).unwrap();
        for container in 0..12 {
            assert_eq!(replay.totals().written_bytes, 0);
            replay.read(container, 200_000, 0, 100);
        }
        let segment = 512 + 11 * (16_896 + 24) + 4;
        let totals = replay.totals();
        assert_eq!((totals.written_bytes, totals.admitted_bytes), (segment, 12 * 16_896));
        for container in 12..23 {
            assert_eq!(replay.totals().written_bytes, segment);
            replay.read(container, 200_000, 0, 100);
        }
        assert_eq!(replay.totals().written_bytes, 2 * segment);
    }
}
