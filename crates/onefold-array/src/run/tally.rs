//! What a run counts, and the stretch over which it counts.
//! Room: onefold-array.

use onefold_sim::{Histogram, SimSpan, SimTime};
use onefold_workload::Op;
use serde::Serialize;

use super::load::Asked;
use super::resources::{Cause, Resources, Task};
use crate::decide::contents::Contents;
use crate::decide::predictor::Score;
use crate::spec::{Acknowledge, ServerSpec};

/// Where client bytes went. Of what comes in, and what completes it, every byte is stored, found
/// to be a duplicate, or compressed away, once all is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// From clients.
    pub client_in: u64,
    /// Of chunks that clients wrote in part: what they did not write.
    pub completed: u64,
    /// To clients.
    pub client_out: u64,
    /// Chunks that were stored already.
    pub duplicate: u64,
    /// What compression saved of the others.
    pub compressed_away: u64,
    /// What drives were given.
    pub stored: u64,
    /// Compressed before the look-up said that they are duplicates.
    pub compressed_in_vain: u64,
}

impl Bytes {
    /// What was counted since an earlier count.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            client_in: self.client_in - earlier.client_in,
            completed: self.completed - earlier.completed,
            client_out: self.client_out - earlier.client_out,
            duplicate: self.duplicate - earlier.duplicate,
            compressed_away: self.compressed_away - earlier.compressed_away,
            stored: self.stored - earlier.stored,
            compressed_in_vain: self.compressed_in_vain - earlier.compressed_in_vain,
        }
    }
}

/// Latencies of one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Reads.
    Read,
    /// Writes with at least one chunk that was new.
    Unique,
    /// Writes of duplicates only.
    Duplicate,
    /// TRIMs.
    Trim,
    /// Flushes.
    Flush,
}

/// How many there are.
const CLASSES: usize = 5;

/// What the stretch that is measured came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How long it was.
    pub span: SimSpan,
    /// Bytes of answered requests.
    pub answered_bytes: u64,
    /// Resources and their loads.
    pub loads: Vec<(&'static str, onefold_sim::Load)>,
    /// Time of cores by task, in ns.
    pub task_ns: Vec<u128>,
    /// Bytes through memory by cause.
    pub memory_bytes: Vec<u64>,
    /// Where bytes went.
    pub bytes: Bytes,
    /// Chunks that were new, and that were not.
    pub found: (u64, u64),
    /// What the predictor said.
    pub score: Score,
    /// Bytes read from and written to drives.
    pub drive_bytes: u64,
    /// Requests that were offered, and of those the ones held back.
    pub offered: (u64, u64),
    /// Share of the batches that may be on their way at a time that were, 0 to 1.
    pub slots_taken: f64,
}

/// Counters of a run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests before measuring begins.
    warm: u64,
    answered: u64,
    answered_bytes: u64,
    latencies: [Histogram; CLASSES],
    early: Histogram,
    /// Where bytes went since the start.
    pub bytes: Bytes,
    /// Requests made by clients.
    pub offered: u64,
    /// Of those, requests that found the buffer full.
    pub held_back: u64,
    /// Batches begun.
    pub batches: u64,
    /// Chunks in them.
    pub batch_chunks: u64,
    /// Times that an engine was reconfigured.
    pub reconfigurations: u64,
    began: Option<Begin>,
    measured: Option<Measured>,
    in_measure: bool,
}

#[derive(Clone, Copy, Debug)]
struct Begin {
    at: SimTime,
    bytes: Bytes,
    found: (u64, u64),
    score: Score,
    offered: (u64, u64),
}

impl Tally {
    /// Nothing counted. Without requests to warm up, measuring begins at time zero.
    pub fn new(spec: &ServerSpec) -> Self {
        let begin = Begin {
            at: SimTime::ZERO,
            bytes: Bytes::default(),
            found: (0, 0),
            score: Score::default(),
            offered: (0, 0),
        };
        let warm = match spec.workload.trace.as_str() {
            "" => spec.workload.warm_requests,
            _ => spec.workload.trace_warm_requests,
        };
        Self {
            warm,
            answered: 0,
            answered_bytes: 0,
            latencies: Default::default(),
            early: Histogram::default(),
            bytes: Bytes::default(),
            offered: 0,
            held_back: 0,
            batches: 0,
            batch_chunks: 0,
            reconfigurations: 0,
            began: (warm == 0).then_some(begin),
            measured: None,
            in_measure: warm == 0,
        }
    }

