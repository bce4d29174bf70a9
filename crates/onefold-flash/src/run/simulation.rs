//! A host, a drive and a workload in virtual time.
//! Room: onefold-flash.
//! Life of a request: it comes, waits for the queue, crosses the link, is looked at by a core,
//! (writes) waits for the buffer; then the FTL decides, the controller times what was decided, and
//! what was read crosses the link. Nothing here is recursive: what follows at the same instant is
//! worked off in a loop.
//! Invariants: every request that came is answered once, or the run is an error that says where it
//! is stuck; same seed, same hash.

use std::sync::atomic::{AtomicU64, Ordering};

use onefold_sim::{SimError, SimTime};
use onefold_workload::Op;

use crate::controller::{Breakdown, Controller, ControllerUsage, Event, Share};
use crate::dedup::Policy;
use crate::ftl::idle::IdleWork;
use crate::ftl::{Counters, Ftl};
use crate::nand::Nand;
use crate::run::RunError;
use crate::run::attached::Answer;
use crate::run::common::Common;
use crate::run::host::{Flush, Host, Stage, Underway};
use crate::run::host_scrambler::HostScrambler;
use crate::run::parts::{Part, Parts};
use crate::run::request::{HostRequest, SimPage, Source};
use crate::run::settled::Windows;
use crate::run::tally::Tally;
use crate::spec::{DriveSpec, EnergySpec};

/// One answered request, for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What was asked.
    pub request: HostRequest,
    /// When it was answered.
    pub answered_ns: u64,
    /// Where its time went, summed over its pages.
    pub breakdown: Breakdown,
    /// What became of what it wrote.
    pub verdict: Verdict,
}

/// What became of the pages of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Pages programmed.
    pub programmed: u32,
    /// Pages shared with stored ones.
    pub shared: u32,
}

impl Verdict {
    /// One word for logs; empty where nothing was written.
    pub const fn name(self) -> &'static str {
        match (self.programmed, self.shared) {
            (0, 0) => "",
            (_, 0) => "program",
            (0, _) => "share",
            _ => "mixed",
        }
    }
}

/// Requests between two looks of whoever watches.
const PROGRESS_EVERY: u64 = 1 << 12;

/// Most pages that are announced at a time.
const SOON_MAX: usize = 64;

/// Told about every answered request.
pub type Observer<'a> = dyn FnMut(&Completion) -> Result<(), RunError> + Send + 'a;

/// A run under way.
pub(crate) struct Simulation<'a, N: Nand, P> {
    pub(crate) ftl: Ftl<N, P>,
    pub(crate) controller: Controller,
    pub(crate) tally: Tally,
    pub(crate) windows: Windows,
    pub(crate) host: Host,
    /// Pages that are not decided on yet.
    pub(crate) parts: Parts<N::Page>,
    source: Source,
    /// Pages that were announced last.
    soon: Vec<(u32, N::Page)>,
    underway: Vec<Option<Underway>>,
    observer: Option<&'a mut Observer<'a>>,
    progress: Option<&'a AtomicU64>,
    /// Bytes of what the map names: a page, or a codeword.
    page_bytes: u32,
    /// Of these in a page.
    codewords: u32,
    /// Codewords that pages have in common.
    pub(crate) common: Common,
    /// Flash pages that have been read for a request already, where it takes codewords of them.
    sensed: Vec<u32>,
    /// Closed loop: answers that are followed by a new request at once.
    owed: u64,
    /// Open loop: the request that comes next.
    next: Option<HostRequest>,
    exhausted: bool,
    fresh: u64,
    idle: Idle,
    /// Whether deduplication goes on after the last request.
    finish_offline: bool,
    energy: EnergySpec,
    /// The accounts when the last request was answered and what it wrote was in the flash.
    pub(crate) at_end: Option<AtEnd>,
    /// Answers, where somebody else asks for them.
    pub(crate) answers: Option<Vec<Answer>>,
}

/// What was counted, and how busy everything was, up to some moment.
#[derive(Clone, Debug)]
pub(crate) struct AtEnd {
    pub counters: Counters,
    pub usage: ControllerUsage,
}

