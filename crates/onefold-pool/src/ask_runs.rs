//! Chunks that the index does not know, looked for in the runs on disk before they are stored.
//! Room: onefold-pool.
//! In: a batch's chunks without a candidate. Out: candidates, to be verified like all others.
//! Invariants: (1) no lock is held while anything is read; (2) what cannot be asked in time is
//! stored, and left to the background: only so many batches ask at once.
//! Cost: memory for filters; a block of 4 KiB for each chunk that a filter says may be there. The
//! blocks of a batch are announced together before the first is read, so that reads overlap.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::engine::{Inner, Scratch};
use crate::format::pair::{Pair, key_of};
use crate::index::{Candidates, Place};
use crate::predictor::Predictor;
use crate::runs::lookup::{Lookup, Perhaps};

/// Batches that ask at once: more would wait for each other's reads.
const ASKING_MAX: u32 = 8;

/// What can be asked.
#[derive(Default)]
pub struct AskRuns {
    lookup: RwLock<Arc<Lookup>>,
    asking: AtomicU32,
    pub predictor: Predictor,
}

impl AskRuns {
    /// What can be asked now.
    pub fn lookup(&self) -> Arc<Lookup> {
        Arc::clone(&self.lookup.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Other runs are there.
    pub fn replace(&self, lookup: Lookup) {
        *self.lookup.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lookup);
    }
}

/// Leave to ask, given back when it is dropped.
struct Leave<'a>(&'a AtomicU32);

impl<'a> Leave<'a> {
    fn take(asking: &'a AtomicU32) -> Option<Self> {
        let leave = Self(asking);
        (asking.fetch_add(1, Ordering::Relaxed) < ASKING_MAX).then_some(leave)
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Add to `found` what runs on disk have for chunks with these hashes that have no candidate.
    pub fn ask_runs(&self, scratch: &Scratch, found: &mut [Candidates]) {
        let lookup = self.ask_runs.lookup();
        if lookup.is_empty() {
            return;
        }
        let predictor = &self.ask_runs.predictor;
        let mut wanted: Vec<(usize, Perhaps)> = Vec::new();
        let mut perhaps = Vec::new();
        for (number, (&hash, found)) in scratch.hashes.iter().zip(&*found).enumerate() {
            if found.iter().next().is_some() {
                continue;
            }
            perhaps.clear();
            lookup.perhaps(key_of(hash), &mut perhaps);
            if !perhaps.is_empty() && predictor.is_worth() {
                wanted.extend(perhaps.iter().map(|&at| (number, at)));
            }
        }
        if wanted.is_empty() {
            return;
        }
        let Some(_leave) = Leave::take(&self.ask_runs.asking) else {
            predictor.pass(wanted.len() as u64);
            return;
        };
        for (_, at) in &wanted {
            lookup.announce(*at);
        }
        let mut pairs: Vec<Pair> = Vec::new();
        for of_one in wanted.chunk_by(|a, b| a.0 == b.0) {
            let number = of_one[0].0;
            pairs.clear();
            for (_, at) in of_one {
                if let Err(error) = lookup.read(*at, key_of(scratch.hashes[number]), &mut pairs) {
                    // It is a hint: the background comes upon the damage, and names it.
                    tracing::debug!("a run cannot be asked: {error}");
                }
            }
            let newest = self.newest();
            let place = |pair: &Pair| Place::new(pair.container(), pair.ordinal() as u16);
            let there = |place: &Place| place.container(newest).is_some();
            predictor.learn(!pairs.is_empty());
            for place in pairs.iter().filter_map(place).filter(there) {
                found[number].push(place);
            }
        }
    }
}
