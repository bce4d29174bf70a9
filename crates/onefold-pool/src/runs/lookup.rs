//! Runs that can be asked for single fingerprints while clients write.
//! Room: onefold-pool.
//! In: keys. Out: blocks of runs in which they may be, and from there pairs.
//! Source: a table on disk behind a filter in memory, as [ajdari-talk] has it for FIDR; the filter
//! is that of [binary-fuse-22].
//! Invariant: what is told is a hint: it is verified like the index's.
//! Cost: 1.15 bytes of memory a pair; a block of 4 KiB read for each key that is there, and for one
//! in 256 that is not.

use std::sync::Arc;

use onefold_block::{Folder, Media};
use xorf::{BinaryFuse8, Filter};

use super::set::Run;
use super::writer::file_name;
use crate::error::PoolError;
use crate::format::pair::Pair;
use crate::format::run::{BLOCK_BYTES, PAIRS_PER_BLOCK, decode_block};

/// Blocks whose pairs share a filter: 1 MiB of a run.
const BLOCKS_PER_PART: u64 = 256;
/// Bytes of memory of one part.
pub const PART_BYTES: u64 =
    BLOCKS_PER_PART * PAIRS_PER_BLOCK as u64 * 115 / 100 + BLOCKS_PER_PART * 4;

/// Blocks of a segment that follow each other, and what keys are in them.
struct Part {
    last: u64,
    segment: usize,
    first_block: u32,
    /// The high halves of the blocks' first keys.
    fences: Box<[u32]>,
    filter: BinaryFuse8,
}

/// A run, as far as there is memory to know it.
struct Asked {
    segments: Vec<Segment>,
    /// In the order of their keys.
    parts: Vec<Part>,
}

struct Segment {
    media: Arc<dyn Media>,
    name: String,
    blocks: u32,
}

/// Runs to be asked.
#[derive(Default)]
pub struct Lookup {
    runs: Vec<Asked>,
    bytes: u64,
}

/// A block in which a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Perhaps {
    run: usize,
    segment: usize,
    block: u32,
}

impl Lookup {
    /// Memory in use, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing can be asked.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Where a key may be.
    pub fn perhaps(&self, key: u64, out: &mut Vec<Perhaps>) {
        for (number, run) in self.runs.iter().enumerate() {
            let at = run.parts.partition_point(|part| part.last < key);
            let Some(part) = run.parts.get(at).filter(|part| part.filter.contains(&key)) else {
                continue;
            };
            let high = (key >> 32) as u32;
            // The first block that may have it is the one before the first that begins past it.
            let next = part.fences.partition_point(|&fence| fence < high);
            let block = part.first_block + next.saturating_sub(1) as u32;
            out.push(Perhaps { run: number, segment: part.segment, block });
        }
    }

    /// It will be read soon.
    pub fn announce(&self, at: Perhaps) {
        let segment = &self.runs[at.run].segments[at.segment];
        segment.media.will_read((1 + u64::from(at.block)) * BLOCK_BYTES as u64, BLOCK_BYTES as u64);
    }

    /// The pairs with this key that are there. Returns the bytes read.
    pub fn read(&self, at: Perhaps, key: u64, out: &mut Vec<Pair>) -> Result<u64, PoolError> {
        let segment = &self.runs[at.run].segments[at.segment];
        let (mut bytes, mut pairs) = ([0; BLOCK_BYTES], Vec::with_capacity(PAIRS_PER_BLOCK));
        let mut read = 0;
        for block in at.block..segment.blocks {
            segment.media.read((1 + u64::from(block)) * BLOCK_BYTES as u64, &mut bytes)?;
            read += BLOCK_BYTES as u64;
            pairs.clear();
            decode_block(&bytes, (&segment.name, block), &mut pairs)?;
            let from = pairs.partition_point(|pair| pair.key < key);
            out.extend(pairs[from..].iter().take_while(|pair| pair.key == key));
            // It may go on in the next block.
            if pairs.last().is_some_and(|last| last.key > key) {
                break;
            }
        }
        Ok(read)
    }
}

/// Makes a [`Lookup`], a part at a time.
pub struct Builder {
    folder: Arc<dyn Folder>,
    runs: Vec<Run>,
    limit_bytes: u64,
    made: Lookup,
    /// The segment and block of the run at hand, which is the last, that are next.
    segment: usize,
    block: u64,
}

impl Builder {
    /// Of these runs, the largest first, as far as the memory goes.
    pub fn new(folder: &Arc<dyn Folder>, runs: &[Run], limit_bytes: u64) -> Self {
        let mut runs = runs.to_vec();
        runs.sort_by_key(Run::pairs);
        let (segment, block) = (0, 0);
        let folder = Arc::clone(folder);
        Self { folder, runs, limit_bytes, made: Lookup::default(), segment, block }
    }

