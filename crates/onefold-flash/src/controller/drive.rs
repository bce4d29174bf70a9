//! The flash at work: operations start, go through their phases and end.
//! Room: onefold-flash.

use crate::controller::chains::{Chain, Share, Step};
use crate::controller::events::Event;
use crate::controller::timing::EngineKind;
use crate::controller::unit::{Entry, NONE, Parked, Phase};
use crate::controller::{Controller, SUSPENDS_MAX};
use crate::op::{Cause, Driver, FlashOp, OpKind, Work};
use crate::spec::Suspend;

impl Driver for Controller {
    fn issue(&mut self, op: FlashOp) {
        let FlashOp { kind, cause, ppn, foreground } = op;
        let again = self.readings_again(op);
        if !foreground || self.current == NONE {
            for _ in 0..=again {
                self.op_issued(kind, cause, ppn);
                self.background += 1;
                self.enqueue(Entry::background(kind, cause, ppn));
            }
            return;
        }
        let chain = self.current;
        match kind {
            OpKind::Read => {
                self.ready_at = self.now + self.estimate_read_ns(self.unit_of(ppn));
                if self.chains[chain].active {
                    self.add_step(Step::Read { ppn, cause, again: false });
                } else if self.enqueue_read(chain, ppn, cause, false) {
                    self.chains[chain].active = true;
                } else {
                    self.buffer_hits[cause as usize] += 1;
                }
                self.add_decoding(cause);
                for _ in 0..again {
                    self.add_step(Step::Read { ppn, cause, again: true });
                    self.add_decoding(cause);
                }
            }
            OpKind::Program | OpKind::Erase => {
                self.op_issued(kind, cause, ppn);
                let ready = !self.chains[chain].active;
                let unit = self.unit_of(ppn);
                self.enqueue(Entry { chain, ready, ..Entry::background(kind, cause, ppn) });
                if ready {
                    self.chains[chain].active = true;
                } else {
                    self.add_step(Step::Held { unit });
                }
            }
        }
    }

    #[inline]
    fn work(&mut self, work: Work, foreground: bool) {
        let ns = self.timing.work_ns(work);
        if ns > 0 {
            self.work_for(work, ns, foreground);
        }
    }

    fn wait_for(&mut self, ppn: u32) {
        if self.current != NONE && self.is_programming(ppn) {
            self.add_step(Step::Await { ppn });
        }
    }

    fn is_idle(&self, plane: u32) -> bool {
        self.units[(plane / self.planes_per_unit) as usize].could_read_now()
    }

    fn read_ns(&self, plane: u32) -> u64 {
        self.estimate_compared_ns(plane / self.planes_per_unit)
    }

    fn program_ns(&self) -> u64 {
        let wait = self.placement.wait_ns(&self.units, self.now);
        let own = self.timing.command_ns + self.timing.transfer_ns + self.timing.program_ns;
        wait.max(self.ready_at - self.now) + own
    }

    fn work_ns(&self, work: Work) -> u64 {
        let free = self.engines[EngineKind::of(work) as usize].first_free();
        free.max(self.ready_at).max(self.now) - self.now + self.timing.work_ns(work)
    }

    #[inline]
    fn preferred_plane(&mut self) -> Option<u32> {
        Some(self.placement.choose(&self.units, self.now))
    }

    fn now_ns(&self) -> u64 {
        self.now
    }
}

impl Controller {
    /// Readings of a page beyond the first, where read retries are modelled.
    fn readings_again(&mut self, op: FlashOp) -> u32 {
        let buffered = op.kind == OpKind::Read && op.foreground && self.is_buffered(op.ppn);
        match &mut self.retries {
            Some(retries) if !buffered => retries.of(op, self.now),
            _ => 0,
        }
    }

