//! Runs that can be asked for single fingerprints while clients write.
//! Room: onefold-pool.
//! In: keys. Out: blocks of runs in which they may be, and from there pairs.
//! Source: a table on disk behind a filter in memory, as [ajdari-talk] has it for FIDR; the filter
//! is that of [binary-fuse-22].
//! Invariant: what is told is a hint: it is verified like the index's.
//! Cost: 4 bytes of memory for each block of 255 pairs, and where there is room for filters 1.15
//! bytes a pair, or half of that. A quarter of a block is read for each key that is there; of those
//! that are not, for one in 256 or in 16 where there is a filter, and elsewhere for all.

use std::sync::Arc;

use onefold_block::Media;

use super::filter::Filter;
use super::part_maker::FilterPlan;
use crate::error::PoolError;
use crate::format::pair::Pair;
use crate::format::run::{BLOCK_BYTES, PAIRS_PER_BLOCK, pairs_bytes, search_block, search_pairs};

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

/// Pairs that are read of a block at first. Keys are as good as random, so that one in a full block
/// lies no more than 8 pairs (standard deviation) from where it is expected: in these but for once
/// in ten thousand times, after which the whole block is read.
const PAIRS_EXPECTED: usize = 64;

/// A block in which a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Perhaps {
    run: usize,
    segment: usize,
    block: u32,
    /// The first of the pairs among which it is expected, in a block that is full.
    expected: Option<u8>,
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
            let at = next.saturating_sub(1);
            let block = part.first_block + at as u32;
            let expected = part.fences.get(at..at + 2).map(|fences| expected(high, fences));
            let filtered = filter.is_some();
            out.push(Perhaps { run: number, segment: part.segment, block, expected, filtered });
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
        if let Some(from) = at.expected {
            let offset = segment_offset(at.block) + pairs_bytes(usize::from(from)) as u64;
            let mut pairs = [0; pairs_bytes(PAIRS_EXPECTED)];
            if !segment.media.read_at_hand(offset, &mut pairs) {
                return Ok(false);
            }
            if search_pairs(&pairs, key, out) {
                return Ok(true);
            }
        }
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

/// The first of the pairs among which a key is expected whose high half is this, in a block that
/// begins with the first of these and is followed by one that begins with the second.
fn expected(high: u32, fences: &[u32]) -> u8 {
    let (passed, all) = (high.saturating_sub(fences[0]), fences[1].saturating_sub(fences[0]));
    let at = u64::from(passed) * PAIRS_PER_BLOCK as u64 / u64::from(all).max(1);
    let from = (at as usize).saturating_sub(PAIRS_EXPECTED / 2);
    from.min(PAIRS_PER_BLOCK - PAIRS_EXPECTED) as u8
}

