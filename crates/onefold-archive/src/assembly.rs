//! The forward assembly area: chunks in the order of the output, containers read once per area.
//! Room: onefold-archive.   In: references and marks, in order.   Out: chunks and marks, in order.
//! Source: [capping-13] sec. 4.2, in its rolling form: when the first chunk of the area is missing,
//! its container is read, and every chunk of the area that lies in it is filled in; what is
//! complete leaves at the front, and the area moves on. Where several workers read, so are the
//! containers of the area's first quarter, beside what is written out: further on, less of the area
//! would be left for what else is in them. What is read does not depend on who is how quick.
//! Chunks that holes are cut into are known by their names: no container is turned to for them, and
//! they take no room.
//! Cost: memory of the area (the chunks in it), and for each worker of one read (at most a
//! container) and of a group.

use std::collections::{HashMap, VecDeque};

use onefold_block::ContainerId;

use crate::archive::Archive;
use crate::chunk_bytes::ChunkBytes;
use crate::error::ArchiveError;
use crate::filler::{Filled, Filler, WantedSlot};
use crate::format::chunk_ref::ChunkRef;
use crate::workers::{Answer, Workers};
use crate::zero_chunks::ZeroChunks;

/// The least memory of an area, in bytes.
pub const ASSEMBLY_BYTES_MIN: u64 = 1 << 20;
/// What a mark, or a chunk of a hole, is counted as, in bytes.
const MARK_BYTES: u64 = 512;
/// The part of an area whose containers are read ahead by others: one in so many of its bytes.
const AHEAD_PART: u64 = 4;

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
    Chunk(Result<ChunkBytes, ArchiveError>),
}

enum Slot<M> {
    Mark(M),
    Wanted(ChunkRef),
    /// Of a container that is being read, with the chunk's length.
    Coming(ContainerRead, u32),
    Filled(u64, Result<ChunkBytes, ArchiveError>),
}

/// The number of one reading of a container.
type ContainerRead = u64;

impl<M> Slot<M> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Mark(_) => MARK_BYTES,
            Self::Wanted(chunk) => chunk.len.into(),
            Self::Coming(_, len) => (*len).into(),
            Self::Filled(len, _) => *len,
        }
    }
}

/// An area that moves over the output.
pub struct Assembly<M> {
    workers: Workers<Filler>,
    zero_chunks: ZeroChunks,
    budget_bytes: u64,
    bytes: u64,
    slots: VecDeque<Slot<M>>,
    /// Slots that have left.
    gone: u64,
    /// The wanted slots of each container, counted from the first slot ever.
    wanted: HashMap<ContainerId, Vec<u64>>,
    /// Slots at the front whose containers are being read or were, and their bytes.
    asked: usize,
    asked_bytes: u64,
    reads: HashMap<ContainerRead, Answer<Filled>>,
    totals: ReadTotals,
}

impl<M> Assembly<M> {
    /// An empty area of `budget_bytes`, at least [`ASSEMBLY_BYTES_MIN`].
    pub fn new(archive: &Archive, budget_bytes: u64) -> Self {
        Self {
            workers: Workers::new(archive.workers(), Filler::of(archive)),
            zero_chunks: ZeroChunks::of(archive),
            budget_bytes: budget_bytes.max(ASSEMBLY_BYTES_MIN),
            bytes: 0,
            slots: VecDeque::new(),
            gone: 0,
            wanted: HashMap::new(),
            asked: 0,
            asked_bytes: 0,
            reads: HashMap::new(),
            totals: ReadTotals::default(),
        }
    }

    /// Whether more may be put in.
    pub fn has_room(&self) -> bool {
        self.bytes < self.budget_bytes
    }

    /// Put a mark in: it comes out between the chunks that were put in before and after it.
    pub fn push_mark(&mut self, mark: M) {
        self.push(Slot::Mark(mark));
    }

    /// Put a chunk in, or the error that stands for it.
    pub fn push_chunk(&mut self, chunk: Result<ChunkRef, ArchiveError>) {
        match chunk {
            Ok(chunk) => {
                if let Some(zeroes) = self.zero_chunks.content(&chunk) {
                    return self.push(Slot::Filled(MARK_BYTES, Ok(zeroes)));
                }
                let at = self.gone + self.slots.len() as u64;
                self.wanted.entry(chunk.container).or_default().push(at);
                self.push(Slot::Wanted(chunk));
            }
            Err(error) => self.push(Slot::Filled(0, Err(error))),
        }
    }

    fn push(&mut self, slot: Slot<M>) {
        self.bytes += slot.bytes();
        self.slots.push_back(slot);
    }

    /// What comes next; `None` if the area is empty. Call it once the area has no room or there
    /// is nothing more to put in: the fuller it is, the fewer reads.
    pub fn pop(&mut self) -> Option<Assembled<M>> {
        self.ask_ahead();
        if let Some(&Slot::Coming(read, _)) = self.slots.front() {
            self.take_in(read);
        }
        let slot = self.slots.pop_front()?;
        self.gone += 1;
        self.asked -= 1;
        self.asked_bytes -= slot.bytes();
        self.bytes -= slot.bytes();
        Some(match slot {
            Slot::Mark(mark) => Assembled::Mark(mark),
            Slot::Filled(_, data) => {
                self.totals.bytes += data.as_ref().map_or(0, |data| data.len() as u64);
                Assembled::Chunk(data)
            }
            Slot::Wanted(_) | Slot::Coming(..) => {
                unreachable!("the container of the first slot was just read")
            }
        })
    }

