//! Makes what writers ask of runs, a part at a time.
//! Room: onefold-pool.
//! In: runs, and memory. Out: a [`Lookup`] of them.
//! Small runs have their filters first: where there is none, each look-up reads a block of every
//! run, and of all runs the largest is to be the one that is read.

use std::sync::Arc;

use onefold_block::Folder;
use xorf::BinaryFuse8;

use super::lookup::{Asked, Lookup, Part, Segment};
use super::set::Run;
use super::writer::file_name;
use crate::error::PoolError;
use crate::format::pair::Pair;
use crate::format::run::{BLOCK_BYTES, PAIRS_PER_BLOCK, SegmentHeader, decode_block};

/// Blocks whose pairs share a filter: 1 MiB of a run.
const BLOCKS_PER_PART: u64 = 256;
/// Bytes of a filter for so many pairs, at most: 1.13 for each of many, more for each of few.
const fn filter_bytes(pairs: u64) -> u64 {
    pairs * 115 / 100 + 1024
}
const FILTER_BYTES: u64 = filter_bytes(BLOCKS_PER_PART * PAIRS_PER_BLOCK as u64);

/// A run that is to be read, and how many of its parts get a filter.
struct Planned {
    run: Run,
    filters: usize,
}

/// Makes a [`Lookup`], a part at a time.
pub struct Builder {
    folder: Arc<dyn Folder>,
    limit_bytes: u64,
    /// Those that are still to be read.
    left: Vec<Planned>,
    made: Lookup,
    /// Of the run that is being read.
    now: Reading,
}

#[derive(Default)]
struct Reading {
    segments: Vec<Segment>,
    parts: Vec<Part>,
    filters: Vec<Arc<BinaryFuse8>>,
    /// The block of the last segment that is next.
    block: u64,
}

fn parts(run: &Run) -> u64 {
    run.parts.iter().map(|segment| segment.blocks().div_ceil(BLOCKS_PER_PART)).sum()
}

fn fence_bytes(run: &Run) -> u64 {
    let blocks: u64 = run.parts.iter().map(SegmentHeader::blocks).sum();
    parts(run) * size_of::<Part>() as u64 + 4 * blocks
}

/// Memory for all that can be asked of these runs, in bytes.
pub fn bytes_wanted(runs: &[Run]) -> u64 {
    let of = |run: &Run| fence_bytes(run) + filter_bytes(run.pairs()) + 1024 * parts(run);
    runs.iter().map(of).sum()
}

impl Builder {
    /// Of these runs, as far as the memory goes. What was made of them `before` is kept.
    pub fn new(folder: &Arc<dyn Folder>, runs: &[Run], limit_bytes: u64, before: &Lookup) -> Self {
        let mut runs: Vec<&Run> = runs.iter().collect();
        runs.sort_by_key(|run| run.pairs());
        let mut free = limit_bytes;
        runs.retain(|run| {
            let has_room = fence_bytes(run) <= free;
            free -= if has_room { fence_bytes(run) } else { 0 };
            has_room
        });
        let (mut made, mut left) = (Lookup::default(), Vec::new());
        for run in runs {
            let each = filter_bytes(run.pairs()).min(FILTER_BYTES);
            let filters = parts(run).min(free / each);
            free -= filters * each;
            let filters = filters as usize;
            let known = before.runs.iter().find(|asked| asked.number == run.number);
            match known {
                // It is not read again for little more than is known of it.
                Some(known) if known.filters.len() * 2 >= filters => {
                    let mut known = known.clone();
                    known.filters.truncate(filters);
                    made.runs.push(known);
                }
                _ => left.push(Planned { run: run.clone(), filters }),
            }
        }
        let (folder, now) = (Arc::clone(folder), Reading::default());
        Self { folder, limit_bytes, left, made, now }
    }

    /// What can be asked until all is made.
    pub fn kept(&self) -> Lookup {
        self.made.clone()
    }

    /// Make the next part. Returns the bytes read; none if all is made.
    pub fn step(&mut self) -> Result<Option<u64>, PoolError> {
        let Some(Planned { run, filters }) = self.left.last() else { return Ok(None) };
        let now = &mut self.now;
        let is_read = now.segments.last().is_none_or(|last| now.block == u64::from(last.blocks));
        if is_read {
            let Some(header) = run.parts.get(now.segments.len()) else {
                let Reading { segments, parts, filters, .. } = std::mem::take(now);
                let (segments, parts) = (segments.into(), parts.into());
                self.made.runs.push(Asked { number: run.number, segments, parts, filters });
                self.left.pop();
                return Ok(Some(1));
            };
            let name = file_name(header.run, header.part);
            let media = self.folder.open(&name)?;
            now.segments.push(Segment { media, name, blocks: header.blocks() as u32 });
            now.block = 0;
            return Ok(Some(1));
        }
        let at = now.segments.len() - 1;
        let segment = &now.segments[at];
        let count = BLOCKS_PER_PART.min(u64::from(segment.blocks) - now.block);
        let mut bytes = vec![0; count as usize * BLOCK_BYTES];
        segment.media.read((1 + now.block) * BLOCK_BYTES as u64, &mut bytes)?;
        let (mut keys, mut fences) = (Vec::new(), Vec::with_capacity(count as usize));
        let mut pairs = Vec::with_capacity(PAIRS_PER_BLOCK);
        for (block, number) in bytes.chunks_exact(BLOCK_BYTES).zip(now.block as u32..) {
            pairs.clear();
            decode_block(block, (&segment.name, number), &mut pairs)?;
            fences.push(pairs.first().map_or(0, |pair: &Pair| (pair.key >> 32) as u32));
            keys.extend(pairs.iter().map(|pair| pair.key));
        }
        // A filter cannot be made of keys that are there twice.
        keys.dedup();
        let last = keys.last().copied().unwrap_or(0);
        let (first_block, fences) = (now.block as u32, fences.into_boxed_slice());
        if now.filters.len() == now.parts.len()
            && now.parts.len() < *filters
            // It fails by bad luck once in many billions: the rest does without, then.
            && let Ok(filter) = BinaryFuse8::try_from(&keys)
        {
            now.filters.push(Arc::new(filter));
        }
        now.parts.push(Part { last, segment: at, first_block, fences });
        now.block += count;
        Ok(Some(bytes.len() as u64))
    }

