//! A host, a drive and a workload in virtual time.
//! Room: onefold-flash.
//! Life of a request: it comes, waits for the queue, crosses the link, is looked at by a core,
//! (writes) waits for the buffer; then the FTL decides, the controller times what was decided, and
//! what was read crosses the link. Nothing here is recursive: what follows at the same instant is
//! worked off in a loop.
//! Invariants: every request that came is answered once, or the run is an error that says where it
//! is stuck; same seed, same hash.

use std::sync::atomic::AtomicU64;

use onefold_sim::{SimError, SimTime};
use onefold_workload::Op;
use onefold_workload::composed::Piece;

use crate::controller::{Controller, ControllerUsage, Event};
use crate::dedup::Policy;
use crate::ftl::{Counters, Ftl};
use crate::nand::Nand;
use crate::run::ahead::inbox::Inbox;
use crate::run::ahead::lent::Lent;
use crate::run::common::Common;
use crate::run::completion::{Answer, Observer};
use crate::run::error::RunError;
use crate::run::host::{Host, Underway};
use crate::run::host_scrambler::HostScrambler;
use crate::run::idle::Idle;
use crate::run::parts::Parts;
use crate::run::request::{HostRequest, SimPage};
use crate::run::settled::Windows;
use crate::run::source::Source;
use crate::run::tally::Tally;
use crate::spec::{DriveSpec, EnergySpec};

/// Most pages that are announced at a time.
const SOON_MAX: usize = 64;

/// A run under way.
pub(crate) struct Simulation<'a, N: Nand, P> {
    pub(super) ftl: Lent<Ftl<N, P>>,
    /// What a thread ahead has drawn and decided, where there is one.
    pub(super) inbox: Option<Inbox<N, P>>,
    pub(super) logical_pages: u32,
    pub(super) controller: Controller,
    pub(super) tally: Tally,
    pub(super) windows: Windows,
    pub(super) host: Host,
    /// Pages that are not decided on yet.
    pub(super) parts: Parts<N::Page>,
    pub(super) source: Source,
    /// Pages that were announced last.
    pub(super) soon: Vec<(u32, N::Page)>,
    pub(super) underway: Vec<Option<Underway>>,
    pub(super) observer: Option<&'a mut Observer<'a>>,
    pub(super) progress: Option<&'a AtomicU64>,
    /// Bytes of what the map names: a page, or a codeword.
    pub(super) page_bytes: u32,
    /// Of these in a page.
    pub(super) codewords: u32,
    /// Codewords that pages have in common.
    pub(super) common: Common,
    /// Flash pages that have been read for a request already, where it takes codewords of them.
    pub(super) sensed: Vec<u32>,
    /// Closed loop: answers that are followed by a new request at once.
    pub(super) owed: u64,
    /// Open loop: the request that comes next.
    pub(super) next: Option<HostRequest>,
    pub(super) exhausted: bool,
    pub(super) fresh: u64,
    pub(super) idle: Idle,
    /// Whether deduplication goes on after the last request.
    pub(super) finish_offline: bool,
    pub(super) energy: EnergySpec,
    /// The accounts when the last request was answered and what it wrote was in the flash.
    pub(super) at_end: Option<AtEnd>,
    /// Answers, where somebody else asks for them.
    pub(super) answers: Option<Vec<Answer>>,
}

/// What was counted, and how busy everything was, up to some moment.
#[derive(Clone, Debug)]
pub(crate) struct AtEnd {
    pub counters: Counters,
    pub usage: ControllerUsage,
}

