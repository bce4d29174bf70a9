//! What an open tier knows, under one lock.
//! Room: onefold-cache.
//! Invariant: a step of the log is done here before the next is decided, so that memory and log
//! tell the same; only full segments are written later, by [`super::store`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use onefold_block::{ByteSize, ContainerId, Media};

use super::decide::{Answer, Decider, Keep, Part};
use super::extent::{Extent, UNIT};
use super::index::{Kept, Place};
use super::log::{Shape, Step};
use super::saved::TierTotals;
use super::segment::{self, Entry, Seal};
use super::size::TierSize;
use super::wear::WearBudget;
use crate::options::OptionError;

/// Bytes of the extents of a container that is kept because it is new.
const NEW_EXTENT: u32 = 64 << 10;

/// What a tiered store holds and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierStatus {
    /// The policy, as it was chosen.
    pub policy: String,
    /// Bytes of the fast device that are used at most.
    pub capacity_bytes: u64,
    /// Bytes that extents take there.
    pub cached_bytes: u64,
    /// How many extents there are.
    pub cached_extents: u64,
    /// Bytes of memory that their index takes; 0 while nobody has it open.
    pub index_bytes: u64,
    /// Bytes of memory that the policy takes; 0 while nobody has it open.
    pub policy_bytes: u64,
    /// Bytes of extents that wait in memory for the policy to judge them; a restart forgets them.
    pub waiting_bytes: u64,
    /// Bytes that may be written in a day, if there is a limit.
    pub writes_per_day: Option<u64>,
    /// Bytes that were written in the last day.
    pub written_last_day: u64,
    /// What is wrong with the fast device, if anything is.
    pub problem: Option<String>,
    /// What was counted, over all restarts.
    pub totals: TierTotals,
}

/// What a container is known by.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its length in bytes.
    pub len: u32,
    /// A hash of its end, where its directory is: another container of the same number has
    /// another.
    pub stamp: u64,
}

/// The segment that is being filled.
struct Filling {
    slot: u32,
    sequence: u64,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// A segment that is full.
pub struct Sealed {
    /// Where it goes.
    pub slot: u32,
    /// Its number.
    pub sequence: u64,
    /// What is written there.
    pub bytes: Vec<u8>,
}

/// An extent to be read from the device.
pub struct FastRead {
    /// Which, and where.
    pub kept: Kept,
    /// What its blocks are sealed with.
    pub seal: Seal,
    /// First byte of the container.
    pub from: u32,
    /// One past the last.
    pub upto: u32,
}

/// A read of the slow store.
pub struct SlowRead {
    /// First byte of the container.
    pub from: u32,
    /// One past the last.
    pub upto: u32,
    /// What is to be kept.
    pub keep: Vec<(Extent, Keep)>,
}

/// What is left to do about a read when the lock is given up.
#[derive(Default)]
pub struct Rest {
    /// What the device has.
    pub fast: Vec<FastRead>,
    /// What the slow store has.
    pub slow: Vec<SlowRead>,
}

/// How large it may be, and how much of that may be written.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How large it may become.
    pub size: TierSize,
    /// How much may be written in 24 hours; none: as much as the policy likes.
    pub writes_per_day: Option<WearBudget>,
}

/// All of it.
pub struct State {
    /// Whose cache it is.
    pub owner: [u8; 16],
    /// What it may be.
    pub limits: Limits,
    /// The decisions.
    pub decider: Decider,
    filling: Option<Filling>,
    /// Full segments that are being written, in this order.
    pub sealed: VecDeque<Arc<Sealed>>,
    /// Extents that the policy keeps in memory for now.
    held: HashMap<u64, Vec<u8>>,
    /// Containers that are being filled, or on their way out.
    pub open: HashSet<ContainerId>,
    /// Containers that were looked at.
    pub known: HashMap<u32, Known>,
    /// What containers were known by when the tier was closed.
    pub expected: HashMap<u32, u64>,
    /// Counts up whenever a container changes.
    pub changes: u64,
    /// Bytes of the slow store.
    pub slow_bytes: u64,
    /// What was counted.
    pub totals: TierTotals,
    /// Bytes of segments written since the state was saved, and since it was made durable.
    pub written_since: [u64; 2],
    /// Bytes that it took last.
    pub last_save: u64,
    /// Admissions that were passed by after the last failure.
    pub last_skip: u64,
    /// Why the fast device could not be written last.
    pub write_problem: Option<String>,
    /// What was wrong with the last extent that was not used.
    pub read_problem: Option<String>,
}