    /// What was made.
    pub fn finish(self) -> Lookup {
        // Filters of few pairs take more than others.
        self.made.within(self.limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{ContainerId, SimFolder, SplitMix64};

    use super::*;
    use crate::runs::merge::Output;
    use crate::runs::set::Runs;

    fn built(runs: &Runs, limit_bytes: u64) -> Lookup {
        built_after(&Lookup::default(), runs, limit_bytes).0
    }

    /// The second is what was read for it.
    fn built_after(before: &Lookup, runs: &Runs, limit_bytes: u64) -> (Lookup, u64) {
        let mut builder = Builder::new(runs.folder(), runs.whole(), limit_bytes, before);
        let mut bytes = 0;
        while let Some(read) = builder.step().unwrap() {
            bytes += read;
        }
        (builder.finish(), bytes)
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
        assert!(perhaps.iter().all(|perhaps| perhaps.filtered));
        // With less memory, more are looked for in vain, and what is there is found as before.
        let half = built(&runs, lookup.bytes() / 2);
        assert!(half.bytes() <= lookup.bytes() / 2);
        for pair in all.iter().step_by(17) {
            assert!(found(&half, pair.key).contains(pair), "{pair:?}");
        }
        perhaps.clear();
        for _ in 0..10_000 {
            half.perhaps(random.next_u64(), &mut perhaps);
        }
        let bare = perhaps.iter().filter(|perhaps| !perhaps.filtered).count();
        assert!((6_000..14_000).contains(&bare), "{bare} of 20,000 without a filter");
        let fences = built(&runs, 6000);
        assert!(fences.bytes() <= 6000 && found(&fences, 1 << 60).len() == 1200);
        assert!(built(&runs, 1000).is_empty());
    }

    #[test]
    fn what_is_known_of_a_run_is_kept_and_what_has_gone_is_not() {
        let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
        let (mut runs, _) = Runs::open(folder, [1; 16], 1).unwrap();
        let install = |runs: &mut Runs, from: u64, inputs: Vec<u32>| {
            let covered = vec![ContainerId::new(from as u32 + 1)];
            let mut output = Output::new(runs.take_number(), 1, inputs, covered, u64::MAX);
            for n in from..from + 20_000 {
                output.push(runs, Pair { key: n << 40, rest: ((from + 1) << 13) | 7 }).unwrap();
            }
            let run = output.finish(runs).unwrap();
            let number = run.number;
            runs.install(run).unwrap();
            number
        };
        let first = install(&mut runs, 0, Vec::new());
        let (one, of_one) = built_after(&Lookup::default(), &runs, 1 << 30);
        assert!(of_one >= 20_000 * 16);
        // Nothing is read of what is known.
        let (same, of_none) = built_after(&one, &runs, 1 << 30);
        assert_eq!((of_none, same.bytes()), (0, one.bytes()));
        let second = install(&mut runs, 20_000, Vec::new());
        let (two, of_two) = built_after(&one, &runs, 1 << 30);
        assert!((of_one - 9..of_one + 9).contains(&of_two), "{of_two} bytes");
        assert!(!found(&two, 7 << 40).is_empty() && !found(&two, 30_000 << 40).is_empty());
        // With less memory one of them does without its filter; with more, it is read again.
        let (part, _) = built_after(&two, &runs, one.bytes() + 2000);
        let filters = |lookup: &Lookup| lookup.runs.iter().map(|run| run.filters.len()).sum();
        let (of_part, of_both): (usize, usize) = (filters(&part), filters(&two));
        assert!(part.bytes() <= one.bytes() + 2000 && (of_part, of_both) == (1, 2));
        assert!(!found(&part, 7 << 40).is_empty() && !found(&part, 30_000 << 40).is_empty());
        let (again, of_again) = built_after(&part, &runs, 1 << 30);
        assert_eq!((filters(&again), of_again > 20_000), (of_both, true));
        // A run that others were merged into.
        install(&mut runs, 40_000, vec![first, second]);
        let builder = Builder::new(runs.folder(), runs.whole(), 1 << 30, &two);
        assert!(builder.kept().is_empty());
        let (last, _) = built_after(&two, &runs, 1 << 30);
        assert!(found(&last, 7 << 40).is_empty() && !found(&last, 50_000 << 40).is_empty());
    }
}
