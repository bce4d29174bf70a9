//! The thread ahead: it draws requests and decides on them.
//! Room: onefold-flash.

use std::sync::mpsc::{Receiver, SyncSender};

use onefold_workload::Op;

use crate::dedup::{Policy, Prepared};
use crate::ftl::{Ftl, FtlError, Written};
use crate::nand::Nand;
use crate::run::ahead::batch::{BATCH, Batch, Decider, Decisions, Message, Spent};
use crate::run::ahead::recorder::{Recorder, Step};
use crate::run::error::RunError;
use crate::run::request::{HostRequest, SimPage};
use crate::run::settled::Windows;
use crate::run::simulation::{Simulation, announce};
use crate::run::source::Source;

/// Draws requests, and decides on them while it may.
pub(super) struct Worker<N: Nand, P> {
    source: Source,
    deciding: Option<Deciding<N, P>>,
    spent: Receiver<Spent>,
    /// Empty ones, to be filled again.
    requests: Vec<Vec<HostRequest>>,
    steps: Vec<Vec<Step>>,
}

struct Deciding<N: Nand, P> {
    ftl: Ftl<N, P>,
    windows: Windows,
    recorder: Recorder,
    fresh: u64,
    page_bytes: u32,
    soon: Vec<(u32, N::Page)>,
}

impl<N, P> Worker<N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    /// Takes from a simulation what it draws and decides with.
    pub(super) fn of(
        simulation: &mut Simulation<'_, N, P>,
        decides: bool,
        spent: Receiver<Spent>,
    ) -> Self {
        let deciding = decides.then(|| Deciding {
            ftl: simulation.ftl.take(),
            windows: simulation.windows.clone(),
            recorder: Recorder::of(&simulation.controller),
            fresh: simulation.fresh,
            page_bytes: simulation.page_bytes,
            soon: Vec::new(),
        });
        let source = simulation.source.hand_over();
        Self { source, deciding, spent, requests: Vec::new(), steps: Vec::new() }
    }

    /// Hands over batch after batch, until there is nothing left or nobody listens.
    pub(super) fn work(mut self, send: &SyncSender<Message<N, P>>) {
        loop {
            let batch = self.batch();
            let last = batch.last;
            if send.send(Ok(batch)).is_err() || last {
                return;
            }
        }
    }

    /// The next requests, and what it decides on them.
    pub(super) fn batch(&mut self) -> Batch<N, P> {
        self.take_back();
        let mut requests = self.requests.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        let mut decisions = Decisions { first: self.source.made(), ..Decisions::default() };
        let (mut failure, mut back) = (None, None);
        while requests.len() < BATCH {
            let request = match self.next() {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            requests.push(request);
            let Some(deciding) = &mut self.deciding else { continue };
            if deciding.would_wait(&request) {
                back = self.deciding.take();
            } else if let Err(failure) = deciding.request(&request) {
                // The run ends when it comes to this; until then it may ask for requests.
                decisions.failure = Some(failure);
                decisions.steps = std::mem::take(&mut deciding.recorder.steps);
                self.deciding = None;
            } else {
                decisions.requests += 1;
            }
        }
        let last = requests.len() < BATCH || self.source.is_exhausted();
        if let Some(deciding) = &mut self.deciding {
            let empty = self.steps.pop().unwrap_or_default();
            decisions.steps = std::mem::replace(&mut deciding.recorder.steps, empty);
        }
        if last {
            back = back.or_else(|| self.deciding.take());
        }
        let back = back.map(|deciding| {
            decisions.steps.extend(&deciding.recorder.steps);
            Box::new(deciding.ends())
        });
        let clipped_trims = self.source.clipped_trims();
        Batch { requests, failure, decisions, clipped_trims, last, back }
    }

    /// Takes what the run is done with.
    fn take_back(&mut self) {
        for spent in self.spent.try_iter() {
            match spent {
                Spent::Requests(mut requests) => {
                    requests.clear();
                    self.requests.push(requests);
                }
                Spent::Steps(mut steps) => {
                    steps.clear();
                    self.steps.push(steps);
                }
            }
        }
    }

    fn next(&mut self) -> Result<Option<HostRequest>, RunError> {
        if self.source.draw_ahead()
            && let Some(deciding) = &mut self.deciding
        {
            deciding.announce(&self.source);
        }
        self.source.next()
    }
}

impl<N, P> Deciding<N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    fn announce(&mut self, source: &Source) {
        let content = |piece: onefold_workload::composed::Piece| piece.whole();
        announce(&mut self.ftl, source, &mut self.soon, (self.fresh, self.page_bytes), content);
    }

    /// Whether a page of it is written in part, which waits for what it held.
    fn would_wait(&self, request: &HostRequest) -> bool {
        let (first, last) = (0, request.pages.saturating_sub(1));
        request.op == Op::Write
            && [first, last].iter().any(|&at| request.piece(at, self.page_bytes, 0).is_partial())
    }

    /// Decides on a request, as the run would when it comes to the FTL.
    fn request(&mut self, request: &HostRequest) -> Result<(), FtlError> {
        match request.op {
            Op::Idle => {}
            Op::Flush => {
                self.ftl.flush(&mut self.recorder)?;
                self.part_ends(Step::PartEnds);
            }
            Op::Read | Op::Write | Op::Trim => {
                for (index, lpn) in (0..).zip(request.lpns(self.ftl.settings().logical_pages)) {
                    let mut end = Step::PartEnds;
                    match request.op {
                        Op::Read => drop(self.ftl.read(lpn, &mut self.recorder)?),
                        Op::Trim => self.ftl.trim(lpn, &mut self.recorder)?,
                        _ => end = Step::end_of(self.write(request, index, lpn)?),
                    }
                    self.part_ends(end);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, request: &HostRequest, index: u32, lpn: u32) -> Result<Written, FtlError> {
        let d = &mut self.recorder;
        let piece = request.piece(index, self.page_bytes, self.fresh);
        self.fresh += 1;
        let page = N::Page::of_key(piece.whole());
        self.ftl.begin_write(lpn, d)?;
        let mut prepared = Prepared::asked(request.deduplicate);
        // None of the work that is waited for takes time, where decisions are made ahead of it.
        while self.ftl.prepare_write(lpn, &page, &mut prepared, d).is_some() {}
        let written = self.ftl.write_prepared(lpn, &page, prepared, d)?;
        self.windows.look(self.ftl.counters());
        Ok(written)
    }

    fn part_ends(&mut self, end: Step) {
        self.recorder.steps.push(end);
    }

    fn ends(self) -> Decider<N, P> {
        let Self { ftl, windows, recorder: Recorder { placement, .. }, fresh, .. } = self;
        Decider { ftl, windows, placement, fresh }
    }
}