impl State {
    /// Of a tier that was just opened.
    pub fn new(
        owner: [u8; 16],
        limits: Limits,
        decider: Decider,
        found: super::recover::Found,
        totals: TierTotals,
    ) -> Self {
        Self {
            owner,
            limits,
            decider,
            filling: None,
            sealed: VecDeque::new(),
            held: HashMap::new(),
            open: HashSet::new(),
            known: HashMap::new(),
            expected: found.stamps,
            changes: 0,
            slow_bytes: 0,
            totals: TierTotals { torn_segments: totals.torn_segments + found.torn, ..totals },
            written_since: [0; 2],
            last_save: 0,
            last_skip: 0,
            write_problem: None,
            read_problem: None,
        }
    }

    /// What is wrong with the fast device, if anything is.
    pub fn problem(&self) -> Option<String> {
        let vain = || {
            let wear = &self.decider.wear;
            let (per_day, at_once) = (ByteSize(wear.per_day?), ByteSize(wear.at_once));
            let what = "nothing new is kept: it may write";
            let why = format!("{what} {per_day} a day, and a segment takes {at_once} at once");
            wear.is_in_vain().then_some(why)
        };
        self.write_problem.clone().or_else(|| self.read_problem.clone()).or_else(vain)
    }

    /// Extents that wait in memory: how many, and their bytes as the policy counts them.
    pub fn waiting(&self) -> [u64; 2] {
        let index = &self.decider.log.index;
        let kept = self.held.keys().filter_map(|&key| index.by_key(key));
        let bytes = kept.map(|kept| u64::from(kept.extent.flash_bytes())).sum();
        [self.held.len() as u64, bytes]
    }

    /// Whether an extent is in memory only.
    pub fn is_held(&self, key: u64) -> bool {
        self.held.contains_key(&key)
    }

    /// A container was looked at. Extents of another one of that number go.
    pub fn learn(&mut self, container: u32, known: Known) {
        self.known.insert(container, known);
        let expected = self.expected.remove(&container);
        if expected.is_some_and(|expected| expected != known.stamp) {
            let gone = self.decider.invalidate(container, false);
            self.totals.bad_copies += gone.len() as u64;
            if !gone.is_empty() {
                tracing::warn!(
                    "the cache had {} extents of another container {container} than the one that \
                     is there now: they are not used",
                    gone.len()
                );
            }
        }
    }

    /// A container changes or goes.
    pub fn invalidate(&mut self, id: ContainerId, forget: bool) {
        self.changes += 1;
        let gone = self.decider.invalidate(id.get(), forget);
        self.let_go(&gone);
        self.known.remove(&id.get());
        self.expected.remove(&id.get());
    }

    /// A container is full: from now on it may be kept.
    pub fn is_full(&mut self, id: ContainerId) {
        self.open.remove(&id);
    }

    fn let_go(&mut self, gone: &[Kept]) {
        for kept in gone {
            self.held.remove(&kept.extent.key());
        }
    }

    /// Decide about a read of a container, fill in what is in memory, and say what is left.
    pub fn read(
        &mut self,
        media: &dyn Media,
        container: u32,
        known: Known,
        (from, upto): (u32, u32),
        buf: &mut [u8],
    ) -> Rest {
        let Answer { parts, promoted, gone } = self.decider.read(container, known.len, from, upto);
        self.totals.requests += 1;
        self.totals.bytes += buf.len() as u64;
        let mut rest = Rest::default();
        for part in parts {
            match part {
                Part::Kept { kept, sequence, from: first, upto: end } => {
                    let out = &mut buf[(first - from) as usize..(end - from) as usize];
                    let seal = Seal { sequence, stamp: known.stamp };
                    if !self.copy_from_memory(&kept, seal, first, out) {
                        rest.fast.push(FastRead { kept, seal, from: first, upto: end });
                    }
                }
                Part::Slow { from, upto, keep } => rest.slow.push(SlowRead { from, upto, keep }),
            }
        }
        for extent in promoted {
            if let Some(bytes) = self.held.remove(&extent.key()) {
                let steps = self.decider.put(extent);
                self.run(media, steps, &bytes);
            }
        }
        self.let_go(&gone);
        rest
    }