    /// Make the next part. Returns the bytes read; none if all is made.
    pub fn step(&mut self) -> Result<Option<u64>, PoolError> {
        let Some(run) = self.runs.last() else { return Ok(None) };
        if self.made.bytes + PART_BYTES > self.limit_bytes {
            return Ok(None);
        }
        let Some(header) = run.parts.get(self.segment) else {
            self.runs.pop();
            (self.segment, self.block) = (0, 0);
            return Ok(Some(1));
        };
        if (self.segment, self.block) == (0, 0) {
            self.made.runs.push(Asked { segments: Vec::new(), parts: Vec::new() });
        }
        let Some(asked) = self.made.runs.last_mut() else { return Ok(None) };
        if self.block == 0 {
            let name = file_name(header.run, header.part);
            let media = self.folder.open(&name)?;
            asked.segments.push(Segment { media, name, blocks: header.blocks() as u32 });
        }
        let count = BLOCKS_PER_PART.min(header.blocks() - self.block);
        if count == 0 {
            (self.segment, self.block) = (self.segment + 1, 0);
            return Ok(Some(1));
        }
        let segment = &asked.segments[self.segment];
        let mut bytes = vec![0; count as usize * BLOCK_BYTES];
        segment.media.read((1 + self.block) * BLOCK_BYTES as u64, &mut bytes)?;
        let (mut keys, mut fences) = (Vec::new(), Vec::with_capacity(count as usize));
        let mut pairs = Vec::with_capacity(PAIRS_PER_BLOCK);
        for (block, number) in bytes.chunks_exact(BLOCK_BYTES).zip(self.block as u32..) {
            pairs.clear();
            decode_block(block, (&segment.name, number), &mut pairs)?;
            fences.push(pairs.first().map_or(0, |pair: &Pair| (pair.key >> 32) as u32));
            keys.extend(pairs.iter().map(|pair| pair.key));
        }
        // A filter cannot be made of keys that are there twice.
        keys.dedup();
        let last = keys.last().copied().unwrap_or(0);
        // It fails by bad luck once in many billions: these keys are not asked for then.
        if let Ok(filter) = BinaryFuse8::try_from(&keys) {
            let first_block = self.block as u32;
            let (segment, fences) = (self.segment, fences.into_boxed_slice());
            self.made.bytes += filter.fingerprints.len() as u64 + 4 * fences.len() as u64;
            asked.parts.push(Part { last, segment, first_block, fences, filter });
        }
        self.block += count;
        Ok(Some(bytes.len() as u64))
    }

    /// What was made.
    pub fn finish(self) -> Lookup {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{ContainerId, SimFolder, SplitMix64};

    use super::*;
    use crate::runs::merge::Output;
    use crate::runs::set::Runs;

    fn built(runs: &Runs, limit_bytes: u64) -> Lookup {
        let mut builder = Builder::new(runs.folder(), runs.whole(), limit_bytes);
        while builder.step().unwrap().is_some() {}
        builder.finish()
    }

    fn found(lookup: &Lookup, key: u64) -> Vec<Pair> {
        let (mut perhaps, mut pairs) = (Vec::new(), Vec::new());
        lookup.perhaps(key, &mut perhaps);
        for at in perhaps {
            lookup.announce(at);
            lookup.read(at, key, &mut pairs).unwrap();
        }
        pairs
    }

    #[test]
    fn what_is_in_runs_is_found_and_strangers_are_rarely_looked_for() {
        let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
        let (mut runs, _) = Runs::open(folder, [1; 16], 1).unwrap();
        let mut random = SplitMix64::new(5);
        let mut all = Vec::new();
        for run in 1..=2u64 {
            let mut pairs: Vec<Pair> = (0..100_000)
                .map(|n| Pair { key: random.next_u64(), rest: (run << 13) | (n % 8000) })
                .collect();
            // One key fills more than a block, another is at the end of all.
            pairs.extend((0..600).map(|n| Pair { key: 1 << 60, rest: (run << 13) | n }));
            pairs.push(Pair { key: u64::MAX, rest: run << 13 });
            pairs.sort_unstable();
            let covered = vec![ContainerId::new(run as u32)];
            let mut output = Output::new(runs.take_number(), 1, Vec::new(), covered, 40_000);
            for &pair in &pairs {
                output.push(&runs, pair).unwrap();
            }
            let run = output.finish(&runs).unwrap();
            runs.install(run).unwrap();
            all.extend(pairs);
        }
        let lookup = built(&runs, 1 << 30);
        let per_pair = lookup.bytes() as f64 / all.len() as f64;
        assert!((1.1..1.3).contains(&per_pair), "{per_pair} bytes a pair");
        for pair in all.iter().step_by(17) {
            assert!(found(&lookup, pair.key).contains(pair), "{pair:?}");
        }
        assert_eq!(found(&lookup, 1 << 60).len(), 1200);
        assert_eq!(found(&lookup, u64::MAX).len(), 2);
        let mut perhaps = Vec::new();
        for _ in 0..100_000 {
            lookup.perhaps(random.next_u64(), &mut perhaps);
        }
        assert!(perhaps.len() < 1200, "{} of 200,000 in vain", perhaps.len());
        // With less memory, fewer are asked.
        let half = built(&runs, lookup.bytes() / 2);
        assert!(half.bytes() <= lookup.bytes() / 2 && !half.is_empty());
        let known = all.iter().filter(|pair| !found(&half, pair.key).is_empty()).count();
        assert!((60_000..140_000).contains(&known), "{known}");
        assert!(built(&runs, 1000).is_empty());
    }
}