    /// What it took so far.
    pub const fn totals(&self) -> ReadTotals {
        self.totals
    }

    /// Have the containers of the first slot read, and with several workers of those behind it.
    fn ask_ahead(&mut self) {
        let is_ahead = self.workers.count() > 1;
        let ahead_bytes = if is_ahead { self.budget_bytes / AHEAD_PART } else { 0 };
        while self.asked == 0 || self.asked_bytes < ahead_bytes {
            let Some(slot) = self.slots.get(self.asked) else { break };
            self.asked_bytes += slot.bytes();
            let id = if let Slot::Wanted(chunk) = slot { Some(chunk.container) } else { None };
            self.asked += 1;
            if let Some(id) = id {
                self.ask_for(id);
            }
        }
    }

    /// Have every wanted chunk of a container read.
    fn ask_for(&mut self, id: ContainerId) {
        let read = self.totals.container_reads;
        self.totals.container_reads += 1;
        let mut wanted: Vec<WantedSlot> = Vec::new();
        for at in self.wanted.remove(&id).unwrap_or_default() {
            let slot = &mut self.slots[(at - self.gone) as usize];
            if let Slot::Wanted(chunk) = *slot {
                wanted.push((chunk, at));
                *slot = Slot::Coming(read, chunk.len);
            }
        }
        wanted.sort_unstable_by_key(|(chunk, at)| (chunk.offset, *at));
        self.reads.insert(read, self.workers.ask(move |filler| filler.fill(id, &wanted)));
    }

    /// Wait for a container, and fill in what was wanted of it.
    fn take_in(&mut self, read: ContainerRead) {
        let Some(answer) = self.reads.remove(&read) else { return };
        match answer.wait() {
            Ok(filled) => {
                self.totals.read_bytes += filled.read_bytes;
                for (at, data) in filled.chunks {
                    let slot = &mut self.slots[(at - self.gone) as usize];
                    *slot = Slot::Filled(slot.bytes(), data);
                }
            }
            Err(error) => {
                for slot in &mut self.slots {
                    if matches!(slot, Slot::Coming(of, _) if *of == read) {
                        *slot = Slot::Filled(slot.bytes(), Err(error.again()));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::SimFolder;

    use super::*;
    use crate::format::chunk_ref::ChunkName;
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    /// An area of an archive that holds nothing, so that every read is in vain.
    fn area(workers: usize, budget_bytes: u64) -> Assembly<u8> {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        Archive::create(&folder, &ArchiveSettings::default(), identity).unwrap();
        let mut archive = Archive::open(Arc::new(folder)).unwrap();
        archive.set_workers(workers);
        Assembly::new(&archive, budget_bytes)
    }

    fn chunk(container: u32, len: u32) -> ChunkRef {
        let (container, name) = (ContainerId::new(container), ChunkName([0; 16]));
        ChunkRef { container, offset: 0, len, name }
    }

    #[test]
    fn an_area_is_full_with_its_last_byte_and_errors_take_none() {
        const MIB: u32 = 1 << 20;
        for (budget, bytes) in [(0, MIB), (1 << 20, MIB), ((1 << 20) + 5, MIB + 5)] {
            let mut area = area(1, budget);
            area.push_chunk(Err(ArchiveError::Nothing));
            area.push_chunk(Ok(chunk(1, bytes - 1 - MARK_BYTES as u32)));
            area.push_mark(7);
            assert!(area.has_room());
            area.push_chunk(Ok(chunk(2, 1)));
            assert!(!area.has_room());
            let mut out = Vec::new();
            while let Some(next) = area.pop() {
                out.push(match next {
                    Assembled::Mark(mark) => mark.to_string(),
                    Assembled::Chunk(data) => data.unwrap_err().to_string(),
                });
            }
            let missing = |id| format!("corrupt container {id} at byte 0: it is missing");
            let nothing = ArchiveError::Nothing.to_string();
            assert_eq!(out, [nothing, missing(1), "7".to_owned(), missing(2)]);
            let expected = ReadTotals { bytes: 0, container_reads: 2, read_bytes: 0 };
            assert_eq!((area.totals(), area.bytes, area.asked_bytes), (expected, 0, 0));
        }
    }

    #[test]
    fn a_quarter_of_the_area_is_read_ahead_where_several_read_and_nothing_where_one_does() {
        let quarter = 1 << 18;
        for (workers, first, reads) in
            [(1, 10, 1), (2, quarter - 1, 2), (2, quarter, 1), (3, 10, 2), (3, quarter, 1)]
        {
            let mut area = area(workers, 1 << 20);
            area.push_chunk(Ok(chunk(1, first)));
            area.push_chunk(Ok(chunk(2, quarter)));
            area.push_chunk(Ok(chunk(3, 1)));
            area.pop().unwrap();
            assert_eq!(area.totals().container_reads, reads, "{workers} workers, {first} bytes");
        }
        // What takes no bytes is no reason to go on, either.
        let mut area = area(1, 1 << 20);
        area.push_chunk(Err(ArchiveError::Nothing));
        area.push_chunk(Ok(chunk(1, 5)));
        area.pop().unwrap();
        assert_eq!(area.totals().container_reads, 0);
    }

    #[test]
    fn the_speed_factor_is_mebibytes_a_read() {
        let factor = |bytes, container_reads| {
            ReadTotals { bytes, container_reads, read_bytes: 0 }.speed_factor().to_string()
        };
        assert_eq!([factor(3 << 20, 2), factor(1 << 19, 0), factor(0, 5)], ["1.5", "0.5", "0"]);
    }
}
