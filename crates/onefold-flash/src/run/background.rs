//! What a simulated drive does when nobody waits.
//! Room: onefold-flash.

use crate::controller::Event;
use crate::dedup::Policy;
use crate::nand::Nand;
use crate::run::error::RunError;
use crate::run::request::SimPage;
use crate::run::simulation::Simulation;

impl<N, P> Simulation<'_, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    /// Nobody waits: is it time for background work?
    pub(super) fn look_at_clock(&mut self) -> Result<(), RunError> {
        let over = self.is_over();
        if over && self.at_end.is_none() {
            self.at_end = Some(self.accounts());
        }
        if over && self.finish_offline {
            self.idle.activate();
            return self.background();
        }
        if self.idle.is_done() || over {
            return Ok(());
        }
        if self.idle.has_begun(self.controller.time_ns()) {
            self.idle.activate();
            return self.background();
        }
        if let Some(due) = self.idle.next_look() {
            self.controller.schedule(due, Event::Idle);
        }
        Ok(())
    }

    /// Starts background steps until enough are under way. By need, a unit is left to the write
    /// that ends the idle moment.
    pub(super) fn background(&mut self) -> Result<(), RunError> {
        let by_need = self.idle.work().is_by_need();
        while !self.idle.is_done()
            && self.controller.background() < self.idle.steps()
            && (!by_need || self.controller.spares_a_unit())
        {
            // After the last request free blocks are of no use to anybody.
            let collects = self.at_end.is_none();
            let step = self.idle.work().step(&mut self.ftl, collects, &mut self.controller);
            let any = step.map_err(|error| RunError::Idle { error })?;
            self.idle.stepped(any);
        }
        Ok(())
    }
}
