//! What does one flash operation at a time: a plane, a die or a package, and what waits for it.
//! Room: onefold-flash.
//! Invariants: reads of the host go first where the specification says so; all else keeps its
//! order, so an erase stays behind the copies out of its block; an operation that waits for its
//! own request holds its place.

use std::collections::VecDeque;

use crate::op::{Cause, OpKind};

/// No chain: background work.
pub(crate) const NONE: u32 = u32::MAX;

/// An operation and whom it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// When it began to wait.
    pub enqueued: u64,
    /// Time that the unit had spent in the background by then.
    pub background_before: u64,
    /// When its page is in the cache register; 0 while it is not on its way.
    pub loaded_at: u64,
    pub ppn: u32,
    /// The chain that goes on afterwards, or [`NONE`].
    pub chain: u32,
    pub kind: OpKind,
    pub cause: Cause,
    /// Whether the steps before it in its chain are done.
    pub ready: bool,
    /// Times that it was interrupted.
    pub suspended: u8,
}

impl Entry {
    pub(crate) const EMPTY: Self = Self {
        enqueued: 0,
        background_before: 0,
        loaded_at: 0,
        ppn: 0,
        chain: NONE,
        kind: OpKind::Read,
        cause: Cause::Host,
        ready: true,
        suspended: 0,
    };

    pub(crate) const fn is_background(&self) -> bool {
        self.chain == NONE
    }
}

/// What a unit is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    Idle,
    /// Taking a page in, before the array may begin.
    Load,
    /// Reading, programming or erasing; taking the page in is part of it where nothing depends
    /// on the moment in between.
    Array,
    /// Giving the page that was read to the channel.
    Out,
    /// Putting an operation aside for a read.
    Suspending,
}

/// An interrupted operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub entry: Entry,
    pub remaining_ns: u64,
    pub bus_ns: u64,
}

/// One unit.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub channel: u32,
    pub phase: Phase,
    pub current: Entry,
    /// When the present operation got the unit (again).
    pub started: u64,
    /// When its array phase begins.
    pub array_start: u64,
    /// When the present phase ends; an event of another time is of an interrupted phase.
    pub ends: u64,
    /// Time of the present operation on and for the channel.
    pub bus_ns: u64,
    pub reads: VecDeque<Entry>,
    pub queue: VecDeque<Entry>,
    pub parked: Option<Parked>,
    /// Array time of everything queued: how long the unit is taken beyond the present phase.
    pub queued_ns: u64,
    /// Time spent in operations that no request waits for, to the last one finished.
    background_ns: u64,
    /// Time taken by operations, by kind.
    pub busy_ns: [u64; 3],
    /// Longest queue.
    pub waiting_max: usize,
}

impl Unit {
    pub(crate) fn new(channel: u32) -> Self {
        Self {
            channel,
            phase: Phase::Idle,
            current: Entry::EMPTY,
            started: 0,
            array_start: 0,
            ends: 0,
            bus_ns: 0,
            reads: VecDeque::new(),
            queue: VecDeque::new(),
            parked: None,
            queued_ns: 0,
            background_ns: 0,
            busy_ns: [0; 3],
            waiting_max: 0,
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
            && self.queue.is_empty()
            && self.reads.is_empty()
            && self.parked.is_none()
    }

    /// Whether a read would start at once: an operation that waits for its own request is not in
    /// its way.
    pub(crate) fn could_read_now(&self) -> bool {
        self.phase == Phase::Idle
            && self.reads.is_empty()
            && self.parked.is_none()
            && self.queue.front().is_none_or(|entry| !entry.ready)
    }

    /// Operations waiting.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.reads.len() + usize::from(self.parked.is_some())
    }

    /// Time in the background until now.
    pub(crate) fn background_ns(&self, now: u64) -> u64 {
        let present = match self.phase {
            Phase::Idle | Phase::Suspending => 0,
            _ if self.current.is_background() => now - self.started,
            _ => 0,
        };
        self.background_ns + present
    }

    /// Time taken by operations until the present, by kind, with the part of the one under way.
    pub(crate) fn busy_until(&self, now: u64) -> [u64; 3] {
        let mut busy = self.busy_ns;
        if !matches!(self.phase, Phase::Idle | Phase::Suspending) {
            busy[self.current.kind as usize] += now - self.started;
        }
        busy
    }

    /// The present operation leaves the unit, done or put aside.
    pub(crate) fn leave(&mut self, now: u64) {
        let took = now - self.started;
        self.busy_ns[self.current.kind as usize] += took;
        if self.current.is_background() {
            self.background_ns += took;
        }
        self.phase = Phase::Idle;
    }

    /// The next operation that may start, if any.
    pub(crate) fn next(&mut self) -> Option<Entry> {
        if let Some(read) = self.reads.pop_front() {
            return Some(read);
        }
        if self.parked.is_some() || !self.queue.front()?.ready {
            return None;
        }
        self.queue.pop_front()
    }

    /// Whether the host's program of a page is waiting, under way or interrupted.
    pub(crate) fn programs_for_host(&self, ppn: u32) -> bool {
        let is = |entry: &Entry| {
            entry.ppn == ppn && entry.kind == OpKind::Program && entry.cause == Cause::Host
        };
        (self.phase != Phase::Idle && self.phase != Phase::Suspending && is(&self.current))
            || self.parked.as_ref().is_some_and(|parked| is(&parked.entry))
            || self.queue.iter().any(is)
    }

    /// The waiting program of a chain that holds its place.
    pub(crate) fn held(&mut self, chain: u32) -> Option<&mut Entry> {
        self.queue.iter_mut().find(|entry| entry.chain == chain && !entry.ready)
    }
}