/// When and what to do without requests.
#[derive(Clone, Copy, Debug)]
struct Idle {
    after_ns: u64,
    hints: Hints,
    work: IdleWork,
    steps: u32,
    /// Whether a look at the clock is scheduled.
    scheduled: bool,
    /// Since when nobody has waited.
    since: u64,
    /// Whether background work is going on.
    active: bool,
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

impl<'a, N, P> Simulation<'a, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    pub(crate) fn new(
        spec: &DriveSpec,
        ftl: Ftl<N, P>,
        (source, scrambler): (Source, Option<HostScrambler>),
        observer: Option<&'a mut Observer<'a>>,
        progress: Option<&'a AtomicU64>,
    ) -> Self {
        let controller = &spec.controller;
        Self {
            windows: Windows::from(ftl.counters(), spec.codewords()),
            ftl,
            controller: Controller::new(spec),
            tally: Tally::default(),
            host: Host::new(spec, scrambler),
            parts: Parts::default(),
            source,
            soon: Vec::with_capacity(SOON_MAX),
            underway: Vec::new(),
            observer,
            progress,
            page_bytes: spec.mapped_units().1,
            codewords: spec.codewords(),
            common: Common::of(spec),
            sensed: Vec::new(),
            owed: 0,
            next: None,
            exhausted: false,
            fresh: 0,
            idle: Idle {
                after_ns: controller.idle_after_ns,
                hints: Hints { heeded: controller.idle_hint, last_came: 0, given: false },
                work: IdleWork::new(spec.idle_order()),
                steps: controller.idle_steps,
                scheduled: false,
                since: 0,
                active: false,
                done: false,
            },
            finish_offline: spec.workload.finish_offline,
            energy: spec.energy.clone(),
            at_end: None,
            answers: None,
        }
    }

    /// Runs until every request is answered and the background has nothing left that it was asked
    /// to finish.
    pub(crate) fn run(&mut self) -> Result<(), RunError> {
        self.start()?;
        loop {
            self.settle()?;
            let Some(event) = self.controller.next_event() else { break };
            self.happens(event)?;
        }
        let (generated, completed) = (self.source.made(), self.tally.completed());
        let exhausted = self.exhausted || self.source.is_exhausted();
        if !exhausted || generated != completed || self.controller.background() > 0 {
            return Err(RunError::Stalled(self.stall(generated - completed)));
        }
        Ok(())
    }

    fn happens(&mut self, event: Event) -> Result<(), RunError> {
        if !self.controller.handle(event) {
            self.host_event(event)?;
        } else if self.idle.active && self.host.is_quiet() {
            self.background()?;
        }
        Ok(())
    }

    /// Works off what happens up to a time, where somebody else hands requests in.
    pub(crate) fn advance(&mut self, until_ns: u64) -> Result<(), RunError> {
        loop {
            self.settle()?;
            if self.controller.next_event_ns().is_none_or(|next| next > until_ns) {
                self.controller.wait_until(until_ns);
                return Ok(());
            }
            if let Some(event) = self.controller.next_event() {
                self.happens(event)?;
            }
        }
    }

    /// A request comes from somebody else, now.
    pub(crate) fn hand_in(&mut self, request: HostRequest) -> Result<(), RunError> {
        self.arrive(request)?;
        self.settle()
    }

    /// Requests generated so far.
    pub(crate) const fn generated(&self) -> u64 {
        self.source.made()
    }

    /// TRIMs of more than the drive has.
    pub(crate) const fn clipped_trims(&self) -> u64 {
        self.source.clipped_trims()
    }

    fn start(&mut self) -> Result<(), RunError> {
        match self.source.clients() {
            Some(clients) => self.ask_all(clients),
            None => self.fetch()?,
        }
        Ok(())
    }

    fn ask_all(&mut self, clients: u32) {
        for _ in 0..clients {
            self.ask_again();
        }
    }

