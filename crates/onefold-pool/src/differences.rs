//! Where two volumes or snapshots differ.
//! Room: onefold-pool.
//! In: two trees. Out: byte ranges. An address always has the same data, so equal entries are equal
//! blocks; blocks of equal data at two addresses count as different.
//! Cost: pages that only one of the two has, and those above them.

use onefold_block::Lba;

use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::map::ENTRIES_PER_PAGE;
use crate::pba::MapEntry;

impl Inner {
    /// Byte ranges in which `a` and `b` may differ, in order and apart from each other.
    pub fn differences(
        &self,
        [a, b]: [&VolumeState; 2],
        found: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(), PoolError> {
        let chunk = self.chunk_bytes() as u64;
        let size = a.size_bytes().max(b.size_bytes());
        let ends = [a, b].map(|v| v.blocks(self.chunk_bytes()));
        let both = ends[0].min(ends[1]);
        let per_leaf = ENTRIES_PER_PAGE as u64;
        let mut open: Option<(u64, u64)> = None;
        let mut at = 0;
        let mut entries = [Vec::new(), Vec::new()];
        while at < both {
            let numbers = [a.number, b.number];
            let run = self.map.alike_run(numbers, Lba::new(at), both - at)?;
            if run > 0 {
                at += run;
                continue;
            }
            let batch = (per_leaf - at % per_leaf).min(both - at);
            for (number, entries) in numbers.into_iter().zip(&mut entries) {
                entries.clear();
                self.map.entries(number, Lba::new(at), batch, entries)?;
            }
            for (block, (left, right)) in (at..).zip(entries[0].iter().zip(&entries[1])) {
                if reads_alike(*left, *right) {
                    continue;
                }
                match &mut open {
                    Some((_, end)) if *end == block => *end += 1,
                    _ => {
                        if let Some((from, end)) = open.replace((block, block + 1))
                            && !found(from * chunk, (end - from) * chunk)
                        {
                            return Ok(());
                        }
                    }
                }
            }
            at += batch;
        }
        // What only the larger one has, from the block on in which the smaller one ends.
        if a.size_bytes() != b.size_bytes() {
            let tail = a.size_bytes().min(b.size_bytes()) / chunk;
            match &mut open {
                Some((_, end)) if *end >= tail => *end = size.div_ceil(chunk),
                _ => {
                    if let Some((from, end)) = open.replace((tail, size.div_ceil(chunk)))
                        && !found(from * chunk, (end - from) * chunk)
                    {
                        return Ok(());
                    }
                }
            }
        }
        if let Some((from, end)) = open {
            found(from * chunk, (end * chunk).min(size) - from * chunk);
        }
        Ok(())
    }
}

pub(crate) fn reads_alike(a: MapEntry, b: MapEntry) -> bool {
    // Nobody knows what was there in each.
    let known = a != MapEntry::Lost && b != MapEntry::Lost;
    known && (a == b || a.pba().is_none() && b.pba().is_none())
}
