//! Several runs become one; what is in more than one place meets.
//! Room: onefold-pool.
//! In: runs. Out: pairs in order, those of one fingerprint together, and a new run of them.
//! Invariants: (1) pairs of containers that are gone are left out; (2) what was merged stays as it
//! is until the new run is durable; (3) a crash loses the segment that was being written, no more;
//! (4) no segment becomes durable before the caller is done with what met in it.
//! Cost: each pair is read and written once: 32 bytes.

use std::sync::Arc;

use onefold_block::ContainerId;

use super::container_set::ContainerSet;
use super::lookup::Asked;
use super::part_maker::{FilterPlan, PartMaker};
use super::reader::RunReader;
use super::set::{Run, Runs};
use super::writer::SegmentWriter;
use crate::error::PoolError;
use crate::format::pair::Pair;
use crate::format::run::SegmentHeader;

/// Pairs of a segment: 64 MiB.
pub const SEGMENT_PAIRS: u64 = 4 << 20;

/// A merge under way.
pub struct Merge {
    inputs: Vec<Run>,
    readers: Vec<RunReader>,
    alive: ContainerSet,
    output: Output,
    total: u64,
    passed: u64,
}

/// The run that is written.
pub struct Output {
    number: u32,
    sequence: u64,
    inputs: Vec<u32>,
    covered: Vec<ContainerId>,
    parts: Vec<SegmentHeader>,
    writer: Option<SegmentWriter>,
    segment_pairs: u64,
    last: Option<Pair>,
    /// Makes what writers can ask of it, while all of it passes by.
    maker: Option<PartMaker>,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The pairs of a fingerprint, for so many bytes read and written.
    Group(u64),
    /// Before it goes on, [`Merge::end_segment`].
    SegmentFull,
    /// There are no more: [`Merge::finish`].
    Ended,
}

/// A reading error is of one run, which is damaged; a writing error of none.
pub struct MergeError {
    /// The run that cannot be read.
    pub run: Option<u32>,
    /// Why.
    pub error: PoolError,
}

impl From<PoolError> for MergeError {
    fn from(error: PoolError) -> Self {
        Self { run: None, error }
    }
}

impl Output {
    /// A new run of pairs of these containers.
    pub fn new(
        number: u32,
        sequence: u64,
        inputs: Vec<u32>,
        covered: Vec<ContainerId>,
        segment_pairs: u64,
    ) -> Self {
        let (parts, writer, last, maker) = (Vec::new(), None, None, None);
        Self { number, sequence, inputs, covered, parts, writer, segment_pairs, last, maker }
    }

    /// Make filters of its `pairs` meanwhile, of about so many bytes: it is not read once more for
    /// them.
    pub fn with_filters(self, pairs: u64, bytes_max: u64) -> Self {
        let plan = FilterPlan::alone(pairs, self.segment_pairs, bytes_max);
        Self { maker: Some(PartMaker::new(plan)), ..self }
    }

    /// Whether this pair, which is next, belongs into another segment: all pairs of one key are in
    /// one.
    fn is_full_before(&self, pair: Pair) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.pairs() >= self.segment_pairs)
            && self.last.is_none_or(|last| last.key < pair.key)
    }

    /// Add a pair. Returns the bytes written now.
    pub fn push(&mut self, runs: &Runs, pair: Pair) -> Result<u64, PoolError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(SegmentWriter::begin(
                runs.folder(),
                runs.uuid(),
                next_header(self.number, self.sequence, &self.inputs, &self.parts),
            )?),
        };
        self.last = Some(pair);
        if let Some(maker) = &mut self.maker {
            maker.push(pair.key);
        }
        writer.push(pair)
    }

    fn end_segment(&mut self, last: u64) -> Result<(), PoolError> {
        if let Some(writer) = self.writer.take() {
            let covered: &[ContainerId] = if self.parts.is_empty() { &self.covered } else { &[] };
            self.parts.push(writer.finish(last, covered)?);
            if let Some(maker) = &mut self.maker {
                maker.end_segment();
            }
        }
        Ok(())
    }

    /// All pairs are there. The second is what writers can ask of it, if that was made.
    pub fn finish(mut self, runs: &Runs) -> Result<(Run, Option<Asked>), PoolError> {
        if self.writer.is_none() {
            let header = next_header(self.number, self.sequence, &self.inputs, &self.parts);
            self.writer = Some(SegmentWriter::begin(runs.folder(), runs.uuid(), header)?);
        }
        self.end_segment(u64::MAX)?;
        let (parts, covered) = (self.parts.into(), self.covered.into());
        let run = Run { number: self.number, parts, covered };
        // If it cannot be opened now, it is read once that is wanted.
        let asked = self.maker.and_then(|maker| maker.finish(runs.folder(), &run).ok());
        Ok((run, asked))
    }
}

