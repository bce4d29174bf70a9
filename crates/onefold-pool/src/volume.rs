//! A volume as a block device.
//! Room: onefold-pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::device::check_range;
use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, Lba, WriteRequest, ZeroOptions};

use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::pba::MapEntry;

/// Extents in one answer to a block status question; the rest is asked for again.
const EXTENTS_MAX: usize = 4096;
/// Blocks looked at for one answer, holes that are known at once aside.
const STATUS_BLOCKS_MAX: u64 = 1 << 18;

/// A volume of an open pool.
#[derive(Clone)]
pub struct Volume {
    pub(crate) inner: Arc<Inner>,
    pub(crate) state: Arc<VolumeState>,
}

impl Volume {
    /// Its name now.
    pub fn name(&self) -> String {
        self.state.name()
    }

    /// Its number: no other volume or snapshot of the pool has it, or ever had it.
    pub fn number(&self) -> u32 {
        self.state.number
    }

    /// Whether this is a handle of the same volume, whatever either was called when it was made.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Whether it was deleted, or is being deleted.
    pub fn is_deleted(&self) -> bool {
        self.state.is_deleting()
    }

    /// Where to go on after [`BlockDevice::block_status`] failed at `offset` for damage: everything
    /// up to there is damaged too. In bytes.
    pub fn damaged_until(&self, offset: u64) -> u64 {
        let chunk = self.inner.chunk_bytes() as u64;
        let lba = Lba::new(offset / chunk);
        let end = self.inner.map.past_unreadable(self.state.number, lba).saturating_mul(chunk);
        end.min(self.size_bytes())
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        if self.state.deleting.load(Ordering::Acquire) {
            return Err(BlockError::ShuttingDown);
        }
        check_range(offset, len, self.size_bytes())
    }

    /// The same for what changes the volume.
    fn check_change(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.check(offset, len)?;
        if self.state.is_snapshot { Err(BlockError::ReadOnly) } else { Ok(()) }
    }

    fn settle(&self, fua: bool) -> Result<(), BlockError> {
        if fua { self.flush() } else { Ok(()) }
    }

    /// Extents of whole blocks from `first`, merged.
    fn extents(&self, first: u64, end: u64) -> Result<Vec<Extent>, PoolError> {
        let chunk = self.inner.chunk_bytes() as u64;
        let mut extents: Vec<Extent> = Vec::new();
        let mut push = |blocks: u64, entry: MapEntry| {
            let kind = match entry {
                MapEntry::Hole => ExtentKind::Hole,
                MapEntry::Zero => ExtentKind::Zero,
                MapEntry::Stored(_) | MapEntry::Lost => ExtentKind::Data,
            };
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.len_bytes += blocks * chunk,
                _ => extents.push(Extent { len_bytes: blocks * chunk, kind }),
            }
            extents.len() < EXTENTS_MAX
        };
        let (mut at, mut looked_at) = (first, 0);
        let mut entries = Vec::new();
        while at < end && looked_at < STATUS_BLOCKS_MAX {
            let number = self.state.number;
            entries.clear();
            let run = self.inner.map.uniform_run(number, Lba::new(at), end - at).and_then(|run| {
                if run.0 == 0 {
                    // To the end of the leaf, which is in memory now.
                    let batch = leaf_rest(at).min(end - at);
                    self.inner.map.entries(number, Lba::new(at), batch, &mut entries)?;
                }
                Ok(run)
            });
            match run {
                // What comes before the damage can be told.
                Err(_) if at > first => break,
                Err(error) => return Err(error),
                Ok((0, _)) => {
                    at += entries.len() as u64;
                    looked_at += entries.len() as u64;
                    let mut room = true;
                    for entry in &entries {
                        room &= push(1, *entry);
                    }
                    if !room {
                        break;
                    }
                }
                Ok((run, entry)) => {
                    at += run;
                    if !push(run, entry) {
                        break;
                    }
                }
            }
        }
        Ok(extents)
    }
}

/// Blocks from `lba` to the end of its map leaf.
const fn leaf_rest(lba: u64) -> u64 {
    let per_leaf = crate::map::ENTRIES_PER_PAGE as u64;
    per_leaf - lba % per_leaf
}

impl BlockDevice for Volume {
    fn size_bytes(&self) -> u64 {
        self.state.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.inner.settings.chunk_size.get()
    }

