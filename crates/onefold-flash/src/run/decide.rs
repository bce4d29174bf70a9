//! A page of a write or a TRIM goes from step to step until the FTL has decided on it.
//! Room: onefold-flash.
//! Invariants: each step begins when the one before it is done in time; a page that waits for
//! nothing is decided on at once.

use crate::dedup::Policy;
use crate::ftl::{FtlError, Written};
use crate::nand::Nand;
use crate::op::Driver as _;
use crate::run::error::RunError;
use crate::run::parts::{Next, Part};
use crate::run::request::SimPage;
use crate::run::simulation::Simulation;

impl<N, P> Simulation<'_, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    /// A page of a write or a TRIM comes to the FTL.
    pub(crate) fn begin_part(&mut self, part: Part<N::Page>) -> Result<(), RunError> {
        let number = self.controller.begin_part(part.flight);
        if self.parts.is_under_way(part.lpn) {
            self.controller.wait_part();
            self.parts.queue(part.lpn, number);
            self.parts.hold(number, part);
            return Ok(());
        }
        self.go_on_with(number, part, false)
    }

    /// A part whose steps so far are done goes on.
    pub(crate) fn resume_part(&mut self, number: u32) -> Result<(), RunError> {
        let part = self.parts.take(number);
        self.controller.resume_part(number);
        self.go_on_with(number, part, true)
    }

    /// Takes a page from step to step, until one takes time. `known` says whether others know
    /// that a page of this address is under way.
    fn go_on_with(
        &mut self,
        number: u32,
        mut part: Part<N::Page>,
        known: bool,
    ) -> Result<(), RunError> {
        let request = part.request;
        loop {
            let more = self.step(&mut part).map_err(|error| RunError::Ftl { request, error })?;
            if !more {
                self.controller.end_part();
                if known && let Some(next) = self.parts.decided(part.lpn) {
                    self.controller.make_ready(next);
                }
                return Ok(());
            }
            if self.controller.hold_part_if_active() {
                if !known {
                    self.parts.begin(part.lpn);
                }
                self.parts.hold(number, part);
                return Ok(());
            }
        }
    }

    /// One step; `false` when the page has been decided on.
    fn step(&mut self, part: &mut Part<N::Page>) -> Result<bool, FtlError> {
        let (lpn, d) = (part.lpn, &mut self.controller);
        match part.next {
            Next::Begin if part.trim => {
                self.parts.replaced(lpn);
                self.ftl.trim(lpn, d)?;
                self.idle_is_over();
                return Ok(false);
            }
            Next::Begin => {
                part.next = Next::LookUp;
                self.tally.partial_pages += 1;
                part.old = self.ftl.read(lpn, d)?;
            }
            Next::LookUp => {
                part.next = Next::Prepare;
                let page = if N::Page::HAS_CONTENT && part.piece.is_partial() {
                    let old = part.old.take().map(|old| old.key());
                    N::Page::of_key(self.parts.overlay(lpn, &part.piece, old))
                } else {
                    self.parts.replaced(lpn);
                    N::Page::of_key(self.common.content(part.piece.whole()))
                };
                part.page = Some(page);
                self.ftl.begin_write(lpn, d)?;
            }
            Next::Prepare => {
                let page = part.page.as_ref().expect("a page that was looked up has its content");
                if let Some(work) = self.ftl.prepare_write(lpn, page, &mut part.prepared, d) {
                    d.work(work, true);
                    return Ok(true);
                }
                let written = self.ftl.write_prepared(lpn, page, part.prepared, d)?;
                self.decided(part.flight, written);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn decided(&mut self, flight: u32, written: Written) {
        self.underway(flight).verdict.add(written);
        self.windows.look(self.ftl.counters());
        self.idle_is_over();
    }
}
