//! Reading: from byte ranges to map entries, records and bytes.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, life of a read.

use onefold_block::{Lba, StoreError};

use crate::counters::count;
use crate::engine::{Engine, Inner, Scratch, VolumeState};
use crate::error::{PoolError, RecordError};
use crate::format::record;
use crate::open::CONTAINER_FOLDER;
use crate::pba::{MapEntry, Pba};

/// Chunks looked up and fetched together.
const BATCH_CHUNKS: usize = 64;
/// Bytes between two records that are read along rather than skipped: about what a separate read
/// costs.
const GAP_BYTES_MAX: usize = 16 << 10;
/// Attempts to read what others overwrite; then they wait for it.
pub(crate) const READ_PASSES: usize = 8;
/// Attempts while nothing can be overwritten: a container on its way from memory to the store may
/// be missed once.
const STILL_PASSES: usize = 3;

/// Why a record could not be had.
pub(crate) enum FetchError {
    /// The container is gone: the map entry must be looked up again.
    Gone,
    /// The block with this number in the batch is lost.
    Lost(usize),
    /// The record is damaged.
    Damaged(Pba, RecordError),
    /// The store failed.
    Failed(PoolError),
}

/// One stored chunk to be read: where it is and where it goes.
pub(crate) struct Wanted {
    pub pba: Pba,
    /// Its number in the batch.
    pub number: usize,
}

impl Wanted {
    /// Its record, in bytes of its container from `start` on.
    pub fn record<'a>(&self, stored: &'a [u8], start: usize) -> &'a [u8] {
        let location = self.pba.location;
        &stored[location.offset_bytes() - start..location.end_bytes() - start]
    }
}

impl Inner {
    /// Fill `buf` from `offset` of a volume. The range lies inside of it.
    pub fn read(&self, volume: &VolumeState, offset: u64, buf: &mut [u8]) -> Result<(), PoolError> {
        let chunk_bytes = self.chunk_bytes();
        let mut scratch = self.take_scratch();
        let result = (|| {
            let within = (offset % chunk_bytes as u64) as usize;
            let mut lba = Lba::new(offset / chunk_bytes as u64);
            let head_len = if within == 0 { 0 } else { buf.len().min(chunk_bytes - within) };
            let (head, rest) = buf.split_at_mut(head_len);
            if !head.is_empty() {
                self.read_part(volume, lba, within, head, &mut scratch)?;
                lba = Lba::new(lba.get() + 1);
            }
            let whole = rest.len() / chunk_bytes * chunk_bytes;
            let (middle, tail) = rest.split_at_mut(whole);
            for batch in middle.chunks_mut(BATCH_CHUNKS * chunk_bytes) {
                self.read_batch(volume, lba, batch, &mut scratch)?;
                lba = Lba::new(lba.get() + (batch.len() / chunk_bytes) as u64);
            }
            if !tail.is_empty() {
                self.read_part(volume, lba, 0, tail, &mut scratch)?;
            }
            Ok(())
        })();
        self.give_scratch(scratch);
        count(&self.counters.read, buf.len().div_ceil(chunk_bytes) as u64);
        result
    }

    /// Read part of one chunk.
    fn read_part(
        &self,
        volume: &VolumeState,
        lba: Lba,
        within: usize,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), PoolError> {
        let mut chunk = std::mem::take(&mut scratch.chunk);
        let result = self.read_chunk(volume, lba, &mut chunk, scratch);
        if result.is_ok() {
            out.copy_from_slice(&chunk[within..within + out.len()]);
        }
        scratch.chunk = chunk;
        result.map(drop)
    }