    /// A client thinks, then asks.
    fn ask_again(&mut self) {
        let think = self.source.think().ns();
        if think == 0 {
            self.owed += 1;
        } else {
            self.controller.schedule(self.controller.time_ns() + think, Event::Arrival);
        }
    }

    /// Open loop: the next request and the event of its coming.
    fn fetch(&mut self) -> Result<(), RunError> {
        self.next = self.draw()?;
        match &mut self.next {
            None => self.exhausted = true,
            Some(request) => {
                // A trace may be out of order; a request is not late before it comes.
                request.arrival_ns = request.arrival_ns.max(self.controller.time_ns());
                self.controller.schedule(request.arrival_ns, Event::Arrival);
            }
        }
        Ok(())
    }

    /// The next request; those that follow are drawn some at a time, and announced.
    fn draw(&mut self) -> Result<Option<HostRequest>, RunError> {
        if self.source.draw_ahead() {
            self.announce();
        }
        self.source.next()
    }

    /// Tells the FTL which pages the drawn requests will write, as far as can be told.
    fn announce(&mut self) {
        let logical_pages = self.ftl.settings().logical_pages;
        self.soon.clear();
        let mut fresh = self.fresh;
        for request in self.source.drawn() {
            if request.op != Op::Write {
                continue;
            }
            for index in 0..request.pages {
                if self.soon.len() == SOON_MAX {
                    break;
                }
                let lpn = request.lpn + index;
                let lpn = if lpn < logical_pages { lpn } else { lpn - logical_pages };
                let piece = request.piece(index, self.page_bytes, fresh);
                self.soon.push((lpn, N::Page::of_key(self.common.content(piece.whole()))));
                fresh += 1;
            }
        }
        self.ftl.announce_writes(&self.soon);
    }

    /// Works off what happens at this instant.
    fn settle(&mut self) -> Result<(), RunError> {
        loop {
            if let Some(part) = self.controller.pop_ready() {
                self.resume_part(part)?;
            } else if let Some(flight) = self.controller.pop_finished() {
                self.flash_done(flight)?;
            } else if self.host.may_take()
                && let Some(request) = self.host.outside.pop_front()
            {
                self.take(request)?;
            } else if self.owed > 0 {
                self.owed -= 1;
                self.closed_arrival()?;
            } else if self.host.is_quiet() {
                return self.look_at_clock();
            } else {
                return Ok(());
            }
        }
    }

    fn host_event(&mut self, event: Event) -> Result<(), RunError> {
        match event {
            Event::Stage(flight) => self.go_on(flight),
            Event::Idle => {
                // What follows of it is worked off with everything else of this instant.
                self.idle.scheduled = false;
                Ok(())
            }
            Event::Arrival => match self.next.take() {
                Some(request) => {
                    self.arrive(request)?;
                    self.fetch()
                }
                None => self.closed_arrival(),
            },
            Event::Unit(_) | Event::Chain(_) | Event::Engine => {
                unreachable!("the controller handles its own events")
            }
        }
    }

