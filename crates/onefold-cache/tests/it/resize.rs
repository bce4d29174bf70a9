//! A cache that becomes larger or smaller, or may write more or less, while it is used.

use std::sync::Arc;

use onefold_block::{FaultKind, OpKind, SimFolder, SplitMix64};
use onefold_cache::POLICIES;
use onefold_cache::tier::{TierError, TierOptions, TierSize, TieredStore, WearBudget};

use crate::tier::{BYTES, log_bytes, options, read_many, slow, tier};

/// More than 64 of the smallest segments: a log of such a size has larger ones.
const LARGE: u64 = 20_000_000;

#[test]
fn reads_stay_right_and_memory_of_them_warm_at_every_size() {
    let (_, slow) = slow();
    for entry in POLICIES.iter().filter(|entry| !entry.offline) {
        let name = entry.name;
        let fast = SimFolder::new();
        let large = TierOptions { size: TierSize::Bytes(LARGE), ..options(name) };
        let store =
            TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), large, None).unwrap();
        let mut random = SplitMix64::new(5);
        for step in 0..12 {
            let context = format!("{name}, step {step}");
            read_many(&store, step, 300, &context);
            // Of the segments that there are, and fewer than 32 of them: of others.
            let bytes = [LARGE, LARGE / 3 * 2, LARGE * 2, BYTES][random.below(4) as usize];
            store.resize(TierSize::Bytes(bytes)).unwrap();
            let status = store.status();
            assert!(status.capacity_bytes <= bytes, "{context}");
            assert!(status.capacity_bytes > bytes / 10 * 9, "{context}");
            assert!(status.cached_bytes <= bytes, "{context}");
            assert!(log_bytes(&fast) <= status.capacity_bytes, "{context}");
            assert_eq!(store.limits().0, TierSize::Bytes(bytes), "{context}");
        }
        read_many(&store, 1, 600, name);
        assert_eq!((store.status().totals.bad_copies, store.status().problem), (0, None), "{name}");
        let (kept, size) = (store.status().cached_extents, store.limits().0);
        assert!(kept > 0, "{name}");
        // Opened as it was left, nothing of it is lost.
        drop(store);
        let again = TierOptions { size, ..options(name) };
        let store =
            TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), again, None).unwrap();
        assert_eq!(store.status().cached_extents, kept, "{name}");
        read_many(&store, 1, 600, name);
        assert_eq!(store.status().totals.bad_copies, 0, "{name}");
    }
}

#[test]
fn what_is_still_kept_is_not_read_from_the_slow_store_again() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 3, 400, "before");
    let warm = store.status();
    store.resize(TierSize::Bytes(BYTES * 4)).unwrap();
    assert_eq!(store.status().cached_extents, warm.cached_extents);
    read_many(&store, 3, 400, "larger");
    read_many(&store, 3, 400, "larger, and full");
    let before = store.status().totals;
    read_many(&store, 3, 400, "larger, and warm");
    let after = store.status().totals;
    let hits = after.hits - before.hits;
    assert!(hits >= 380, "{hits} of 400, though nearly all of it fits by now");
}

#[test]
fn a_device_without_room_leaves_the_cache_as_large_as_it_is() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    read_many(&store, 3, 300, "before");
    let before = store.status();
    // None at all, and for some of it, which is given back.
    let used = fast.used_bytes();
    for capacity in [None, Some(used + BYTES / 2)] {
        fast.set_capacity(capacity);
        if capacity.is_none() {
            fast.fail_once(&[OpKind::Reserve], 1, FaultKind::Enospc);
        }
        let refused = store.resize(TierSize::Bytes(BYTES * 3));
        assert!(matches!(refused, Err(TierError::Media(_))), "{refused:?}");
        assert_eq!(store.status(), before);
        assert_eq!(store.limits().0, TierSize::Bytes(BYTES));
        assert!(log_bytes(&fast) <= before.capacity_bytes);
        assert_eq!(fast.used_bytes(), used);
    }
    fast.set_capacity(None);
    // A file that cannot be cut takes its room a little longer, and that is said.
    fast.fail_once(&[OpKind::SetLen], 1, FaultKind::Eio);
    let uncut = store.resize(TierSize::Bytes(BYTES / 10 * 8));
    assert!(matches!(uncut, Err(TierError::Media(_))), "{uncut:?}");
    assert!(store.status().capacity_bytes <= BYTES / 10 * 8);
    read_many(&store, 3, 300, "after");
    assert_eq!(store.status().totals.bad_copies, 0);
    drop(store);
    let small = TierOptions { size: TierSize::Bytes(BYTES / 10 * 8), ..options("lru") };
    TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), small, None).unwrap();
    assert!(log_bytes(&fast) <= BYTES / 10 * 8);
}

#[test]
fn a_budget_holds_from_when_it_is_given_until_it_is_taken_away() {
    const DAY: u64 = 24 * 3600;
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    let written = || {
        let totals = store.status().totals;
        totals.written_bytes + totals.state_bytes
    };
    let now = 1_800_000_000;
    store.tick(now);
    read_many(&store, 1, 500, "without a budget");
    assert!(written() > BYTES / 2);
    // Two days later; what was written before it was given counts for nothing.
    let mut now = now + 2 * DAY;
    store.tick(now);
    store.set_writes_per_day(Some(WearBudget::Share(300)));
    assert_eq!(store.status().writes_per_day, Some(store.status().capacity_bytes * 300 / 1000));
    // Three segments may be written a day: one in each of its first hours.
    for day in 0..3 {
        let before = written();
        for _ in 0..24 {
            read_many(&store, now, 100, "with a budget");
            now += 3600;
            store.tick(now);
        }
        let (spent, most) = (written() - before, store.status().writes_per_day.unwrap());
        assert!(spent <= most && spent > most / 3, "day {day}: {spent} of {most}");
    }
    assert_eq!(store.status().problem, None);
    store.set_writes_per_day(Some(WearBudget::Bytes(100_000)));
    let problem = store.status().problem.unwrap();
    assert!(problem.contains("97.7 KiB a day, and a segment takes 321 KiB"), "{problem}");
    // A share goes with the size.
    store.set_writes_per_day(Some(WearBudget::Share(300)));
    store.resize(TierSize::Bytes(BYTES * 2)).unwrap();
    assert_eq!(store.status().writes_per_day, Some(store.status().capacity_bytes * 300 / 1000));
    store.set_writes_per_day(None);
    assert_eq!(store.status().writes_per_day, None);
    let before = written();
    read_many(&store, 77, 500, "without it again");
    assert!(written() - before > BYTES / 2);
}