    /// Fill `out` from `from` of the container, if the extent is in memory.
    fn copy_from_memory(&self, kept: &Kept, seal: Seal, from: u32, out: &mut [u8]) -> bool {
        let first = from - kept.extent.start;
        if kept.place == Place::HELD {
            let held = self.held.get(&kept.extent.key());
            let bytes = held.and_then(|held| held.get(first as usize..first as usize + out.len()));
            if let Some(bytes) = bytes {
                out.copy_from_slice(bytes);
            }
            return bytes.is_some();
        }
        let (_, offset) = self.decider.log.shape().at(kept.place);
        let filling = self.filling.as_ref().filter(|filling| filling.sequence == seal.sequence);
        let sealed = || self.sealed.iter().find(|sealed| sealed.sequence == seal.sequence);
        let segment = filling.map(|filling| &filling.bytes);
        let Some(segment) = segment.or_else(|| sealed().map(|sealed| &sealed.bytes)) else {
            return false;
        };
        let blocks = segment::blocks_of(&kept.extent, first, first + out.len() as u32);
        let blocks = segment.get((offset + blocks.start) as usize..(offset + blocks.end) as usize);
        blocks.is_some_and(|blocks| segment::take(&kept.extent, seal, first, blocks, out))
    }

    /// The bytes of an extent that is to be kept are there.
    pub fn fetched(&mut self, media: &dyn Media, extent: Extent, keep: Keep, bytes: &[u8]) {
        let steps = self.decider.fetched(extent, keep);
        if keep == Keep::Memory {
            let kept = self.decider.log.index.by_key(extent.key());
            if kept.is_some_and(|kept| kept.extent == extent && kept.place == Place::HELD) {
                self.held.insert(extent.key(), bytes.to_vec());
            }
            return;
        }
        self.run(media, steps, bytes);
    }

    /// A container was just filled with `bytes`: keep it before anybody reads it.
    pub fn keep_new(&mut self, media: &dyn Media, container: u32, known: Known, bytes: &[u8]) {
        self.learn(container, known);
        for from in (0..known.len).step_by(NEW_EXTENT as usize) {
            let upto = known.len.min(from + NEW_EXTENT);
            let len = (upto - from).next_multiple_of(UNIT);
            let extent = Extent { container, start: from, len };
            let (gone, steps) = self.decider.keep_new(extent);
            self.let_go(&gone);
            let admitted = self.totals.admitted_bytes;
            let mut padded = bytes[from as usize..upto as usize].to_vec();
            padded.resize(len as usize, 0);
            self.run(media, steps, &padded);
            self.totals.new_bytes += self.totals.admitted_bytes - admitted;
        }
    }

    /// Do what the log decided. `bytes` are those of the extent that is put there.
    fn run(&mut self, media: &dyn Media, steps: Vec<Step>, bytes: &[u8]) {
        for step in steps {
            match step {
                Step::Seal { .. } => self.seal(),
                Step::Open { slot, sequence } => {
                    let bytes = vec![0; segment::HEADER_BYTES as usize];
                    self.filling = Some(Filling { slot, sequence, bytes, entries: Vec::new() });
                }
                Step::Drop(_) => self.totals.dropped += 1,
                Step::Move { from, sequence, to } => self.move_extent(media, from, sequence, to),
                Step::Put { extent, to } => {
                    let taken = self.append(extent, to, bytes);
                    debug_assert!(taken, "what is put is of a container that was looked at");
                    self.totals.writes += 1;
                    self.totals.admitted_bytes += u64::from(extent.flash_bytes());
                }
            }
        }
    }

    fn stamp(&self, container: u32) -> Option<u64> {
        let known = self.known.get(&container).map(|known| known.stamp);
        known.or_else(|| self.expected.get(&container).copied())
    }

    /// Append an extent to the segment that is being filled.
    fn append(&mut self, extent: Extent, to: Place, bytes: &[u8]) -> bool {
        let (_, offset) = self.decider.log.shape().at(to);
        let Some(stamp) = self.stamp(extent.container) else { return false };
        let Some(filling) = &mut self.filling else { return false };
        let seal = Seal { sequence: filling.sequence, stamp };
        segment::put(&mut filling.bytes, offset, &extent, seal, bytes);
        filling.entries.push(Entry { extent, offset, stamp });
        true
    }

    /// Copy an extent out of a segment that is about to be written over. Under the lock: it is read
    /// from the fast device, and what is moved is a tenth of what is written.
    fn move_extent(&mut self, media: &dyn Media, from: Kept, sequence: u64, to: Place) {
        let stamp = self.stamp(from.extent.container).unwrap_or(0);
        let seal = Seal { sequence, stamp };
        let mut bytes = vec![0; from.extent.len as usize];
        let read = FastRead { kept: from, seal, from: from.extent.start, upto: from.extent.end() };
        let moved = (self.copy_from_memory(&from, seal, from.extent.start, &mut bytes)
            || self.read_fast(media, &read, &mut bytes).is_ok())
            && self.append(from.extent, to, &bytes);
        if moved {
            self.totals.moved_bytes += u64::from(from.extent.flash_bytes());
        } else {
            self.totals.bad_copies += 1;
            self.decider.lost(from.extent.key());
        }
    }

