//! Which runs there are, what they cover, and which are to be merged.
//! Room: onefold-pool.
//! In: the folder of segments. Out: whole runs; one whose merge was interrupted, to go on with.
//! Invariants: (1) a run counts only if all of its segments are there; (2) what a run was merged
//! from is removed after all of it is durable; (3) a run that rests on a checkpoint that is not
//! there any more is dropped: its container numbers may have been given out again.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_block::{ContainerId, Folder, small_file};

use super::container_set::ContainerSet;
use super::reader::{RunReader, read_header};
use super::writer::{file_name, parse_name};
use crate::error::PoolError;
use crate::format::run::SegmentHeader;

/// Runs of about the same size that become one.
pub const FAN_IN: usize = 8;
/// An idle pool merges all once what is new is one part in this of the largest run: each pair is
/// then written five times for one that is new.
const IDLE_SHARE: u64 = 4;

/// How much of it is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// What is cheap for what it may find: new fingerprints in batches, merges by levels.
    Levels,
    /// The same, and until every fingerprint has met every other where what is new is a quarter of
    /// the rest or more.
    Idle,
    /// Until every fingerprint has met every other.
    Whole,
}

/// A run.
#[derive(Clone)]
pub struct Run {
    /// Its number: later runs have higher ones.
    pub number: u32,
    /// Its segments, in order.
    pub parts: Arc<[SegmentHeader]>,
    /// The containers whose fingerprints it has.
    pub covered: Arc<[ContainerId]>,
}

impl Run {
    /// Pairs in it.
    pub fn pairs(&self) -> u64 {
        self.parts.iter().map(|part| part.pairs).sum()
    }

    /// Whether all of its pairs have met, and what met was shared: a new run's have not.
    pub fn is_merged(&self) -> bool {
        !self.inputs().is_empty()
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        let pairs: u64 = self.parts.iter().map(SegmentHeader::list_at).sum();
        pairs + 4 * self.covered.len() as u64
    }

    /// Read and verify all of it.
    pub fn read_all(&self, folder: &Arc<dyn Folder>) -> Result<(), PoolError> {
        let mut reader = RunReader::new(folder, Arc::clone(&self.parts), 0, 16)?;
        while reader.peek()?.is_some() {
            reader.pass();
        }
        Ok(())
    }

    fn inputs(&self) -> &[u32] {
        self.parts.first().map_or(&[], |part| &part.inputs)
    }
}

/// All runs of a pool.
pub struct Runs {
    folder: Arc<dyn Folder>,
    uuid: [u8; 16],
    whole: Vec<Run>,
    /// Segments of a run that is being merged.
    unfinished: Option<Run>,
    covered: ContainerSet,
    next: u32,
}

/// What was wrong with files in the folder.
pub type Problems = Vec<PoolError>;

impl Runs {
    /// Those in a folder, for a pool whose newest checkpoint was `sequence` when it was opened.
    /// What is damaged, or of no use, is removed: its containers are read again.
    pub fn open(
        folder: Arc<dyn Folder>,
        uuid: [u8; 16],
        sequence: u64,
    ) -> Result<(Self, Problems), PoolError> {
        let Survey { whole, unfinished, useless, problems } = survey(&*folder, &uuid, sequence)?;
        for name in &useless {
            folder.remove(name)?;
        }
        let numbers = whole.iter().chain(&unfinished).map(|run| run.number);
        let next = numbers.max().map_or(1, |last| last.wrapping_add(1).max(1));
        let mut runs =
            Self { folder, uuid, whole, unfinished, covered: ContainerSet::default(), next };
        runs.recount();
        Ok((runs, problems))
    }

    fn recount(&mut self) {
        self.covered = self.whole.iter().flat_map(|run| run.covered.iter().copied()).collect();
    }

    /// Where segments are.
    pub const fn folder(&self) -> &Arc<dyn Folder> {
        &self.folder
    }

    /// The pool's.
    pub const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// All that are whole.
    pub fn whole(&self) -> &[Run] {
        &self.whole
    }

    /// Whether the fingerprints of a container are in a run.
    pub fn covers(&self, id: ContainerId) -> bool {
        self.covered.contains(id)
    }

    /// A number for the next run.
    pub const fn take_number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// The merge that was interrupted: its output so far, and what it merges.
    pub fn take_unfinished(&mut self) -> Option<(Run, Vec<Run>)> {
        let run = self.unfinished.take()?;
        let inputs = self.of_numbers(run.inputs());
        Some((run, inputs))
    }

    fn of_numbers(&self, numbers: &[u32]) -> Vec<Run> {
        self.whole.iter().filter(|run| numbers.contains(&run.number)).cloned().collect()
    }

