//! What a simulated drive does when nobody waits.
//! Room: onefold-flash.

use crate::controller::Event;
use crate::dedup::Policy;
use crate::ftl::idle::Scope;
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
            return self.background();
        }
        if self.idle.is_done() || over {
            return Ok(());
        }
        if self.idle.has_begun(self.controller.time_ns()) {
            return self.background();
        }
        if let Some(due) = self.idle.next_look() {
            self.controller.schedule(due, Event::Idle);
        }
        Ok(())
    }

    /// Starts background steps until enough are under way.
    pub(super) fn background(&mut self) -> Result<(), RunError> {
        while !self.idle.is_done() && self.controller.background() < self.idle.steps() {
            let Some(scope) = self.scope() else { break };
            // After the last request free blocks are of no use to anybody.
            let collects = self.at_end.is_none();
            let step = self.idle.work().step(scope, &mut self.ftl, collects, &mut self.controller);
            match (step.map_err(|error| RunError::Idle { error })?, scope) {
                (false, Scope::Needed) => break,
                (any, _) => self.idle.stepped(any),
            }
        }
        Ok(())
    }

    /// What may begin now. By need, units are left to what ends the idle moment: one to a write for
    /// which free blocks are made, and as many as are expected at once where nothing presses.
    fn scope(&mut self) -> Option<Scope> {
        let by_need = self.idle.work().is_by_need();
        if !by_need || self.controller.spares_units(self.idle.rush_pages()) {
            Some(Scope::All)
        } else {
            self.controller.spares_units(1).then_some(Scope::Needed)
        }
    }
}
