//! The victim of each plane, and how far its collection is.
//! Room: onefold-flash.
//! Invariants: a plane has one victim at most.

use onefold_block::SplitMix64;

use crate::op::Cause;

/// Most live pages that are asked for ahead of being moved.
const AHEAD_MAX: u32 = 8;

/// A victim being collected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collection {
    pub block: u32,
    /// Live pages to move with each host page.
    pub quota: u32,
    pub cause: Cause,
    /// The place to look at next, in the block.
    next: u32,
    /// The place up to which what a move changes has been asked for.
    ahead: u32,
    /// Live pages between `next` and `ahead`, but for those that died since.
    asked: u32,
}

impl Collection {
    /// Nothing has been moved yet.
    pub const fn new(block: u32, quota: u32, cause: Cause) -> Self {
        Self { block, quota, cause, next: 0, ahead: 0, asked: 0 }
    }

    /// The place to look at next, in the block.
    #[inline]
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// The flash page at that place, of so many places, is done, and something of it was moved or
    /// nothing.
    #[inline]
    pub fn advance(&mut self, places: u32, moved: bool) {
        self.asked = self.asked.saturating_sub(u32::from(moved));
        self.next += places;
    }

    /// Asks for what moving the next live pages will change: as many as one host page moves, so
    /// that it has come by the time of the next one on this plane. `ask` does so for a place of
    /// the block's `places`, and says whether it is live.
    #[inline]
    pub fn ask_ahead(&mut self, places: u32, ask: impl Fn(u32) -> bool) {
        if self.ahead <= self.next {
            (self.ahead, self.asked) = (self.next, 0);
        }
        let wanted = self.quota.min(AHEAD_MAX);
        while self.asked < wanted && self.ahead < places {
            self.asked += u32::from(ask(self.ahead));
            self.ahead += 1;
        }
    }
}

/// The victims of all planes.
#[derive(Clone, Debug)]
pub(super) struct Victims {
    of_plane: Vec<Option<Collection>>,
    random: SplitMix64,
}

impl Victims {
    /// No plane has one.
    pub fn new(planes: u32, seed: u64) -> Self {
        Self { of_plane: vec![None; planes as usize], random: SplitMix64::new(seed) }
    }

    /// The victim of a plane.
    #[inline]
    pub fn of(&self, plane: u32) -> Option<Collection> {
        self.of_plane[plane as usize]
    }

    /// Whether a plane has one.
    #[inline]
    pub fn has(&self, plane: u32) -> bool {
        self.of_plane[plane as usize].is_some()
    }

    /// A plane's victim is this one, or has come so far.
    #[inline]
    pub fn set(&mut self, plane: u32, collection: Collection) {
        self.of_plane[plane as usize] = Some(collection);
    }

    /// A plane's victim is erased.
    pub fn done(&mut self, plane: u32) {
        self.of_plane[plane as usize] = None;
    }

    /// For rules that draw their victims.
    pub fn random(&mut self) -> &mut SplitMix64 {
        &mut self.random
    }
}
