//! The forward assembly area: chunks in the order of the output, containers read once per area.
//! Room: onefold-archive.   In: references and marks, in order.   Out: chunks and marks, in order.
//! Source: [capping-13] sec. 4.2, in its rolling form: when the first chunk of the area is missing,
//! its container is read, and every chunk of the area that lies in it is filled in; what is
//! complete leaves at the front, and the area moves on.
//! Cost: memory of the area (the chunks in it) and of one read (at most a container).

use std::collections::{HashMap, VecDeque};

use onefold_block::{ContainerId, ContainerStore};

use crate::archive::Archive;
use crate::containers::ChunkDecoder;
use crate::error::ArchiveError;
use crate::format::chunk_ref::ChunkRef;

/// The least memory of an area, in bytes.
pub const ASSEMBLY_BYTES_MIN: u64 = 1 << 20;
/// What a mark is counted as, in bytes.
const MARK_BYTES: u64 = 512;
/// Bytes between two wanted chunks that are read along rather than skipped.
const GAP_BYTES: u32 = 64 << 10;

/// What reading took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Bytes of chunks handed out.
    pub bytes: u64,
    /// Times a container was turned to.
    pub container_reads: u64,
    /// Bytes read from containers.
    pub read_bytes: u64,
}

impl ReadTotals {
    /// MiB restored per container read: the speed factor of the paper.
    pub fn speed_factor(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.container_reads.max(1) as f64
    }
}

/// What leaves the area.
#[derive(Debug)]
pub enum Assembled<M> {
    /// A mark that was put in.
    Mark(M),
    /// A chunk that was put in; or why it cannot be had.
    Chunk(Result<Vec<u8>, ArchiveError>),
}

enum Slot<M> {
    Mark(M),
    Wanted(ChunkRef),
    Filled(u64, Result<Vec<u8>, ArchiveError>),
}

/// An area that moves over the output.
pub struct Assembly<'a, M> {
    store: &'a dyn ContainerStore,
    decoder: ChunkDecoder,
    budget_bytes: u64,
    bytes: u64,
    slots: VecDeque<Slot<M>>,
    /// Slots that have left.
    gone: u64,
    /// The wanted slots of each container, counted from the first slot ever.
    wanted: HashMap<ContainerId, Vec<u64>>,
    totals: ReadTotals,
    buffer: Vec<u8>,
}

impl<'a, M> Assembly<'a, M> {
    /// An empty area of `budget_bytes`, at least [`ASSEMBLY_BYTES_MIN`].
    pub fn new(archive: &'a Archive, budget_bytes: u64) -> Self {
        let chunk_bytes_max = archive.settings.sizes().max();
        Self {
            store: &*archive.store,
            decoder: ChunkDecoder::new(archive.fingerprinter(), chunk_bytes_max),
            budget_bytes: budget_bytes.max(ASSEMBLY_BYTES_MIN),
            bytes: 0,
            slots: VecDeque::new(),
            gone: 0,
            wanted: HashMap::new(),
            totals: ReadTotals::default(),
            buffer: Vec::new(),
        }
    }

    /// Whether more may be put in.
    pub fn has_room(&self) -> bool {
        self.bytes < self.budget_bytes
    }

    /// Put a mark in: it comes out between the chunks that were put in before and after it.
    pub fn push_mark(&mut self, mark: M) {
        self.bytes += MARK_BYTES;
        self.slots.push_back(Slot::Mark(mark));
    }

    /// Put a chunk in, or the error that stands for it.
    pub fn push_chunk(&mut self, chunk: Result<ChunkRef, ArchiveError>) {
        match chunk {
            Ok(chunk) => {
                self.bytes += u64::from(chunk.len);
                let at = self.gone + self.slots.len() as u64;
                self.wanted.entry(chunk.container).or_default().push(at);
                self.slots.push_back(Slot::Wanted(chunk));
            }
            Err(error) => self.slots.push_back(Slot::Filled(0, Err(error))),
        }
    }

