//! Chunks that the index does not know, looked for in the runs on disk before they are stored.
//! Room: onefold-pool.
//! In: a batch's chunks without a candidate. Out: candidates, to be verified like all others.
//! Invariants: (1) no lock is held while anything is read; (2) what cannot be asked in time is
//! stored, and left to the background: only so many batches ask at once.
//! Cost: memory for filters; a block of 4 KiB for each chunk that may be there. The blocks of a
//! batch are announced together before the first is read, so that reads overlap.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::engine::{Inner, Scratch};
use crate::format::pair::{Pair, key_of};
use crate::index::{Candidates, Place};
use crate::predictor::{Predictions, Predictor};
use crate::runs::lookup::{Lookup, Perhaps};

/// Batches that ask at once: more would wait for each other's reads.
const ASKING_MAX: u32 = 8;

/// What can be asked.
#[derive(Default)]
pub struct AskRuns {
    lookup: RwLock<Arc<Lookup>>,
    asking: AtomicU32,
    /// Of look-ups that a filter says may find something, and of those of which nothing is known.
    predictors: [Predictor; 2],
}

impl AskRuns {
    /// What can be asked now.
    pub fn lookup(&self) -> Arc<Lookup> {
        Arc::clone(&self.lookup.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn predictor(&self, perhaps: &Perhaps) -> &Predictor {
        &self.predictors[usize::from(!perhaps.filtered)]
    }

    /// Whether what is in runs is found there by now.
    fn finds(&self) -> bool {
        self.predictors.iter().all(Predictor::finds)
    }

    /// What came of all.
    pub fn predictions(&self) -> Predictions {
        let [filtered, bare] = &self.predictors;
        filtered.predictions() + bare.predictions()
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
        let mut wanted: Vec<(usize, Perhaps)> = Vec::new();
        let mut perhaps = Vec::new();
        for (number, (&hash, found)) in scratch.hashes.iter().zip(&*found).enumerate() {
            if !found.is_empty() {
                continue;
            }
            perhaps.clear();
            lookup.perhaps(key_of(hash), &mut perhaps);
            let worth = perhaps.iter().filter(|at| self.ask_runs.predictor(at).is_worth());
            wanted.extend(worth.map(|&at| (number, at)));
        }
        if wanted.is_empty() {
            return;
        }
        let Some(_leave) = Leave::take(&self.ask_runs.asking) else {
            for (_, at) in &wanted {
                self.ask_runs.predictor(at).pass();
            }
            return;
        };
        // Blocks in the page cache are read at once; the others are asked for together.
        let mut later = Vec::new();
        for &(number, at) in &wanted {
            if !self.ask(&lookup, (number, at), scratch, found, Wait::Never) {
                lookup.announce(at);
                later.push((number, at));
            }
        }
        for at in later {
            self.ask(&lookup, at, scratch, found, Wait::IfNeeded);
        }
        self.index.runs_are_asked(self.ask_runs.finds());
    }

    /// Ask for the chunk with this number in the batch, if it was not found yet; false if that
    /// would have to wait.
    fn ask(
        &self,
        lookup: &Lookup,
        (number, at): (usize, Perhaps),
        scratch: &Scratch,
        found: &mut [Candidates],
        wait: Wait,
    ) -> bool {
        if !found[number].is_empty() {
            return true;
        }
        let (key, mut pairs) = (key_of(scratch.hashes[number]), Vec::new());
        let read = match wait {
            Wait::Never => lookup.read_at_hand(at, key, &mut pairs),
            Wait::IfNeeded => lookup.read(at, key, &mut pairs).map(|()| true),
        };
        match read {
            Ok(false) => return false,
            Ok(true) => {}
            // It is a hint: the background comes upon the damage, and names it.
            Err(error) => tracing::debug!("a run cannot be asked: {error}"),
        }
        self.ask_runs.predictor(&at).learn(!pairs.is_empty());
        let newest = self.newest();
        let place = |pair: &Pair| Place::new(pair.container(), pair.ordinal() as u16);
        let there = |place: &Place| place.container(newest).is_some();
        for place in pairs.iter().filter_map(place).filter(there) {
            found[number].push(place);
        }
        true
    }
}

/// Whether a look-up may wait for the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Never,
    IfNeeded,
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder};