fn next_header(run: u32, sequence: u64, inputs: &[u32], parts: &[SegmentHeader]) -> SegmentHeader {
    let first = parts.last().map_or(0, |part| part.last + 1);
    let (part, inputs) = (parts.len() as u32, inputs.to_vec());
    SegmentHeader { run, part, sequence, first, inputs, ..SegmentHeader::default() }
}

impl Merge {
    /// Merge these runs into one; `alive` tells which containers are there.
    pub fn new(
        runs: &mut Runs,
        inputs: Vec<Run>,
        alive: ContainerSet,
        (segment_pairs, blocks_at_once): (u64, usize),
    ) -> Result<Self, MergeError> {
        let covered: ContainerSet = inputs.iter().flat_map(|run| run.covered.to_vec()).collect();
        let covered = covered.iter().filter(|&id| alive.contains(id)).collect();
        let sequence = inputs.iter().filter_map(|run| run.parts.first()).map(|part| part.sequence);
        let output = Output::new(
            runs.take_number(),
            sequence.max().unwrap_or(0),
            inputs.iter().map(|run| run.number).collect(),
            covered,
            segment_pairs,
        );
        Self::at(runs, inputs, alive, output, blocks_at_once)
    }

    /// Go on with one that was interrupted.
    pub fn resume(
        runs: &Runs,
        (done, inputs): (Run, Vec<Run>),
        alive: ContainerSet,
        (segment_pairs, blocks_at_once): (u64, usize),
    ) -> Result<Self, MergeError> {
        let first = done.parts.first();
        let mut output = Output::new(
            done.number,
            first.map_or(0, |part| part.sequence),
            first.map_or_else(Vec::new, |part| part.inputs.clone()),
            done.covered.to_vec(),
            segment_pairs,
        );
        output.parts = done.parts.to_vec();
        Self::at(runs, inputs, alive, output, blocks_at_once)
    }

    fn at(
        runs: &Runs,
        inputs: Vec<Run>,
        alive: ContainerSet,
        output: Output,
        blocks_at_once: usize,
    ) -> Result<Self, MergeError> {
        let from = output.parts.last().map_or(0, |part| part.last + 1);
        let passed = output.parts.iter().map(|part| part.pairs).sum();
        let mut readers = Vec::with_capacity(inputs.len());
        for run in &inputs {
            let parts = Arc::clone(&run.parts);
            let reader = RunReader::new(runs.folder(), parts, from, blocks_at_once);
            readers.push(reader.map_err(|error| of_run(run, error))?);
        }
        let total = inputs.iter().map(Run::pairs).sum();
        Ok(Self { inputs, readers, alive, output, total, passed })
    }

    /// How many pairs are merged, and how many there were in all.
    pub const fn progress(&self) -> (u64, u64) {
        (self.passed, self.total)
    }

    /// Merge the pairs of the next fingerprint into `group`, without those that are gone and each
    /// once.
    pub fn next(&mut self, runs: &Runs, group: &mut Vec<Pair>) -> Result<Progress, MergeError> {
        group.clear();
        let mut bytes = 0;
        while let Some((pair, from)) = self.least()? {
            match group.first() {
                Some(first) if !first.may_equal(pair) => break,
                None if self.output.is_full_before(pair) => return Ok(Progress::SegmentFull),
                _ => {}
            }
            self.readers[from].pass();
            self.passed += 1;
            bytes += self.readers[from].take_read_bytes();
            if self.alive.contains(pair.container()) && group.last() != Some(&pair) {
                group.push(pair);
                bytes += self.output.push(runs, pair)?;
            }
        }
        Ok(if group.is_empty() { Progress::Ended } else { Progress::Group(bytes) })
    }