    /// What is to be merged next: runs of one level, of which there are enough; or else, where that
    /// is wanted, all of them. A level's runs have up to eight times the pairs of the one below, of
    /// which those of the lowest have `least`.
    pub fn to_merge(&self, least: u64, thoroughness: Thoroughness) -> Option<Vec<Run>> {
        let merged = self.whole.iter().filter(|run| run.is_merged());
        let largest = merged.map(Run::pairs).max().unwrap_or(0);
        let others = self.whole.iter().map(Run::pairs).sum::<u64>() - largest;
        let whole = match thoroughness {
            Thoroughness::Levels => false,
            Thoroughness::Idle => others > 0 && others >= largest / IDLE_SHARE,
            Thoroughness::Whole => others > 0,
        };
        let level = |run: &Run| {
            let over = run.pairs().div_ceil(least.max(1)).next_power_of_two().trailing_zeros();
            over.div_ceil(FAN_IN.trailing_zeros())
        };
        let mut levels: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
        for run in &self.whole {
            levels.entry(level(run)).or_default().push(run);
        }
        let full = levels.into_values().find(|runs| runs.len() >= FAN_IN);
        let chosen = match full {
            Some(mut runs) => {
                runs.truncate(2 * FAN_IN);
                runs
            }
            None if whole => {
                let mut runs: Vec<&Run> = self.whole.iter().collect();
                runs.sort_by_key(|run| run.pairs());
                runs.truncate(2 * FAN_IN);
                runs
            }
            None => return None,
        };
        Some(chosen.into_iter().cloned().collect())
    }

    /// A new run is durable: it takes the place of those it was merged from.
    pub fn install(&mut self, run: Run) -> Result<(), PoolError> {
        let replaced = self.of_numbers(run.inputs());
        self.whole.retain(|other| !replaced.iter().any(|gone| gone.number == other.number));
        self.whole.push(run);
        self.recount();
        replaced.iter().try_for_each(|run| self.remove_files(run))
    }

    /// A run cannot be read: it goes, and with it an unfinished merge.
    pub fn drop_damaged(&mut self, number: u32) -> Result<(), PoolError> {
        let gone = self.of_numbers(&[number]);
        self.whole.retain(|run| run.number != number);
        self.recount();
        gone.iter().try_for_each(|run| self.remove_files(run))
    }

    /// Remove the segments of a run.
    pub fn remove_files(&self, run: &Run) -> Result<(), PoolError> {
        for part in &*run.parts {
            self.folder.remove(&file_name(part.run, part.part))?;
        }
        Ok(())
    }
}

/// What is in the folder.
#[derive(Default)]
pub struct Survey {
    /// Runs that are whole.
    pub whole: Vec<Run>,
    /// One whose merge can be gone on with.
    pub unfinished: Option<Run>,
    /// Names of files of no use.
    pub useless: Vec<String>,
    /// What is wrong with some of these.
    pub problems: Problems,
}

/// Look through the folder and change nothing.
pub fn survey(folder: &dyn Folder, uuid: &[u8; 16], sequence: u64) -> Result<Survey, PoolError> {
    let (mut useless, mut problems) = (Vec::new(), Problems::new());
    let mut found: BTreeMap<u32, Vec<(SegmentHeader, Vec<ContainerId>)>> = BTreeMap::new();
    for name in folder.list()? {
        let Some((run, part)) = parse_name(&name) else {
            let ours = name.strip_suffix(small_file::UNFINISHED).and_then(parse_name);
            useless.extend(ours.map(|_| name));
            continue;
        };
        match read_header(folder, &name, uuid) {
            Ok((header, list)) if (header.run, header.part) == (run, part) => {
                found.entry(run).or_default().push((header, list));
            }
            Ok(_) => {
                problems.push(PoolError::corrupt_whole(&name, "its name is another segment's"));
                useless.push(name);
            }
            Err(error) if error.is_other_format() => return Err(error),
            Err(error) => {
                problems.push(error);
                useless.push(name);
            }
        }
    }
    let (mut whole, mut begun) = (Vec::new(), Vec::new());
    for (number, mut parts) in found {
        parts.sort_by_key(|(header, _)| header.part);
        let names = || parts.iter().map(|(part, _)| file_name(part.run, part.part));
        let follows = |n: usize, part: &SegmentHeader| {
            let first = if n == 0 { Some(0) } else { parts[n - 1].0.last.checked_add(1) };
            part.part as usize == n && first == Some(part.first)
        };
        let in_order = parts.iter().enumerate().all(|(n, (part, _))| follows(n, part));
        let known = parts.iter().all(|(part, _)| part.sequence <= sequence);
        if !in_order || !known {
            if known {
                let name = file_name(number, 0);
                problems.push(PoolError::corrupt_whole(name, "a segment of its run is missing"));
            }
            useless.extend(names());
            continue;
        }
        let covered: Arc<[ContainerId]> = parts[0].1.as_slice().into();
        let ended = parts.last().is_some_and(|(part, _)| part.last == u64::MAX);
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        let run = Run { number, parts, covered };
        if ended { whole.push(run) } else { begun.push(run) }
    }
    // A power cut came between a merge's end and the removal of what it replaces.
    let replaced: Vec<u32> = whole.iter().flat_map(|run| run.inputs().to_vec()).collect();
    let of_no_use = |run: &Run| replaced.contains(&run.number);
    for run in whole.iter().chain(&begun).filter(|run| of_no_use(run)) {
        useless.extend(run.parts.iter().map(|part| file_name(part.run, part.part)));
    }
    whole.retain(|run| !of_no_use(run));
    begun.retain(|run| !of_no_use(run));
    let mut unfinished = None;
    for run in begun {
        let there = |input: &u32| whole.iter().any(|run| run.number == *input);
        let can_go_on = !run.inputs().is_empty() && run.inputs().iter().all(there);
        if can_go_on && unfinished.is_none() {
            unfinished = Some(run);
        } else {
            useless.extend(run.parts.iter().map(|part| file_name(part.run, part.part)));
        }
    }
    Ok(Survey { whole, unfinished, useless, problems })
}

#[cfg(test)]
mod tests;