    fn add_decoding(&mut self, cause: Cause) {
        if cause == Cause::Host && self.timing.ecc_decode_ns > 0 {
            let engine = EngineKind::Ecc as u8;
            self.add_step(Step::Work { engine, ns: self.timing.ecc_decode_ns });
        }
    }

    /// Whether a page of the unit may be read for a comparison before what is queued there: if that
    /// delays those who wait by no more, all together, than the program that it may save. Beyond
    /// that it takes its turn, which ends no later than the page's own program would have: shares
    /// that leave at once would fill a deep queue with programs, each of which waits for all reads
    /// that overtake it.
    fn compares_first(&self, unit: u32) -> bool {
        let timing = &self.timing;
        let waiting = self.units[unit as usize].queue.len() as u64;
        timing.read_priority && waiting * timing.read_ns <= timing.program_ns
    }

    /// Time until a page of the unit would be read for a comparison, all waiting included.
    fn estimate_compared_ns(&self, unit: u32) -> u64 {
        let timing = &self.timing;
        if !timing.read_priority || self.compares_first(unit) {
            return self.estimate_read_ns(unit);
        }
        let one = timing.command_ns + timing.read_ns + timing.transfer_ns;
        let at = &self.units[unit as usize];
        let before = at.ends.saturating_sub(self.now) + at.queued_ns;
        before.max(self.ready_at - self.now) + one
    }

    /// Time until a page of the unit would be read for the present part, all waiting included.
    fn estimate_read_ns(&self, unit: u32) -> u64 {
        let timing = &self.timing;
        let one = timing.command_ns + timing.read_ns + timing.transfer_ns;
        let at = &self.units[unit as usize];
        let present = at.ends.saturating_sub(self.now);
        let before = if timing.read_priority { at.reads.len() as u64 * one } else { at.queued_ns };
        (present + before).max(self.ready_at - self.now) + one
    }

    /// Queues a read that a request waits for; `false` if it is served from memory at once.
    /// `late` reads go first whatever the rule: behind a program that waits for its own chain
    /// they could wait for each other.
    pub(super) fn enqueue_read(&mut self, chain: u32, ppn: u32, cause: Cause, late: bool) -> bool {
        if self.is_buffered(ppn) {
            return false;
        }
        self.op_issued(OpKind::Read, cause, ppn);
        let unit = self.unit_of(ppn);
        let first = match cause {
            Cause::Dedup => self.compares_first(unit),
            _ => self.timing.read_priority,
        };
        let entry = Entry { chain, ..Entry::background(OpKind::Read, cause, ppn) };
        if !late && !first {
            self.enqueue(entry);
            return true;
        }
        let at = &mut self.units[unit as usize];
        self.chains[chain].waits = at.waiting_since(self.now);
        at.reads.push(entry);
        at.queued_ns += self.timing.read_ns;
        at.waiting_max = at.waiting_max.max(at.waiting());
        if at.phase == Phase::Idle {
            self.kick(unit);
        } else {
            self.suspend(unit);
        }
        true
    }

    /// Queues anything behind what is there.
    #[inline]
    fn enqueue(&mut self, entry: Entry) {
        let number = self.unit_of(entry.ppn);
        let unit = &mut self.units[number as usize];
        // One that only holds its place begins to wait when the steps before it are done.
        if entry.ready && !entry.is_background() {
            self.chains[entry.chain].waits = unit.waiting_since(self.now);
        }
        if entry.ready && unit.is_idle() {
            unit.waiting_max = unit.waiting_max.max(1);
            return self.start(number, entry, 0);
        }
        unit.queued_ns += self.timing.array_ns(entry.kind);
        unit.queue.push(entry);
        unit.waiting_max = unit.waiting_max.max(unit.waiting());
        self.kick(number);
    }

