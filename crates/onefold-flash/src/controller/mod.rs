//! Time: units, channels and engines in virtual nanoseconds, as a [`crate::Driver`].
//! Room: onefold-flash.   In: `FlashOp`s and work.   Out: when each request is done.
//! Invariants: (1) a request is done once, after all its steps  (2) operations other than reads
//! of the host keep their order in their unit  (3) a page whose program is still queued is read
//! from the controller's memory  (4) nothing here looks at content or decides where data goes.
//! Cost: one event per operation, two with transfers out.

mod chains;
mod drive;
mod events;
mod placement;
mod retries;
mod ring;
mod servers;
mod timing;
mod unit;
mod usage;

pub use chains::{Breakdown, Share};
pub use onefold_sim::Histogram;
pub use retries::RetryCounts;
pub use timing::EngineKind;
pub use usage::{ControllerUsage, ServerUsage, UnitUsage};

pub(crate) use chains::Flight;
pub(crate) use events::Event;
pub(crate) use placement::Placement;
pub(crate) use servers::Servers;
pub(crate) use timing::{Timing, transfer_ns, work_ns};

use std::collections::{BTreeMap, VecDeque};

use onefold_sim::trace::Track;
use onefold_sim::{ChromeTrace, ResourceState, SimTime};

use crate::geometry::{Divider, Geometry};
use crate::op::{Cause, OpKind};
use crate::spec::DriveSpec;
use chains::{Chain, Slab, Step, op_name};
use events::EventHeap;
use retries::Retries;
use unit::{Entry, NONE, Unit};

/// Programs of a block that are decided and not yet done: its last `pending` pages before `end`.
#[derive(Clone, Copy, Debug, Default)]
struct Buffered {
    end: u16,
    pending: u16,
}

/// The controller and the flash behind it, in time.
#[derive(Debug)]
pub struct Controller {
    geometry: Geometry,
    timing: Timing,
    /// Which unit a page is of.
    by_unit: Divider,
    /// Which block a page is of.
    by_block: Divider,
    planes_per_unit: u32,
    now: u64,
    events: EventHeap,
    units: Vec<Unit>,
    channels: Vec<Servers>,
    engines: [Servers; 4],
    /// Whether there is a compression engine to report on.
    compresses: bool,
    placement: Placement,
    buffered: Vec<Buffered>,
    flights: Slab<Flight>,
    chains: Slab<Chain>,
    /// The chain that the FTL works for now, or [`NONE`].
    current: u32,
    /// When the steps that the present part has so far will be done, as far as can be told.
    ready_at: u64,
    /// Background operations and work under way.
    background: u32,
    finished: Vec<u32>,
    /// Held parts that may go on, in their turn.
    ready: VecDeque<u32>,
    /// Who waits for the end of a program, by its page.
    awaiting: BTreeMap<u32, Vec<u32>>,
    ops: [u64; 3],
    transfers: u64,
    buffer_hits: [u64; 5],
    suspends: u64,
    /// Where read retries are modelled.
    retries: Option<Box<Retries>>,
    tracer: Option<Box<Tracer>>,
}

#[derive(Debug)]
struct Tracer {
    trace: ChromeTrace,
    units: Vec<Track>,
}

/// Most times that one operation is interrupted: reads must not starve an erase.
const SUSPENDS_MAX: u8 = 8;

impl Controller {
    /// An idle controller at time zero.
    pub fn new(spec: &DriveSpec) -> Self {
        let geometry = spec.geometry;
        let units = spec.parallel_units();
        let planes_per_unit = geometry.planes() / units;
        let channel = |unit: u32| geometry.channel_of_plane(unit * planes_per_unit);
        let controller = &spec.controller;
        Self {
            geometry,
            timing: Timing::new(spec),
            by_unit: Divider::new(geometry.pages() / units),
            by_block: Divider::new(geometry.pages_per_block),
            planes_per_unit,
            now: 0,
            events: EventHeap::default(),
            units: (0..units).map(|unit| Unit::new(channel(unit))).collect(),
            channels: (0..geometry.channels).map(|_| Servers::new(1)).collect(),
            engines: [
                controller.cpu_cores,
                controller.hash_engines,
                controller.ecc_engines,
                controller.compression_engines,
            ]
            .map(Servers::new),
            compresses: spec.compresses(),
            placement: Placement::new(spec),
            buffered: vec![Buffered::default(); geometry.blocks() as usize],
            flights: Slab::default(),
            chains: Slab::default(),
            current: NONE,
            ready_at: 0,
            background: 0,
            finished: Vec::new(),
            ready: VecDeque::new(),
            awaiting: BTreeMap::new(),
            ops: [0; 3],
            transfers: 0,
            buffer_hits: [0; 5],
            suspends: 0,
            retries: Retries::new(spec),
            tracer: None,
        }
    }

