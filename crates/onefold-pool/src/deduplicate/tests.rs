//! Tests: what the index hears of runs, and how it shares its memory with filters of them.
//! Room: onefold-pool.

use onefold_block::{BlockDevice as _, ByteSize, Folder as _, SimFolder, SplitMix64};

use super::*;
use crate::container::directories;
use crate::index::{Place, is_hook};
use crate::{Budgets, OpenOptions, Pool, PoolSettings};

const CHUNK: usize = 4096;

const SMALL: Budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };

fn open(folder: &SimFolder, budgets: Budgets) -> Pool {
    let pool = Pool::open(folder, &OpenOptions { read_only: false, budgets }).unwrap();
    // What was there before is not known to the index.
    pool.fill_index_beside();
    pool
}

/// Write so many chunks, and have the container that has them sealed.
fn write(folder: &SimFolder, chunks: std::ops::Range<u64>, at: u64) {
    let pool = open(folder, SMALL);
    let volume = pool.volume("main").unwrap();
    for n in chunks {
        let bytes = SplitMix64::new(n).bytes(16).repeat(CHUNK / 16);
        volume.write_at((at + n) * CHUNK as u64, &bytes, false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
}

/// A pool with a container for each of these, of so many chunks.
fn stored(containers: &[u64]) -> SimFolder {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    drop(pool.create_volume("main", ByteSize(1 << 30)).unwrap());
    pool.close().unwrap();
    let mut from = 0;
    for &chunks in containers {
        write(&folder, from..from + chunks, 0);
        from += chunks;
    }
    folder
}

/// Deduplicate until all have met. It takes no more than a thousand steps.
fn all_meet(pool: &Pool) {
    let step = || pool.deduplicate(64 << 10, Thoroughness::Whole).unwrap().done;
    assert!((0..1000).any(|_| step()), "it never ends");
}

/// The run that is to be made next, taken from what is under way.
fn new_run(inner: &Inner, state: &mut Deduplication) -> Learning {
    assert!(inner.choose_deduplication(state, Thoroughness::Whole).unwrap());
    let Some(Work::Learn(learning)) = state.work.take() else { panic!("a new run is next") };
    learning
}

/// A pool of so many chunks, whose runs know all of them.
fn pool(chunks: u64) -> (SimFolder, Pool) {
    let folder = stored(&[chunks]);
    let pool = open(&folder, SMALL);
    all_meet(&pool);
    (folder, pool)
}

#[test]
fn the_hooks_of_runs_are_those_of_the_containers() {
    let (_folder, pool) = pool(300);
    let inner = &pool.inner;
    let mut expected = Vec::new();
    let sealed: Vec<_> = inner.engine().table.iter().map(|(id, info)| (id, *info)).collect();
    for (id, info) in sealed.into_iter().filter(|(_, info)| info.is_sealed()) {
        let entries = directories::load(&*inner.plain, id, info.len_bytes.into()).unwrap();
        let hashes = entries.iter().map(|entry| entry.fingerprint.prefix64());
        expected.extend(hashes.filter(|&hash| is_hook(hash)));
    }
    let mut found = Vec::new();
    let mut visit = |pairs: &[Pair]| found.extend(pairs.iter().map(|pair| pair.hash()));
    let bytes = inner.hooks_of_runs(&mut sync::lock(&inner.deduplication), &mut visit).unwrap();
    assert_eq!(bytes, 4096, "they are in its first block");
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
    assert!(wanted().is_some(), "it does not know what was there");
    assert!(pool.fill_index(u64::MAX));
    assert_eq!(wanted(), None);
}

#[test]
fn hooks_are_handed_on_so_many_together_and_each_once() {
    let pair = |key| Pair { key, rest: 1 };
    let (mut waiting, mut seen) = (Vec::new(), Vec::new());
    for key in 0..8 {
        hand_on(&mut waiting, pair(key), 3, &mut |pairs| {
            seen.push(pairs.iter().map(|pair| pair.key).collect::<Vec<_>>());
        });
    }
    assert_eq!(seen, [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(waiting, [pair(6), pair(7)]);
}

#[test]
fn one_chunk_is_worth_a_run_where_all_are_to_meet() {
    let (_folder, pool) = pool(1);
    let status = pool.inner.deduplication_status();
    assert_eq!((status.new, status.runs, status.apart), (0, 1, 0));
}

/// Flip a bit of each run, in the first block of its pairs or in the last.
fn damage_runs(folder: &SimFolder, last: bool) {
    let runs = folder.existing_subfolder("fingerprints").unwrap();
    for name in runs.list().unwrap() {
        let (media, mut byte) = (runs.open(&name).unwrap(), [0]);
        let list_bytes = 4;
        let at = if last { media.len().unwrap() - list_bytes - 1000 } else { 5000 };
        media.read(at, &mut byte).unwrap();
        media.write(at, &[byte[0] ^ 1]).unwrap();
    }
}

#[test]
fn a_run_that_is_damaged_is_made_again_of_its_containers_whoever_reads_it() {
    {
        let (folder, pool) = pool(300);
        damage_runs(&folder, false);
        let mut found = 0;
        let state = &mut *sync::lock(&pool.inner.deduplication);
        pool.inner.hooks_of_runs(state, &mut |pairs| found += pairs.len()).unwrap();
        assert_eq!((found, state.runs.as_ref().unwrap().whole().len()), (0, 0));
    }
    for last in [false, true] {
        let (folder, before) = pool(300);
        drop(before);
        write(&folder, 200..350, 1000);
        let pool = open(&folder, SMALL);
        // Their headers are read by now.
        pool.inner.runs(&mut sync::lock(&pool.inner.deduplication).runs).unwrap();
        damage_runs(&folder, last);
        all_meet(&pool);
        let status = pool.inner.deduplication_status();
        assert_eq!((status.new, status.apart, status.runs), (0, 0, 1), "{last}: {status:?}");
        assert_eq!(status.found, 100, "{last}");
        let files = folder.existing_subfolder("fingerprints").unwrap().list().unwrap();
        assert_eq!(files.len(), 1, "{last}: {files:?}");
    }
}

#[test]
fn a_container_that_cannot_be_read_is_in_no_run_and_keeps_no_other_from_one() {
    let folder = stored(&[20, 30]);
    let containers = folder.existing_subfolder("containers").unwrap();
    let media = containers.open(&containers.list().unwrap()[0]).unwrap();
    let mut byte = [0];
    let at = media.len().unwrap() - 3;
    media.read(at, &mut byte).unwrap();
    media.write(at, &[byte[0] ^ 1]).unwrap();
    let pool = open(&folder, SMALL);
    all_meet(&pool);
    let state = &mut *sync::lock(&pool.inner.deduplication);
    let [run] = state.runs.as_ref().unwrap().whole() else { panic!("one run") };
    assert_eq!((run.pairs(), run.covered.len()), (30, 1));
}

#[test]
fn what_a_run_tells_of_is_durable_before_it() {
    let folder = stored(&[10]);
    let pool = open(&folder, SMALL);
    pool.volume("main").unwrap().trim(0, 4096, false).unwrap();
    let mut seen = 0;
    folder.ops_since(&mut seen);
    all_meet(&pool);
    let done = folder.ops_since(&mut seen);
    let (flushed, made) = (done.find("Sync journal").unwrap(), done.find("Create").unwrap());
    assert!(flushed < made, "{done}");
}

#[test]
fn a_run_names_what_it_covers_in_order_and_nothing_is_done_without_a_budget() {
    let folder = stored(&[20, 30, 40]);
    let pool = open(&folder, SMALL);
    let inner = &pool.inner;
    let state = &mut *sync::lock(&inner.deduplication);
    let mut step = DeduplicationStep::default();
    let learning = new_run(inner, state);
    inner.learn_pairs(state, learning, 0, &mut step).unwrap();
    let Some(Work::Learn(learning)) = state.work.take() else { panic!("it is still to be made") };
    assert_eq!((learning.left.len(), step.work_bytes), (3, 0));
    inner.learn_pairs(state, learning, u64::MAX, &mut step).unwrap();
    let run = state.runs.as_ref().unwrap().whole()[0].clone();
    assert_eq!((run.covered.len(), run.pairs()), (3, 90));
    assert!(run.covered.is_sorted());
    assert!(inner.choose_deduplication(state, Thoroughness::Whole).unwrap());
    let Some(Work::Merge(merge)) = state.work.take() else { panic!("a merge is next") };
    step.work_bytes = 0;
    inner.merge_on(state, merge, 0, &mut step).unwrap();
    assert!(matches!(state.work, Some(Work::Merge(_))) && step.work_bytes == 0);
    state.work = None;
    let builder =
        Builder::new(state.runs.as_ref().unwrap().folder(), &[run], 1 << 20, &Lookup::default());
    inner.build_on(state, Box::new(builder), 0, &mut step).unwrap();
    assert!(matches!(state.work, Some(Work::Filters(_))) && step.work_bytes == 0);
    // A part of the filters that are being made is of no use with another limit.
    inner.cut_filters(state, 1 << 20);
    assert!(state.work.is_none());
    inner.choose_deduplication(state, Thoroughness::Whole).unwrap();
    inner.cut_filters(state, 1 << 20);
    assert!(matches!(state.work, Some(Work::Merge(_))), "what else is under way goes on");
}

#[test]
fn what_meets_is_compared_once_there_is_so_much_of_it() {
    let (folder, first) = pool(2000);
    drop(first);
    write(&folder, 0..2000, 100_000);
    let pool = open(&folder, SMALL);
    let inner = &pool.inner;
    let state = &mut *sync::lock(&inner.deduplication);
    let mut step = DeduplicationStep::default();
    let learning = new_run(inner, state);
    inner.learn_pairs(state, learning, u64::MAX, &mut step).unwrap();
    assert!(inner.choose_deduplication(state, Thoroughness::Whole).unwrap());
    let Some(Work::Merge(merge)) = state.work.take() else { panic!("a merge is next") };
    inner.merge_on(state, merge, u64::MAX, &mut step).unwrap();
    let most = inner.meeting_max();
    assert!(most < 3000, "{most}");
    assert!(state.meeting.is_full(most) && !state.meeting.is_full(most + 2));
}

#[test]
fn what_is_in_a_run_or_cannot_be_comes_into_none_and_runs_have_a_size() {
    let folder = stored(&[5]);
    let pool = open(&folder, SMALL);
    let inner = &pool.inner;
    all_meet(&pool);
    let state = &mut *sync::lock(&inner.deduplication);
    let id = ContainerId::new;
    let most = inner.sorted_max() as usize;
    let seal = |number: u32, chunks: usize| {
        let mut engine = inner.engine();
        engine.table.open(id(number));
        engine.table.seal(id(number), 100_000, chunks);
    };
    let new = |state: &mut Deduplication| {
        let found = inner.not_in_runs(state).unwrap();
        found.into_iter().map(|(id, _)| id.get()).collect::<Vec<_>>()
    };
    assert_eq!(new(state), [], "it is in a run");
    for number in [10, 11, 12] {
        seal(number, most / 2);
    }
    // One that is being filled, and one that is not read again.
    inner.engine().table.open(id(13));
    assert_eq!(new(state), [10, 11]);
    state.unreadable.insert(id(10));
    assert_eq!(new(state), [11, 12]);
    seal(11, 1);
    seal(12, most - 2);
    seal(14, 1);
    seal(15, 1);
    assert_eq!(new(state), [11, 12, 14]);
    assert!(state.scanned < id(11));
    (20..20 + CONTAINERS_MAX as u32).for_each(|number| seal(number, 0));
    seal(12, 1);
    assert_eq!(new(state).len(), CONTAINERS_MAX);
    // None of these is there.
    let mut engine = inner.engine();
    (10..20 + CONTAINERS_MAX as u32).for_each(|number| engine.table.remove(id(number)));
}

#[test]
fn runs_are_read_in_a_part_of_the_memory() {
    let folder = stored(&[1]);
    for (mib, blocks) in [(1, 1), (4, 2), (16, 8), (30, 15), (31, 15), (64, 16), (256, 16)] {
        let pool = open(&folder, Budgets { index_bytes: mib << 20, ..SMALL });
        assert_eq!(pool.inner.merge_limits().1, blocks, "{mib} MiB");
    }
}

#[test]
fn filters_have_a_part_of_the_memory_of_the_index_and_give_it_back() {
    let folder = stored(&[40]);
    let pool = open(&folder, Budgets { map_bytes: 64 << 20, ..SMALL });
    let inner = &pool.inner;
    let all = (1 << 20) - inner.directories.budget_bytes() as u64;
    assert_eq!(all, 768 << 10);
    let of_index = || inner.index.stats().budget_bytes;
    {
        let state = &mut *sync::lock(&inner.deduplication);
        // Sorting has more memory than that.
        assert_eq!(inner.filters_to_make(state), Some(all / 2));
        for (now, wanted, given) in [
            (0, 0, all / 16),
            (all / 16, all / 16, all / 16),
            (all / 16, all / 16 + 1, all / 8),
            (all / 8, all / 8 + 1, all / 4),
            (all / 4, 0, all / 4),
            (all / 4, 1 << 40, all / 2),
        ] {
            let mut bytes = now;
            assert_eq!(inner.make_room_for_filters(&mut bytes, wanted), given, "{now} {wanted}");
            assert_eq!((bytes, of_index()), (given, all - given), "{now}, {wanted}");
        }
        state.filter_bytes = all / 2;
    }
    inner.drop_filters();
    assert_eq!((sync::lock(&inner.deduplication).filter_bytes, of_index()), (0, all));
    assert!(!inner.drop_filters(), "there is nothing to give back");
}

#[test]
fn filters_are_made_anew_after_a_change_and_only_then() {
    let (_folder, pool) = pool(50);
    let inner = &pool.inner;
    let numbers = || inner.ask_runs.lookup().runs.iter().map(|run| run.number).collect::<Vec<_>>();
    let known = numbers();
    assert_eq!(known.len(), 1);
    {
        let state = &mut *sync::lock(&inner.deduplication);
        assert!(!inner.choose_filters(state).unwrap(), "they are there");
        let mut gone = inner.ask_runs.lookup().runs[0].clone();
        gone.number = 99;
        state.keep_made(Some(gone));
        assert_eq!(state.made.len(), 0, "nobody can ask it");
        state.made = inner.ask_runs.lookup().runs.clone();
        let before = inner.index.in_runs_to();
        inner.cut_filters(state, 1 << 20);
        assert_eq!((state.asked.len(), state.made.len()), (0, 0));
        assert!(inner.index.in_runs_to() < before);
        // What is of no use any more goes before others are made.
        let mut stale = Lookup::clone(&inner.ask_runs.lookup());
        stale.runs.iter_mut().for_each(|run| run.number = 99);
        inner.ask_runs.replace(stale);
        assert!(inner.choose_filters(state).unwrap());
        assert_eq!(numbers(), []);
        state.work = None;
        inner.begin_filters_anew(state);
    }
    let before = inner.index.in_runs_to();
    inner.ready_filters();
    assert_eq!(numbers(), known);
    assert!(inner.index.in_runs_to() > before);
}

/// As after opening a pool that has more than the index has room for.
#[test]
fn a_full_index_has_the_hooks_of_runs_and_writers_ask_the_runs_for_others() {
    let folder = stored(&[100; 3]);
    let pool = open(&folder, SMALL);
    all_meet(&pool);
    let inner = &pool.inner;
    inner.begin_filters_anew(&mut sync::lock(&inner.deduplication));
    inner.ask_runs.replace(Lookup::default());
    let place = Place::new(ContainerId::new(70), 0).unwrap();
    let others: Vec<(u64, Place)> =
        (1..150_000_u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15), place)).collect();
    inner.index.insert_many(&others);
    assert!(inner.index.is_full());
    // No more is read than the hooks, and these once.
    assert!(pool.fill_index(2 * 4096));
    let mut pairs = Vec::new();
    let mut visit = |some: &[Pair]| pairs.extend_from_slice(some);
    inner.hooks_of_runs(&mut sync::lock(&inner.deduplication), &mut visit).unwrap();
    assert!(!pairs.is_empty());
    for pair in pairs {
        let mut found = Vec::new();
        inner.index.lookup_many(&[pair.hash()], &mut found);
        let place = Place::new(pair.container(), pair.ordinal() as u16).unwrap();
        assert!(found[0].contains(place));
    }
    assert_eq!(inner.ask_runs.lookup().runs.len(), 1);
}

#[test]
fn nothing_is_deduplicated_in_a_pool_that_takes_no_changes() {
    let (_folder, pool) = pool(5);
    pool.inner.poison.set("a test".to_owned()).unwrap();
    let refused = pool.deduplicate(u64::MAX, Thoroughness::Whole);
    assert!(matches!(refused, Err(PoolError::Poisoned(_))), "{refused:?}");
}

#[test]
fn containers_that_an_index_has_not_come_to_are_counted() {
    let folder = stored(&[5; 4]);
    let pool = open(&folder, SMALL);
    let left = || pool.inner.index_filling.containers_left();
    for expected in (0..4).rev() {
        pool.fill_index(1);
        assert_eq!(left(), expected);
    }
}

#[test]
fn containers_that_are_being_filled_or_wait_for_that_come_into_a_run_once_they_are_sealed() {
    let (folder, pool) = pool(50);
    let inner = &pool.inner;
    let volume = pool.volume("main").unwrap();
    volume.write_at(1 << 20, &SplitMix64::new(999).bytes(CHUNK), false).unwrap();
    inner.make_next();
    let waiting = |inner: &Inner| {
        let live = inner.live.read().unwrap();
        let engine = inner.engine();
        let unsealed = engine.table.iter().filter(|(_, info)| !info.is_sealed());
        unsealed.filter(|(id, _)| !live.contains_key(id)).count()
    };
    assert!(waiting(inner) > 0 && inner.live.read().unwrap().len() == 1);
    let missing =
        |inner: &Inner| inner.not_in_runs(&mut sync::lock(&inner.deduplication)).unwrap().len();
    assert_eq!(missing(inner), 0);
    drop(volume);
    pool.close().unwrap();
    let pool = open(&folder, SMALL);
    assert_eq!(missing(&pool.inner), 1);
}

#[test]
fn who_is_idle_makes_a_run_of_less_and_never_of_nothing() {
    let least = |runs_pairs| {
        use Thoroughness::{Idle, Levels, Whole};
        [Levels, Idle, Whole].map(|thoroughness| least_new(thoroughness, runs_pairs, 1000))
    };
    for (runs_pairs, idle) in [(0, 1), (16, 1), (17, 2), (15_984, 999), (15_985, 1000)] {
        assert_eq!(least(runs_pairs), [1000, idle, 1], "{runs_pairs} pairs");
    }
    assert_eq!(least(1 << 30), [1000, 1000, 1]);
}
