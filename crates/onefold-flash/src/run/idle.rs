//! Idle moments of a simulated drive: since when nobody waits, what the host says of it, and
//! whether there is anything left to do.
//! Room: onefold-flash.
//! Invariants: a hint counts only while nothing was asked since it was given.

use crate::ftl::Counters;
use crate::ftl::idle::IdleWork;
use crate::run::rush::Rush;
use crate::spec::DriveSpec;

/// When and what to do without requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    after_ns: u64,
    hints: Hints,
    work: IdleWork,
    rush: Rush,
    steps: u32,
    /// Whether a look at the clock is scheduled.
    scheduled: bool,
    /// Since when nobody has waited.
    since: u64,
    /// Whether there is nothing to do until the next write.
    done: bool,
}

/// What the host says of idle moments.
#[derive(Clone, Copy, Debug)]
struct Hints {
    /// Whether it counts.
    heeded: bool,
    /// The request that came last.
    last_came: u64,
    /// Whether the host has said that it is idle, and has asked for nothing since.
    given: bool,
}

impl Hints {
    /// A request comes.
    const fn came(&mut self, number: u64) {
        self.given = false;
        self.last_came = number;
    }

    /// The drive has read a hint. One that others have overtaken on their way says nothing.
    const fn read(&mut self, number: u64) {
        self.given = self.heeded && self.last_came == number;
    }
}

impl Idle {
    /// Nobody has waited since the beginning; `counters` are those of the drive at that time.
    pub(crate) fn of(spec: &DriveSpec, counters: &Counters) -> Self {
        let controller = &spec.controller;
        Self {
            after_ns: controller.idle_after_ns,
            hints: Hints { heeded: controller.idle_hint, last_came: 0, given: false },
            work: IdleWork::new(spec.idle_order(), counters),
            rush: Rush::new(),
            steps: controller.idle_steps,
            scheduled: false,
            since: 0,
            done: false,
        }
    }

    /// A request for so many pages comes: background work makes room. `ends_moment` is whether an
    /// idle moment was going on.
    pub(crate) const fn came(&mut self, number: u64, pages: u32, ends_moment: bool) {
        self.hints.came(number);
        self.rush.came(pages, ends_moment);
    }

    /// A request has its answer.
    pub(crate) fn answered(&mut self) {
        self.rush.answered();
    }

    /// Pages that are expected at once when this moment ends, at least one.
    pub(crate) const fn rush_pages(&self) -> u64 {
        self.rush.pages()
    }

    /// The drive has read a hint.
    pub(crate) const fn hinted(&mut self, number: u64) {
        self.hints.read(number);
    }

    /// A request is done: if it was the last one, nobody waits from now on.
    pub(crate) const fn begins(&mut self, now: u64) {
        self.since = now;
    }

    /// There is something to do again when nobody waits.
    pub(crate) const fn has_work_again(&mut self) {
        self.done = false;
    }

    /// A step was made; whether there was anything to do.
    pub(crate) const fn stepped(&mut self, any: bool) {
        self.done = !any;
    }

    /// Whether there is nothing to do until the next write.
    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether an idle moment has begun: by the clock, or because the host has said so.
    pub(crate) const fn has_begun(&self, now: u64) -> bool {
        self.after_ns > 0 && now >= self.since + self.after_ns || self.hints.given
    }

    /// When to look at the clock again, if nobody does already.
    pub(crate) const fn next_look(&mut self) -> Option<u64> {
        if self.after_ns == 0 || self.scheduled {
            return None;
        }
        self.scheduled = true;
        Some(self.since + self.after_ns)
    }

    /// The clock was looked at.
    pub(crate) const fn looked(&mut self) {
        self.scheduled = false;
    }

    /// Steps of background work that may be under way at a time.
    pub(crate) const fn steps(&self) -> u32 {
        self.steps
    }

    /// The work itself, in its order.
    pub(crate) const fn work(&mut self) -> &mut IdleWork {
        &mut self.work
    }
}