    /// What comes next; `None` if the area is empty. Call it once the area has no room or there
    /// is nothing more to put in: the fuller it is, the fewer reads.
    pub fn pop(&mut self) -> Option<Assembled<M>> {
        if let Some(Slot::Wanted(chunk)) = self.slots.front() {
            let id = chunk.container;
            self.fill(id);
        }
        let slot = self.slots.pop_front()?;
        self.gone += 1;
        Some(match slot {
            Slot::Mark(mark) => {
                self.bytes -= MARK_BYTES;
                Assembled::Mark(mark)
            }
            Slot::Filled(len, data) => {
                self.bytes -= len;
                self.totals.bytes += data.as_ref().map_or(0, |data| data.len() as u64);
                Assembled::Chunk(data)
            }
            Slot::Wanted(_) => unreachable!("the container of the first slot was just read"),
        })
    }

    /// What it took so far.
    pub const fn totals(&self) -> ReadTotals {
        self.totals
    }

    /// Fill in every wanted chunk of a container.
    fn fill(&mut self, id: ContainerId) {
        self.totals.container_reads += 1;
        let mut wanted: Vec<(ChunkRef, u64)> = Vec::new();
        for at in self.wanted.remove(&id).unwrap_or_default() {
            if let Slot::Wanted(chunk) = &self.slots[(at - self.gone) as usize] {
                wanted.push((*chunk, at));
            }
        }
        wanted.sort_unstable_by_key(|(chunk, at)| (chunk.offset, *at));
        let near = |a: &(ChunkRef, u64), b: &(ChunkRef, u64)| {
            let end = a.0.offset.saturating_add(a.0.stored);
            b.0.offset <= end.saturating_add(GAP_BYTES)
        };
        for run in wanted.chunk_by(near) {
            self.fill_run(id, run);
        }
    }

    /// Fill in chunks that lie close together, with one read.
    fn fill_run(&mut self, id: ContainerId, run: &[(ChunkRef, u64)]) {
        let Some((first, _)) = run.first() else { return };
        let start = u64::from(first.offset);
        let end_of = |chunk: &ChunkRef| u64::from(chunk.offset) + u64::from(chunk.stored);
        let end = run.iter().map(|(chunk, _)| end_of(chunk)).max().unwrap_or(start);
        // A container that is shorter than its chunks need is damaged: each chunk says so.
        let within = self.store.len(id).map(|len| end.min(len));
        let read = within.and_then(|end| {
            self.buffer.resize(end.saturating_sub(start) as usize, 0);
            self.store.read(id, start, &mut self.buffer)
        });
        self.totals.read_bytes += self.buffer.len() as u64;
        // What cannot be read takes along no chunk that can.
        if read.is_err() && run.len() > 1 {
            for alone in run.chunks(1) {
                self.fill_run(id, alone);
            }
            return;
        }
        let failure = read.err().map(|error| ArchiveError::from(error).to_string());
        let mut last: Option<(ChunkRef, u64)> = None;
        for &(chunk, at) in run {
            let known = last.filter(|(known, _)| *known == chunk);
            let known = known.and_then(|(_, at)| match &self.slots[(at - self.gone) as usize] {
                Slot::Filled(_, Ok(data)) => Some(data.clone()),
                _ => None,
            });
            let data = match (&failure, known) {
                (Some(problem), _) => {
                    Err(ArchiveError::corrupt(id.to_string(), chunk.offset.into(), problem))
                }
                (None, Some(data)) => Ok(data),
                (None, None) => self.decode(&chunk, start),
            };
            last = Some((chunk, at));
            self.slots[(at - self.gone) as usize] = Slot::Filled(chunk.len.into(), data);
        }
    }

    fn decode(&mut self, chunk: &ChunkRef, start: u64) -> Result<Vec<u8>, ArchiveError> {
        let from = (u64::from(chunk.offset) - start) as usize;
        let stored = self.buffer.get(from..from + chunk.stored as usize).ok_or_else(|| {
            let what = chunk.container.to_string();
            ArchiveError::corrupt(what, chunk.offset.into(), "the container ends before this chunk")
        })?;
        self.decoder.decode(chunk, stored)
    }
}
