//! What is on its way out of a victim: compressed pages that will be flash pages again.
//! Room: onefold-flash.
//! Cost: `packing_pages` flash pages of memory for each plane.

use crate::ftl::stream::Stream;
use crate::nand::Fragment;

/// Fragments that will be a flash page, with where they are.
#[derive(Clone, Debug)]
struct Bin<P> {
    stream: Stream,
    used: u32,
    moves: Vec<(u32, Fragment<P>)>,
}

/// What is on its way in a plane.
#[derive(Clone, Debug)]
pub(super) struct Gathered<P> {
    bins: Vec<Bin<P>>,
}

impl<P> Default for Gathered<P> {
    fn default() -> Self {
        Self { bins: Vec::new() }
    }
}

impl<P> Gathered<P> {
    /// Nothing is on its way.
    pub fn clear(&mut self) {
        self.bins.clear();
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Bins of a stream.
    pub fn bins_of(&self, stream: Stream) -> usize {
        self.bins.iter().filter(|bin| bin.stream == stream).count()
    }

    /// Begins a bin; the answer is its number until one is removed.
    pub fn begin(&mut self, stream: Stream) -> usize {
        self.bins.push(Bin { stream, used: 0, moves: Vec::new() });
        self.bins.len() - 1
    }

    /// Puts a fragment that is at `from` into a bin.
    pub fn push(&mut self, at: usize, from: u32, fragment: Fragment<P>) {
        let bin = &mut self.bins[at];
        bin.used += fragment.subpages;
        bin.moves.push((from, fragment));
    }

    /// The stream of a bin, and what it holds, with where that is.
    pub fn bin(&self, at: usize) -> (Stream, &[(u32, Fragment<P>)]) {
        (self.bins[at].stream, &self.bins[at].moves)
    }

    /// A bin has become a flash page.
    pub fn remove(&mut self, at: usize) {
        self.bins.remove(at);
    }

    /// The fullest bin of a stream, of those with at most `used` sub-pages.
    pub fn fullest(&self, stream: Stream, used: u32) -> Option<usize> {
        let bins = (0..self.bins.len())
            .filter(|&at| self.bins[at].stream == stream && self.bins[at].used <= used);
        bins.max_by_key(|&at| (self.bins[at].used, usize::MAX - at))
    }
}
