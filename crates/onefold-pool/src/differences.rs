//! Where two volumes or snapshots differ.
//! Room: onefold-pool.
//! In: two trees. Out: byte ranges. An address always has the same data, so equal entries are equal
//! blocks; blocks of equal data at two addresses count as different.
//! Cost: pages that only one of the two has, and those above them.

use onefold_block::{Extent, ExtentKind, Lba};

use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::map::ENTRIES_PER_PAGE;
use crate::pba::MapEntry;
use crate::volume::Volume;

/// Extents in one answer; the rest is asked for again.
const CHANGES_MAX: usize = 4096;
/// Leaves of the map looked at for one answer.
const CHANGED_LEAVES_MAX: usize = 512;

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
            // What is alike ends with a leaf.
            let batch = per_leaf.min(both - at);
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

impl Volume {
    /// Where this differs from `since`, or may, from `offset` on: at least one extent, together at
    /// most `len` bytes. Data is what differs, a hole what does not.
    pub fn changes_since(
        &self,
        since: &Self,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Extent>, PoolError> {
        let (inner, chunk) = (&self.inner, self.inner.chunk_bytes() as u64);
        let numbers = [self.state.number, since.state.number];
        let (mut at, end) = (offset / chunk, (offset + len).div_ceil(chunk));
        // What only one of the two has differs, and so does the block in which one ends.
        let sizes = [self.state.size_bytes(), since.state.size_bytes()];
        let alike = if sizes[0] == sizes[1] { end } else { sizes[0].min(sizes[1]) / chunk };
        let mut extents: Vec<Extent> = Vec::new();
        let mut push = |blocks: u64, same: bool| {
            let kind = if same { ExtentKind::Hole } else { ExtentKind::Data };
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.len_bytes += blocks * chunk,
                _ => extents.push(Extent { len_bytes: blocks * chunk, kind }),
            }
            extents.len() < CHANGES_MAX
        };
        let mut entries = [Vec::new(), Vec::new()];
        let mut leaves = 0;
        while at < end && leaves < CHANGED_LEAVES_MAX {
            if at >= alike {
                push(end - at, false);
                break;
            }
            let most = end.min(alike) - at;
            let run = inner.map.alike_run(numbers, Lba::new(at), most)?;
            if run > 0 {
                at += run;
                if !push(run, true) {
                    break;
                }
                continue;
            }
            let per_leaf = ENTRIES_PER_PAGE as u64;
            let batch = (per_leaf - at % per_leaf).min(most);
            for (number, entries) in numbers.into_iter().zip(&mut entries) {
                entries.clear();
                inner.map.entries(number, Lba::new(at), batch, entries)?;
            }
            let mut room = true;
            for (left, right) in entries[0].iter().zip(&entries[1]) {
                room &= push(1, reads_alike(*left, *right));
            }
            (at, leaves) = (at + batch, leaves + 1);
            if !room {
                break;
            }
        }
        // Cut what reaches before and past the range.
        if let Some(first) = extents.first_mut() {
            first.len_bytes -= offset % chunk;
        }
        let mut left = len;
        for extent in &mut extents {
            extent.len_bytes = extent.len_bytes.min(left);
            left -= extent.len_bytes;
        }
        extents.retain(|extent| extent.len_bytes > 0);
        // Of what is being deleted meanwhile, nothing is what it was.
        if self.state.is_deleting() || since.state.is_deleting() {
            return Err(PoolError::VolumeDeleted);
        }
        Ok(extents)
    }
}

