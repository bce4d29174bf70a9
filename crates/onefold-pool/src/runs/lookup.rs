//! Runs that can be asked for single fingerprints while clients write.
//! Room: onefold-pool.
//! In: keys. Out: blocks of runs in which they may be, and from there pairs.
//! Source: a table on disk behind a filter in memory, as [ajdari-talk] has it for FIDR; the filter
//! is that of [binary-fuse-22].
//! Invariant: what is told is a hint: it is verified like the index's.
//! Cost: 4 bytes of memory for each block of 255 pairs, and where there is room for filters 1.15
//! bytes a pair, or half of that. A block of 4 KiB is read for each key that is there; of those
//! that are not, for one in 256 or in 16 where there is a filter, and elsewhere for all.

use std::sync::Arc;

use onefold_block::Media;

use super::filter::Filter;
use super::part_maker::FilterPlan;
use crate::error::PoolError;
use crate::format::pair::Pair;
use crate::format::run::{BLOCK_BYTES, search_block};

/// Blocks of a segment that follow each other.
pub struct Part {
    pub last: u64,
    pub segment: usize,
    pub first_block: u32,
    /// The high halves of the blocks' first keys.
    pub fences: Box<[u32]>,
}

/// A run.
#[derive(Clone)]
pub struct Asked {
    pub number: u32,
    pub segments: Arc<[Segment]>,
    /// In the order of their keys.
    pub parts: Arc<[Part]>,
    /// What keys are in the first parts, as far as there is memory.
    pub filters: Vec<Arc<Filter>>,
}

pub struct Segment {
    pub media: Arc<dyn Media>,
    pub name: String,
    pub blocks: u32,
}

/// Runs to be asked.
#[derive(Clone, Default)]
pub struct Lookup {
    pub runs: Vec<Asked>,
}

/// A block in which a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Perhaps {
    run: usize,
    segment: usize,
    block: u32,
    /// A filter says so; otherwise nothing is known.
    pub filtered: bool,
}

impl Part {
    /// Memory in use, in bytes.
    pub const fn bytes(&self) -> u64 {
        (size_of::<Self>() + 4 * self.fences.len()) as u64
    }
}

impl Asked {
    /// Memory in use, in bytes.
    pub fn bytes(&self) -> u64 {
        let filters = self.filters.iter().map(|filter| filter.bytes());
        filters.sum::<u64>() + self.parts.iter().map(Part::bytes).sum::<u64>()
    }
}

impl Asked {
    /// Which filters it has.
    pub fn plan(&self) -> FilterPlan {
        let whole = self.filters.iter().filter(|filter| filter.is_whole()).count();
        FilterPlan { filters: self.filters.len(), whole }
    }

    /// The same with no more filters than these.
    pub fn cut(&self, plan: FilterPlan) -> Self {
        let mut cut = self.clone();
        cut.filters.truncate(plan.filters);
        for filter in cut.filters.iter_mut().skip(plan.whole) {
            if let Some(half) = filter.halved() {
                *filter = Arc::new(half);
            }
        }
        cut
    }
}

impl Lookup {
    /// Memory in use, in bytes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Asked::bytes).sum()
    }

    /// The same in so many bytes: filters are halved first, from the end of the largest run, then
    /// they go, and then whole runs.
    pub fn within(&self, bytes: u64) -> Self {
        let mut cut = self.clone();
        cut.runs.sort_by_key(|run| run.parts.len());
        let mut over = cut.bytes().saturating_sub(bytes);
        for filter in cut.runs.iter_mut().rev().flat_map(|run| run.filters.iter_mut().rev()) {
            if over == 0 {
                return cut;
            }
            if let Some(half) = filter.halved() {
                over = over.saturating_sub(filter.bytes() - half.bytes());
                *filter = Arc::new(half);
            }
        }
        while over > 0 {
            let filter = cut.runs.iter_mut().rev().find_map(|run| run.filters.pop());
            let gone = match filter {
                Some(filter) => Some(filter.bytes()),
                None => cut.runs.pop().map(|run| run.bytes()),
            };
            over = over.saturating_sub(gone.unwrap_or(over));
        }
        cut
    }

    /// Whether nothing can be asked.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Where a key may be: where filters say so first.
    pub fn perhaps(&self, key: u64, out: &mut Vec<Perhaps>) {
        let from = out.len();
        for (number, run) in self.runs.iter().enumerate() {
            let at = run.parts.partition_point(|part| part.last < key);
            let Some(part) = run.parts.get(at) else { continue };
            let filter = run.filters.get(at);
            if filter.is_some_and(|filter| !filter.contains(key)) {
                continue;
            }
            let high = (key >> 32) as u32;
            // The first block that may have it is the one before the first that begins past it.
            let next = part.fences.partition_point(|&fence| fence < high);
            let block = part.first_block + next.saturating_sub(1) as u32;
            let filtered = filter.is_some();
            out.push(Perhaps { run: number, segment: part.segment, block, filtered });
        }
        out[from..].sort_by_key(|perhaps| !perhaps.filtered);
    }

    /// It will be read soon.
    pub fn announce(&self, at: Perhaps) {
        let segment = &self.runs[at.run].segments[at.segment];
        segment.media.will_read(segment_offset(at.block), BLOCK_BYTES as u64);
    }

    /// The pairs with this key that are there, if they can be had without a wait for the device;
    /// false if not.
    pub fn read_at_hand(
        &self,
        at: Perhaps,
        key: u64,
        out: &mut Vec<Pair>,
    ) -> Result<bool, PoolError> {
        let segment = &self.runs[at.run].segments[at.segment];
        let mut bytes = [0; BLOCK_BYTES];
        if !segment.media.read_at_hand(segment_offset(at.block), &mut bytes) {
            return Ok(false);
        }
        if search_block(&bytes, (&segment.name, at.block), key, out)? {
            self.read_from(at, at.block + 1, key, out)?;
        }
        Ok(true)
    }

    /// The pairs with this key that are there.
    pub fn read(&self, at: Perhaps, key: u64, out: &mut Vec<Pair>) -> Result<(), PoolError> {
        self.read_from(at, at.block, key, out)
    }

    fn read_from(
        &self,
        at: Perhaps,
        block: u32,
        key: u64,
        out: &mut Vec<Pair>,
    ) -> Result<(), PoolError> {
        let segment = &self.runs[at.run].segments[at.segment];
        let mut bytes = [0; BLOCK_BYTES];
        for block in block..segment.blocks {
            segment.media.read(segment_offset(block), &mut bytes)?;
            if !search_block(&bytes, (&segment.name, block), key, out)? {
                break;
            }
        }
        Ok(())
    }
}

/// Where a block of pairs is in its segment.
const fn segment_offset(block: u32) -> u64 {
    (1 + block as u64) * BLOCK_BYTES as u64
}