    /// Read one chunk; returns the map entry that it was read under.
    pub fn read_chunk(
        &self,
        volume: &VolumeState,
        lba: Lba,
        chunk: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<MapEntry, PoolError> {
        let mut entries = Vec::with_capacity(1);
        self.read_mapped(volume, lba, &mut entries, chunk, scratch)?;
        Ok(entries[0])
    }

    fn read_batch(
        &self,
        volume: &VolumeState,
        first: Lba,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), PoolError> {
        let mut entries = Vec::with_capacity(out.len() / self.chunk_bytes());
        self.read_mapped(volume, first, &mut entries, out, scratch)
    }

    /// Fill `out` with the chunks from `first`; `entries` are those that they were read under.
    fn read_mapped(
        &self,
        volume: &VolumeState,
        first: Lba,
        entries: &mut Vec<MapEntry>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), PoolError> {
        for _ in 0..READ_PASSES {
            if self.read_pass(volume, first, entries, out, scratch)? {
                return Ok(());
            }
        }
        // Others overwrite it, and containers go, faster than it can be read.
        let engine = self.engine();
        self.read_still(&engine, volume, first, entries, out, scratch)
    }

    /// The same while the engine's lock is held: no map entry changes, and so nothing that it
    /// refers to goes.
    pub fn read_still(
        &self,
        _held: &Engine,
        volume: &VolumeState,
        first: Lba,
        entries: &mut Vec<MapEntry>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), PoolError> {
        for _ in 0..STILL_PASSES {
            if self.read_pass(volume, first, entries, out, scratch)? {
                return Ok(());
            }
        }
        let named = entries.iter().find_map(|entry| entry.pba()).map(|pba| pba.container);
        let what = named.map_or_else(|| CONTAINER_FOLDER.to_owned(), |id| id.to_string());
        let problem = "the store has it and cannot find it, time and again";
        Err(PoolError::corrupt_whole(what, problem))
    }

    /// One attempt; false if what it was to read went away meanwhile.
    fn read_pass(
        &self,
        volume: &VolumeState,
        first: Lba,
        entries: &mut Vec<MapEntry>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<bool, PoolError> {
        entries.clear();
        let count = (out.len() / self.chunk_bytes()) as u64;
        self.map.entries(volume.number, first, count, entries)?;
        match self.read_entries(entries, out, scratch) {
            Ok(()) => Ok(true),
            Err(error) => self.explain(volume, first, entries, error).map(|()| false),
        }
    }

    /// Fill `out` with the chunks that `entries` stand for.
    fn read_entries(
        &self,
        entries: &[MapEntry],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), FetchError> {
        let chunk_bytes = self.chunk_bytes();
        let mut wanted: Vec<Wanted> = Vec::new();
        let chunks = out.chunks_exact_mut(chunk_bytes).zip(entries);
        let (mut visit, mut hits) = (self.cache.visit(), 0);
        for (number, (chunk, entry)) in chunks.enumerate() {
            match entry {
                MapEntry::Hole | MapEntry::Zero => chunk.fill(0),
                MapEntry::Lost => return Err(FetchError::Lost(number)),
                MapEntry::Stored(_) if visit.get(entry.raw(), chunk) => hits += 1,
                MapEntry::Stored(pba) => wanted.push(Wanted { pba: *pba, number }),
            }
        }
        drop(visit);
        if hits > 0 {
            count(&self.counters.cache_hits, hits);
        }
        let mut from = 0;
        while from < wanted.len() {
            let upto = from + run_len(&wanted[from..]);
            self.fetch_run(&wanted[from..upto], out, scratch)?;
            from = upto;
        }
        Ok(())
    }

    /// Read one chunk by address, past the read cache.
    pub fn read_one(
        &self,
        pba: Pba,
        chunk: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), PoolError> {
        match self.fetch_run(&[Wanted { pba, number: 0 }], chunk, scratch) {
            Ok(()) => Ok(()),
            Err(FetchError::Failed(error)) => Err(error),
            Err(FetchError::Gone) => {
                Err(PoolError::Store(StoreError::NotFound { id: pba.container }))
            }
            Err(FetchError::Lost(_)) => unreachable!("what is lost has no address"),
            Err(FetchError::Damaged(pba, problem)) => Err(PoolError::corrupt(
                pba.container.to_string(),
                pba.location.offset_bytes() as u64,
                problem.to_string(),
            )),
        }
    }

    /// Load the bytes with records of one container that lie close together, in ascending order.
    /// Returns where in the container they begin.
    pub fn load_run(&self, run: &[Wanted], stored: &mut Vec<u8>) -> Result<usize, FetchError> {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let id = first.pba.container;
        let start = first.pba.location.offset_bytes();
        let end = last.pba.location.end_bytes();
        // Grown and never cleared: what is there is overwritten.
        if stored.len() < end - start {
            stored.resize(end - start, 0);
        }
        let stored = &mut stored[..end - start];
        let live = self.live(id);
        let in_memory = live.is_some_and(|container| container.read(start, stored));
        if !in_memory {
            match self.store.read(id, start as u64, stored) {
                Ok(()) => {}
                Err(StoreError::NotFound { .. }) => return Err(FetchError::Gone),
                Err(error) => return Err(FetchError::Failed(error.into())),
            }
        }
        Ok(start)
    }

    /// Read records of one container that lie close together, in ascending order.
    fn fetch_run(
        &self,
        run: &[Wanted],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), FetchError> {
        let chunk_bytes = self.chunk_bytes();
        let start = self.load_run(run, &mut scratch.stored)?;
        for wanted in run {
            let record = wanted.record(&scratch.stored, start);
            let at = wanted.number * chunk_bytes;
            let chunk = &mut out[at..at + chunk_bytes];
            record::decode(record, wanted.pba, &mut scratch.decompressor, chunk)
                .map_err(|problem| FetchError::Damaged(wanted.pba, problem))?;
        }
        let mut visit = self.cache.visit();
        for wanted in run {
            let at = wanted.number * chunk_bytes;
            visit.insert(MapEntry::Stored(wanted.pba).raw(), &out[at..at + chunk_bytes]);
        }
        Ok(())
    }

    /// Decide what a failed fetch means: `Ok` to look the entries up again, or an error that names
    /// volume, LBA and container.
    pub fn explain(
        &self,
        volume: &VolumeState,
        first: Lba,
        entries: &[MapEntry],
        error: FetchError,
    ) -> Result<(), PoolError> {
        let named = |pba: Pba, problem: String| {
            let number = entries.iter().position(|entry| entry.pba() == Some(pba)).unwrap_or(0);
            PoolError::CorruptChunk {
                volume: volume.name(),
                lba: Lba::new(first.get() + number as u64),
                id: pba.container,
                offset: pba.location.offset_bytes() as u64,
                problem,
            }
        };
        match error {
            FetchError::Failed(error) => Err(error),
            FetchError::Lost(number) => {
                let lba = Lba::new(first.get() + number as u64);
                Err(PoolError::Lost { volume: volume.name(), lba })
            }
            FetchError::Damaged(pba, problem) => Err(named(pba, problem.to_string())),
            FetchError::Gone => {
                let mut now = Vec::with_capacity(entries.len());
                self.map.entries(volume.number, first, entries.len() as u64, &mut now)?;
                if now != entries {
                    return Ok(());
                }
                let missing = entries.iter().filter_map(|entry| entry.pba()).find(|pba| {
                    self.live(pba.container).is_none() && self.store.len(pba.container).is_err()
                });
                match missing {
                    Some(pba) => Err(named(pba, "the container does not exist".to_owned())),
                    // It was on its way from memory to the store.
                    None => Ok(()),
                }
            }
        }
    }
}

/// How many of the chunks, from the first, lie close together in one container.
pub(crate) fn run_len(wanted: &[Wanted]) -> usize {
    let close = |pair: &[Wanted]| {
        let (a, b) = (&pair[0].pba, &pair[1].pba);
        let (end, start) = (a.location.end_bytes(), b.location.offset_bytes());
        a.container == b.container && start >= end && start - end <= GAP_BYTES_MAX
    };
    1 + wanted.windows(2).take_while(|pair| close(pair)).count()
}

#[cfg(test)]
mod tests;
