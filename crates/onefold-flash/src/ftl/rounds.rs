//! When the next part of a checkpoint is due, and what the one under way holds.
//! Room: onefold-flash.
//! Invariants: a round stores every segment that had changed at its beginning before its root.

use crate::ftl::settings::FtlSettings;
use crate::geometry::Geometry;

/// Checkpoints, one behind the other: mapping pages are stored one by one while the host goes on.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    segments: u32,
    /// Host pages from one checkpoint to the next.
    interval: u64,
    /// Host pages times segments towards the next segment to store.
    due: u64,
    /// Journal pages that live between two checkpoints at most, roughly.
    journal_pages: u32,
    /// The checkpoint under way holds everything up to here.
    seq: u64,
    /// Segments before it are stored.
    next_segment: u32,
    /// Whether the second set of state pages is written by it.
    odd: bool,
    /// Blocks that were open at `seq`.
    open: Vec<u32>,
}

impl Rounds {
    /// Rounds of so many segments.
    pub fn new(geometry: &Geometry, settings: &FtlSettings, segments: u32) -> Self {
        let interval = match settings.checkpoint_pages {
            0 => geometry.pages() / 2,
            pages => pages,
        };
        // A host page counts once for each codeword that has an entry.
        let entries = settings.logical_per_page();
        let interval = u64::from(interval.max(1)) * u64::from(entries);
        Self {
            segments,
            interval,
            due: 0,
            // As long beside the map as a page has entries: half of it, or a quarter.
            journal_pages: (geometry.pages() / 4096).saturating_mul(entries).max(8),
            seq: 0,
            next_segment: 0,
            odd: false,
            open: Vec::new(),
        }
    }

    /// Journal pages that live between two checkpoints at most, roughly.
    pub const fn journal_pages(&self) -> u32 {
        self.journal_pages
    }

    /// One host page more has been written.
    #[inline]
    pub const fn count(&mut self) {
        self.due += self.segments as u64;
    }

    /// Whether a step is due, which is taken with that.
    #[inline]
    pub const fn take_step(&mut self) -> bool {
        let due = self.due >= self.interval;
        if due {
            self.due -= self.interval;
        }
        due
    }

    /// A page of the journal was stored. A long journal makes for a long recovery: checkpoints keep
    /// up with it.
    pub fn hurry(&mut self) {
        self.due += self.interval * u64::from(self.segments) / u64::from(self.journal_pages);
    }

    /// Another round begins now, in which these blocks are open.
    pub fn begin(&mut self, seq: u64, open: Vec<u32>) {
        self.seq = seq;
        self.next_segment = 0;
        self.odd = !self.odd;
        self.open = open;
    }

    /// The newest checkpoint that was found wrote this set of state pages.
    pub const fn resume(&mut self, odd: bool) {
        self.odd = odd;
    }

    /// The next segment of this round; nothing if the root is next.
    pub const fn next_segment(&self) -> Option<u32> {
        if self.next_segment < self.segments { Some(self.next_segment) } else { None }
    }

    /// A segment is done.
    pub const fn advance(&mut self) {
        self.next_segment += 1;
    }

    /// The checkpoint under way holds everything up to here.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether it writes the second set of state pages.
    pub const fn is_odd(&self) -> bool {
        self.odd
    }

    /// Blocks that were open when it began.
    pub fn open(&self) -> &[u32] {
        &self.open
    }
}