    /// A request was answered, this long after it came.
    pub fn answered(&mut self, span: SimSpan, asked: Asked, unique: bool, spec: &ServerSpec) {
        self.answered += 1;
        if !self.in_measure {
            return;
        }
        self.answered_bytes += asked.bytes;
        let class = match (asked.op, unique) {
            (Op::Read, _) => Class::Read,
            (Op::Trim, _) => Class::Trim,
            (Op::Flush | Op::Idle, _) => Class::Flush,
            (Op::Write, true) => Class::Unique,
            (Op::Write, false) => Class::Duplicate,
        };
        if asked.op != Op::Write || spec.acknowledge == Acknowledge::Stored {
            self.latencies[class as usize].add(span.ns());
        }
    }

    /// A write was answered once it was in the buffer, this long after it came.
    pub fn answered_early(&mut self, span: SimSpan) {
        if self.in_measure {
            self.early.add(span.ns());
        }
    }

    /// Whether measuring begins with the request that was just answered.
    pub fn begins(&self) -> bool {
        self.began.is_none() && self.answered == self.warm
    }

    /// Measuring begins.
    pub fn begin(&mut self, now: SimTime, contents: &Contents, score: Score) {
        let (bytes, found) = (self.bytes, contents.found());
        let offered = (self.offered, self.held_back);
        self.began = Some(Begin { at: now, bytes, found, score, offered });
        self.in_measure = true;
    }

    /// Whether all requests of a run without a trace have been answered.
    pub fn is_full(&self, spec: &ServerSpec) -> bool {
        self.answered >= self.warm + spec.workload.requests
    }

    /// Measuring ends.
    pub fn end(&mut self, now: SimTime, resources: &Resources, contents: &Contents, score: Score) {
        let Some(began) = self.began else { return };
        self.in_measure = false;
        let (unique, duplicate) = contents.found();
        self.measured = Some(Measured {
            span: now.since(began.at),
            answered_bytes: self.answered_bytes,
            loads: resources.loads(now),
            task_ns: resources.task_ns.to_vec(),
            memory_bytes: resources.memory.bytes().to_vec(),
            bytes: self.bytes.since(began.bytes),
            found: (unique - began.found.0, duplicate - began.found.1),
            score: Score {
                unique_right: score.unique_right - began.score.unique_right,
                unique_wrong: score.unique_wrong - began.score.unique_wrong,
                duplicate_right: score.duplicate_right - began.score.duplicate_right,
                duplicate_wrong: score.duplicate_wrong - began.score.duplicate_wrong,
            },
            drive_bytes: resources.drive_bytes,
            offered: (self.offered - began.offered.0, self.held_back - began.offered.1),
            slots_taken: 0.0,
        });
        debug_assert_eq!(resources.task_ns.len(), Task::ALL.len());
        debug_assert_eq!(resources.memory.bytes().len(), Cause::ALL.len());
    }

    /// How many of the batches that may be on their way were, in the stretch that has ended.
    pub fn slots_taken(&mut self, share: f64) {
        if let Some(measured) = &mut self.measured {
            measured.slots_taken = share;
        }
    }

    /// Another resource of the stretch that has ended.
    pub fn add_load(&mut self, name: &'static str, load: onefold_sim::Load) {
        if let Some(measured) = &mut self.measured {
            measured.loads.push((name, load));
        }
    }

    /// What was measured, once all is over.
    pub const fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// Latencies by class; of writes that are answered early, one for all.
    pub const fn latencies(&self) -> (&[Histogram; CLASSES], &Histogram) {
        (&self.latencies, &self.early)
    }
}
