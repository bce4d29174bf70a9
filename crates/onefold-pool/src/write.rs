//! Writing: from byte ranges to batches of chunks, and on to the commit.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, life of a write.

use std::sync::MutexGuard;

use onefold_block::{Lba, WriteRequest};

use crate::commit::Committed;
use crate::counters::count;
use crate::engine::{Engine, Inner, Scratch, VolumeState};
use crate::error::PoolError;
use crate::pba::MapEntry;
use crate::plan::{BATCH_CHUNKS, ChunkWrite, Sharing};
use crate::provide::{Needs, NewRecords};
use crate::space::Purpose;
use crate::sync;

/// Passes in which a chunk may be shared; after these it is stored, whoever else has it.
const SHARING_PASSES: usize = 3;
/// Attempts to complete a chunk that others overwrite; then they wait for it.
const PIECE_PASSES: usize = 8;
/// Attempts to win space back, for one batch: others may take what came back.
const SPACE_PASSES: usize = 64;

/// Where a write may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Inside of the volume as it is when the write is committed.
    Inside,
    /// Anywhere: what is written are zeroes.
    Anywhere,
}

/// A piece of a request inside one chunk.
struct Piece<'a> {
    lba: Lba,
    /// First byte in the chunk.
    within: usize,
    data: &'a [u8],
}

impl Piece<'_> {
    /// One past its last byte, in bytes of the volume.
    const fn end(&self, chunk_bytes: usize) -> u64 {
        self.lba.get() * chunk_bytes as u64 + (self.within + self.data.len()) as u64
    }

    /// Put it into its chunk.
    fn complete(&self, chunk: &mut [u8]) {
        chunk[self.within..self.within + self.data.len()].copy_from_slice(self.data);
    }
}