    /// What has met up to here is done with: make the segment durable, after which it never meets
    /// again.
    pub fn end_segment(&mut self) -> Result<(), MergeError> {
        if let Some((next, _)) = self.least()? {
            self.output.end_segment(next.key - 1)?;
        }
        Ok(())
    }

    /// The least pair of all heads.
    fn least(&mut self) -> Result<Option<(Pair, usize)>, MergeError> {
        let mut least: Option<(Pair, usize)> = None;
        for (number, reader) in self.readers.iter_mut().enumerate() {
            let head = reader.peek().map_err(|error| of_run(&self.inputs[number], error))?;
            if let Some(pair) = head
                && least.is_none_or(|(other, _)| pair < other)
            {
                least = Some((pair, number));
            }
        }
        Ok(least)
    }

    /// It cannot be ended: what was written of the new run goes.
    pub fn abandon(self, runs: &Runs) -> Result<(), PoolError> {
        let Output { number, parts, .. } = self.output;
        runs.remove_files(&Run { number, parts: parts.into(), covered: Arc::default() })
    }

    /// Make filters of what comes out meanwhile, of about so many bytes.
    pub fn with_filters(mut self, bytes_max: u64) -> Self {
        // Of one that is gone on with, the beginning has passed by.
        if self.output.parts.is_empty() {
            self.output = self.output.with_filters(self.total, bytes_max);
        }
        self
    }

    /// Everything is merged: the new run takes the place of the others. Returns what writers can
    /// ask of it, if that was made.
    pub fn finish(self, runs: &mut Runs) -> Result<Option<Asked>, PoolError> {
        let (run, asked) = self.output.finish(runs)?;
        runs.install(run)?;
        Ok(asked)
    }
}

fn of_run(run: &Run, error: PoolError) -> MergeError {
    // A file that is damaged or cannot be read: only reading it again from the start would tell.
    let damaged = error.is_unreadable();
    MergeError { run: damaged.then_some(run.number), error }
}

#[cfg(test)]
mod tests {
    use onefold_block::{CrashMode, SimFolder, SplitMix64};

    use super::*;
    use crate::runs::set::Thoroughness;

    const UUID: [u8; 16] = [4; 16];
    const LIMITS: (u64, usize) = (300, 1);

    fn open(folder: &SimFolder) -> (Runs, usize) {
        let (runs, problems) = Runs::open(Arc::new(folder.clone()), UUID, 5).unwrap();
        (runs, problems.len())
    }

    fn alive() -> ContainerSet {
        (1..=40).map(ContainerId::new).collect()
    }

    /// Four runs of ten containers each, whose pairs have few different keys.
    fn four(folder: &SimFolder) -> Vec<Pair> {
        let (mut runs, _) = open(folder);
        let mut random = SplitMix64::new(3);
        let mut all = Vec::new();
        for run in 0..4u32 {
            let covered: Vec<ContainerId> =
                (1..=10).map(|n| ContainerId::new(run * 10 + n)).collect();
            let mut pairs: Vec<Pair> = (0..1000u64)
                .map(|n| {
                    let key = random.below(600) << 50;
                    let container = u64::from(run) * 10 + 1 + n % 10;
                    Pair { key, rest: (container << 13) | (n / 10) }
                })
                .collect();
            pairs.sort_unstable();
            let mut output = Output::new(runs.take_number(), 5, Vec::new(), covered, u64::MAX);
            for &pair in &pairs {
                output.push(&runs, pair).unwrap();
            }
            let (run, _) = output.finish(&runs).unwrap();
            runs.install(run).unwrap();
            all.extend(pairs);
        }
        all.sort_unstable();
        all
    }

