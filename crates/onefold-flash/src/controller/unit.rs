//! What does one flash operation at a time: a plane, a die or a package, and what waits for it.
//! Room: onefold-flash.
//! Invariants: reads of the host go first where the specification says so; all else keeps its
//! order, so an erase stays behind the copies out of its block; an operation that waits for its
//! own request holds its place.

use crate::controller::chains::Waiting;
use crate::controller::ring::Ring;
use crate::op::{Cause, OpKind};

/// No chain: background work.
pub(crate) const NONE: u32 = u32::MAX;

/// An operation and whom it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub ppn: u32,
    /// The chain that goes on afterwards, and that knows since when it waits; or [`NONE`].
    pub chain: u32,
    pub kind: OpKind,
    pub cause: Cause,
    /// Whether the steps before it in its chain are done.
    pub ready: bool,
    /// Times that it was interrupted.
    pub suspended: u8,
}

impl Entry {
    /// An operation that no chain goes on after.
    #[inline]
    pub(crate) const fn background(kind: OpKind, cause: Cause, ppn: u32) -> Self {
        Self { ppn, chain: NONE, kind, cause, ready: true, suspended: 0 }
    }

    #[inline]
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
    pub reads: Ring<Entry>,
    pub queue: Ring<Entry>,
    /// When the page of the first one is in the cache register; 0 while it is not on its way.
    pub loaded_at: u64,
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
            current: Entry::background(OpKind::Read, Cause::Host, 0),
            started: 0,
            array_start: 0,
            ends: 0,
            bus_ns: 0,
            reads: Ring::default(),
            queue: Ring::default(),
            loaded_at: 0,
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
            && self.queue.first().is_none_or(|entry| !entry.ready)
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

    /// A wait for the unit that begins now.
    #[inline]
    pub(crate) fn waiting_since(&self, now: u64) -> Waiting {
        Waiting { since: now, background: self.background_ns(now) }
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
    #[inline]
    pub(crate) fn next(&self) -> Option<&Entry> {
        if let Some(read) = self.reads.first() {
            return Some(read);
        }
        self.queue.first().filter(|first| first.ready && self.parked.is_none())
    }

    /// The next operation leaves the queue; the answer is when its page is in the cache register
    /// if it is on its way, and 0 otherwise.
    #[inline]
    pub(crate) fn take_next(&mut self) -> u64 {
        if !self.reads.is_empty() {
            self.reads.drop_first();
            return 0;
        }
        self.queue.drop_first();
        std::mem::take(&mut self.loaded_at)
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
        self.queue.find(|entry| entry.chain == chain && !entry.ready)
    }
}
