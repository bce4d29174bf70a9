//! Pages under way between the queue of the drive and the decision of the FTL.
//! Room: onefold-flash.
//! A page is looked up, fingerprinted and only then decided on: each step begins when the one
//! before it is done in time. What a part-written page held is read first.
//! Invariants: the pages of one address are decided on in the order in which they came; a page
//! that waits for nothing is decided on at once.

use std::collections::{BTreeMap, VecDeque};

use onefold_workload::Op;
use onefold_workload::composed::{Composed, Piece, ZEROES};

use crate::dedup::Prepared;
use crate::run::request::HostRequest;

/// What follows for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is forgotten; or it is written in part, and what it held is read.
    Begin,
    /// It is looked up.
    LookUp,
    /// The policy asks for work.
    Prepare,
}

/// A page of a write or a TRIM that is not decided on yet.
#[derive(Clone, Debug)]
pub(crate) struct Part<P> {
    pub flight: u32,
    /// The request, for errors.
    pub request: u64,
    pub lpn: u32,
    pub trim: bool,
    pub piece: Piece,
    pub page: Option<P>,
    pub old: Option<P>,
    pub prepared: Prepared,
    pub next: Next,
}

impl<P> Part<P> {
    pub(crate) fn new(flight: u32, request: &HostRequest, lpn: u32, piece: Piece) -> Self {
        let trim = request.op == Op::Trim;
        let begins = trim || piece.is_partial();
        Self {
            flight,
            request: request.number,
            lpn,
            trim,
            piece,
            page: None,
            old: None,
            prepared: Prepared::asked(request.deduplicate),
            next: if begins { Next::Begin } else { Next::LookUp },
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

    /// A page of this address is under way, and others know.
    pub(crate) fn begin(&mut self, lpn: u32) {
        self.undecided.insert(lpn, VecDeque::new());
    }

    /// A part comes after those of its address that are under way.
    pub(crate) fn queue(&mut self, lpn: u32, number: u32) {
        if let Some(behind) = self.undecided.get_mut(&lpn) {
            behind.push_back(number);
        }
    }

    /// A part that was held goes on.
    pub(crate) fn take(&mut self, number: u32) -> Part<P> {
        self.held[number as usize].take().expect("a held part")
    }

    /// A page is replaced in whole.
    pub(crate) fn replaced(&mut self, lpn: u32) {
        self.composed.replaced(lpn);
    }

    /// The content of a page of which a piece is written over what it held.
    pub(crate) fn overlay(&mut self, lpn: u32, piece: &Piece, old: Option<u128>) -> u128 {
        self.composed.overlay(lpn, piece, old.unwrap_or(ZEROES))
    }

    /// A part waits.
    pub(crate) fn hold(&mut self, number: u32, part: Part<P>) {
        let at = number as usize;
        if self.held.len() <= at {
            self.held.resize_with(at + 1, || None);
        }
        self.held[at] = Some(part);
    }

    /// The page of an address has been decided on; the part that comes after it, if any.
    pub(crate) fn decided(&mut self, lpn: u32) -> Option<u32> {
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