    fn begin(runs: &mut Runs) -> Merge {
        let merge = if let Some(begun) = runs.take_unfinished() {
            Merge::resume(runs, begun, alive(), LIMITS)
        } else {
            let inputs = runs.to_merge(1, Thoroughness::Whole).unwrap();
            Merge::new(runs, inputs, alive(), LIMITS)
        };
        merge.unwrap_or_else(|failed| panic!("{}", failed.error))
    }

    /// Merge to the end. Returns what met.
    fn merge(runs: &mut Runs) -> Result<Vec<Vec<Pair>>, PoolError> {
        let mut merge = begin(runs);
        let (mut group, mut groups) = (Vec::new(), Vec::new());
        loop {
            match merge.next(runs, &mut group).map_err(|failed| failed.error)? {
                Progress::Group(_) => groups.push(group.clone()),
                Progress::SegmentFull => merge.end_segment().map_err(|failed| failed.error)?,
                Progress::Ended => break,
            }
        }
        merge.finish(runs)?;
        Ok(groups)
    }

    fn pairs_of(runs: &Runs) -> Vec<Pair> {
        let [run] = runs.whole() else { panic!("{} runs", runs.whole().len()) };
        let mut reader = RunReader::new(runs.folder(), Arc::clone(&run.parts), 0, 3).unwrap();
        std::iter::from_fn(|| {
            let pair = reader.peek().unwrap();
            reader.pass();
            pair
        })
        .collect()
    }

    #[test]
    fn all_pairs_of_a_fingerprint_meet_and_the_new_run_has_them_in_order() {
        let folder = SimFolder::new();
        let all = four(&folder);
        let (mut runs, _) = open(&folder);
        let groups = merge(&mut runs).unwrap();
        assert_eq!(groups.concat(), all);
        let expected = all.chunk_by(|a, b| a.key == b.key).count();
        assert_eq!(groups.len(), expected, "each once");
        assert_eq!(pairs_of(&runs), all);
        let (runs, problems) = open(&folder);
        assert_eq!((pairs_of(&runs), problems), (all.clone(), 0));
        assert!(runs.whole()[0].parts.len() > 10, "several segments");
        assert!((1..=40).all(|id| runs.covers(ContainerId::new(id))));
        // From anywhere on.
        for from in (0..600).step_by(37) {
            let from = (from << 50) - from % 2;
            let parts = Arc::clone(&runs.whole()[0].parts);
            let mut reader = RunReader::new(runs.folder(), parts, from, 2).unwrap();
            let first = all.iter().find(|pair| pair.key >= from).copied();
            assert_eq!(reader.peek().unwrap(), first);
        }
    }

    /// Runs of these keys each.
    fn of_keys(folder: &SimFolder, each: &[&[u64]]) -> Runs {
        let (mut runs, _) = open(folder);
        for keys in each {
            let covered = vec![ContainerId::new(1)];
            let mut output = Output::new(runs.take_number(), 5, Vec::new(), covered, u64::MAX);
            for (&key, n) in keys.iter().zip(0..) {
                output.push(&runs, Pair { key, rest: (1 << 13) | n }).unwrap();
            }
            let (run, _) = output.finish(&runs).unwrap();
            runs.install(run).unwrap();
        }
        runs
    }