impl Inner {
    /// Write several ranges, in order. All must lie inside the volume; what does not any more when
    /// it is to be committed is refused.
    pub fn write(
        &self,
        volume: &VolumeState,
        requests: &[WriteRequest<'_>],
    ) -> Result<(), PoolError> {
        self.write_within(volume, requests, Reach::Inside)
    }

    /// The same for what may lie past the end.
    pub fn write_within(
        &self,
        volume: &VolumeState,
        requests: &[WriteRequest<'_>],
        reach: Reach,
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        let mut scratch = self.take_scratch();
        let mut batch: Vec<ChunkWrite<'_>> = Vec::with_capacity(BATCH_CHUNKS);
        let result = (|| {
            for request in requests {
                for piece in pieces(request.offset, request.data, self.chunk_bytes()) {
                    if piece.data.len() < self.chunk_bytes() {
                        // What was written before must be seen by the completion.
                        self.write_whole(volume, &batch, reach, &mut scratch)?;
                        batch.clear();
                        self.write_piece(volume, &piece, reach, &mut scratch)?;
                        continue;
                    }
                    batch.push(ChunkWrite { lba: piece.lba, data: piece.data, expected: None });
                    if batch.len() == BATCH_CHUNKS {
                        self.write_whole(volume, &batch, reach, &mut scratch)?;
                        batch.clear();
                    }
                }
            }
            self.write_whole(volume, &batch, reach, &mut scratch)
        })();
        self.give_scratch(scratch);
        result?;
        self.relieve()?;
        self.keep_pace(requests.iter().map(|request| request.data.len() as u64).sum())
    }

    /// Write whole chunks, again where a container vanished under a duplicate.
    fn write_whole(
        &self,
        volume: &VolumeState,
        writes: &[ChunkWrite<'_>],
        reach: Reach,
        scratch: &mut Scratch,
    ) -> Result<(), PoolError> {
        let mut todo: Vec<ChunkWrite<'_>>;
        let mut left = writes;
        // What could not be shared so often is simply stored.
        for sharing in [Sharing::Wanted; SHARING_PASSES].into_iter().chain([Sharing::Off]) {
            if left.is_empty() {
                return Ok(());
            }
            let end = |write: &ChunkWrite<'_>| (write.lba.get() + 1) * self.chunk_bytes() as u64;
            let end = (reach == Reach::Inside).then(|| left.iter().map(end).max()).flatten();
            let conflicts = self.write_once((volume, end), left, sharing, scratch)?;
            todo = conflicts.iter().map(|&number| left[number]).collect();
            left = &todo;
        }
        assert!(left.is_empty(), "what shares nothing and expects nothing is stored");
        Ok(())
    }

    /// Write part of a chunk: complete it from what is stored, and start again if that changed
    /// before the commit.
    fn write_piece(
        &self,
        volume: &VolumeState,
        piece: &Piece<'_>,
        reach: Reach,
        scratch: &mut Scratch,
    ) -> Result<(), PoolError> {
        let end = (reach == Reach::Inside).then(|| piece.end(self.chunk_bytes()));
        let mut chunk = vec![0; self.chunk_bytes()];
        for _ in 0..PIECE_PASSES {
            let entry = self.read_chunk(volume, piece.lba, &mut chunk, scratch)?;
            piece.complete(&mut chunk);
            count(&self.counters.completed, 1);
            let write = ChunkWrite { lba: piece.lba, data: &chunk, expected: Some(entry) };
            if self.write_once((volume, end), &[write], Sharing::Wanted, scratch)?.is_empty() {
                return Ok(());
            }
        }
        // Others overwrite the chunk faster than it can be completed: now they wait for it.
        self.with_space(|| {
            let records = NewRecords::Written(1, 2 * self.chunk_bytes());
            let mut engine = self.engine_to_write((volume, end), 1, records)?;
            let mut entries = Vec::with_capacity(1);
            self.read_still(&engine, volume, piece.lba, &mut entries, &mut chunk, scratch)?;
            piece.complete(&mut chunk);
            count(&self.counters.completed, 1);
            let write = [ChunkWrite { lba: piece.lba, data: &chunk, expected: None }];
            let batch = self.plan(&write, Sharing::Off, scratch);
            self.commit(&mut engine, volume, &write, &batch, scratch)
        })
        .map(drop)
    }

    /// One pass of a batch, which is refused if it ends past the end of the volume; returns the
    /// numbers of the chunks that must start again.
    fn write_once(
        &self,
        (volume, end): (&VolumeState, Option<u64>),
        writes: &[ChunkWrite<'_>],
        sharing: Sharing,
        scratch: &mut Scratch,
    ) -> Result<Vec<usize>, PoolError> {
        // Here and not in the plan, which may be made under the engine's lock.
        self.fill_index_for_write();
        self.with_space(|| {
            let batch = self.plan(writes, sharing, scratch);
            // Map pages are read now, so that the commit need not wait for the media.
            self.prefault(volume, writes)?;
            let records = NewRecords::Written(batch.drafts.len(), scratch.records.len());
            let mut engine = self.engine_to_write((volume, end), writes.len(), records)?;
            self.commit(&mut engine, volume, writes, &batch, scratch)
        })
    }

    /// The engine's lock, for a commit of so many chunks that ends within the volume.
    fn engine_to_write(
        &self,
        (volume, end): (&VolumeState, Option<u64>),
        chunks: usize,
        records: NewRecords,
    ) -> Result<MutexGuard<'_, Engine>, PoolError> {
        let height = self.map.root(volume.number)?.height;
        let engine = self.engine_with(&Needs::of_commit(height, chunks, Purpose::Data, records))?;
        // Who makes it shorter sets the size under this lock: after that nothing is added.
        end.map_or(Ok(()), |end| volume.refuse_past_end(end))?;
        Ok(engine)
    }

    /// Commit and write out what became full. Where there is no space, some is won back and
    /// `commit` called again, until there is none to win or others are always faster to take what
    /// came back. Returns the conflicts.
    fn with_space(
        &self,
        mut commit: impl FnMut() -> Result<Committed, PoolError>,
    ) -> Result<Vec<usize>, PoolError> {
        let mut passes = 0;
        let committed = loop {
            match commit() {
                Err(error) if error.is_no_space() && passes < SPACE_PASSES => {
                    passes += 1;
                    if !self.make_room()? {
                        return Err(error);
                    }
                }
                other => break other?,
            }
        };
        if committed.nearly_full {
            self.make_next();
        }
        for container in committed.sealed {
            self.write_out(&container)?;
        }
        Ok(committed.conflicts)
    }

    fn prefault(&self, volume: &VolumeState, writes: &[ChunkWrite<'_>]) -> Result<(), PoolError> {
        let mut entries: Vec<MapEntry> = Vec::with_capacity(1);
        let mut last = None;
        for write in writes {
            let leaf = write.lba.get() / crate::map::ENTRIES_PER_PAGE as u64;
            if last.replace(leaf) != Some(leaf) {
                entries.clear();
                self.map.entries(volume.number, write.lba, 1, &mut entries)?;
            }
        }
        Ok(())
    }

    /// Bring a sealed container to the store, which serves it from then on.
    pub fn write_out(
        &self,
        container: &crate::container::open::OpenContainer,
    ) -> Result<(), PoolError> {
        container.write_out(&*self.store).map_err(|error| self.poison_unless_no_space(error))?;
        let directory = container.directory();
        sync::point("written out");
        // A flush and the writer that filled it may both be here. The directory is kept by the one
        // that takes the container out of memory, before the other goes on: the container may be
        // removed right after, and its directory must not appear later than that.
        {
            let mut live = self.live_mut();
            if live.contains_key(&container.id()) {
                if let Some(directory) = directory {
                    self.directories.insert_new(container.id(), directory);
                }
                live.remove(&container.id());
            }
        }
        self.give_buffer(container.release_memory());
        Ok(())
    }
}

/// Cut a byte range at chunk boundaries.
fn pieces(offset: u64, data: &[u8], chunk_bytes: usize) -> impl Iterator<Item = Piece<'_>> {
    let mut at = offset;
    let mut rest = data;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let within = (at % chunk_bytes as u64) as usize;
        let len = rest.len().min(chunk_bytes - within);
        let (data, later) = rest.split_at(len);
        let lba = Lba::new(at / chunk_bytes as u64);
        rest = later;
        at += len as u64;
        Some(Piece { lba, within, data })
    })
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder, SplitMix64};

