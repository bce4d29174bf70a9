//! What the tier decides about reads, without a byte of them: the store does it, and a replay of
//! recorded reads counts it.
//! Room: onefold-cache.   In: reads of containers.   Out: [`Answer`], [`Step`].
//! Invariants: (1) the policy is asked once for each extent that a pass comes to, and of a
//! container's first long pass about nothing that is not kept  (2) what is written keeps to the
//! wear budget  (3) what is kept without asking it, so that an empty device is of use soon, makes
//! nothing leave.

use std::collections::HashMap;

use super::extent::{EXTENT_MAX, Extent, of_gap};
use super::index::Kept;
use super::log::{Log, Shape, Step};
use super::segment::{HEADER_BYTES, TABLE_ENTRY_BYTES};
use super::streams::Streams;
use super::wear::Wear;
use crate::cache::Capacity;
use crate::counts::{Counts, Table as _};
use crate::options::OptionError;
use crate::policy::Policy;
use crate::registry::make_online;
use crate::state::State;

/// Bytes of a usual extent: how many are expected to fit.
const USUAL_BYTES: u64 = 64 << 10;

/// Where a new extent goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Into the log.
    Fast,
    /// Into memory, for now.
    Memory,
}

/// Part of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// An extent has it.
    Kept {
        /// Which.
        kept: Kept,
        /// The number of its segment.
        sequence: u64,
        /// First byte of the container.
        from: u32,
        /// One past the last.
        upto: u32,
    },
    /// The slow store has it, and these extents of it are to be kept: [`Decider::fetched`] follows
    /// for each, or [`Decider::not_fetched`].
    Slow {
        /// First byte of the container.
        from: u32,
        /// One past the last.
        upto: u32,
        /// What is to be kept; it may be more than what was asked for.
        keep: Vec<(Extent, Keep)>,
    },
}

/// What to do about a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// All of it, in order.
    pub parts: Vec<Part>,
    /// Extents that were in memory and have to be written now.
    pub promoted: Vec<Extent>,
    /// Extents that are kept no longer.
    pub gone: Vec<Kept>,
}

/// The policy, and where things lie.
pub struct Decider {
    policy: Box<dyn Policy>,
    text: String,
    /// Where extents lie.
    pub log: Log,
    /// What may be written.
    pub wear: Wear,
    streams: Streams,
    /// Bytes of each container that long passes read.
    passes: Counts<u32>,
    references: Counts<u32>,
    /// Extents that are on their way, and whether they are still wanted.
    making: HashMap<u64, (Extent, bool)>,
    /// Whether empty segments are filled with whatever is read.
    fills: bool,
    /// Admissions to pass by.
    skip: u64,
    /// Bytes of the segment that is being filled: they are written when it is full.
    filled: u64,
}

fn make_policy(text: &str, bytes: u64) -> Result<Box<dyn Policy>, OptionError> {
    let objects = (bytes / USUAL_BYTES).max(1) as usize;
    make_online(text, Capacity { bytes, objects }, 0)
}

/// Bytes that the budget must have room for, or no segment would ever be full: it, and the extent
/// that is the first of the next, with its header.
fn at_once(shape: Shape) -> u64 {
    u64::from(shape.segment_bytes + EXTENT_MAX + HEADER_BYTES + 2 * TABLE_ENTRY_BYTES)
}

impl Decider {
    /// Nothing is kept yet.
    pub fn new(policy: &str, shape: Shape, mut wear: Wear) -> Result<Self, OptionError> {
        wear.at_once = at_once(shape);
        Ok(Self {
            policy: make_policy(policy, shape.usable_bytes())?,
            text: policy.to_owned(),
            log: Log::new(shape),
            wear,
            streams: Streams::default(),
            passes: Counts::default(),
            references: Counts::default(),
            making: HashMap::new(),
            fills: false,
            skip: 0,
            filled: 0,
        })
    }

    /// The policy, to save and restore it.
    pub fn policy(&mut self) -> &mut dyn Policy {
        &mut *self.policy
    }

    /// Bytes that the policy may keep.
    #[cfg(test)]
    pub fn capacity(&self) -> u64 {
        self.policy.capacity()
    }