/// Where a block of pairs is in its segment.
const fn segment_offset(block: u32) -> u64 {
    (1 + block as u64) * BLOCK_BYTES as u64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use onefold_block::{ContainerId, Folder, MediaError, SimFolder, SplitMix64};

    use super::*;
    use crate::format::run::SegmentHeader;
    use crate::runs::lookup_builder::{Builder, bytes_wanted};
    use crate::runs::merge::Output;
    use crate::runs::part_maker::filter_bytes;
    use crate::runs::set::Runs;
    use crate::runs::writer::SegmentWriter;

    /// All of it is at hand; what is read is counted.
    struct AtHand {
        media: Arc<dyn Media>,
        bytes: Arc<AtomicU64>,
    }

    impl Media for AtHand {
        fn len(&self) -> Result<u64, MediaError> {
            self.media.len()
        }

        fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
            self.media.read(offset, buf)
        }

        fn read_at_hand(&self, offset: u64, buf: &mut [u8]) -> bool {
            self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
            self.media.read(offset, buf).is_ok()
        }

        fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
            self.media.write(offset, data)
        }

        fn set_len(&self, len: u64) -> Result<(), MediaError> {
            self.media.set_len(len)
        }

        fn sync(&self) -> Result<(), MediaError> {
            self.media.sync()
        }
    }

    #[test]
    fn a_key_is_expected_in_a_quarter_of_its_block() {
        // Of 255 pairs between two fences, 64 around where it would be.
        for (high, from) in [(0, 0), (999, 0), (1000, 0), (1128, 0), (1256, 31), (1512, 95)] {
            assert_eq!(expected(high, &[1000, 2024]), from, "{high}");
        }
        for (high, from) in [(1892, 190), (1896, 191), (2023, 191), (2024, 191), (9999, 191)] {
            assert_eq!(expected(high, &[1000, 2024]), from, "{high}");
        }
        assert_eq!(expected(7, &[7, 7]), 0, "all have the same half");
        assert_eq!(expected(8, &[7, 8]), 191, "at the end of the block");
    }

    #[test]
    fn a_quarter_of_a_block_tells_what_all_of_it_would() {
        let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
        let (mut runs, _) = Runs::open(folder, [1; 16], 1).unwrap();
        let mut random = SplitMix64::new(11);
        let mut keys: Vec<u64> = (0..100_000).map(|_| random.next_u64()).collect();
        // Some are there twice, one fills more than a block, and one is the last of all.
        keys.extend_from_within(..2000);
        keys.extend([1 << 60; 600]);
        keys.extend([0, u64::MAX]);
        keys.sort_unstable();
        let covered = (1..=13).map(ContainerId::new).collect();
        let mut output = Output::new(runs.take_number(), 1, Vec::new(), covered, u64::MAX);
        for (&key, n) in keys.iter().zip(0..) {
            let rest = ((1 + n / 8000) << 13) | (n % 8000);
            output.push(&runs, Pair { key, rest }).unwrap();
        }
        let (run, _) = output.finish(&runs).unwrap();
        runs.install(run).unwrap();
        let none = Lookup::default();
        let mut builder = Builder::new(runs.folder(), runs.whole(), 1 << 30, &none);
        while builder.step().unwrap().is_some() {}
        let mut lookup = builder.finish();
        let bytes = Arc::new(AtomicU64::new(0));
        let at_hand = |segment: &Segment| Segment {
            media: Arc::new(AtHand {
                media: Arc::clone(&segment.media),
                bytes: Arc::clone(&bytes),
            }),
            name: segment.name.clone(),
            blocks: segment.blocks,
        };
        lookup.runs[0].segments = lookup.runs[0].segments.iter().map(at_hand).collect();
        let strangers: Vec<u64> = (0..300_000).map(|_| random.next_u64()).collect();
        let mut looked = 0;
        for &key in keys.iter().step_by(7).chain(&strangers).chain(&[1 << 60, u64::MAX]) {
            let mut perhaps = Vec::new();
            lookup.perhaps(key, &mut perhaps);
            for at in perhaps {
                let (mut of_part, mut of_all) = (Vec::new(), Vec::new());
                assert!(lookup.read_at_hand(at, key, &mut of_part).unwrap());
                lookup.read(at, key, &mut of_all).unwrap();
                assert_eq!(of_part, of_all, "{key:x}");
                looked += 1;
            }
        }
        let each = bytes.load(Ordering::Relaxed) / looked;
        assert!(looked > 15_000 && each < 1100, "{each} bytes for each of {looked}");
    }

    /// Runs of keys that are 2^40 apart, in two segments each.
    fn even(runs: u32, keys: u64) -> (Runs, Lookup) {
        let folder: Arc<dyn Folder> = Arc::new(SimFolder::new());
        for run in 1..=runs {
            let half = keys / 2;
            for (part, numbers) in [(0, 0..half), (1, half..keys)] {
                let first = numbers.start << 40;
                let last = if part == 0 { (half << 40) - 1 } else { u64::MAX };
                let header = SegmentHeader { run, part, sequence: 1, first, ..Default::default() };
                let mut writer = SegmentWriter::begin(&folder, [1; 16], header).unwrap();
                for n in numbers {
                    writer.push(Pair { key: n << 40, rest: u64::from(run) << 13 | n }).unwrap();
                }
                let covered = [ContainerId::new(run)];
                writer.finish(last, if part == 0 { &covered } else { &[] }).unwrap();
            }
        }
        let (all, problems) = Runs::open(folder, [1; 16], 1).unwrap();
        assert_eq!((all.whole().len(), problems.len()), (runs as usize, 0));
        let none = Lookup::default();
        let mut builder = Builder::new(all.folder(), all.whole(), 1 << 30, &none);
        while builder.step().unwrap().is_some() {}
        (all, builder.finish())
    }

    #[test]
    fn a_key_is_looked_for_in_its_own_block_of_whichever_segment() {
        let (runs, lookup) = even(1, 3000);
        assert_eq!(lookup.runs[0].segments.len(), 2);
        let fences: u64 = lookup.runs[0].parts.iter().map(Part::bytes).sum();
        let wanted = bytes_wanted(runs.whole()) - filter_bytes(3000, 2);
        assert_eq!(wanted, fences, "memory is planned as it is used");
        let second = runs.whole()[0].parts[0].pairs;
        for n in 0..3000 {
            let (mut perhaps, mut pairs) = (Vec::new(), Vec::new());
            lookup.perhaps(n << 40, &mut perhaps);
            let [at] = perhaps[..] else { panic!("{perhaps:?}") };
            let (segment, within) = if n < second { (0, n) } else { (1, n - second) };
            let block = (within as u32).saturating_sub(1) / PAIRS_PER_BLOCK as u32;
            let exact = within as u32 / PAIRS_PER_BLOCK as u32;
            assert!(at.segment == segment && (block..=exact).contains(&at.block), "{n}: {at:?}");
            lookup.read(at, n << 40, &mut pairs).unwrap();
            assert_eq!(pairs, [Pair { key: n << 40, rest: 1 << 13 | n }]);
        }
    }

    #[test]
    fn runs_whose_filters_know_a_key_come_before_those_without() {
        let (_, mut lookup) = even(3, 300);
        for without in [0, 2] {
            lookup.runs[without].filters.clear();
        }
        let earlier = Perhaps { run: 9, segment: 0, block: 0, expected: None, filtered: false };
        let mut perhaps = vec![earlier];
        lookup.perhaps(7 << 40, &mut perhaps);
        let asked: Vec<_> = perhaps.iter().map(|perhaps| (perhaps.run, perhaps.filtered)).collect();
        assert_eq!(asked, [(9, false), (1, true), (0, false), (2, false)]);
    }
}
