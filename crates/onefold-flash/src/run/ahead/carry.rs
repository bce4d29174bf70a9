//! The run takes what the thread ahead has handed over.
//! Room: onefold-flash.

use onefold_workload::Op;

use crate::dedup::Policy;
use crate::nand::Nand;
use crate::run::ahead::batch::{Decider, Spent};
use crate::run::ahead::lent::Lent;
use crate::run::error::RunError;
use crate::run::request::{HostRequest, SimPage};
use crate::run::simulation::Simulation;

impl<N, P> Simulation<'_, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    /// The next requests come from the thread ahead; `false` if there is none.
    pub(crate) fn receive(&mut self) -> bool {
        let Some(inbox) = &mut self.inbox else { return false };
        if !self.source.look_ahead() {
            return true;
        }
        if self.source.has_none_drawn()
            && let Some(batch) = inbox.receive()
        {
            let spent = self.source.take_drawn(batch.requests, batch.failure);
            inbox.give_back(Spent::Requests(spent));
            self.source.set_clipped_trims(batch.clipped_trims);
            if let Some(back) = batch.back {
                let Decider { ftl, windows, placement, fresh } = *back;
                self.ftl = Lent::new(ftl);
                (self.windows, self.fresh) = (windows, fresh);
                self.controller.set_placement(placement);
            }
        }
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
            Some(inbox) if inbox.has_decisions() => self.carry_out(flight, request),
            _ => Ok(false),
        }
    }

    /// A flush waits for no writes: where one is decided ahead, writes are answered from the flash.
    /// Nor is there new work for idle moments, since none of them came before.
    fn carry_out(&mut self, flight: u32, request: &HostRequest) -> Result<bool, RunError> {
        let Some(inbox) = &mut self.inbox else { return Ok(false) };
        let Some(verdict) = inbox.carry_out(flight, request, &mut self.controller) else {
            return Ok(false);
        };
        let verdict = verdict?;
        if request.op == Op::Idle {
            self.idle.hinted(request.number);
        }
        self.underway(flight).verdict = verdict;
        Ok(true)
    }
}