    /// Lets the unit go on if it can.
    #[inline]
    pub(super) fn kick(&mut self, number: u32) {
        let unit = &mut self.units[number as usize];
        if unit.phase != Phase::Idle {
            self.preload(number);
            return;
        }
        if let Some(&entry) = unit.next() {
            let loaded_at = unit.take_next();
            unit.queued_ns -= self.timing.array_ns(entry.kind);
            self.start(number, entry, loaded_at);
        } else if unit.reads.is_empty()
            && let Some(parked) = unit.parked.take()
        {
            self.resume(number, parked);
        }
    }

    /// An operation that is queued no more gets its unit. Its page is in the cache register at
    /// `loaded_at`; 0 if it is not on its way.
    #[expect(clippy::inline_always, reason = "an operation passed by memory costs 2 % of a run")]
    #[inline(always)]
    fn start(&mut self, number: u32, entry: Entry, loaded_at: u64) {
        let (now, kind) = (self.now, entry.kind);
        let array_ns = self.timing.array_ns(kind);
        let unit = &mut self.units[number as usize];
        if !entry.is_background() {
            let Chain { waits, breakdown, .. } = &mut self.chains[entry.chain];
            let background = unit.background_ns(now) - waits.background;
            breakdown[Share::Background as usize] += background;
            breakdown[Share::Queue as usize] += now - waits.since - background;
        }
        unit.current = entry;
        unit.started = now;
        // What goes over the channel before the array begins.
        let in_ns = self.timing.in_ns(kind, entry.cause);
        let array_start = if loaded_at > 0 {
            now.max(loaded_at)
        } else if in_ns > 0 {
            self.channels[unit.channel as usize].serve(now, in_ns)
        } else {
            now
        };
        unit.bus_ns = array_start - now;
        unit.array_start = array_start;
        if self.timing.cache_program && kind == OpKind::Program && array_start > now {
            unit.phase = Phase::Load;
            unit.ends = array_start;
        } else {
            unit.phase = Phase::Array;
            unit.ends = array_start + array_ns;
        }
        self.events.push_like(kind as usize, unit.ends, Event::Unit(number));
        self.preload(number);
    }

    /// Work that takes some time.
    fn work_for(&mut self, work: Work, ns: u64, foreground: bool) {
        let engine = EngineKind::of(work);
        if !foreground || self.current == NONE {
            let ends = self.serve(engine, ns);
            self.background += 1;
            self.schedule(ends, Event::Engine);
        } else {
            self.add_step(Step::Work { engine: engine as u8, ns });
        }
    }

    /// While the array programs, the next page of the queue is taken into the cache register.
    #[inline]
    fn preload(&mut self, number: u32) {
        if self.timing.cache_program {
            self.take_into_cache(number);
        }
    }

    #[inline(never)]
    fn take_into_cache(&mut self, number: u32) {
        let now = self.now;
        let unit = &mut self.units[number as usize];
        let programs = unit.phase == Phase::Array && unit.current.kind == OpKind::Program;
        let Some(next) = unit.queue.first().filter(|_| programs) else { return };
        let in_ns = self.timing.in_ns(next.kind, next.cause);
        if next.kind == OpKind::Program && next.ready && unit.loaded_at == 0 && in_ns > 0 {
            unit.loaded_at = self.channels[unit.channel as usize].serve(now, in_ns);
        }
    }

    /// A phase ends.
    pub(super) fn unit_event(&mut self, number: u32) {
        let now = self.now;
        let unit = &mut self.units[number as usize];
        if unit.ends != now {
            return;
        }
        match unit.phase {
            Phase::Idle => {}
            Phase::Load => {
                unit.phase = Phase::Array;
                unit.ends = now + self.timing.program_ns;
                let ends = unit.ends;
                self.events.push(ends, Event::Unit(number));
                self.preload(number);
            }
            Phase::Array if unit.current.kind == OpKind::Read => {
                let out_ns = self.timing.page_ns(OpKind::Read, unit.current.cause);
                if out_ns == 0 {
                    self.finish(number);
                    return;
                }
                let ends = self.channels[unit.channel as usize].serve(now, out_ns);
                unit.bus_ns += ends - now;
                unit.phase = Phase::Out;
                unit.ends = ends;
                self.events.push(ends, Event::Unit(number));
            }
            Phase::Array | Phase::Out => self.finish(number),
            Phase::Suspending => {
                unit.phase = Phase::Idle;
                self.kick(number);
            }
        }
    }