    fn is_read_only(&self) -> bool {
        self.inner.read_only || self.state.is_snapshot
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.check(offset, buf.len() as u64)?;
        self.inner.read(&self.state, offset, buf)?;
        // Of what is being deleted meanwhile, nothing is what it was.
        self.check(offset, buf.len() as u64)
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.check_change(offset, data.len() as u64)?;
        self.inner.write(&self.state, &[WriteRequest { offset, data, fua }])?;
        self.settle(fua)
    }

    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        let fine = |r: &WriteRequest<'_>| self.check_change(r.offset, r.data.len() as u64).is_ok();
        results.clear();
        if requests.iter().all(fine) && self.inner.write(&self.state, requests).is_ok() {
            let fua = requests.iter().any(|request| request.fua);
            if self.settle(fua).is_ok() {
                results.extend(requests.iter().map(|_| Ok(())));
                return;
            }
        }
        // One of them failed: the answer of each is its own. Writing again what was written
        // already changes nothing.
        results.extend(requests.iter().map(|r| self.write_at(r.offset, r.data, r.fua)));
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.check_change(offset, len)?;
        if self.inner.read_only {
            return Err(BlockError::ReadOnly);
        }
        let (first, last) = self.inner.whole_blocks(&self.state, offset, offset + len);
        if options.fast_only && first >= last && len > 0 {
            return Err(BlockError::NotFast);
        }
        let entry = if options.no_hole { MapEntry::Zero } else { MapEntry::Hole };
        self.inner.zero_range(&self.state, offset, len, entry)?;
        self.settle(options.fua)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.check_change(offset, len)?;
        let (first, last) = self.inner.whole_blocks(&self.state, offset, offset + len);
        if first < last {
            self.inner.fill_blocks(&self.state, Lba::new(first), last - first, MapEntry::Hole)?;
        } else {
            self.inner.check_writable()?;
        }
        self.settle(fua)
    }

    fn flush(&self) -> Result<(), BlockError> {
        Ok(self.inner.flush()?)
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let chunk = self.inner.chunk_bytes() as u64;
        let (first, end) = (offset / chunk, (offset + len).div_ceil(chunk));
        let mut extents = self.extents(first, end)?;
        // Cut what reaches before and past the range.
        if let Some(extent) = extents.first_mut() {
            extent.len_bytes -= offset - first * chunk;
        }
        let mut left = len;
        for extent in &mut extents {
            extent.len_bytes = extent.len_bytes.min(left);
            left -= extent.len_bytes;
        }
        Ok(extents)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.check(offset, len)?;
        // No more than the cache could keep, and nothing that a hint should wait long for.
        let len = len.min(self.inner.cache.budget_bytes() / 4).min(4 << 20);
        let mut buf = vec![0; len as usize];
        Ok(self.inner.read(&self.state, offset, &mut buf)?)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{ByteSize, SimFolder};

    use super::*;
    use crate::PoolSettings;

    #[test]
    fn what_lies_past_the_end_is_refused_in_the_same_words_however_far_it_is() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        for offset in [1 << 20, (1 << 20) - 1, 1 << 62, u64::MAX - 4095, u64::MAX] {
            let expected = check_range(offset, 4096, 1 << 20).unwrap_err().to_string();
            let read = volume.read_at(offset, &mut [0; 4096]);
            assert_eq!(read.unwrap_err().to_string(), expected);
            let written = volume.write_at(offset, &[1; 4096], false);
            assert_eq!(written.unwrap_err().to_string(), expected);
        }
        assert_eq!(pool.inner.counters.read.load(Ordering::Relaxed), 0, "nobody tried");
    }

    #[test]
    fn what_there_is_of_one_byte_is_one_byte_and_of_none_nothing() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        for at in [0, 100, 4095, 4096, 5000, (1 << 20) - 1] {
            assert_eq!(volume.block_status(at, 0).unwrap().len(), 0, "{at}");
            let found = volume.block_status(at, 1).unwrap();
            assert_eq!(
                found.iter().map(|extent| extent.len_bytes).collect::<Vec<_>>(),
                [1],
                "{at}"
            );
        }
        assert!(volume.block_status(1 << 20, 0).unwrap().is_empty());
    }

    #[test]
    fn zeroes_that_are_to_be_fast_are_whole_blocks_or_none() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let options = ZeroOptions { fast_only: true, ..ZeroOptions::default() };
        for (offset, len, fast) in
            [(0, 0, true), (0, 1, false), (1, 4096, false), (0, 4096, true), (1, 8191, true)]
        {
            let zeroed = volume.write_zeroes(offset, len, options);
            assert_eq!(!matches!(zeroed, Err(BlockError::NotFast)), fast, "{len} at {offset}");
            assert_eq!(zeroed.is_ok(), fast);
        }
    }

    #[test]
    fn one_answer_has_so_many_extents_and_looks_at_so_many_blocks() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let size = (STATUS_BLOCKS_MAX + 2048) * 4096;
        let volume = pool.create_volume("many", ByteSize(size)).unwrap();
        for block in (0..5000).step_by(2) {
            volume.write_at(block * 4096, &[7; 4096], false).unwrap();
        }
        assert_eq!(volume.block_status(0, size).unwrap().len(), EXTENTS_MAX);
        // One block of each leaf.
        let volume = pool.create_volume("wide", ByteSize(size)).unwrap();
        for block in (0..STATUS_BLOCKS_MAX + 2048).step_by(512) {
            volume.write_at(block * 4096, &[7; 4096], false).unwrap();
        }
        let found = volume.block_status(0, size).unwrap();
        let told: u64 = found.iter().map(|extent| extent.len_bytes).sum();
        assert_eq!((told, found.len()), (STATUS_BLOCKS_MAX * 4096, 1024));
    }
}
