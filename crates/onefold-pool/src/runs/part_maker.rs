//! Makes the parts of a run that writers can ask, from its pairs as they come in order.
//! Room: onefold-pool.
//! In: keys. Out: fences and filters.
//! The same where a run is written and where it is read: who writes one need not read it again.

use std::sync::Arc;

use onefold_block::Folder;

use super::filter::Filter;
use super::lookup::{Asked, Part, Segment};
use super::set::Run;
use super::writer::file_name;
use crate::error::PoolError;
use crate::format::run::PAIRS_PER_BLOCK;

/// Blocks whose pairs share a filter: 1 MiB of a run.
pub const BLOCKS_PER_PART: u64 = 256;
const PAIRS_PER_PART: usize = BLOCKS_PER_PART as usize * PAIRS_PER_BLOCK;

/// Bytes of filters for so many pairs in so many parts, at most: 1.13 for each of many, more for
/// each of few.
pub const fn filter_bytes(pairs: u64, parts: u64) -> u64 {
    pairs * 115 / 100 + 1024 * parts
}

/// Bytes of half a filter of one of these parts, on average.
const fn half_filter_bytes(pairs: u64, parts: u64) -> u64 {
    match parts {
        0 => 1,
        parts => filter_bytes(pairs, parts).div_ceil(2 * parts),
    }
}

/// How many parts of a run get filters: each the first ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterPlan {
    /// Filters, half or whole.
    pub filters: usize,
    /// Whole ones.
    pub whole: usize,
}

impl FilterPlan {
    /// What the filters of so many parts tell.
    pub const fn worth(self) -> usize {
        self.filters + self.whole
    }

    /// Half a filter for as many of a run's parts as there is room for, which is taken off `free`:
    /// half a filter for each of two parts spares more reads than a whole one for one of them.
    pub fn halves((pairs, parts): (u64, u64), free: &mut u64) -> Self {
        let each = half_filter_bytes(pairs, parts);
        let filters = parts.min(*free / each);
        *free -= filters * each;
        Self { filters: filters as usize, whole: 0 }
    }

    /// Whole ones in place of these as far as there is room, which is taken off `free`.
    pub fn with_wholes(self, (pairs, parts): (u64, u64), free: &mut u64) -> Self {
        let each = half_filter_bytes(pairs, parts);
        let whole = (self.filters as u64).min(*free / each);
        *free -= whole * each;
        Self { whole: whole as usize, ..self }
    }

    /// The best for a run of so many pairs, in segments of so many, in so many bytes.
    pub fn alone(pairs: u64, segment_pairs: u64, mut bytes: u64) -> Self {
        // The last part of each segment may be a small one.
        let parts = pairs.div_ceil(PAIRS_PER_PART as u64) + pairs.div_ceil(segment_pairs);
        let halves = Self::halves((pairs, parts), &mut bytes);
        halves.with_wholes((pairs, parts), &mut bytes)
    }
}

/// Parts of a run that is written or read.
pub struct PartMaker {
    plan: FilterPlan,
    /// Of the part that is being made.
    keys: Vec<u64>,
    fences: Vec<u32>,
    /// Its segment, and its first block in it.
    segment: usize,
    first_block: u32,
    parts: Vec<Part>,
    filters: Vec<Arc<Filter>>,
}

impl PartMaker {
    /// For a run with so many filters.
    pub const fn new(plan: FilterPlan) -> Self {
        Self {
            plan,
            keys: Vec::new(),
            fences: Vec::new(),
            segment: 0,
            first_block: 0,
            parts: Vec::new(),
            filters: Vec::new(),
        }
    }

    /// The key of the next pair of this segment.
    pub fn push(&mut self, key: u64) {
        if self.keys.len() == PAIRS_PER_PART {
            self.end_part();
        }
        if self.keys.len().is_multiple_of(PAIRS_PER_BLOCK) {
            self.fences.push((key >> 32) as u32);
        }
        self.keys.push(key);
    }

    /// What comes next is in another segment.
    pub fn end_segment(&mut self) {
        self.end_part();
        self.segment += 1;
        self.first_block = 0;
    }

    fn end_part(&mut self) {
        let Some(&last) = self.keys.last() else { return };
        let blocks = self.fences.len() as u32;
        let (segment, first_block) = (self.segment, self.first_block);
        let fences = std::mem::take(&mut self.fences).into_boxed_slice();
        // Filters are of the first parts: where one has none, those after it have none either.
        if self.filters.len() < self.plan.filters && self.filters.len() == self.parts.len() {
            // A filter cannot be made of keys that are there twice.
            self.keys.dedup();
            let is_whole = self.filters.len() < self.plan.whole;
            let filter = Filter::of(&self.keys);
            let cut = |filter: Filter| if is_whole { filter } else { filter.half() };
            self.filters.extend(filter.map(cut).map(Arc::new));
        }
        self.parts.push(Part { last, segment, first_block, fences });
        self.first_block += blocks;
        self.keys.clear();
    }

    /// All segments have ended, and are files.
    pub fn finish(self, folder: &Arc<dyn Folder>, run: &Run) -> Result<Asked, PoolError> {
        let mut segments = Vec::with_capacity(run.parts.len());
        for header in &*run.parts {
            let name = file_name(header.run, header.part);
            let (media, blocks) = (folder.open(&name)?, header.blocks() as u32);
            segments.push(Segment { media, name, blocks });
        }
        let (segments, parts) = (segments.into(), self.parts.into());
        Ok(Asked { number: run.number, segments, parts, filters: self.filters })
    }
}

#[cfg(test)]
mod tests;