    fn read_fast(&self, media: &dyn Media, read: &FastRead, out: &mut [u8]) -> Result<(), String> {
        read.read(media, self.decider.log.shape(), out)
    }

    /// The segment that is being filled is full: its table is made, and somebody has to write it.
    fn seal(&mut self) {
        let Some(filling) = self.filling.take() else { return };
        let Filling { slot, sequence, mut bytes, entries } = filling;
        let segment_bytes = self.decider.log.shape().segment_bytes;
        segment::finish(&mut bytes, &self.owner, (sequence, segment_bytes), &entries);
        self.sealed.push_back(Arc::new(Sealed { slot, sequence, bytes }));
    }

    /// Close the segment that is being filled, however little is in it.
    pub fn seal_now(&mut self) {
        if self.decider.seal_now() {
            self.seal();
        }
    }

    /// Let be written what follows from the size and the budget.
    pub fn keep_to_budget(&mut self) {
        let bytes = self.decider.log.shape().bytes();
        self.decider.wear.per_day = self.limits.writes_per_day.map(|budget| budget.bytes(bytes));
    }

    /// Lie otherwise on the device from now on, while no segment is being written.
    ///
    /// # Errors
    /// The policy cannot have that size; nothing has changed.
    pub fn resize(&mut self, shape: Shape) -> Result<(), OptionError> {
        let left = self.decider.log.shape().left_by(shape);
        let gone = self.decider.resize(shape)?;
        self.let_go(&gone);
        self.filling.take_if(|filling| filling.slot >= left);
        self.sealed.retain(|sealed| sealed.slot < left);
        Ok(())
    }

    /// Whether nothing is under way.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.decider.is_idle() && self.sealed.is_empty()
    }
}

impl FastRead {
    /// Fill `out` from the device, or say why that cannot be.
    pub fn read(&self, media: &dyn Media, shape: Shape, out: &mut [u8]) -> Result<(), String> {
        let extent = &self.kept.extent;
        let (slot, offset) = shape.at(self.kept.place);
        let (first, last) = (self.from - extent.start, self.upto - extent.start);
        let range = segment::blocks_of(extent, first, last);
        let mut blocks = vec![0; (range.end - range.start) as usize];
        let base = u64::from(slot) * u64::from(shape.segment_bytes);
        let at = base + u64::from(offset + range.start);
        media.read(at, &mut blocks).map_err(|error| error.to_string())?;
        if segment::take(extent, self.seal, first, &blocks, out) {
            Ok(())
        } else {
            Err("its checksum is wrong".to_owned())
        }
    }

    /// Bytes that are read for it.
    pub fn flash_bytes(&self) -> u64 {
        let extent = &self.kept.extent;
        let range = segment::blocks_of(extent, self.from - extent.start, self.upto - extent.start);
        u64::from(range.end - range.start)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder as _, SimFolder};

    use super::super::recover::Found;
    use super::super::wear::Wear;
    use super::*;

    #[test]
    fn segments_past_a_new_end_are_not_written() {
        let shape = |segments| Shape { segment_bytes: 192 << 10, segments };
        let decider = Decider::new("lru", shape(16), Wear::new(None)).unwrap();
        let limits = Limits { size: TierSize::Bytes(shape(16).bytes()), writes_per_day: None };
        let (found, totals) = (Found::default(), TierTotals::default());
        let mut state = State::new([7; 16], limits, decider, found, totals);
        let media = SimFolder::new().create("extents").unwrap();
        let bytes = vec![5; 2 << 20];
        state.keep_new(&*media, 1, Known { len: bytes.len() as u32, stamp: 3 }, &bytes);
        let slots = |state: &State| -> Vec<u32> {
            let filling = state.filling.as_ref().map(|filling| filling.slot);
            state.sealed.iter().map(|sealed| sealed.slot).chain(filling).collect()
        };
        assert_eq!(slots(&state), (0..16).collect::<Vec<_>>());
        state.resize(shape(15)).unwrap();
        assert_eq!(
            slots(&state),
            (0..15).collect::<Vec<_>>(),
            "the first past the end was being filled"
        );
        state.resize(shape(9)).unwrap();
        assert_eq!(slots(&state), (0..9).collect::<Vec<_>>());
        state.resize(Shape { segment_bytes: 256 << 10, segments: 8 }).unwrap();
        assert_eq!((slots(&state), state.decider.kept_bytes()), (Vec::new(), 0));
    }
}