    fn finish(&mut self, number: u32) {
        let now = self.now;
        let unit = &mut self.units[number as usize];
        let (entry, started, bus_ns) = (unit.current, unit.started, unit.bus_ns);
        unit.leave(now);
        if entry.kind == OpKind::Program {
            let block = self.by_block.of(entry.ppn);
            self.buffered[block as usize].pending -= 1;
        }
        if self.tracer.is_some() {
            self.note(number, &entry, started);
        }
        if entry.is_background() {
            self.background -= 1;
        } else {
            let breakdown = &mut self.chains[entry.chain].breakdown;
            let array_ns = self.timing.array_ns(entry.kind);
            breakdown[Share::Bus as usize] += bus_ns;
            // An operation that was resumed spent its other array time before.
            breakdown[Share::Array as usize] += (now - started - bus_ns).min(array_ns);
        }
        self.kick(number);
        if !entry.is_background() {
            self.advance(entry.chain);
        }
        if entry.kind == OpKind::Program && !self.awaiting.is_empty() {
            self.programmed(entry.ppn);
        }
    }

    /// Puts the present operation aside for the read that has just come, if it may be.
    fn suspend(&mut self, number: u32) {
        let may = match self.timing.suspend {
            Suspend::None => return,
            Suspend::Erase => [OpKind::Erase; 2],
            Suspend::EraseAndProgram => [OpKind::Erase, OpKind::Program],
        };
        let (now, wait) = (self.now, self.timing.suspend_ns);
        let unit = &mut self.units[number as usize];
        let running = unit.phase == Phase::Array
            && now >= unit.array_start
            && unit.ends - now > wait
            && may.contains(&unit.current.kind)
            && unit.current.suspended < SUSPENDS_MAX
            && unit.parked.is_none();
        if !running {
            return;
        }
        let (mut entry, started, bus_ns) = (unit.current, unit.started, unit.bus_ns);
        entry.suspended += 1;
        let remaining_ns = unit.ends - now;
        unit.leave(now);
        unit.parked = Some(Parked { entry, remaining_ns, bus_ns });
        unit.phase = Phase::Suspending;
        unit.ends = now + wait;
        let ends = unit.ends;
        self.suspends += 1;
        self.events.push(ends, Event::Unit(number));
        if !entry.is_background() {
            // From here on the interrupted operation waits.
            let chain = &mut self.chains[entry.chain];
            chain.waits = unit.waiting_since(now);
            chain.breakdown[Share::Array as usize] += now - started - bus_ns;
        }
        self.note_suspended(number, &entry, started);
    }

    fn note_suspended(&mut self, number: u32, entry: &Entry, started: u64) {
        if self.tracer.is_some() {
            self.note(number, entry, started);
        }
    }

    #[cold]
    fn resume(&mut self, number: u32, parked: Parked) {
        let now = self.now;
        let Parked { entry, remaining_ns, bus_ns } = parked;
        let unit = &mut self.units[number as usize];
        if !entry.is_background() {
            // Nothing but reads that requests wait for has had the unit meanwhile.
            let Chain { waits, breakdown, .. } = &mut self.chains[entry.chain];
            breakdown[Share::Queue as usize] += now - waits.since;
            breakdown[Share::Bus as usize] += bus_ns;
        }
        unit.current = entry;
        unit.started = now;
        unit.array_start = now;
        unit.bus_ns = 0;
        unit.phase = Phase::Array;
        unit.ends = now + remaining_ns;
        let ends = unit.ends;
        self.events.push(ends, Event::Unit(number));
    }
}
