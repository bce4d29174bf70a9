//! What the thread ahead has handed over, on the side of the run.
//! Room: onefold-flash.
//! Invariant: decisions are taken in the order in which they were made; the run stops rather than
//! take one for another request.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender};

use onefold_workload::Op;

use crate::controller::Controller;
use crate::nand::Nand;
use crate::run::ahead::batch::{Batch, Decisions, Message, Spent};
use crate::run::ahead::recorder::replay;
use crate::run::completion::Verdict;
use crate::run::error::RunError;
use crate::run::request::HostRequest;

/// Where requests come from, and what was decided on those that did not come to the FTL yet.
pub(crate) struct Inbox<N: Nand, P> {
    receive: Receiver<Message<N, P>>,
    give_back: Sender<Spent>,
    decisions: VecDeque<Decisions>,
    /// How far the first of them is: requests and steps.
    taken: (usize, usize),
    last: bool,
}

impl<N: Nand, P> Inbox<N, P> {
    pub(super) fn new(receive: Receiver<Message<N, P>>, give_back: Sender<Spent>) -> Self {
        Self { receive, give_back, decisions: VecDeque::new(), taken: (0, 0), last: false }
    }

    /// Has what is no longer used filled again.
    pub(super) fn give_back(&self, spent: Spent) {
        // The other thread may have ended.
        let _ = self.give_back.send(spent);
    }

    /// Whether there are decisions that were not carried out.
    #[inline]
    pub(super) fn has_decisions(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// The next batch, if there is one.
    pub(super) fn receive(&mut self) -> Option<Batch<N, P>> {
        if self.last {
            return None;
        }
        let message = self.receive.recv().expect("it says when it ends");
        let mut batch = message.unwrap_or_else(|panic| resume_unwind(panic));
        self.last = batch.last;
        let decisions = std::mem::take(&mut batch.decisions);
        if decisions.requests > 0 || decisions.failure.is_some() {
            self.decisions.push_back(decisions);
        }
        Some(batch)
    }

    /// Has done what was decided on a request, a part of it for each page; `None` if nothing was.
    pub(super) fn carry_out(
        &mut self,
        flight: u32,
        request: &HostRequest,
        controller: &mut Controller,
    ) -> Option<Result<Verdict, RunError>> {
        let decisions = self.decisions.front_mut()?;
        let (at, mut step) = self.taken;
        assert_eq!(decisions.first + at as u64, request.number, "requests keep their order");
        if at == decisions.requests {
            let error = decisions.failure.take()?;
            return Some(Err(RunError::Ftl { request: request.number, error }));
        }
        let parts = match request.op {
            Op::Idle => 0,
            Op::Flush => 1,
            _ => request.pages,
        };
        let mut verdict = Verdict::default();
        for _ in 0..parts {
            controller.begin_part(flight);
            step += replay(&decisions.steps[step..], controller, &mut verdict);
            controller.end_part();
        }
        self.taken = (at + 1, step);
        if self.taken.0 == decisions.requests && decisions.failure.is_none() {
            self.taken = (0, 0);
            if let Some(done) = self.decisions.pop_front() {
                self.give_back(Spent::Steps(done.steps));
            }
        }
        Some(Ok(verdict))
    }
}
