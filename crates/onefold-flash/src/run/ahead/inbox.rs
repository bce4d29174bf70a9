//! What the thread ahead has handed over, on the side of the run.
//! Room: onefold-flash.
//! Invariant: decisions are taken in the order in which they were made; the run stops rather than
//! take one for another request.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::mpsc::Receiver;

use onefold_workload::Op;

use crate::controller::Controller;
use crate::dedup::Policy;
use crate::nand::Nand;
use crate::run::ahead::recorder::replay;
use crate::run::ahead::{Batch, Decider, Decisions, Lent, Message};
use crate::run::completion::Verdict;
use crate::run::error::RunError;
use crate::run::request::{AHEAD, HostRequest, SimPage};
use crate::run::simulation::Simulation;

/// Requests that were drawn, and what was decided on those that did not come to the FTL yet.
pub(crate) struct Inbox<N: Nand, P> {
    receive: Receiver<Message<N, P>>,
    requests: std::vec::IntoIter<Result<HostRequest, RunError>>,
    decisions: VecDeque<Decisions>,
    /// How far the first of them is: requests and steps.
    taken: (usize, usize),
    last: bool,
}

impl<N: Nand, P> Inbox<N, P> {
    pub(super) fn new(receive: Receiver<Message<N, P>>) -> Self {
        Self {
            receive,
            requests: Vec::new().into_iter(),
            decisions: VecDeque::new(),
            taken: (0, 0),
            last: false,
        }
    }

    /// The next batch, if there is one.
    fn receive(&mut self) -> Option<Batch<N, P>> {
        if self.last {
            return None;
        }
        let message = self.receive.recv().expect("it says when it ends");
        let mut batch = message.unwrap_or_else(|panic| resume_unwind(panic));
        self.requests = std::mem::take(&mut batch.requests).into_iter();
        self.last = batch.last;
        let decisions = std::mem::take(&mut batch.decisions);
        if !decisions.verdicts.is_empty() || decisions.failure.is_some() {
            self.decisions.push_back(decisions);
        }
        Some(batch)
    }

    /// Has done what was decided on a request, a part of it for each page; `None` if nothing was.
    fn carry_out(
        &mut self,
        flight: u32,
        request: &HostRequest,
        controller: &mut Controller,
    ) -> Option<Result<Verdict, RunError>> {
        let decisions = self.decisions.front_mut()?;
        let (at, mut step) = self.taken;
        assert_eq!(decisions.first + at as u64, request.number, "requests keep their order");
        let Some(&verdict) = decisions.verdicts.get(at) else {
            let error = decisions.failure.take()?;
            return Some(Err(RunError::Ftl { request: request.number, error }));
        };
        let parts = match request.op {
            Op::Idle => 0,
            Op::Flush => 1,
            _ => request.pages,
        };
        for _ in 0..parts {
            controller.begin_part(flight);
            step += replay(&decisions.steps[step..], controller);
            controller.end_part();
        }
        self.taken = (at + 1, step);
        if self.taken.0 == decisions.verdicts.len() && decisions.failure.is_none() {
            self.decisions.pop_front();
            self.taken = (0, 0);
        }
        Some(Ok(verdict))
    }
}

impl<N, P> Simulation<'_, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    /// The next requests come from the thread ahead; `false` if there is none.
    pub(crate) fn receive(&mut self) -> bool {
        let Some(inbox) = &mut self.inbox else { return false };
        if self.source.has_drawn() {
            return true;
        }
        if inbox.requests.len() == 0
            && let Some(Batch { clipped_trims, back, .. }) = inbox.receive()
        {
            self.source.set_clipped_trims(clipped_trims);
            if let Some(back) = back {
                let Decider { ftl, windows, placement, fresh } = *back;
                self.ftl = Lent::new(ftl);
                (self.windows, self.fresh) = (windows, fresh);
                self.controller.set_placement(placement);
            }
        }
        self.source.take_drawn(inbox.requests.by_ref().take(AHEAD));
        if self.ftl.is_here() {
            self.announce();
        }
        true
    }

    /// Whether what a request does was decided ahead of time; then it is done.
    #[inline]
    pub(crate) fn was_decided(
        &mut self,
        flight: u32,
        request: &HostRequest,
    ) -> Result<bool, RunError> {
        match &self.inbox {
            Some(inbox) if !inbox.decisions.is_empty() => self.carry_out(flight, request),
            _ => Ok(false),
        }
    }

    fn carry_out(&mut self, flight: u32, request: &HostRequest) -> Result<bool, RunError> {
        if request.op == Op::Flush {
            self.wait_for_writes(flight, request);
        }
        let Some(inbox) = &mut self.inbox else { return Ok(false) };
        let Some(verdict) = inbox.carry_out(flight, request, &mut self.controller) else {
            return Ok(false);
        };
        let verdict = verdict?;
        if request.op == Op::Idle {
            self.idle.hinted(request.number);
        }
        self.underway(flight).verdict = verdict;
        self.idle_is_over();
        Ok(true)
    }
}
