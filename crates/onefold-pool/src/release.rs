//! Giving blocks up: trim, write zeroes, and the tail of a shrunk volume.
//! Room: onefold-pool.

use onefold_block::{Lba, WriteRequest};

use crate::commit::Tally;
use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::pba::MapEntry;
use crate::provide::{FILL_BYTES, Needs};
use crate::write::Reach;

/// Map leaves changed under one hold of the engine's lock, so that a large trim lets writes by.
const LEAVES_PER_TURN: usize = 64;

impl Inner {
    /// Make whole blocks holes or zeroes.
    pub fn fill_blocks(
        &self,
        volume: &VolumeState,
        first: Lba,
        count: u64,
        entry: MapEntry,
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        let mut done = 0;
        while done < count {
            let from = Lba::new(first.get() + done);
            done += match self.fill_turn(volume, from, count - done, entry, LEAVES_PER_TURN) {
                Err(error) if error.is_no_space() => {
                    // A checkpoint empties the journal and frees map pages; a leaf at a time needs
                    // the fewest.
                    self.checkpoint()?;
                    self.fill_turn(volume, from, count - done, entry, 1)?
                }
                turn => turn?,
            };
            self.relieve()?;
        }
        Ok(())
    }

    fn fill_turn(
        &self,
        volume: &VolumeState,
        first: Lba,
        count: u64,
        entry: MapEntry,
        leaves: usize,
    ) -> Result<u64, PoolError> {
        let height = usize::from(self.map.root(volume.number)?.height);
        let mut engine = self.engine_with(&Needs::of_fill(height, leaves.min(count as usize)))?;
        let engine = &mut *engine;
        let mut tally = Tally::default();
        let turn = self
            .map
            .fill(volume.number, first, count, entry, leaves, &mut tally)
            .and_then(|done| tally.release(engine, volume).map(|()| done))
            .map_err(|error| self.poison_unless_no_space(error))?;
        let before = engine.entries.len_bytes();
        engine.entries.fill(volume.number, first, turn, entry);
        self.keep_changes(engine, before);
        engine.space.journal_took(FILL_BYTES);
        engine.generation += 1;
        Ok(turn)
    }

    /// Make a byte range read as zeroes: whole blocks by their map entries, ragged ends by writing.
    pub fn zero_range(
        &self,
        volume: &VolumeState,
        offset: u64,
        len: u64,
        entry: MapEntry,
    ) -> Result<(), PoolError> {
        let chunk = self.chunk_bytes() as u64;
        let end = offset + len;
        let (first, last) = self.whole_blocks(volume, offset, end);
        let zeroes = vec![0; self.chunk_bytes()];
        let write = |from: u64, upto: u64| {
            if from >= upto {
                return Ok(());
            }
            let data = &zeroes[..(upto - from) as usize];
            let request = WriteRequest { offset: from, data, fua: false };
            self.write_within(volume, &[request], Reach::Anywhere)
        };
        if first > last {
            // Within one chunk.
            return write(offset, end);
        }
        write(offset, end.min(first * chunk))?;
        self.fill_blocks(volume, Lba::new(first), last - first, entry)?;
        write(last * chunk, end)
    }

    /// The blocks that lie wholly inside a byte range, as first and one past the last. The last
    /// block of a volume may be cut short by its end, and is whole if the range reaches that.
    pub fn whole_blocks(&self, volume: &VolumeState, offset: u64, end: u64) -> (u64, u64) {
        let chunk = self.chunk_bytes() as u64;
        let last = if end == volume.size_bytes() { end.div_ceil(chunk) } else { end / chunk };
        (offset.div_ceil(chunk), last)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, FaultKind, OpKind, SimFolder};

    use crate::{Budgets, OpenOptions, Pool, PoolSettings};

    /// Blocks under a leaf of the maps.
    const LEAF: u64 = 512;
    const LEAVES: u64 = 200;

    /// A volume with a block in each of so many leaves, more than may be changed in memory.
    fn wide() -> (SimFolder, Pool) {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(LEAVES * LEAF * 4096)).unwrap();
        for leaf in 0..LEAVES {
            volume.write_at(leaf * LEAF * 4096, &[7; 4096], false).unwrap();
        }
        drop(volume);
        (folder, pool)
    }

    fn reopened(folder: &SimFolder, pool: Pool) -> Pool {
        pool.close().unwrap();
        let budgets = Budgets { map_bytes: 1 << 20, ..OpenOptions::default().budgets };
        Pool::open(folder, &OpenOptions { read_only: false, budgets }).unwrap()
    }

    #[test]
    fn a_trim_of_more_than_may_change_in_memory_makes_checkpoints() {
        let (folder, pool) = wide();
        let pool = reopened(&folder, pool);
        let before = pool.activity().checkpoints;
        pool.volume("main").unwrap().trim(0, LEAVES * LEAF * 4096, false).unwrap();
        assert!(pool.activity().checkpoints > before);
    }

    #[test]
    fn a_deletion_that_finds_no_space_goes_on_after_a_checkpoint() {
        let (folder, pool) = wide();
        pool.snapshot("main@one", 0, false).unwrap();
        pool.volume("main").unwrap().write_at(0, &[8; 4096], false).unwrap();
        pool.delete_snapshot("main@one").unwrap();
        let pool = reopened(&folder, pool);
        let before = pool.activity().checkpoints;
        folder.fail_once(&[OpKind::Reserve], 1, FaultKind::Enospc);
        assert!(pool.give_up_deleted(u64::MAX).unwrap() || pool.give_up_deleted(1).unwrap());
        // One for the space, and one without the snapshot.
        assert_eq!(pool.activity().checkpoints - before, 2);
        assert_eq!(pool.inner.all_volumes().len(), 1);
    }
}
