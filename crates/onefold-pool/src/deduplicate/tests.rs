//! Tests: what the index hears of runs, and how it shares its memory with filters of them.
//! Room: onefold-pool.

use onefold_block::{BlockDevice as _, ByteSize, SimFolder, SplitMix64};

use super::*;
use crate::container::directories;
use crate::index::is_hook;
use crate::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings};

const CHUNK: usize = 4096;

/// A pool of so many chunks, whose runs know all of them.
fn pool(chunks: u64) -> (SimFolder, Pool) {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let open = || Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap();
    let pool = open();
    let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    for n in 0..chunks {
        let bytes = SplitMix64::new(n).bytes(16).repeat(CHUNK / 16);
        volume.write_at(n * CHUNK as u64, &bytes, false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let pool = open();
    pool.fill_index_beside();
    while !pool.deduplicate(u64::MAX, Thoroughness::Whole).unwrap().done {}
    (folder, pool)
}

#[test]
fn the_hooks_of_runs_are_those_of_the_containers() {
    let (_folder, pool) = pool(600);
    let inner = &pool.inner;
    let mut expected = Vec::new();
    let sealed: Vec<_> = inner.engine().table.iter().map(|(id, info)| (id, *info)).collect();
    for (id, info) in sealed.into_iter().filter(|(_, info)| info.len_bytes > 0) {
        let entries = directories::load(&*inner.plain, id, info.len_bytes.into()).unwrap();
        let hashes = entries.iter().map(|entry| entry.fingerprint.prefix64());
        expected.extend(hashes.filter(|&hash| is_hook(hash)));
    }
    let mut found = Vec::new();
    let mut visit = |pairs: &[Pair]| found.extend(pairs.iter().map(|pair| pair.hash()));
    let bytes = inner.hooks_of_runs(&mut sync::lock(&inner.deduplication), &mut visit).unwrap();
    assert!(bytes > 0);
    expected.sort_unstable();
    found.sort_unstable();
    assert!(!found.is_empty());
    assert_eq!(found, expected);
}

#[test]
fn the_index_hears_how_far_the_runs_go_that_can_be_asked() {
    let (_folder, pool) = pool(50);
    let inner = &pool.inner;
    let state = &mut *sync::lock(&inner.deduplication);
    let runs = inner.runs(&mut state.runs).unwrap();
    let newest = *runs.whole()[0].covered.last().unwrap();
    let builder = Builder::new(runs.folder(), runs.whole(), 1 << 20, &Lookup::default());
    inner.index.is_in_runs(ContainerId::default());
    let before = inner.index.in_runs_to();
    let mut step = DeduplicationStep::default();
    inner.build_on(state, Box::new(builder), u64::MAX, &mut step).unwrap();
    let heard = inner.index.in_runs_to();
    inner.index.is_in_runs(newest);
    assert!(heard > before && heard == inner.index.in_runs_to());
}

#[test]
fn filters_keep_what_they_had_or_their_share_of_less_memory() {
    let (_folder, pool) = pool(50);
    let state = &mut *sync::lock(&pool.inner.deduplication);
    let mut left = |had: u64, bytes: u64| {
        state.filter_bytes = had;
        (pool.inner.cut_filters(state, bytes), state.filter_bytes)
    };
    assert_eq!(left(3 << 20, 1 << 30), ((1 << 30) - (3 << 20), 3 << 20));
    let share = (1 << 20) / FILTER_SHARE_MAX;
    assert_eq!(left(3 << 20, 1 << 20), ((1 << 20) - share, share));
    assert_eq!(left(0, 1 << 20), (1 << 20, 0));
}

#[test]
fn no_filters_are_made_of_runs_that_an_index_need_not_ask() {
    let (_folder, pool) = pool(50);
    let wanted = || pool.inner.filters_to_make(&sync::lock(&pool.inner.deduplication));
    assert!(wanted() > 0, "it does not know what was there");
    assert!(pool.fill_index(u64::MAX));
    assert_eq!(wanted(), 0);
}