pub(crate) fn reads_alike(a: MapEntry, b: MapEntry) -> bool {
    // Nobody knows what was there in each.
    let known = a != MapEntry::Lost && b != MapEntry::Lost;
    known && (a == b || a.pba().is_none() && b.pba().is_none())
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, ContainerId};

    use super::*;
    use crate::pba::{Location, Pba};

    #[test]
    fn of_no_bytes_there_are_no_extents_wherever_they_begin() {
        let folder = onefold_block::SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &crate::PoolSettings::default());
        let [one, two] =
            ["one", "two"].map(|name| pool.create_volume(name, ByteSize(1 << 20)).unwrap());
        for offset in [0, 4095, 4096, 5000] {
            assert_eq!(one.changes_since(&two, offset, 0).unwrap(), []);
            let hole = Extent { len_bytes: 1, kind: ExtentKind::Hole };
            assert_eq!(one.changes_since(&two, offset, 1).unwrap(), [hole]);
        }
    }

    #[test]
    fn of_a_volume_that_is_deleted_nothing_is_told() {
        let folder = onefold_block::SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &crate::PoolSettings::default());
        let [one, two] =
            ["one", "two"].map(|name| pool.create_volume(name, ByteSize(1 << 20)).unwrap());
        // While its map is there, and when that is gone.
        two.state.deleting.store(true, std::sync::atomic::Ordering::Release);
        for gone in [false, true] {
            if gone {
                two.state.deleting.store(false, std::sync::atomic::Ordering::Release);
                pool.delete_volume("two").unwrap();
            }
            for (now, since) in [(&one, &two), (&two, &one)] {
                let told = now.changes_since(since, 0, 4096);
                assert!(matches!(told, Err(PoolError::VolumeDeleted)), "{told:?}");
            }
        }
    }

    #[test]
    fn no_more_extents_are_told_at_once_than_may_be() {
        let folder = onefold_block::SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &crate::PoolSettings::default());
        let leaf = ENTRIES_PER_PAGE as u64;
        let leaves = CHANGES_MAX as u64 / leaf + 3;
        let size = leaves * leaf * 4096;
        let [one, two] =
            ["one", "two"].map(|name| pool.create_volume(name, ByteSize(size)).unwrap());
        for block in (0..leaves * leaf).step_by(2) {
            one.write_at(block * 4096, &[7; 4096], false).unwrap();
        }
        let extents = one.changes_since(&two, 0, size).unwrap();
        assert_eq!(extents.len(), CHANGES_MAX);
        let one_block = |kind| Extent { len_bytes: 4096, kind };
        let pair = [one_block(ExtentKind::Data), one_block(ExtentKind::Hole)];
        assert!(extents.chunks(2).all(|told| told == pair));
    }

    #[test]
    fn all_that_fits_is_told_at_once() {
        let folder = onefold_block::SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &crate::PoolSettings::default());
        let leaf = ENTRIES_PER_PAGE as u64 * 4096;
        let [one, two] =
            ["one", "two"].map(|name| pool.create_volume(name, ByteSize(9 * leaf)).unwrap());
        one.write_at(5 * leaf, &[7; 4096], false).unwrap();
        let extent = |len_bytes, kind| Extent { len_bytes, kind };
        let expected = [
            extent(5 * leaf, ExtentKind::Hole),
            extent(4096, ExtentKind::Data),
            extent(4 * leaf - 4096, ExtentKind::Hole),
        ];
        assert_eq!(one.changes_since(&two, 0, 9 * leaf).unwrap(), expected);
    }

    #[test]
    fn no_more_leaves_are_read_at_once_than_may_be() {
        let folder = onefold_block::SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &crate::PoolSettings::default());
        let (leaf, leaves) = (ENTRIES_PER_PAGE as u64 * 4096, CHANGED_LEAVES_MAX as u64);
        let size = ByteSize((leaves + 2) * leaf);
        let [one, two] = ["one", "two"].map(|name| pool.create_volume(name, size).unwrap());
        for number in 0..leaves + 2 {
            one.write_at(number * leaf, &[7; 4096], false).unwrap();
        }
        let told = one.changes_since(&two, 0, size.bytes()).unwrap();
        let bytes: u64 = told.iter().map(|extent| extent.len_bytes).sum();
        assert_eq!((told.len() as u64, bytes), (2 * leaves, leaves * leaf));
    }

    #[test]
    fn what_reads_as_zeroes_is_alike_and_what_is_lost_is_like_nothing() {
        let stored = |container| {
            let (container, location) = (ContainerId::new(container), Location::new(8, 1));
            MapEntry::Stored(Pba { container, location })
        };
        let all = [MapEntry::Hole, MapEntry::Zero, MapEntry::Lost, stored(1), stored(2)];
        let alike = all.map(|a| all.map(|b| u8::from(reads_alike(a, b))));
        let expected = [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0; 5], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]];
        assert_eq!(alike, expected);
    }
}
