//! The forward assembly area: chunks in the order of the output, containers read once per area.
//! Room: onefold-archive.   In: references and marks, in order.   Out: chunks and marks, in order.
//! Source: [capping-13] sec. 4.2, in its rolling form: when the first chunk of the area is missing,
//! its container is read, and every chunk of the area that lies in it is filled in; what is
//! complete leaves at the front, and the area moves on.
//! Cost: memory of the area (the chunks in it), of one read (at most a container) and of a group.

use std::collections::{HashMap, VecDeque};

use onefold_block::{ContainerId, ContainerStore};
use onefold_content::Fingerprinter;

use crate::archive::Archive;
use crate::containers::{self, GroupDecoder};
use crate::error::ArchiveError;
use crate::format::chunk_ref::ChunkRef;
use crate::format::group::{Group, GroupTable};

/// The least memory of an area, in bytes.
pub const ASSEMBLY_BYTES_MIN: u64 = 1 << 20;
/// What a mark is counted as, in bytes.
const MARK_BYTES: u64 = 512;
/// Bytes between two wanted groups that are read along rather than skipped.
const GAP_BYTES: u64 = 64 << 10;

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
    fingerprinter: Fingerprinter,
    decoder: GroupDecoder,
    budget_bytes: u64,
    bytes: u64,
    slots: VecDeque<Slot<M>>,
    /// Slots that have left.
    gone: u64,
    /// The wanted slots of each container, counted from the first slot ever.
    wanted: HashMap<ContainerId, Vec<u64>>,
    totals: ReadTotals,
    buffer: Vec<u8>,
    content: Vec<u8>,
}

/// Slots that want chunks of one group, in the order of its content.
struct WantedGroup<'w> {
    group: Group,
    slots: &'w [(ChunkRef, u64)],
}

impl<'a, M> Assembly<'a, M> {
    /// An empty area of `budget_bytes`, at least [`ASSEMBLY_BYTES_MIN`].
    pub fn new(archive: &'a Archive, budget_bytes: u64) -> Self {
        let chunk_bytes_max = archive.settings.sizes().max();
        Self {
            store: &*archive.store,
            fingerprinter: archive.fingerprinter(),
            decoder: GroupDecoder::new(chunk_bytes_max),
            budget_bytes: budget_bytes.max(ASSEMBLY_BYTES_MIN),
            bytes: 0,
            slots: VecDeque::new(),
            gone: 0,
            wanted: HashMap::new(),
            totals: ReadTotals::default(),
            buffer: Vec::new(),
            content: Vec::new(),
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
        match containers::read_groups(self.store, id) {
            Ok(table) => self.fill_from(id, &table, &wanted),
            Err(error) => {
                let problem = error.to_string();
                self.fail(&wanted, &problem);
            }
        }
    }

    /// Fill in chunks of a container, in the order of its content.
    fn fill_from(&mut self, id: ContainerId, table: &GroupTable, wanted: &[(ChunkRef, u64)]) {
        let group_of = |(chunk, _): &(ChunkRef, u64)| table.find(chunk.offset, chunk.len);
        let mut groups = Vec::new();
        for slots in wanted.chunk_by(|a, b| group_of(a) == group_of(b)) {
            match slots.first().and_then(group_of) {
                Some(at) => groups.push(WantedGroup { group: table.groups()[at], slots }),
                None => self.fail(slots, "the container has nothing where this chunk should be"),
            }
        }
        let near = |a: &WantedGroup<'_>, b: &WantedGroup<'_>| {
            b.group.place().start <= a.group.place().end + GAP_BYTES
        };
        for run in groups.chunk_by(near) {
            self.fill_run(id, run);
        }
    }

    /// Fill in chunks of groups that lie close together, with one read.
    fn fill_run(&mut self, id: ContainerId, run: &[WantedGroup<'_>]) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let (start, end) = (first.group.place().start, last.group.place().end);
        self.buffer.resize(end.saturating_sub(start) as usize, 0);
        let read = self.store.read(id, start, &mut self.buffer);
        self.totals.read_bytes += self.buffer.len() as u64;
        // What cannot be read takes along no group that can.
        if read.is_err() && run.len() > 1 {
            for alone in run.chunks(1) {
                self.fill_run(id, alone);
            }
            return;
        }
        if let Err(error) = read {
            let problem = ArchiveError::from(error).to_string();
            for wanted in run {
                self.fail(wanted.slots, &problem);
            }
            return;
        }
        for wanted in run {
            let from = (wanted.group.place().start - start) as usize;
            let stored = &self.buffer[from..from + wanted.group.stored as usize];
            match self.decoder.decode(id, &wanted.group, stored, &mut self.content) {
                Ok(()) => self.fill_group(wanted),
                Err(error) => self.fail(wanted.slots, &error.to_string()),
            }
        }
    }

    /// Fill in chunks of the group whose content was just decoded.
    fn fill_group(&mut self, wanted: &WantedGroup<'_>) {
        let mut right: Option<ChunkRef> = None;
        for &(chunk, at) in wanted.slots {
            let from = (chunk.offset - wanted.group.begin) as usize;
            let data = &self.content[from..from + chunk.len as usize];
            // One that is wanted several times is compared once.
            let compared = if right == Some(chunk) {
                Ok(())
            } else {
                containers::check_name(&self.fingerprinter, &chunk, data)
            };
            right = compared.is_ok().then_some(chunk);
            let data = compared.map(|()| data.to_vec());
            self.slots[(at - self.gone) as usize] = Slot::Filled(chunk.len.into(), data);
        }
    }

    /// Give these slots an error in the place of their chunks.
    fn fail(&mut self, slots: &[(ChunkRef, u64)], problem: &str) {
        for &(chunk, at) in slots {
            let what = chunk.container.to_string();
            let error = ArchiveError::corrupt(what, chunk.offset.into(), problem);
            self.slots[(at - self.gone) as usize] = Slot::Filled(chunk.len.into(), Err(error));
        }
    }
}