    use super::*;
    use crate::runs::lookup_builder::Builder;
    use crate::runs::set::{Runs, Thoroughness};
    use crate::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, Volume};

    const CHUNK: usize = 4096;
    const BLOCKS: u64 = 60;

    fn open(folder: &SimFolder) -> Pool {
        let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
        Pool::open(folder, &OpenOptions { read_only: false, budgets }).unwrap()
    }

    /// Blocks of which each is another one, at `at`.
    fn write(volume: &Volume, at: u64, seed: u64) {
        let bytes: Vec<u8> = (0..BLOCKS).flat_map(|n| block(seed + n)).collect();
        volume.write_at(at * CHUNK as u64, &bytes, false).unwrap();
    }

    fn block(seed: u64) -> Vec<u8> {
        [seed.to_le_bytes(), [7; 8]].concat().repeat(CHUNK / 16)
    }

    /// A pool whose index knows nothing, and whose runs tell of what it holds.
    fn with_runs() -> (Pool, Volume) {
        let folder = SimFolder::new();
        let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
        Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
        let pool = open(&folder);
        write(&pool.create_volume("main", ByteSize(1 << 30)).unwrap(), 0, 1000);
        pool.close().unwrap();
        let pool = open(&folder);
        while !pool.deduplicate(u64::MAX, Thoroughness::Whole).unwrap().done {}
        pool.close().unwrap();
        let pool = open(&folder);
        pool.fill_index_beside();
        let (runs, _) = Runs::open(folder_of(&pool), pool.inner.identity.uuid, u64::MAX).unwrap();
        let mut builder = Builder::new(runs.folder(), runs.whole(), 1 << 20, &Lookup::default());
        while builder.step().unwrap().is_some() {}
        pool.inner.ask_runs.replace(builder.finish());
        let volume = pool.volume("main").unwrap();
        (pool, volume)
    }

    fn folder_of(pool: &Pool) -> Arc<dyn onefold_block::Folder> {
        pool.inner.files.fingerprints.clone().unwrap()
    }

    #[test]
    fn what_only_runs_know_is_found_there_and_what_they_do_not_know_is_stored() {
        let (pool, volume) = with_runs();
        write(&volume, 1000, 1000);
        let made = pool.inner.ask_runs.predictions();
        assert_eq!((made.asked, made.right, made.passed), (BLOCKS, BLOCKS, 0));
        assert_eq!((pool.activity().duplicate, pool.activity().stored), (BLOCKS, 0));
        // Now the index knows them.
        write(&volume, 2000, 1000);
        assert_eq!(pool.inner.ask_runs.predictions(), made);
        write(&volume, 3000, 5000);
        let now = pool.inner.ask_runs.predictions();
        assert!(now.asked < BLOCKS + 5 && now.right == BLOCKS, "{now:?}");
        assert_eq!(pool.activity().stored, BLOCKS);
        assert_eq!(pool.inner.ask_runs.asking.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn so_many_may_ask_at_a_time_and_others_do_without() {
        let (pool, volume) = with_runs();
        let asking = &pool.inner.ask_runs.asking;
        asking.store(ASKING_MAX, Ordering::Relaxed);
        write(&volume, 1000, 1000);
        let made = pool.inner.ask_runs.predictions();
        assert_eq!((made.asked, made.passed), (0, BLOCKS));
        assert_eq!((pool.activity().duplicate, asking.load(Ordering::Relaxed)), (0, ASKING_MAX));
        let (pool, volume) = with_runs();
        pool.inner.ask_runs.asking.store(ASKING_MAX - 1, Ordering::Relaxed);
        write(&volume, 1000, 1000);
        assert_eq!(pool.activity().duplicate, BLOCKS);
    }

    #[test]
    fn the_index_hears_whether_runs_are_worth_asking() {
        for finds in [false, true] {
            let (pool, volume) = with_runs();
            pool.inner.index.runs_are_asked(!finds);
            (0..200).for_each(|_| pool.inner.ask_runs.predictors[1].learn(finds));
            write(&volume, 1000, 1000);
            assert_eq!(pool.activity().duplicate, BLOCKS);
            assert_eq!(pool.inner.index.are_runs_asked(), finds);
        }
    }

    #[test]
    fn what_only_runs_know_is_found_for_senders_too() {
        let (pool, _volume) = with_runs();
        let asked = [3, 1007].map(|seed| pool.inner.fingerprinter.hash(&block(seed)));
        let mut found = Vec::new();
        pool.stored_blocks(&asked, &mut |number, bytes| found.push((number, bytes.to_vec())));
        assert!(found == [(1, block(1007))]);
    }

    #[test]
    fn runs_in_which_nothing_is_found_are_asked_rarely() {
        let ask = AskRuns::default();
        assert!(ask.finds());
        (0..200).for_each(|_| ask.predictors[1].learn(false));
        assert!(!ask.finds(), "either of them");
    }
}