    use super::*;
    use crate::PoolSettings;

    #[test]
    fn ranges_are_cut_at_chunk_boundaries_and_nowhere_else() {
        let data = vec![0u8; 10_000];
        let cut: Vec<(u64, usize, usize)> =
            pieces(4000, &data, 4096).map(|p| (p.lba.get(), p.within, p.data.len())).collect();
        assert_eq!(cut, [(0, 4000, 96), (1, 0, 4096), (2, 0, 4096), (3, 0, 1712)]);
        assert_eq!(pieces(4096, &data[..4096], 4096).count(), 1);
        assert_eq!(pieces(5, &[], 4096).count(), 0);
    }

    #[test]
    fn a_write_is_tried_again_where_room_was_made_and_for_no_other_reason() {
        let folder = SimFolder::new();
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        let pool = crate::empty_pool::new(&folder, &settings);
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let bytes = SplitMix64::new(1).bytes(1 << 20);
        let tried = |error: fn() -> PoolError| {
            // What is dead gives room once.
            volume.write_at(0, &bytes, true).unwrap();
            pool.checkpoint().unwrap();
            volume.trim(0, 1 << 20, true).unwrap();
            let mut tried = 0;
            let refused = pool.inner.with_space(|| {
                tried += 1;
                Err(error())
            });
            assert_eq!(refused.unwrap_err().to_string(), error().to_string());
            tried
        };
        assert_eq!(tried(|| PoolError::VolumeDeleted), 1);
        assert_eq!(tried(|| PoolError::NoSpace("a test".to_owned())), 2);
        // Others are always faster.
        let mut tried = 0;
        let refused = pool.inner.with_space(|| {
            tried += 1;
            pool.inner.engine().leaving = 1;
            Err(PoolError::NoSpace("a test".to_owned()))
        });
        assert!(refused.is_err() && tried == SPACE_PASSES + 1, "{tried}");
    }
}
