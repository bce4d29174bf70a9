//! One policy of one size over one trace: hits, writes, latency, lifetime, quadrants.
//! Room: onefold-cache.

use serde::Serialize;

use super::Plan;
use super::latency::{Clock, Latency};
use super::quadrants::{QuadrantCounter, Quadrants};
use crate::cache::Capacity;
use crate::options::OptionError;
use crate::policy::{Outcome, Policy};
use crate::registry::{Choice, Setting};
use crate::trace::{Future, Trace};

/// Requests per batch.
const BATCH: usize = 4096;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The policy, as it was written.
    pub policy: String,
    /// Size of the cache as a share of the data.
    pub size: f64,
    /// Bytes of the cache.
    pub capacity_bytes: u64,
    /// Reads of containers generated.
    pub requests: u64,
    /// Reads of containers completed: always as many.
    pub completed: u64,
    /// Of them from the cache.
    pub hits: u64,
    /// Share of the reads from the cache.
    pub hit_rate: f64,
    /// Share of the files all of whose containers were in the cache.
    pub file_hit_rate: f64,
    /// Share of the bytes that readers wanted from the cache.
    pub byte_hit_rate: f64,
    /// Containers written to the SSD.
    pub writes: u64,
    /// Bytes written to the SSD.
    pub written_bytes: u64,
    /// Bytes written to the SSD, in sizes of the cache.
    pub fills: f64,
    /// Share of the cache that was in use at the end.
    pub filled: f64,
    /// Containers let go.
    pub evictions: u64,
    /// Shares of the bytes written by quadrant.
    pub quadrants: Quadrants,
    /// Times.
    pub latency: Latency,
    /// Bytes of memory of the policy per object cached, and per container known.
    pub memory_per_object: f64,
    /// Bytes of memory that grow with all containers, per container.
    pub memory_per_container: f64,
    /// Of all decisions in their order.
    #[serde(skip)]
    decisions: u64,
}

impl Run {
    /// Everything of the result that is a number, for its hash.
    pub(super) fn words(&self) -> Vec<u64> {
        let mut words = vec![
            self.capacity_bytes,
            self.completed,
            self.hits,
            self.file_hit_rate.to_bits(),
            self.byte_hit_rate.to_bits(),
            self.writes,
            self.written_bytes,
            self.evictions,
            self.decisions,
            self.latency.total_ns,
        ];
        words.extend(self.quadrants.bytes);
        words
    }
}

/// The capacity that a share of a trace's data is, at least one container.
pub fn capacity_of(trace: &Trace, size: f64) -> Capacity {
    let largest = trace.requests.iter().map(|access| access.size).max().unwrap_or(1).max(1);
    let each = u64::from(largest);
    let equal = trace.requests.iter().all(|access| access.size == largest);
    let bytes = (trace.data_bytes as f64 * size) as u64;
    let bytes = (bytes - bytes % each).max(each);
    // With sizes that differ, what fits follows from their mean.
    let mean = if equal { each } else { trace.bytes() / trace.requests.len().max(1) as u64 };
    Capacity { bytes, objects: (bytes / mean.max(1)) as usize }
}

struct Tally {
    file_hits: u64,
    wanted: u64,
    wanted_hits: u64,
    decisions: u64,
    all_hit: bool,
    file: usize,
}

/// Runs one policy of one size.
pub fn run_one(
    trace: &Trace,
    future: Option<&Future>,
    choice: &Choice,
    size: f64,
    plan: &Plan,
) -> Result<Run, OptionError> {
    let capacity = capacity_of(trace, size);
    let mut policy = choice.make(Setting { capacity, seed: plan.seed, future })?;
    for (key, &references) in trace.references.iter().enumerate() {
        policy.set_references(key as u64, references);
    }
    let mut tally =
        Tally { file_hits: 0, wanted: 0, wanted_hits: 0, decisions: 0, all_hit: true, file: 0 };
    let mut clock = Clock::new(plan.devices);
    let mut quadrants = QuadrantCounter::new(trace.containers());
    let mut outcomes = Vec::new();
    for (batch, requests) in trace.requests.chunks(BATCH).enumerate() {
        policy.access_batch(requests, &mut outcomes);
        for (offset, (access, &outcome)) in requests.iter().zip(&outcomes).enumerate() {
            let at = batch * BATCH + offset;
            quadrants.count(*access, outcome);
            clock.read(access.size, outcome);
            tally.count(trace, at, outcome);
            if trace.files.get(tally.file).is_some_and(|&end| end as usize == at + 1) {
                tally.end_file();
                clock.end_file();
            }
        }
    }
    Ok(result(
        trace,
        choice,
        size,
        policy.as_ref(),
        &tally,
        &clock,
        quadrants.result(plan.quadrants),
    ))
}

impl Tally {
    fn count(&mut self, trace: &Trace, at: usize, outcome: Outcome) {
        let wanted = u64::from(trace.wanted[at]);
        self.wanted += wanted;
        self.wanted_hits += if outcome.is_hit() { wanted } else { 0 };
        self.all_hit &= outcome.is_hit();
        let word = outcome.slot().map_or(u64::from(outcome.is_hit()), |slot| u64::from(slot) + 2);
        self.decisions =
            (self.decisions.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn end_file(&mut self) {
        self.file_hits += u64::from(self.all_hit);
        self.all_hit = true;
        self.file += 1;
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn result(
    trace: &Trace,
    choice: &Choice,
    size: f64,
    policy: &dyn Policy,
    tally: &Tally,
    clock: &Clock,
    quadrants: Quadrants,
) -> Run {
    let counters = policy.counters();
    let requests = trace.requests.len() as u64;
    assert_eq!(counters.requests, requests, "every request generated is completed");
    Run {
        policy: choice.text.clone(),
        size,
        capacity_bytes: policy.capacity(),
        requests,
        completed: counters.requests,
        hits: counters.hits,
        hit_rate: share(counters.hits, requests),
        file_hit_rate: share(tally.file_hits, trace.files.len() as u64),
        byte_hit_rate: share(tally.wanted_hits, tally.wanted),
        writes: counters.writes,
        written_bytes: counters.written_bytes,
        fills: share(counters.written_bytes, policy.capacity()),
        filled: share(policy.bytes(), policy.capacity()),
        evictions: counters.evictions,
        quadrants,
        latency: clock.result(trace.bytes(), counters.written_bytes),
        memory_per_object: share(policy.memory_bytes() as u64, policy.len() as u64),
        memory_per_container: share(policy.history_bytes() as u64, trace.containers() as u64),
        decisions: tally.decisions,
    }
}