    /// Bytes of extents that are kept.
    pub fn kept_bytes(&self) -> u64 {
        self.policy.bytes()
    }

    /// Bytes of memory: of the index, and of the policy with what it knows of all extents.
    pub fn memory_bytes(&self) -> [usize; 2] {
        let policy = self.policy.memory_bytes() + self.policy.history_bytes();
        let known = self.passes.memory_bytes() + self.references.memory_bytes();
        [self.log.index.memory_bytes(), policy + known]
    }

    /// So many blocks refer to a container, as far as is known.
    pub fn set_references(&mut self, container: u32, references: u32) {
        *self.references.get_mut(container.into()) = references;
    }

    /// Keep whatever is read from now on, in long passes too, as long as segments are empty.
    pub fn fill_empty_segments(&mut self) {
        self.fills = true;
    }

    /// Pass by the next so many admissions.
    pub fn set_skip(&mut self, admissions: u64) {
        self.skip = admissions;
    }

    /// A container of `container_len` bytes is read from `from` to `upto`, which is not empty and
    /// inside of it.
    pub fn read(&mut self, container: u32, container_len: u32, from: u32, upto: u32) -> Answer {
        let pass = self.streams.read(container, from, upto);
        // What was read by long passes before, this one among them: once it is more than the
        // container has, some of it is read for the second time.
        let passed = self.passes.get(container.into()) >= container_len;
        if pass.long && !passed {
            *self.passes.get_mut(container.into()) += upto - from;
        }
        let worth = !pass.long || passed;
        let mut answer = Answer::default();
        let mut last_key = pass.last_key;
        let mut at = from;
        while at < upto {
            if let Some(kept) = self.log.index.covering(container, at) {
                let end = upto.min(kept.extent.end());
                let sequence = self.log.sequence_at(kept.place);
                if kept.extent.key() != last_key {
                    last_key = kept.extent.key();
                    self.log.touch(kept);
                    self.ask(&kept.extent, &mut answer);
                }
                answer.parts.push(Part::Kept { kept, sequence, from: at, upto: end });
                at = end;
                continue;
            }
            let next = self.log.index.next(container, at).map_or(container_len, |k| k.extent.start);
            let before = self.log.index.before(container, at).map_or(0, |k| k.extent.end());
            let end = upto.min(next);
            let mut keep = Vec::new();
            for extent in of_gap(container, at, end, before, next) {
                if extent.key() != last_key {
                    last_key = extent.key();
                    keep.extend(self.newcomer(extent, worth, &mut answer).map(|how| (extent, how)));
                }
            }
            answer.parts.push(Part::Slow { from: at, upto: end, keep });
            at = end;
        }
        self.streams.ended_with(last_key);
        answer
    }

    /// Whether an extent that is not kept is to be.
    fn newcomer(&mut self, extent: Extent, worth: bool, answer: &mut Answer) -> Option<Keep> {
        let key = extent.key();
        let fills = self.fills && self.has_room_for(&extent);
        // What begins in its cell already, or is on its way, stays.
        if !(worth || fills) || self.policy.contains(key) || self.making.contains_key(&key) {
            return None;
        }
        let skipped = self.skip > 0;
        self.skip -= u64::from(skipped);
        if skipped || !self.affords(&extent, 0) {
            if worth {
                self.tell_references(&extent);
                self.policy.pass(key, extent.flash_bytes());
            }
            return None;
        }
        let keep = if fills {
            self.policy.allocate(key, extent.flash_bytes()).admit.then_some(Keep::Fast)
        } else {
            self.ask(&extent, answer)
        }?;
        self.making.insert(key, (extent, true));
        Some(keep)
    }

    /// Whether nothing has to leave for an extent.
    fn has_room_for(&self, extent: &Extent) -> bool {
        self.log.has_empty_segment() && self.policy.has_room(extent.flash_bytes())
    }