    /// Keeps the first so many operations for a Chrome trace.
    pub fn keep_trace(&mut self, operations: usize) {
        let mut trace = ChromeTrace::new(operations);
        let units = (0..self.units.len())
            .map(|unit| {
                let channel = self.units[unit].channel;
                trace.track(format!("unit {unit} (channel {channel})"))
            })
            .collect();
        self.tracer = Some(Box::new(Tracer { trace, units }));
    }

    /// The trace, if one was kept.
    pub fn take_trace(&mut self) -> Option<ChromeTrace> {
        self.tracer.take().map(|tracer| tracer.trace)
    }

    /// The present.
    pub const fn time_ns(&self) -> u64 {
        self.now
    }

    /// What takes how long.
    pub(crate) const fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Which plane the next host page goes to.
    pub(crate) const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Goes on where somebody else has placed host pages meanwhile.
    pub(crate) fn set_placement(&mut self, placement: Placement) {
        self.placement = placement;
    }

    pub(crate) fn schedule(&mut self, at_ns: u64, event: Event) {
        self.events.push(at_ns, event);
    }

    /// The next event, the present moved to it.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let (at, event) = self.events.pop()?;
        assert!(at >= self.now, "time runs forwards");
        self.now = at;
        Some(event)
    }

    /// When the next event is due.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        self.events.next_ns()
    }

    /// Time passes in which nothing happens.
    pub(crate) fn wait_until(&mut self, at_ns: u64) {
        assert!(self.next_event_ns().is_none_or(|next| next > at_ns), "nothing is passed over");
        self.now = self.now.max(at_ns);
    }

    /// Takes a job to an engine; the answer is when it ends.
    pub(crate) fn serve(&mut self, engine: EngineKind, service_ns: u64) -> u64 {
        self.engines[engine as usize].serve(self.now, service_ns)
    }

    /// Background operations and work under way.
    pub(crate) const fn background(&self) -> u32 {
        self.background
    }

    /// Whether so many units stay idle if one more background step begins, which takes two at most;
    /// on a drive that does not have as many, whether all are idle to begin with.
    pub(crate) fn spares_units(&self, wanted: u64) -> bool {
        let all = self.units.len() as u64;
        let idle = self.units.iter().filter(|unit| unit.is_idle()).count() as u64;
        idle >= wanted.saturating_add(2).min(all)
    }

    /// Whether a part may go on or a request is done.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.finished.is_empty()
    }

    /// Whether a request is done, one at a time.
    pub(crate) fn pop_finished(&mut self) -> Option<u32> {
        self.finished.pop()
    }

    // ---- requests -------------------------------------------------------------------------

    /// A new request, to which parts may be added.
    pub(crate) fn open_flight(&mut self) -> u32 {
        let flight = self.flights.take();
        self.flights[flight] = Flight { parts_left: 1, breakdown: Breakdown::default() };
        flight
    }

    /// The account of a request.
    pub(crate) fn flight(&mut self, flight: u32) -> &mut Flight {
        &mut self.flights[flight]
    }

    /// What the FTL decides from now on is a part of this request; the answer is its number.
    #[inline]
    pub(crate) fn begin_part(&mut self, flight: u32) -> u32 {
        let chain = self.chains.take();
        (self.chains[chain].flight, self.chains[chain].breakdown) = (flight, Breakdown::default());
        self.flights[flight].parts_left += 1;
        self.current = chain;
        self.ready_at = self.now;
        chain
    }

    /// The same for a part that other requests have kept waiting since then.
    pub(crate) fn begin_late_part(&mut self, flight: u32, since: u64) {
        let chain = self.begin_part(flight);
        self.chains[chain].since = since;
        self.account(chain, Share::Queue);
    }

    /// The part goes on later: see [`Controller::pop_ready`].
    fn hold_part(&mut self) {
        let chain = std::mem::replace(&mut self.current, NONE);
        self.chains[chain].continues = true;
    }

    /// The part goes on when its steps so far are done; `false` if they are.
    pub(crate) fn hold_part_if_active(&mut self) -> bool {
        let active = self.chains[self.current].active;
        if active {
            self.hold_part();
        }
        active
    }

    /// The part waits for other requests: it goes on after [`Controller::make_ready`].
    pub(crate) fn wait_part(&mut self) {
        let chain = self.current;
        self.chains[chain].since = self.now;
        self.hold_part();
    }

    /// A part that waited for other requests goes on in its turn.
    pub(crate) fn make_ready(&mut self, chain: u32) {
        self.account(chain, Share::Queue);
        self.ready.push_back(chain);
    }

    /// The held part whose turn it is to go on.
    pub(crate) fn pop_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// What the FTL decides from now on is again of this part.
    pub(crate) fn resume_part(&mut self, chain: u32) {
        self.chains[chain].continues = false;
        self.current = chain;
        self.ready_at = self.now;
    }

    /// The FTL is done with the part.
    pub(crate) fn end_part(&mut self) {
        let chain = std::mem::replace(&mut self.current, NONE);
        if !self.chains[chain].active {
            self.end_chain(chain);
        }
    }

    /// No part will be added; a request without steps is done at once. A part that took time and
    /// is the last one to be done is so after this.
    pub(crate) fn seal_flight(&mut self, flight: u32) {
        self.part_done(flight);
    }

    /// Forgets a finished request.
    pub(crate) fn close_flight(&mut self, flight: u32) {
        self.flights.give_back(flight);
    }

    /// Whether it was the last one.
    fn part_done(&mut self, flight: u32) -> bool {
        let left = &mut self.flights[flight].parts_left;
        *left -= 1;
        let last = *left == 0;
        if last {
            self.finished.push(flight);
        }
        last
    }

    // ---- chains ---------------------------------------------------------------------------

    fn end_chain(&mut self, chain: u32) {
        let flight = self.chains[chain].flight;
        self.chains[chain].active = false;
        self.chains.give_back(chain);
        if self.part_done(flight) {
            // Parts are worked on at the same time: the last one is what the request waited for.
            let parts = self.chains[chain].breakdown;
            for (sum, part) in self.flights[flight].breakdown.iter_mut().zip(parts) {
                *sum += part;
            }
        }
    }

    /// Where the time of a part since its present step began has gone.
    fn account(&mut self, chain: u32, share: Share) {
        let chain = &mut self.chains[chain];
        chain.breakdown[share as usize] += self.now - chain.since;
    }

    /// The present step is done: the next one begins, or the part ends.
    fn advance(&mut self, chain: u32) {
        loop {
            match self.chains[chain].steps.pop() {
                None => {
                    // The FTL may still be adding steps to it.
                    if chain == self.current {
                        self.chains[chain].active = false;
                    } else if self.chains[chain].continues {
                        self.chains[chain].active = false;
                        self.ready.push_back(chain);
                    } else {
                        self.end_chain(chain);
                    }
                    return;
                }
                Some(step) => {
                    if self.begin_step(chain, step) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the step takes time; else it is done.
    fn begin_step(&mut self, chain: u32, step: Step) -> bool {
        match step {
            Step::Work { engine, ns } => {
                self.chains[chain].since = self.now;
                let ends = self.engines[engine as usize].serve(self.now, ns);
                self.ready_at = self.ready_at.max(ends);
                self.events.push(ends, Event::Chain(chain));
                true
            }
            Step::Read { ppn, cause, again } => {
                let read = self.enqueue_read(chain, ppn, cause, true);
                // What the FTL counts once may be found in memory once.
                self.buffer_hits[cause as usize] += u64::from(!read && !again);
                read
            }
            Step::Await { ppn } => {
                let waits = self.is_programming(ppn);
                if waits {
                    self.chains[chain].since = self.now;
                    self.awaiting.entry(ppn).or_default().push(chain);
                }
                waits
            }
            Step::Held { unit } => {
                let at = &mut self.units[unit as usize];
                self.chains[chain].waits = at.waiting_since(self.now);
                at.held(chain).expect("it holds its place").ready = true;
                self.kick(unit);
                true
            }
        }
    }

    /// Adds a foreground step to the present chain, behind those that are there.
    fn add_step(&mut self, step: Step) {
        let chain = self.current;
        if self.chains[chain].active {
            if let Step::Work { engine, ns } = step {
                let free = self.engines[engine as usize].first_free();
                self.ready_at = self.ready_at.max(free) + ns;
            }
            // Steps leave from the back.
            self.chains[chain].steps.insert(0, step);
        } else if self.begin_step(chain, step) {
            self.chains[chain].active = true;
        }
    }

    /// A program of the host is done: whatever waited for it is started.
    #[cold]
    fn programmed(&mut self, ppn: u32) {
        for chain in self.awaiting.remove(&ppn).unwrap_or_default() {
            self.account(chain, Share::Queue);
            self.advance(chain);
        }
    }

    fn engine_step_done(&mut self, chain: u32) {
        self.account(chain, Share::Engine);
        self.advance(chain);
    }

    /// Handles what belongs to the flash and its engines; `false` for other events.
    pub(crate) fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Unit(unit) => self.unit_event(unit),
            Event::Chain(chain) => self.engine_step_done(chain),
            Event::Engine => self.background -= 1,
            _ => return false,
        }
        true
    }

    // ---- reports --------------------------------------------------------------------------

    #[cold]
    fn note(&mut self, unit: u32, entry: &Entry, started: u64) {
        if let Some(tracer) = &mut self.tracer {
            // What is too much is only counted: no name is made.
            let full = tracer.trace.is_full();
            let name =
                if full { String::new() } else { op_name(entry.kind, entry.cause, entry.ppn) };
            let (start, end) = (SimTime::from_ns(started), SimTime::from_ns(self.now));
            tracer.trace.span(tracer.units[unit as usize], &name, start, end);
        }
    }

    /// Every resource that something waits for or that is busy, for the report of a stall.
    pub(crate) fn blocked(&self) -> Vec<ResourceState> {
        let mut states: Vec<ResourceState> = (self.units.iter().enumerate())
            .filter(|(_, unit)| !unit.is_idle())
            .map(|(at, unit)| ResourceState {
                name: format!("flash unit {at}"),
                servers: 1,
                busy: u32::from(unit.phase != unit::Phase::Idle),
                waiting: unit.waiting(),
            })
            .collect();
        states.sort_by_key(|state| std::cmp::Reverse(state.waiting));
        if self.chains.in_use() > 0 && states.is_empty() {
            let waiting = self.chains.in_use();
            states.push(ResourceState {
                name: "controller".to_owned(),
                servers: 1,
                busy: 0,
                waiting,
            });
        }
        states
    }

    #[inline]
    fn unit_of(&self, ppn: u32) -> u32 {
        self.by_unit.of(ppn)
    }

    #[inline]
    fn is_buffered(&self, ppn: u32) -> bool {
        let (block, page) = self.place_in_block(ppn);
        let buffered = self.buffered[block as usize];
        page < u32::from(buffered.end)
            && page + u32::from(buffered.pending) >= u32::from(buffered.end)
    }

    /// The block of a page, and which of its pages it is.
    #[inline]
    fn place_in_block(&self, ppn: u32) -> (u32, u32) {
        let block = self.by_block.of(ppn);
        (block, ppn - block * self.geometry.pages_per_block)
    }

    /// Whether the host's program of a page is under way.
    fn is_programming(&self, ppn: u32) -> bool {
        self.is_buffered(ppn) && self.units[self.unit_of(ppn) as usize].programs_for_host(ppn)
    }

    #[inline]
    fn op_issued(&mut self, kind: OpKind, cause: Cause, ppn: u32) {
        self.ops[kind as usize] += 1;
        self.transfers += u64::from(self.timing.page_ns(kind, cause) > 0);
        if kind == OpKind::Program {
            let (block, page) = self.place_in_block(ppn);
            let buffered = &mut self.buffered[block as usize];
            buffered.end = page as u16 + 1;
            buffered.pending += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Cause, Driver as _, FlashOp, Work};
    use crate::spec::{MediaCode, MediaWear};

    #[test]
    fn units_are_spared_as_long_as_a_step_leaves_as_many() {
        // Whether they are, with so many units busy.
        let spares = |packages: u32, wanted: u64| -> Vec<bool> {
            let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
            spec.timing.parallel_unit = crate::spec::ParallelUnit::Package;
            (spec.geometry.channels, spec.geometry.packages) = (packages, packages);
            let mut controller = Controller::new(&spec);
            let pages = spec.geometry.pages() / packages;
            let mut answers = vec![controller.spares_units(wanted)];
            for unit in 0..packages {
                let ppn = unit * pages;
                let (kind, cause) = (OpKind::Read, Cause::Dedup);
                controller.issue(FlashOp { kind, cause, ppn, foreground: false });
                answers.push(controller.spares_units(wanted));
            }
            answers
        };
        // A step takes two units at most.
        assert_eq!(spares(4, 1), [true, true, false, false, false]);
        assert_eq!(spares(6, 3), [true, true, false, false, false, false, false]);
        // Where there are not as many, one step at a time is better than none.
        for wanted in [3, 4, u64::MAX] {
            assert_eq!(spares(4, wanted), [true, false, false, false, false]);
        }
        assert_eq!(spares(2, 1), [true, false, false]);
        assert_eq!(spares(1, 1), [true, false]);
    }

    /// A drive without a bus, whose units are packages.
    fn drive(change: impl Fn(&mut DriveSpec)) -> Controller {
        let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
        spec.timing.parallel_unit = crate::spec::ParallelUnit::Package;
        (spec.timing.bus_mb_per_s, spec.timing.command_overhead_ns) = (0, 0);
        change(&mut spec);
        Controller::new(&spec)
    }

    fn op(kind: OpKind, cause: Cause, ppn: u32) -> FlashOp {
        FlashOp { kind, cause, ppn, foreground: false }
    }

    /// Reads a page for a request, and waits for it.
    fn read(controller: &mut Controller, ppn: u32) {
        let flight = controller.open_flight();
        controller.begin_part(flight);
        controller.issue(FlashOp { foreground: true, ..op(OpKind::Read, Cause::Host, ppn) });
        controller.end_part();
        controller.seal_flight(flight);
        while controller.pop_finished() != Some(flight) {
            let event = controller.next_event().expect("it is answered");
            assert!(controller.handle(event));
        }
        controller.close_flight(flight);
    }

    #[test]
    fn an_operation_is_interrupted_so_often_and_then_comes_to_its_end() {
        let mut controller = drive(|spec| {
            spec.timing.suspend = crate::spec::Suspend::Erase;
            spec.timing.suspend_latency_ns = 10;
            (spec.timing.read_latency_ns, spec.timing.erase_latency_ns) = (100, 1_000_000);
        });
        controller.issue(op(OpKind::Erase, Cause::Gc, 0));
        for _ in 0..SUSPENDS_MAX {
            read(&mut controller, 0);
        }
        assert_eq!(controller.time_ns(), u64::from(SUSPENDS_MAX) * 110);
        assert_eq!(controller.suspends, u64::from(SUSPENDS_MAX));
        read(&mut controller, 0);
        assert_eq!(controller.suspends, u64::from(SUSPENDS_MAX));
        let reads = u64::from(SUSPENDS_MAX) * 110;
        assert_eq!(controller.time_ns(), 1_000_000 + reads + 100, "behind the erase");
        assert_eq!(controller.blocked(), []);
        // It is left alone where it ends as soon as it could be put aside.
        let (began, before) = (controller.time_ns(), controller.suspends);
        controller.issue(op(OpKind::Erase, Cause::Gc, 0));
        controller.wait_until(began + 1_000_000 - 10);
        read(&mut controller, 0);
        assert_eq!(controller.suspends, before);
        let began = controller.time_ns();
        controller.issue(op(OpKind::Erase, Cause::Gc, 0));
        controller.wait_until(began + 1_000_000 - 11);
        read(&mut controller, 0);
        assert_eq!(controller.suspends, before + 1);
        while let Some(event) = controller.next_event() {
            controller.handle(event);
        }
        let (flights, chains) = (controller.flights.in_use(), controller.chains.in_use());
        assert_eq!((flights, chains), (0, 0));
    }

    #[test]
    fn a_program_is_not_interrupted_while_its_page_is_taken_in() {
        let mut controller = drive(|spec| {
            spec.timing.suspend = crate::spec::Suspend::EraseAndProgram;
            spec.timing.suspend_latency_ns = 10;
            (spec.geometry.page_bytes, spec.geometry.oob_bytes) = (512, 128);
            (spec.timing.read_latency_ns, spec.timing.program_latency_ns) = (100, 1_000_000);
            spec.timing.bus_mb_per_s = 1;
        });
        // 640 bytes take 640,000 ns, and the way out of the page that is read does too.
        controller.issue(op(OpKind::Program, Cause::Gc, 0));
        controller.wait_until(639_999);
        read(&mut controller, 7);
        let first = 1_640_000 + 640_100;
        assert_eq!((controller.suspends, controller.time_ns()), (0, first));
        controller.issue(op(OpKind::Program, Cause::Gc, 1));
        controller.wait_until(first + 640_000);
        read(&mut controller, 7);
        assert_eq!(
            (controller.suspends, controller.time_ns()),
            (1, first + 640_000 + 10 + 640_100)
        );
    }

    #[test]
    fn what_is_busy_is_told_the_longest_queue_first() {
        let mut controller = drive(|_| ());
        let flight = controller.open_flight();
        let part = controller.begin_part(flight);
        let (name, servers) = ("controller".to_owned(), 1);
        let only = ResourceState { name, servers, busy: 0, waiting: 1 };
        assert_eq!(controller.blocked(), [only]);
        // A part that waits for others takes nothing of what is asked for meanwhile.
        controller.wait_part();
        let pages = controller.geometry.pages() / controller.units.len() as u32;
        for ppn in [0, pages, pages + 1, 1, pages + 2] {
            controller.issue(FlashOp { foreground: true, ..op(OpKind::Read, Cause::Dedup, ppn) });
        }
        assert_eq!(controller.background(), 5);
        let unit = |at: u32, waiting| ResourceState {
            name: format!("flash unit {at}"),
            servers: 1,
            busy: 1,
            waiting,
        };
        assert_eq!(controller.blocked(), [unit(1, 2), unit(0, 1)]);
        controller.make_ready(part);
        assert_eq!(controller.pop_ready(), Some(part));
    }

    #[test]
    fn a_page_is_in_memory_until_its_program_is_done_also_on_a_large_drive() {
        let mut controller = drive(|_| ());
        let last = controller.geometry.blocks() - 1;
        let ppn = controller.geometry.first_page(last);
        assert!(ppn > 1 << 17, "pages of all have larger numbers than those of a block");
        controller.issue(op(OpKind::Program, Cause::Host, ppn));
        assert_eq!([ppn, ppn + 1].map(|ppn| controller.is_buffered(ppn)), [true, false]);
        read(&mut controller, ppn);
        assert_eq!((controller.buffer_hits.iter().sum::<u64>(), controller.time_ns()), (1, 0));
        while let Some(event) = controller.next_event() {
            controller.handle(event);
        }
        assert!(!controller.is_buffered(ppn));
        // Background work waits for nobody's program.
        controller.issue(op(OpKind::Program, Cause::Host, ppn));
        controller.wait_for(ppn);
        assert!(controller.awaiting.is_empty());
    }

    /// Written anew while its reader waits for an engine, it is there before the first reading.
    #[test]
    fn a_page_that_would_be_read_again_is_found_in_memory_once() {
        let mut controller = drive(|spec| {
            (spec.media.read_retries, spec.media.code) = (true, MediaCode::None);
            (spec.media.wear, spec.media.raw_bit_errors_ppb) = (MediaWear::Tlc, 100_000_000);
            spec.controller.compare_ns = 3_000;
        });
        let flight = controller.open_flight();
        controller.begin_part(flight);
        controller.work(Work::Compare, true);
        controller.issue(FlashOp { foreground: true, ..op(OpKind::Read, Cause::Dedup, 7) });
        controller.end_part();
        controller.seal_flight(flight);
        let retries = controller.retries.as_ref().map(|retries| retries.counts.retries);
        assert_eq!(retries, Some(8), "all that TLC has");
        controller.issue(op(OpKind::Program, Cause::Gc, 7));
        while let Some(event) = controller.next_event() {
            controller.handle(event);
        }
        assert_eq!(controller.pop_finished(), Some(flight));
        let mut hits = [0; 5];
        hits[Cause::Dedup as usize] = 1;
        assert_eq!(controller.buffer_hits, hits);
    }

    #[test]
    fn what_waits_before_a_page_and_an_engine_is_told_in_advance() {
        let mut controller = drive(|spec| {
            (spec.timing.bus_mb_per_s, spec.timing.command_overhead_ns) = (400, 200);
            (spec.controller.hash_ns, spec.controller.lookup_ns) = (30_000, 500);
            spec.controller.compare_ns = 3_000;
            spec.controller.read_priority = true;
        });
        let flight = controller.open_flight();
        controller.begin_part(flight);
        let alone = controller.read_ns(0);
        let transfer = controller.timing.transfer_ns;
        assert_eq!(alone, 200 + controller.timing.read_ns + transfer);
        assert_eq!(controller.program_ns(), 200 + transfer + controller.timing.program_ns);
        let array = controller.timing.read_ns;
        controller.issue(op(OpKind::Read, Cause::Gc, 0));
        let first = controller.units[0].ends;
        // So many that a comparison takes its turn behind them.
        let before = u32::try_from(controller.timing.program_ns / array).expect("a few") + 1;
        for page in 1..=before {
            controller.issue(op(OpKind::Read, Cause::Gc, page));
        }
        assert_eq!(controller.read_ns(0), first + u64::from(before) * array + alone);
        // One step after the other.
        controller.work(Work::Lookup, true);
        controller.work(Work::Hash, true);
        controller.work(Work::ParityCorrection, true);
        let correction = controller.timing.work_ns(Work::ParityCorrection);
        let compared = controller.work_ns(Work::Compare);
        assert_eq!(compared, 500 + 30_000 + correction + 3_000);
    }

    #[test]
    fn the_next_page_is_taken_in_meanwhile_if_it_comes_over_the_channel() {
        let cached = |bus_mb_per_s: u64, cause: Cause, host_first: bool| {
            let mut controller = drive(|spec| {
                (spec.geometry.channels, spec.geometry.packages) = (1, 2);
                (spec.geometry.page_bytes, spec.geometry.oob_bytes) = (512, 128);
                (spec.timing.bus_mb_per_s, spec.timing.program_latency_ns) = (bus_mb_per_s, 1_000);
                (spec.timing.cache_program, spec.timing.copyback) = (true, true);
            });
            if host_first {
                let of_unit_1 = controller.geometry.pages() / 2;
                controller.issue(op(OpKind::Program, Cause::Host, of_unit_1));
            }
            for ppn in 0..2 {
                controller.issue(op(OpKind::Program, cause, ppn));
            }
            while !controller.units[0].is_idle() {
                let event = controller.next_event().expect("it goes on");
                controller.handle(event);
            }
            controller.time_ns()
        };
        // 640 bytes in a nanosecond: only the first page's is waited for.
        assert_eq!(cached(1_000_000, Cause::Host, false), 1 + 2 * 1_000);
        // A copy inside the flash has nothing to do with the channel, which another page takes.
        assert_eq!(cached(1, Cause::Gc, true), 2 * 1_000);
    }
}
