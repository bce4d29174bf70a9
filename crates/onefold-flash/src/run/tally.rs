//! What is counted about answered requests.
//! Room: onefold-flash.
//! Cost: one histogram entry and one step of a hash per request.

use onefold_workload::Op;

use crate::controller::{Histogram, Share};
use crate::run::completion::Completion;

/// Counts, latencies and the hash of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    by_op: [OpTally; Op::ALL.len()],
    /// Writes that covered a page in part, in pages: each was read before it was written.
    pub partial_pages: u64,
    /// Pages read that were on their way to the FTL: the controller had them in its memory.
    pub waiting_pages_read: u64,
    /// When the last request was answered.
    pub end_ns: u64,
    hash: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct OpTally {
    /// Latencies in ns, from coming to answer.
    pub latency_ns: Histogram,
    /// Pages of them.
    pub pages: u64,
    breakdown: [u128; Share::ALL.len()],
}

impl OpTally {
    /// Where the time of a request went on average, in ns.
    pub fn breakdown_mean(&self) -> [f64; Share::ALL.len()] {
        let count = self.latency_ns.count().max(1) as f64;
        self.breakdown.map(|sum| sum as f64 / count)
    }
}

impl Tally {
    pub(crate) fn answered(&mut self, completion: &Completion) {
        let Completion { request, answered_ns, breakdown, .. } = completion;
        let latency_ns = answered_ns - request.arrival_ns;
        let tally = &mut self.by_op[request.op as usize];
        tally.latency_ns.add(latency_ns);
        tally.pages += u64::from(request.pages);
        for (sum, part) in tally.breakdown.iter_mut().zip(breakdown) {
            *sum += u128::from(*part);
        }
        self.end_ns = *answered_ns;
        // A hint has no pages: it is told from a read by a number that no page has.
        let (pages, op) = match request.op {
            Op::Idle => (u64::from(u32::MAX) >> 2, 0),
            op => (u64::from(request.pages), op as u64),
        };
        let what = u64::from(request.lpn) << 32 | pages << 2 | op;
        for word in [request.number, what, *answered_ns, latency_ns] {
            self.mix(word);
        }
    }

    /// Takes a number into the hash.
    pub(crate) fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Requests of a kind.
    pub const fn of(&self, op: Op) -> &OpTally {
        &self.by_op[op as usize]
    }

    /// Requests answered.
    pub fn completed(&self) -> u64 {
        self.by_op.iter().map(|tally| tally.latency_ns.count()).sum()
    }

    /// The hash of everything that was answered and when, in order.
    pub fn hash(&self) -> u64 {
        onefold_block::SplitMix64::new(self.hash).next_u64()
    }
}
