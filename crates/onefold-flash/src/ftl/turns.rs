//! Which plane the next page of the host goes to.
//! Room: onefold-flash.   In: a driver's wish, a page's sketch.   Out: a plane.
//! Source: [ses-dedup] sec. III for pages that are like each other.

use crate::ftl::spread::Neighbours;
use crate::ftl::stream::Stream;
use crate::nand::Pattern;

/// Planes in turn, and what was written last in each.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    planes: u32,
    next: u32,
    /// Whether the FTL has pages of its own.
    counts_own: bool,
    /// Pages of the FTL's own that each plane has programmed and not been let off for.
    ahead: Vec<u32>,
    neighbours: Neighbours,
}

impl Turns {
    /// The first plane is next.
    pub fn new(planes: u32, counts_own: bool) -> Self {
        let ahead = vec![0; planes as usize];
        Self { planes, next: 0, counts_own, ahead, neighbours: Neighbours::new(planes) }
    }

    const fn after(&self, plane: u32) -> u32 {
        if plane + 1 == self.planes { 0 } else { plane + 1 }
    }

    /// The next plane in turn that has room.
    #[inline]
    pub fn next(&mut self, has_room: impl Fn(u32) -> bool) -> Option<u32> {
        let mut plane = self.next;
        if self.counts_own {
            // A plane that has programmed a page of the FTL's own is passed over once.
            while self.ahead[plane as usize] > 0 {
                self.ahead[plane as usize] -= 1;
                plane = self.after(plane);
            }
        }
        for _ in 0..self.planes {
            let after = self.after(plane);
            if has_room(plane) {
                self.next = after;
                return Some(plane);
            }
            plane = after;
        }
        None
    }

    /// The first plane with room, from `first` on, in which nothing like a pattern was written
    /// last.
    pub fn least_alike(
        &self,
        stream: Stream,
        pattern: Pattern,
        first: u32,
        has_room: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let from_there = (first..self.planes).chain(0..first).filter(|&plane| has_room(plane));
        self.neighbours.least_alike(stream, pattern, from_there)
    }

    /// A plane has programmed a page of the FTL's own.
    pub fn passed(&mut self, plane: u32) {
        self.ahead[plane as usize] += 1;
    }

    /// A page of the host was programmed in a plane.
    pub fn note(&mut self, plane: u32, stream: Stream, pattern: Option<Pattern>) {
        self.neighbours.note(plane, stream, pattern);
    }

    /// A plane's open block is another one now.
    pub fn forget(&mut self, plane: u32, stream: Stream) {
        self.neighbours.forget(plane, stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_block_is_like_nothing() {
        let zeroes = Pattern::of(&[0; 64]);
        let mut turns = Turns::new(3, false);
        let goes = |turns: &Turns| turns.least_alike(Stream::Host, zeroes, 1, |plane| plane < 2);
        assert_eq!(goes(&turns), Some(1));
        turns.note(1, Stream::Host, Some(zeroes));
        assert_eq!(goes(&turns), Some(0));
        turns.forget(1, Stream::Host);
        assert_eq!(goes(&turns), Some(1));
    }
}