    /// An extent of a container that was just filled, which nobody has read: it is kept whatever
    /// the policy's admission says, as far as the budget of wear has room for it and for reads.
    /// What leaves for it, and what to do.
    pub fn keep_new(&mut self, extent: Extent) -> (Vec<Kept>, Vec<Step>) {
        let mut gone = Vec::new();
        let key = extent.key();
        if self.skip > 0 {
            self.skip -= 1;
            return (gone, Vec::new());
        }
        if !self.affords(&extent, self.wear.for_readers()) || self.making.contains_key(&key) {
            return (gone, Vec::new());
        }
        let decision = self.policy.allocate(key, extent.flash_bytes());
        let (admit, evicted) = (decision.admit, decision.evicted.to_vec());
        for key in evicted {
            self.take_out(key, &mut gone);
        }
        (gone, if admit { self.put(extent) } else { Vec::new() })
    }

    /// Whether the budget has room for an extent, for the segment that may have to be begun for it,
    /// for what is under way, and for so many bytes besides.
    fn affords(&self, extent: &Extent, besides: u64) -> bool {
        let under_way = self.making.len() as u64 * u64::from(EXTENT_MAX);
        let bytes = u64::from(extent.flash_bytes() + HEADER_BYTES + TABLE_ENTRY_BYTES + 4);
        self.wear.per_day.is_none() || self.wear.left() >= bytes + under_way + self.filled + besides
    }

    /// Ask the policy about an extent; where it is to be kept, if it is new and wanted.
    fn ask(&mut self, extent: &Extent, answer: &mut Answer) -> Option<Keep> {
        let key = extent.key();
        self.tell_references(extent);
        let decision = self.policy.access(key, extent.flash_bytes());
        let (hit, admit) = (decision.hit, decision.admit);
        let (promoted, evicted) = (decision.promoted.to_vec(), decision.evicted.to_vec());
        for gone in evicted {
            self.take_out(gone, &mut answer.gone);
        }
        for key in promoted {
            match self.log.index.by_key(key) {
                Some(kept) => answer.promoted.push(kept.extent),
                // Its bytes are still on their way, or never came.
                None => drop(self.policy.remove(key)),
            }
        }
        match (hit, admit) {
            (true, _) => None,
            (false, true) => Some(Keep::Fast),
            (false, false) => self.policy.contains(key).then_some(Keep::Memory),
        }
    }

    /// What is known of an extent before anybody asked for it.
    fn tell_references(&mut self, extent: &Extent) {
        let references = self.references.get(extent.container.into());
        if references > 0 {
            self.policy.set_references(extent.key(), references);
        }
    }

    fn take_out(&mut self, key: u64, gone: &mut Vec<Kept>) {
        gone.extend(self.log.remove(key));
        if let Some((_, wanted)) = self.making.get_mut(&key) {
            *wanted = false;
        }
    }

    /// The bytes of an extent that is to be kept are there. Nothing to do: it is not wanted any
    /// more.
    pub fn fetched(&mut self, extent: Extent, keep: Keep) -> Vec<Step> {
        let key = extent.key();
        let wanted =
            self.making.remove(&key).is_some_and(|(making, wanted)| wanted && making == extent);
        if !wanted || !self.policy.contains(key) {
            return Vec::new();
        }
        if keep == Keep::Memory {
            if !self.log.hold(extent) {
                self.policy.remove(key);
            }
            return Vec::new();
        }
        self.put(extent)
    }

    /// Put an extent into the log.
    pub fn put(&mut self, extent: Extent) -> Vec<Step> {
        let mut steps = Vec::new();
        let left = self.wear.per_day.map(|_| self.wear.left().saturating_sub(self.filled));
        if !self.log.put(extent, left, &mut steps) {
            self.policy.remove(extent.key());
        }
        for step in &steps {
            let bytes = match step {
                Step::Drop(kept) => {
                    self.policy.remove(kept.extent.key());
                    0
                }
                Step::Open { .. } => HEADER_BYTES + 4,
                Step::Move { from: Kept { extent, .. }, .. } | Step::Put { extent, .. } => {
                    extent.flash_bytes() + TABLE_ENTRY_BYTES
                }
                Step::Seal { .. } => {
                    self.wear.spend(std::mem::take(&mut self.filled));
                    0
                }
            };
            self.filled += u64::from(bytes);
        }
        steps
    }

    /// Close the segment that is being filled; `false` if there is nothing in it.
    pub fn seal_now(&mut self) -> bool {
        let sealed = self.log.seal().is_some();
        if sealed {
            self.wear.spend(std::mem::take(&mut self.filled));
        }
        sealed
    }