    #[test]
    fn a_segment_ends_with_the_pair_that_fills_it_unless_the_next_has_its_key() {
        let apart: Vec<u64> = (0..650).collect();
        // The 300th and the 301st have one key.
        let joined: Vec<u64> = (0..650).map(|n| if n < 300 { n } else { n - 1 }).collect();
        for (keys, pairs) in [(apart, [300, 300, 50]), (joined, [301, 300, 49])] {
            let folder = SimFolder::new();
            let mut runs = of_keys(&folder, &[&keys]);
            let mut merging = begin(&mut runs);
            assert_eq!(merging.progress(), (0, 650));
            let mut group = Vec::new();
            while merging.next(&runs, &mut group).unwrap_or(Progress::Ended)
                != Progress::SegmentFull
            {}
            assert_eq!(merging.progress(), (pairs[0], 650));
            assert!(merging.end_segment().is_ok());
            drop(merging);
            // It is gone on with where it was left.
            let (mut runs, _) = open(&folder);
            assert_eq!(begin(&mut runs).progress(), (pairs[0], 650));
            let (mut runs, _) = open(&folder);
            merge(&mut runs).unwrap();
            let [run] = runs.whole() else { panic!("{} runs", runs.whole().len()) };
            assert_eq!(run.parts.iter().map(|part| part.pairs).collect::<Vec<_>>(), pairs);
            let parts: Vec<_> = run.parts.iter().map(|part| (part.first, part.last)).collect();
            let ends = [keys[pairs[0] as usize], keys[(pairs[0] + pairs[1]) as usize]];
            let last = u64::MAX;
            assert_eq!(parts, [(0, ends[0] - 1), (ends[0], ends[1] - 1), (ends[1], last)]);
        }
    }

    #[test]
    fn of_a_merge_that_is_abandoned_nothing_is_left() {
        let folder = SimFolder::new();
        let mut runs = of_keys(&folder, &[&(0..400).collect::<Vec<u64>>()]);
        let mut merging = begin(&mut runs);
        let mut group = Vec::new();
        while merging.next(&runs, &mut group).unwrap_or(Progress::Ended) != Progress::SegmentFull {}
        assert!(merging.end_segment().is_ok());
        assert_eq!(runs.folder().list().unwrap().len(), 2);
        merging.abandon(&runs).unwrap();
        assert_eq!(runs.folder().list().unwrap(), [super::super::writer::file_name(1, 0)]);
    }

    #[test]
    fn a_reader_begins_with_the_first_pair_of_a_key_wherever_that_is() {
        let folder = SimFolder::new();
        // Key 7 ends one block, fills the next and begins a third one.
        let keys = [vec![0; 3], vec![1; 100], vec![7; 500], vec![9; 200]].concat();
        let runs = of_keys(&folder, &[&keys]);
        let parts = &runs.whole()[0].parts;
        for from in 0..=10 {
            let mut reader = RunReader::new(runs.folder(), Arc::clone(parts), from, 1).unwrap();
            let at = keys.iter().position(|&key| key >= from);
            let first = reader.peek().unwrap().map(|pair| (pair.key, pair.ordinal()));
            assert_eq!(first, at.map(|at| (keys[at], at)), "from {from}");
        }
        // Where the keys of a segment end with one that is there.
        let mut output = Output::new(9, 5, Vec::new(), Vec::new(), u64::MAX);
        output.push(&runs, Pair { key: 5, rest: 1 << 13 }).unwrap();
        output.end_segment(5).unwrap();
        output.push(&runs, Pair { key: 6, rest: 1 << 13 }).unwrap();
        let (run, _) = output.finish(&runs).unwrap();
        let mut reader = RunReader::new(runs.folder(), run.parts, 5, 1).unwrap();
        assert_eq!(reader.peek().unwrap().map(|pair| pair.key), Some(5));
    }

    #[test]
    fn containers_that_are_gone_are_left_out() {
        let folder = SimFolder::new();
        let all = four(&folder);
        let (mut runs, _) = open(&folder);
        let inputs = runs.to_merge(1, Thoroughness::Whole).unwrap();
        let alive: ContainerSet = (5..=31).map(ContainerId::new).collect();
        let merge = Merge::new(&mut runs, inputs, alive.clone(), LIMITS);
        let mut merge = merge.unwrap_or_else(|failed| panic!("{}", failed.error));
        let mut group = Vec::new();
        loop {
            match merge.next(&runs, &mut group).unwrap_or(Progress::Ended) {
                Progress::Group(_) => {}
                Progress::SegmentFull => assert!(merge.end_segment().is_ok()),
                Progress::Ended => break,
            }
        }
        merge.finish(&mut runs).unwrap();
        let left: Vec<Pair> =
            all.into_iter().filter(|pair| alive.contains(pair.container())).collect();
        assert_eq!(pairs_of(&runs), left);
        assert_eq!(runs.whole()[0].covered.len(), 27);
    }

