//! The four quadrants of what is written: popular or not, written once or again and again.
//! Room: onefold-cache.
//! Source: [plc-cache] sec. III.A and Fig. 1. A: popular, rarely written; B: popular, written
//! often; C: unpopular, written often; D: unpopular, rarely written. Thresholds 5 and 5 (sec.
//! III.B).
//! Differs: a container is popular if it is read more often than the threshold over the whole run,
//! and repeated if it is written more often; shares are of bytes written.

use serde::Serialize;

use crate::options::settings;
use crate::policy::{Access, Outcome};

settings! {
    /// Where the quadrants meet.
    pub struct QuadrantRules {
        /// reads that a popular container exceeds
        access_threshold: u32 = 5, 0 => 1_000_000;
        /// writes that a repeatedly written container exceeds
        repeat_threshold: u32 = 5, 0 => 1_000_000;
    }
}

/// Bytes written by quadrant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quadrants {
    /// A, B, C and D.
    pub bytes: [u64; 4],
}

impl Quadrants {
    /// Shares of A, B, C and D in all bytes written.
    pub fn shares(&self) -> [f64; 4] {
        let all = self.bytes.iter().sum::<u64>().max(1) as f64;
        self.bytes.map(|bytes| bytes as f64 / all)
    }
}

/// Counts reads and writes of every container.
pub(super) struct QuadrantCounter {
    /// Reads, writes and size.
    containers: Vec<[u32; 3]>,
}

impl QuadrantCounter {
    pub fn new(containers: usize) -> Self {
        Self { containers: vec![[0; 3]; containers] }
    }

    /// What is written is taken to be what was read; a policy that holds containers in memory
    /// first writes another one, of the same size.
    pub fn count(&mut self, access: Access, outcome: Outcome) {
        let [reads, writes, size] = &mut self.containers[access.key as usize];
        *reads += 1;
        *writes += u32::from(outcome.slot().is_some());
        *size = access.size;
    }

    pub fn result(&self, rules: QuadrantRules) -> Quadrants {
        let mut quadrants = Quadrants::default();
        for &[reads, writes, size] in &self.containers {
            let popular = reads > rules.access_threshold;
            let repeated = writes > rules.repeat_threshold;
            let quadrant = match (popular, repeated) {
                (true, false) => 0,
                (true, true) => 1,
                (false, true) => 2,
                (false, false) => 3,
            };
            quadrants.bytes[quadrant] += u64::from(writes) * u64::from(size);
        }
        quadrants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_fall_into_the_quadrant_of_their_reads_and_writes() {
        let mut counter = QuadrantCounter::new(4);
        for (key, reads, writes) in [(0, 6, 5), (1, 6, 6), (3, 5, 2)] {
            for read in 0..reads {
                let outcome = if read < writes { Outcome::written(0) } else { Outcome::HIT };
                counter.count(Access { key, size: 10 }, outcome);
            }
        }
        let quadrants = counter.result(QuadrantRules::default());
        assert_eq!(quadrants.bytes, [50, 60, 0, 20]);
    }
}