    /// The bytes of an extent that was to be kept could not be had.
    pub fn not_fetched(&mut self, extent: Extent) {
        let key = extent.key();
        if self.making.remove(&key).is_some_and(|(_, wanted)| wanted) {
            self.policy.remove(key);
        }
    }

    /// An extent is damaged or lost.
    pub fn lost(&mut self, key: u64) -> Option<Kept> {
        self.policy.remove(key);
        self.log.remove(key)
    }

    /// A container changes: nothing of it is kept. If it goes for good, nothing is remembered.
    pub fn invalidate(&mut self, container: u32, forget: bool) -> Vec<Kept> {
        let kept = self.log.index.of_container(container);
        for kept in &kept {
            self.lost(kept.extent.key());
        }
        let making = self.making.iter_mut();
        for (key, (_, wanted)) in making.filter(|(_, (extent, _))| extent.container == container) {
            *wanted = false;
            self.policy.remove(*key);
        }
        if forget {
            for cell in 0..256 {
                self.policy.forget(u64::from(container) << 8 | cell);
            }
            for counts in [&mut self.passes, &mut self.references] {
                if counts.get(container.into()) > 0 {
                    *counts.get_mut(container.into()) = 0;
                }
            }
        }
        kept
    }

    /// Have another size from now on. What is kept no longer.
    ///
    /// # Errors
    /// No policy can be made of that size; nothing has changed.
    pub fn resize(&mut self, shape: Shape) -> Result<Vec<Kept>, OptionError> {
        let policy = make_policy(&self.text, shape.usable_bytes())?;
        let mut gone = self.log.resize(shape);
        self.wear.at_once = at_once(shape);
        if !self.log.is_filling() {
            self.filled = 0;
        }
        for kept in &gone {
            self.policy.remove(kept.extent.key());
        }
        let old = std::mem::replace(&mut self.policy, policy).export();
        self.take_over(State { capacity: self.policy.capacity(), ..old });
        let all: Vec<Kept> = self.log.index.iter().collect();
        for kept in all {
            if !self.policy.contains(kept.extent.key()) {
                gone.extend(self.log.remove(kept.extent.key()));
            }
        }
        Ok(gone)
    }

    /// Give a policy that keeps nothing yet what it, or one of another size, knew. What does not
    /// fit is not kept, and where the rest does not suit it, it is told of the extents alone.
    pub fn take_over(&mut self, state: State) {
        let fresh = self.policy.export();
        let mut entries = state.entries;
        let mut total: u64 = entries.iter().map(|entry| u64::from(entry.size)).sum();
        // The oldest of the lists come first.
        let too_many = entries.iter().take_while(|entry| {
            let over = total > state.capacity;
            total -= u64::from(entry.size);
            over
        });
        let too_many = too_many.count();
        entries.drain(..too_many);
        let taken = self.policy.import(&State { entries: entries.clone(), ..state });
        if let Err(error) = taken {
            tracing::warn!("what the cache's policy knew is not used: {error}");
            for entry in &mut entries {
                (entry.word, entry.list) = (0, 0);
            }
            if self.policy.import(&State { entries, ..fresh }).is_err() {
                for key in self.policy.dump().into_iter().flatten() {
                    self.policy.remove(key);
                }
            }
        }
    }

    /// What has to survive a restart besides the policy's state: the newest segment, what was
    /// written, and the containers that were passed over.
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers = vec![self.log.sequence()];
        numbers.extend(self.wear.numbers());
        numbers.extend(self.passes.save().into_iter().flat_map(|(key, passes)| [key, passes]));
        numbers
    }

    /// Take over what was kept; the newest segment at that time.
    pub fn restore(&mut self, numbers: &[u64]) -> u64 {
        let Some((&sequence, rest)) = numbers.split_first() else { return 0 };
        let wear = self.wear.numbers().len();
        if let Some((wear, passes)) = rest.split_at_checked(wear) {
            self.wear.restore(wear);
            for pair in passes.as_chunks::<2>().0 {
                self.passes.load(pair[0] & 0xffff_ffff, pair[1]);
            }
        }
        sequence
    }

    /// Whether nothing is on its way.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.making.is_empty()
    }
}

#[cfg(test)]
mod tests;