    #[test]
    fn a_power_cut_anywhere_loses_no_run_and_at_most_a_segment_of_a_merge() {
        let intact = SimFolder::new();
        let all = four(&intact);
        let (mut went_on, mut at) = (0, 0);
        loop {
            let folder = intact.after_crash(0, CrashMode::KeepEverything);
            folder.crash_at(at);
            let done = Runs::open(Arc::new(folder.clone()), UUID, 5)
                .and_then(|(mut runs, _)| merge(&mut runs).map(drop));
            if !folder.has_crashed() {
                done.unwrap();
                break;
            }
            let mode = [CrashMode::KeepNothing, CrashMode::Random, CrashMode::KeepEverything];
            let left = folder.after_crash(at, mode[at as usize % 3]);
            let (mut runs, problems) = open(&left);
            assert_eq!(problems, 0, "a cut at {at} is no damage");
            let covers = |id| runs.covers(ContainerId::new(id));
            assert!((1..=40).all(covers), "a cut at {at} lost a run");
            if runs.whole().len() > 1 {
                let begun = begin(&mut runs);
                went_on += usize::from(begun.progress().0 > 0);
                drop(begun);
                let (mut runs, _) = open(&left);
                merge(&mut runs).unwrap();
            }
            let (runs, _) = open(&left);
            assert_eq!(pairs_of(&runs), all, "a cut at {at}");
            at += 1;
        }
        assert!(went_on > 10, "{went_on} merges were gone on with");
    }

    #[test]
    fn a_run_that_cannot_be_read_is_named_and_the_others_stay() {
        let folder = SimFolder::new();
        four(&folder);
        let (runs, _) = open(&folder);
        let damaged = runs.whole()[1].number;
        let name = super::super::writer::file_name(damaged, 0);
        let media = runs.folder().open(&name).unwrap();
        let at = 2 * crate::format::run::BLOCK_BYTES as u64 + 100;
        let mut byte = [0];
        media.read(at, &mut byte).unwrap();
        media.write(at, &[byte[0] ^ 4]).unwrap();
        let (mut runs, problems) = open(&folder);
        assert_eq!(problems, 0, "only reading it tells");
        let mut merge = begin(&mut runs);
        let mut group = Vec::new();
        let failed = loop {
            match merge.next(&runs, &mut group) {
                Ok(Progress::SegmentFull) => assert!(merge.end_segment().is_ok()),
                Ok(progress) => assert!(progress != Progress::Ended, "it is not noticed"),
                Err(failed) => break failed,
            }
        };
        assert_eq!(failed.run, Some(damaged));
        assert!(failed.error.to_string().contains(&name), "{}", failed.error);
        merge.abandon(&runs).unwrap();
        runs.drop_damaged(damaged).unwrap();
        let left: Vec<u32> = runs.whole().iter().map(|run| run.number).collect();
        assert_eq!(left.len(), 3);
        assert!(!runs.covers(ContainerId::new(11)) && runs.covers(ContainerId::new(21)));
        let (runs, problems) = open(&folder);
        assert_eq!((runs.whole().len(), problems), (3, 0), "nothing of the merge is left");
        // A header that is damaged is found at once, and the run goes.
        let name = super::super::writer::file_name(runs.whole()[0].number, 0);
        runs.folder().open(&name).unwrap().write(30, &[9]).unwrap();
        let (runs, problems) = open(&folder);
        assert_eq!((runs.whole().len(), problems), (2, 1));
    }

    #[test]
    fn runs_of_a_checkpoint_that_is_gone_are_dropped() {
        let folder = SimFolder::new();
        four(&folder);
        let (runs, problems) = Runs::open(Arc::new(folder.clone()), UUID, 4).unwrap();
        assert_eq!((runs.whole().len(), problems.len()), (0, 0));
        assert!(runs.folder().list().unwrap().is_empty());
    }
}