impl<'a, N, P> Simulation<'a, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    pub(super) fn new(
        spec: &DriveSpec,
        ftl: Ftl<N, P>,
        (source, scrambler): (Source, Option<HostScrambler>),
        observer: Option<&'a mut Observer<'a>>,
        progress: Option<&'a AtomicU64>,
    ) -> Self {
        Self {
            idle: Idle::of(spec, ftl.counters()),
            windows: Windows::from(ftl.counters(), spec.codewords()),
            logical_pages: ftl.settings().logical_pages,
            ftl: Lent::new(ftl),
            inbox: None,
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
            finish_offline: spec.workload.finish_offline,
            energy: spec.energy.clone(),
            at_end: None,
            answers: None,
        }
    }

    /// Runs until every request is answered and the background has nothing left that it was asked
    /// to finish.
    pub(super) fn run(&mut self) -> Result<(), RunError> {
        self.start()?;
        self.settle()?;
        while let Some(event) = self.controller.next_event() {
            if self.happens(event)? {
                self.settle()?;
            }
        }
        let (generated, completed) = (self.source.made(), self.tally.completed());
        if !self.is_over() || generated != completed || self.controller.background() > 0 {
            return Err(RunError::Stalled(self.stall(generated - completed)));
        }
        Ok(())
    }

    /// An event; whether something is to be worked off at this instant. Most are of the flash
    /// alone, and nobody has waited for them.
    #[inline]
    fn happens(&mut self, event: Event) -> Result<bool, RunError> {
        if !self.controller.handle(event) {
            self.host_event(event)?;
        } else if !self.host.is_quiet() {
            return Ok(self.controller.has_news());
        }
        Ok(true)
    }

    /// Works off what happens up to a time, where somebody else hands requests in.
    pub(super) fn advance(&mut self, until_ns: u64) -> Result<(), RunError> {
        loop {
            self.settle()?;
            if self.controller.next_event_ns().is_none_or(|next| next > until_ns) {
                self.controller.wait_until(until_ns);
                return Ok(());
            }
            if let Some(event) = self.controller.next_event() {
                let _ = self.happens(event)?;
            }
        }
    }

    /// A request comes from somebody else, now.
    pub(super) fn hand_in(&mut self, request: HostRequest) -> Result<(), RunError> {
        self.arrive(request)?;
        self.settle()
    }

    /// There is something to do again when nobody waits.
    pub(super) const fn idle_is_over(&mut self) {
        self.idle.has_work_again();
    }

    /// Whether no request will come any more.
    pub(super) fn is_over(&mut self) -> bool {
        // By the clock, the last one is made before it comes.
        self.exhausted |= self.source.is_exhausted() && self.next.is_none();
        self.exhausted
    }

    /// Requests generated so far.
    pub(super) const fn generated(&self) -> u64 {
        self.source.made()
    }

    /// TRIMs of more than the drive has.
    pub(super) const fn clipped_trims(&self) -> u64 {
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
    pub(super) fn ask_again(&mut self) {
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
                in_time(request)?;
                self.controller.schedule(request.arrival_ns, Event::Arrival);
            }
        }
        Ok(())
    }

    /// The next request; those that follow are drawn some at a time, and announced.
    fn draw(&mut self) -> Result<Option<HostRequest>, RunError> {
        if !self.receive() && self.source.draw_ahead() {
            self.announce();
        }
        self.source.next()
    }

    /// Tells the FTL which pages the drawn requests will write, as far as can be told.
    pub(super) fn announce(&mut self) {
        let (common, soon) = (self.common, &mut self.soon);
        let content = |piece: Piece| common.content(piece.whole());
        announce(&mut self.ftl, &self.source, soon, (self.fresh, self.page_bytes), content);
    }

    /// Works off what happens at this instant.
    #[expect(clippy::inline_always, reason = "a call for each event costs 3 % of a run")]
    #[inline(always)]
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
                self.idle.looked();
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
                in_time(&request)?;
                self.arrive(request)?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, request: HostRequest) -> Result<(), RunError> {
        let ends_moment = self.host.is_quiet() && self.idle.has_begun(self.controller.time_ns());
        self.idle.came(request.number, request.pages, ends_moment);
        if !self.host.may_take() {
            self.host.outside.push_back(request);
            return Ok(());
        }
        self.take(request)
    }

    /// The accounts of the run so far.
    pub(super) fn accounts(&self) -> AtEnd {
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

/// Refuses a request that comes so late that what follows from it might have no time any more.
const fn in_time(request: &HostRequest) -> Result<(), RunError> {
    let &HostRequest { number, arrival_ns: ns, .. } = request;
    if ns > SimTime::LAST_ARRIVAL.ns() { Err(RunError::TooLate { number, ns }) } else { Ok(()) }
}

/// Tells an FTL which pages the drawn requests will write, as far as can be told: of so many
/// `bytes`, numbered from `fresh` on.
pub(super) fn announce<N, P>(
    ftl: &mut Ftl<N, P>,
    source: &Source,
    soon: &mut Vec<(u32, N::Page)>,
    (mut fresh, bytes): (u64, u32),
    content: impl Fn(Piece) -> u128,
) where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let logical_pages = ftl.settings().logical_pages;
    soon.clear();
    for request in source.seen() {
        if request.op != Op::Write {
            continue;
        }
        for index in 0..request.pages {
            if soon.len() == SOON_MAX {
                break;
            }
            let lpn = request.lpn + index;
            let lpn = if lpn < logical_pages { lpn } else { lpn - logical_pages };
            let piece = request.piece(index, bytes, fresh);
            soon.push((lpn, N::Page::of_key(content(piece))));
            fresh += 1;
        }
    }
    ftl.announce_writes(soon);
}
