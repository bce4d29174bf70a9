//! Pages under way between the queue of the drive and the decision of the FTL.
//! Room: onefold-flash.
//! A page is looked up, fingerprinted and only then decided on: each step begins when the one
//! before it is done in time. What a part-written page held is read first.
//! Invariants: the pages of one address are decided on in the order in which they came; a page
//! that waits for nothing is decided on at once.

use std::collections::{BTreeMap, VecDeque};

use onefold_workload::Op;
use onefold_workload::composed::{Composed, Piece, ZEROES};

use crate::dedup::{Policy, Prepared};
use crate::ftl::Written;
use crate::nand::Nand;
use crate::op::Driver as _;
use crate::run::RunError;
use crate::run::request::{HostRequest, SimPage};
use crate::run::simulation::Simulation;

/// What follows for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// What it held is read, if it is written in part.
    Begin,
    /// It is looked up.
    LookUp,
    /// The policy asks for work.
    Prepare,
}

/// A page of a write or a TRIM that is not decided on yet.
#[derive(Clone, Debug)]
pub(crate) struct Part<P> {
    flight: u32,
    /// The request, for errors.
    request: u64,
    lpn: u32,
    trim: bool,
    piece: Piece,
    page: Option<P>,
    old: Option<P>,
    prepared: Prepared,
    next: Next,
}

impl<P> Part<P> {
    pub(crate) fn new(flight: u32, request: &HostRequest, lpn: u32, piece: Piece) -> Self {
        Self {
            flight,
            request: request.number,
            lpn,
            trim: request.op == Op::Trim,
            piece,
            page: None,
            old: None,
            prepared: Prepared::asked(request.deduplicate),
            next: Next::Begin,
        }
    }
}

/// The pages that wait.
#[derive(Clone, Debug)]
pub(crate) struct Parts<P> {
    /// By the number of their part.
    held: Vec<Option<Part<P>>>,
    /// Addresses with a page under way, and the parts that come after it.
    undecided: BTreeMap<u32, VecDeque<u32>>,
    composed: Composed,
}

impl<P> Default for Parts<P> {
    fn default() -> Self {
        Self { held: Vec::new(), undecided: BTreeMap::new(), composed: Composed::default() }
    }
}

impl<P> Parts<P> {
    /// Whether a page of this address is under way.
    pub(crate) fn is_under_way(&self, lpn: u32) -> bool {
        !self.undecided.is_empty() && self.undecided.contains_key(&lpn)
    }

    fn hold(&mut self, number: u32, part: Part<P>) {
        let at = number as usize;
        if self.held.len() <= at {
            self.held.resize_with(at + 1, || None);
        }
        self.held[at] = Some(part);
    }

    /// The page of an address has been decided on; the part that comes after it, if any.
    fn decided(&mut self, lpn: u32) -> Option<u32> {
        if self.undecided.is_empty() {
            return None;
        }
        let next = self.undecided.get_mut(&lpn)?.pop_front();
        if next.is_none() {
            self.undecided.remove(&lpn);
        }
        next
    }
}

impl<N, P> Simulation<'_, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    /// A page of a write or a TRIM comes to the FTL.
    pub(crate) fn begin_part(&mut self, part: Part<N::Page>) -> Result<(), RunError> {
        let number = self.controller.begin_part(part.flight);
        if self.parts.is_under_way(part.lpn) {
            self.controller.hold_part();
            if let Some(behind) = self.parts.undecided.get_mut(&part.lpn) {
                behind.push_back(number);
            }
            self.parts.hold(number, part);
            return Ok(());
        }
        self.go_on_with(number, part, false)
    }

    /// A part whose steps so far are done goes on.
    pub(crate) fn resume_part(&mut self, number: u32) -> Result<(), RunError> {
        let part = self.parts.held[number as usize].take().expect("a held part");
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
                    self.parts.undecided.insert(part.lpn, VecDeque::new());
                }
                self.parts.hold(number, part);
                return Ok(());
            }
        }
    }

    /// One step; `false` when the page has been decided on.
    fn step(&mut self, part: &mut Part<N::Page>) -> Result<bool, crate::ftl::FtlError> {
        let (lpn, d) = (part.lpn, &mut self.controller);
        match part.next {
            Next::Begin if part.trim => {
                self.parts.composed.replaced(lpn);
                self.ftl.trim(lpn, d)?;
                self.idle_is_over();
                return Ok(false);
            }
            Next::Begin => {
                part.next = Next::LookUp;
                if part.piece.is_partial() {
                    self.tally.partial_pages += 1;
                    part.old = self.ftl.read(lpn, d)?;
                }
            }
            Next::LookUp => {
                part.next = Next::Prepare;
                let page = if N::Page::HAS_CONTENT && part.piece.is_partial() {
                    let old = part.old.take().map_or(ZEROES, |old| old.key());
                    N::Page::of_key(self.parts.composed.overlay(lpn, &part.piece, old))
                } else {
                    self.parts.composed.replaced(lpn);
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
        let verdict = &mut self.underway(flight).verdict;
        match written {
            Written::Programmed { .. } | Written::Waits => verdict.programmed += 1,
            Written::Shared { .. } | Written::SharesWaiting => verdict.shared += 1,
        }
        self.windows.look(self.ftl.counters());
        self.idle_is_over();
    }
}