    fn closed_arrival(&mut self) -> Result<(), RunError> {
        match self.draw()? {
            None => self.exhausted = true,
            Some(mut request) => {
                request.arrival_ns = self.controller.time_ns();
                self.arrive(request)?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, request: HostRequest) -> Result<(), RunError> {
        self.idle.active = false;
        self.idle.hints.came(request.number);
        if !self.host.may_take() {
            self.host.outside.push_back(request);
            return Ok(());
        }
        self.take(request)
    }

    /// The drive takes a request into its queue.
    fn take(&mut self, request: HostRequest) -> Result<(), RunError> {
        let now = self.controller.time_ns();
        let flight = self.controller.open_flight();
        self.controller.flight(flight).breakdown[Share::Queue as usize] = now - request.arrival_ns;
        self.host.taken += 1;
        self.host.taken_pages += u64::from(request.pages);
        let underway = Underway {
            request,
            stage: Stage::Taken,
            since: now,
            answered: false,
            verdict: Verdict::default(),
        };
        let at = flight as usize;
        if self.underway.len() <= at {
            self.underway.resize(at + 1, None);
        }
        self.underway[at] = Some(underway);
        self.go_on(flight)
    }

    pub(crate) fn underway(&mut self, flight: u32) -> &mut Underway {
        self.underway[flight as usize].as_mut().expect("a flight under way")
    }

    /// Takes a request from stage to stage, until one takes time.
    fn go_on(&mut self, flight: u32) -> Result<(), RunError> {
        let now = self.controller.time_ns();
        loop {
            let Underway { request, stage, since, .. } = *self.underway(flight);
            let ends = match stage {
                Stage::Taken => {
                    self.underway(flight).stage = Stage::HostOut;
                    self.host.scramble(now, &request, self.ftl.settings().logical_pages)
                }
                Stage::HostOut => {
                    self.account(flight, Share::Host, now - since);
                    self.underway(flight).stage = Stage::LinkIn;
                    let pages = if request.op == Op::Write { request.pages } else { 0 };
                    let service = self.host.link_ns(pages, self.page_bytes);
                    let ends =
                        if service > 0 { self.host.link_in.serve(now, service) } else { now };
                    ends + self.host.link_latency_ns
                }
                Stage::LinkIn => {
                    self.account(flight, Share::Link, now - since);
                    self.underway(flight).stage = Stage::Cpu;
                    match self.host.request_ns {
                        0 => now,
                        ns => self.controller.serve(crate::controller::EngineKind::Cpu, ns),
                    }
                }
                Stage::Cpu => {
                    self.account(flight, Share::Engine, now - since);
                    self.underway(flight).stage = Stage::Buffer;
                    self.underway(flight).since = now;
                    return self.enter_flash(flight);
                }
                Stage::LinkOut => {
                    self.account(flight, Share::Link, now - since);
                    self.underway(flight).stage = Stage::HostIn;
                    self.host.undo(now, &request, self.ftl.settings().logical_pages)
                }
                Stage::HostIn => {
                    self.account(flight, Share::Host, now - since);
                    self.answer(flight)?;
                    self.close(flight);
                    return Ok(());
                }
                Stage::Buffer | Stage::Flash => {
                    unreachable!("these end by what others do, not by the clock")
                }
            };
            self.underway(flight).since = now;
            if ends > now {
                self.controller.schedule(ends, Event::Stage(flight));
                return Ok(());
            }
        }
    }

    fn account(&mut self, flight: u32, share: Share, ns: u64) {
        self.controller.flight(flight).breakdown[share as usize] += ns;
    }

    /// Writes wait for the buffer; then the FTL decides.
    fn enter_flash(&mut self, flight: u32) -> Result<(), RunError> {
        let Underway { request, since, .. } = *self.underway(flight);
        let buffered = self.host.write_back && request.op == Op::Write;
        if buffered {
            if !self.host.has_room(request.pages) {
                self.host.for_buffer.push_back(flight);
                return Ok(());
            }
            self.host.buffer_used += request.pages;
        }
        let now = self.controller.time_ns();
        self.account(flight, Share::Queue, now - since);
        self.underway(flight).stage = Stage::Flash;
        self.host.writes += u32::from(request.op == Op::Write);
        self.decide(flight, &request)?;
        if buffered {
            self.answer(flight)?;
        }
        self.controller.seal_flight(flight);
        Ok(())
    }

    fn decide(&mut self, flight: u32, request: &HostRequest) -> Result<(), RunError> {
        let logical_pages = self.ftl.settings().logical_pages;
        if request.op == Op::Idle {
            self.idle.hints.read(request.number);
            return Ok(());
        }
        if request.op == Op::Flush {
            self.wait_for_writes(flight, request);
            self.controller.begin_part(flight);
            let done = self.ftl.flush(&mut self.controller);
            self.controller.end_part();
            return done.map_err(|error| RunError::Ftl { request: request.number, error });
        }
        self.sensed.clear();
        for index in 0..request.pages {
            let mut lpn = request.lpn + index;
            if lpn >= logical_pages {
                lpn -= logical_pages;
            }
            if request.op == Op::Read {
                self.read(flight, request, lpn)?;
            } else {
                let piece = request.piece(index, self.page_bytes, self.fresh);
                self.fresh += u64::from(request.op == Op::Write);
                self.begin_part(Part::new(flight, request, lpn, piece))?;
            }
        }
        Ok(())
    }

    fn read(&mut self, flight: u32, request: &HostRequest, lpn: u32) -> Result<(), RunError> {
        if self.parts.is_under_way(lpn) {
            // The controller has it in its memory.
            self.tally.waiting_pages_read += 1;
            return Ok(());
        }
        self.controller.begin_part(flight);
        let read = if self.codewords == 1 {
            self.ftl.read(lpn, &mut self.controller)
        } else {
            let sensed = &mut self.sensed;
            let senses = |page| {
                let first = !sensed.contains(&page);
                sensed.extend(first.then_some(page));
                first
            };
            self.ftl.read_where(lpn, senses, &mut self.controller)
        };
        self.controller.end_part();
        read.map(drop).map_err(|error| RunError::Ftl { request: request.number, error })
    }

    /// There is something to do again when nobody waits.
    pub(crate) const fn idle_is_over(&mut self) {
        self.idle.done = false;
    }

    /// A flush is done when the writes before it are in the flash, at once where buffers survive
    /// or nothing is answered from them.
    fn wait_for_writes(&mut self, flight: u32, request: &HostRequest) {
        if !self.host.write_back || self.host.protected {
            return;
        }
        let before = |other: &&Underway| {
            other.request.op == Op::Write && other.request.number < request.number
        };
        let writes_left = self.underway.iter().flatten().filter(before).count() as u32;
        if writes_left > 0 {
            // One part that ends when the last of them does.
            self.controller.flight(flight).parts_left += 1;
            self.host.flushes.push(Flush { flight, number: request.number, writes_left });
        }
    }

    /// The flash has done all of a request.
    fn flash_done(&mut self, flight: u32) -> Result<(), RunError> {
        let Underway { request, answered, .. } = *self.underway(flight);
        if request.op == Op::Write {
            self.written(&request)?;
        }
        if answered {
            self.close(flight);
            return Ok(());
        }
        if request.op == Op::Read {
            let service = self.host.link_ns(request.pages, self.page_bytes);
            let now = self.controller.time_ns();
            let underway = self.underway(flight);
            (underway.stage, underway.since) = (Stage::LinkOut, now);
            if service == 0 {
                return self.go_on(flight);
            }
            let ends = self.host.link_out.serve(now, service);
            self.controller.schedule(ends, Event::Stage(flight));
            return Ok(());
        }
        self.answer(flight)?;
        self.close(flight);
        Ok(())
    }

    /// Flushes that wait for no write any more go on.
    fn flush(&mut self, request: u64) -> Result<(), RunError> {
        let done: Vec<u32> =
            self.host.flushes.iter().filter(|f| f.writes_left == 0).map(|f| f.flight).collect();
        self.host.flushes.retain(|flush| flush.writes_left > 0);
        for flight in done {
            // What the writes before it left to be packed.
            self.controller.begin_part(flight);
            let packed = self.ftl.program_packing(&mut self.controller);
            self.controller.end_part();
            packed.map_err(|error| RunError::Ftl { request, error })?;
            self.controller.seal_flight(flight);
        }
        Ok(())
    }

    /// A write has reached the flash: flushes and writes that waited for it go on.
    fn written(&mut self, request: &HostRequest) -> Result<(), RunError> {
        self.host.writes -= 1;
        for flush in &mut self.host.flushes {
            flush.writes_left -= u32::from(request.number < flush.number);
        }
        if !self.host.flushes.is_empty() {
            self.flush(request.number)?;
        }
        if self.host.write_back {
            self.host.buffer_used -= request.pages;
            while let Some(&first) = self.host.for_buffer.front() {
                let pages = self.underway(first).request.pages;
                if !self.host.has_room(pages) {
                    break;
                }
                self.host.for_buffer.pop_front();
                self.enter_flash(first)?;
            }
        }
        Ok(())
    }

    /// The host has its answer.
    fn answer(&mut self, flight: u32) -> Result<(), RunError> {
        let now = self.controller.time_ns();
        let breakdown = self.controller.flight(flight).breakdown;
        let underway = self.underway(flight);
        underway.answered = true;
        let Underway { request, verdict, .. } = *underway;
        let (taken_pages, request) =
            (request.pages, request.in_pages(self.codewords, self.page_bytes));
        let completion = Completion { request, answered_ns: now, breakdown, verdict };
        self.tally.answered(&completion);
        if let Some(answers) = &mut self.answers {
            answers.push(Answer { number: request.number, at_ns: now });
        }
        if let Some(observer) = &mut self.observer {
            observer(&completion)?;
        }
        if let Some(progress) = self.progress
            && completion.request.number.is_multiple_of(PROGRESS_EVERY)
        {
            progress.store(self.tally.completed(), Ordering::Relaxed);
        }
        self.host.taken -= 1;
        self.host.taken_pages -= u64::from(taken_pages);
        if self.source.clients().is_some() {
            self.ask_again();
        }
        Ok(())
    }

    /// The drive is done with a request.
    fn close(&mut self, flight: u32) {
        self.underway[flight as usize] = None;
        self.controller.close_flight(flight);
        self.idle.since = self.controller.time_ns();
    }

    // ---- idle moments -----------------------------------------------------------------------

    /// Nobody waits: is it time for background work?
    fn look_at_clock(&mut self) -> Result<(), RunError> {
        let over = self.exhausted || self.source.is_exhausted();
        if over && self.at_end.is_none() {
            self.exhausted = true;
            self.at_end = Some(self.accounts());
        }
        if over && self.finish_offline {
            self.idle.active = true;
            return self.background();
        }
        if self.idle.done || over {
            return Ok(());
        }
        let due = self.idle.since + self.idle.after_ns;
        let timed_out = self.idle.after_ns > 0 && self.controller.time_ns() >= due;
        if timed_out || self.idle.hints.given {
            self.idle.active = true;
            return self.background();
        }
        if self.idle.after_ns == 0 || self.idle.scheduled {
            return Ok(());
        }
        self.idle.scheduled = true;
        self.controller.schedule(due, Event::Idle);
        Ok(())
    }

    /// Starts background steps until enough are under way. By need, a unit is left to the write
    /// that ends the idle moment.
    fn background(&mut self) -> Result<(), RunError> {
        let by_need = self.idle.work.is_by_need();
        while !self.idle.done
            && self.controller.background() < self.idle.steps
            && (!by_need || self.controller.spares_a_unit())
        {
            // After the last request free blocks are of no use to anybody.
            let collects = self.at_end.is_none();
            let step = self.idle.work.step(&mut self.ftl, collects, &mut self.controller);
            self.idle.done = !step.map_err(|error| RunError::Idle { error })?;
        }
        Ok(())
    }

    /// The accounts of the run so far.
    pub(crate) fn accounts(&self) -> AtEnd {
        let mut usage = self.controller.usage(&self.energy);
        let now = self.controller.time_ns();
        usage.servers.extend(self.host.scrambler.as_ref().map(|cores| cores.usage(now)));
        AtEnd { counters: *self.ftl.counters(), usage }
    }

    fn stall(&self, left: u64) -> SimError {
        let mut blocked = self.controller.blocked();
        if !self.host.for_buffer.is_empty() {
            blocked.push(onefold_sim::ResourceState {
                name: "write buffer".to_owned(),
                servers: 1,
                busy: 1,
                waiting: self.host.for_buffer.len(),
            });
        }
        if !self.host.outside.is_empty() {
            blocked.push(onefold_sim::ResourceState {
                name: "queue of the drive".to_owned(),
                servers: self.host.queue_entries,
                busy: self.host.taken,
                waiting: self.host.outside.len(),
            });
        }
        let at = SimTime::from_ns(self.controller.time_ns());
        SimError::Stalled { at, work_left: left, blocked }
    }
}
