//! Makes what writers ask of runs, a part at a time.
//! Room: onefold-pool.
//! In: runs, and memory. Out: a [`Lookup`] of them.
//! Small runs have their filters first: where there is none, each look-up reads a block of every
//! run, and of all runs the largest is to be the one that is read.

use std::sync::Arc;

use onefold_block::{Folder, Media};

use super::lookup::{Lookup, Part};
use super::part_maker::{BLOCKS_PER_PART, FilterPlan, PartMaker, filter_bytes};
use super::set::Run;
use super::writer::file_name;
use crate::error::PoolError;
use crate::format::run::{BLOCK_BYTES, PAIRS_PER_BLOCK, SegmentHeader, decode_block};

/// A run that is to be read, and how many of its parts get a filter.
struct Planned {
    run: Run,
    plan: FilterPlan,
}

/// Makes a [`Lookup`], a part at a time.
pub struct Builder {
    folder: Arc<dyn Folder>,
    limit_bytes: u64,
    /// Those that are still to be read.
    left: Vec<Planned>,
    made: Lookup,
    /// Of the last of these, if it has begun to be read.
    now: Option<Reading>,
}

struct Reading {
    maker: PartMaker,
    /// The segment that is next or being read.
    segment: usize,
    /// Its file, once it is open.
    media: Option<Arc<dyn Media>>,
    /// The block of it that is next.
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
    let of = |run: &Run| fence_bytes(run) + filter_bytes(run.pairs(), parts(run));
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
        let size = |run: &Run| (run.pairs(), parts(run));
        let halves = |run: &&Run| FilterPlan::halves(size(run), &mut free);
        let plans: Vec<FilterPlan> = runs.iter().map(halves).collect();
        let (mut made, mut left) = (Lookup::default(), Vec::new());
        for (run, plan) in runs.into_iter().zip(plans) {
            let plan = plan.with_wholes(size(run), &mut free);
            match before.runs.iter().find(|asked| asked.number == run.number) {
                // It is not read again for little more than is known of it.
                Some(known) if known.plan().worth() * 2 >= plan.worth() => {
                    made.runs.push(known.cut(plan));
                }
                _ => left.push(Planned { run: run.clone(), plan }),
            }
        }
        Self { folder: Arc::clone(folder), limit_bytes, left, made, now: None }
    }

    /// What can be asked until all is made.
    pub fn kept(&self) -> Lookup {
        self.made.clone()
    }

    /// Make the next part. Returns the bytes read; none if all is made.
    pub fn step(&mut self) -> Result<Option<u64>, PoolError> {
        let Some(Planned { run, plan }) = self.left.last() else { return Ok(None) };
        let now = self.now.get_or_insert_with(|| Reading {
            maker: PartMaker::new(*plan),
            segment: 0,
            media: None,
            block: 0,
        });
        let Some(header) = run.parts.get(now.segment) else {
            let maker = self.now.take().map(|now| now.maker);
            let asked = maker.map(|maker| maker.finish(&self.folder, run)).transpose()?;
            self.made.runs.extend(asked);
            self.left.pop();
            return Ok(Some(1));
        };
        if now.block == header.blocks() {
            now.maker.end_segment();
            (now.segment, now.media, now.block) = (now.segment + 1, None, 0);
            return Ok(Some(1));
        }
        let name = file_name(header.run, header.part);
        let media = match &now.media {
            Some(media) => media,
            None => now.media.insert(self.folder.open(&name)?),
        };
        let count = BLOCKS_PER_PART.min(header.blocks() - now.block);
        let mut bytes = vec![0; count as usize * BLOCK_BYTES];
        media.read((1 + now.block) * BLOCK_BYTES as u64, &mut bytes)?;
        let mut pairs = Vec::with_capacity(PAIRS_PER_BLOCK);
        for (block, number) in bytes.chunks_exact(BLOCK_BYTES).zip(now.block as u32..) {
            pairs.clear();
            decode_block(block, (&name, number), &mut pairs)?;
            for pair in &pairs {
                now.maker.push(pair.key);
            }
        }
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
    use crate::format::pair::Pair;
    use crate::runs::merge::{Merge, Output, Progress};
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
            let (run, _) = output.finish(&runs).unwrap();
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
        let mut asked = |lookup: &Lookup| {
            perhaps.clear();
            for _ in 0..10_000 {
                lookup.perhaps(random.next_u64(), &mut perhaps);
            }
            (perhaps.len(), perhaps.iter().filter(|perhaps| !perhaps.filtered).count())
        };
        let (in_vain, bare) = asked(&half);
        assert!(in_vain < 6_000 && bare < 5_000, "{in_vain} and {bare} of 20,000");
        let (in_vain, bare) = asked(&built(&runs, lookup.bytes() / 4));
        assert!((7_000..17_000).contains(&in_vain), "{in_vain} of 20,000");
        assert!((6_000..16_000).contains(&bare), "{bare} of 20,000 without a filter");
        let fences = built(&runs, 6000);
        assert!(fences.bytes() <= 6000 && found(&fences, 1 << 60).len() == 1200);
        assert!(built(&runs, 1000).is_empty());
        // To the byte.
        let (least, both) = (fence_bytes(&runs.whole()[0]), fences.bytes());
        let known = |bytes: u64| {
            Builder::new(runs.folder(), runs.whole(), bytes, &Lookup::default()).left.len()
        };
        assert_eq!([least - 1, least, 2 * least - 1, 2 * least].map(known), [0, 1, 1, 2]);
        assert!(both == 2 * least);
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
            let (run, _) = output.finish(runs).unwrap();
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
        let (part, _) = built_after(&two, &runs, one.bytes() / 2 + 2500);
        let filters = |lookup: &Lookup| lookup.runs.iter().map(|run| run.filters.len()).sum();
        let (of_part, of_both): (usize, usize) = (filters(&part), filters(&two));
        assert!(part.bytes() <= one.bytes() / 2 + 2500 && (of_part, of_both) == (1, 2));
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

    #[test]
    fn where_there_is_room_for_one_run_it_is_the_smaller_one() {
        let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
        let (mut runs, _) = Runs::open(folder, [1; 16], 1).unwrap();
        for pairs in [2000, 300] {
            let covered = vec![ContainerId::new(1)];
            let mut output = Output::new(runs.take_number(), 1, Vec::new(), covered, u64::MAX);
            for n in 0..pairs {
                output.push(&runs, Pair { key: n << 40, rest: (1 << 13) | n }).unwrap();
            }
            let (run, _) = output.finish(&runs).unwrap();
            runs.install(run).unwrap();
        }
        let [large, small] = runs.whole() else { panic!("{} runs", runs.whole().len()) };
        let (room, none) = (fence_bytes(large), Lookup::default());
        assert!(fence_bytes(small) < room);
        let left = Builder::new(runs.folder(), runs.whole(), room, &none).left;
        let numbers: Vec<u32> = left.iter().map(|planned| planned.run.number).collect();
        assert_eq!(numbers, [small.number]);
    }

    #[test]
    fn what_is_made_while_a_run_is_written_is_what_would_be_read_of_it() {
        let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
        let (mut runs, _) = Runs::open(folder, [1; 16], 1).unwrap();
        let mut random = SplitMix64::new(8);
        let key = |n: u64| if n.is_multiple_of(4) { 1 << 61 } else { random.next_u64() };
        // One key fills several blocks, and a segment ends amid a part.
        let mut keys: Vec<u64> = (0..4000).map(key).collect();
        keys.extend((0..180_000).map(|_| random.next_u64()));
        keys.sort_unstable();
        let write = |runs: &mut Runs, bytes_max: u64| {
            let covered: Vec<ContainerId> = (1..=23).map(ContainerId::new).collect();
            let alive = covered.iter().copied().collect();
            let mut output = Output::new(runs.take_number(), 1, Vec::new(), covered, u64::MAX);
            for (&key, n) in keys.iter().zip(0..) {
                let rest = ((1 + n / 8000) << 13) | (n % 8000);
                output.push(runs, Pair { key, rest }).unwrap();
            }
            let (run, none) = output.finish(runs).unwrap();
            assert!(none.is_none(), "nobody wanted it");
            runs.install(run.clone()).unwrap();
            let merge = Merge::new(runs, vec![run], alive, (100_000, 4));
            let merge = merge.unwrap_or_else(|failed| panic!("{}", failed.error));
            let (mut merge, mut group) = (merge.with_filters(bytes_max), Vec::new());
            loop {
                match merge.next(runs, &mut group).unwrap_or_else(|_| panic!("it is whole")) {
                    Progress::Group(_) => {}
                    Progress::SegmentFull => assert!(merge.end_segment().is_ok()),
                    Progress::Ended => break,
                }
            }
            let asked = merge.finish(runs).unwrap().unwrap();
            (runs.whole().last().unwrap().clone(), asked)
        };
        let (run, made) = write(&mut runs, u64::MAX);
        let runs_of = |run: &Run| vec![run.clone()];
        let mut builder = Builder::new(runs.folder(), &runs_of(&run), 1 << 30, &Lookup::default());
        while builder.step().unwrap().is_some() {}
        let read = builder.finish().runs.remove(0);
        assert_eq!((made.number, made.parts.len()), (run.number, read.parts.len()));
        assert_eq!((made.parts.len(), made.segments.len()), (4, 2));
        assert_eq!(made.filters.len(), made.parts.len());
        for (made, read) in made.parts.iter().zip(&*read.parts) {
            assert_eq!((made.last, made.segment), (read.last, read.segment));
            assert_eq!((made.first_block, &made.fences), (read.first_block, &read.fences));
        }
        for (made, read) in made.filters.iter().zip(&read.filters) {
            assert!(made.is_whole() && read.is_whole() && made.bytes() == read.bytes());
        }
        for &key in &keys {
            let filter = &made.filters[made.parts.partition_point(|part| part.last < key)];
            assert!(filter.contains(key));
        }
        // With it at hand, nothing is read.
        let before = Lookup { runs: vec![made] };
        let mut builder = Builder::new(runs.folder(), &runs_of(&run), 1 << 30, &before);
        assert_eq!(builder.step().unwrap(), None);
        let lookup = builder.finish();
        for &key in keys.iter().step_by(97) {
            assert!(found(&lookup, key).iter().any(|pair| pair.key == key), "{key}");
        }
        // With less memory some are halved, with little only the first parts have any.
        for (bytes, filters, whole) in [(160_000, 4, 0..=2), (30_000, 1, 0..=0)] {
            let (_, less) = write(&mut runs, bytes);
            let plan = less.plan();
            assert_eq!((plan.filters, less.parts.len()), (filters, read.parts.len()));
            assert!(whole.contains(&plan.whole) && less.bytes() < bytes + 20_000, "{plan:?}");
            let lookup = Lookup { runs: vec![less] };
            for &key in keys.iter().step_by(97) {
                assert!(found(&lookup, key).iter().any(|pair| pair.key == key), "{key}");
            }
        }
    }
}
