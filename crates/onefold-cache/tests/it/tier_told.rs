//! What a tiered store tells of itself, open or not, and when it saves that.

use std::sync::Arc;

use onefold_block::{
    ContainerStore, FaultKind, Folder as _, FolderContainerStore, OpKind, SimFolder,
};
use onefold_cache::tier::{TierOptions, TierSize, TierStatus, TieredStore, WearBudget};

use crate::tier::{BYTES, OWNER, fill, id, options, read, read_many, slow, tier};

const SEGMENT: u64 = 196_608;
/// Calls after which little that changed is saved, too.
const CALLS: usize = 720;

#[test]
fn a_closed_cache_tells_what_it_told_when_it_was_saved() {
    for budget in [None, Some(WearBudget::Bytes(5 << 20))] {
        let (_, slow) = slow();
        let fast = SimFolder::new();
        assert_eq!(TieredStore::saved_status(&fast, &OWNER), None);
        let store = tier(&slow, &fast, "lru");
        store.tick(1_800_000_000);
        store.set_writes_per_day(budget);
        read_many(&store, 1, 300, "to be told of");
        store.save();
        let told = store.status();
        assert!(told.written_last_day > 0 && told.cached_extents > 0 && told.totals.hits > 0);
        // Nothing has changed but what that took.
        store.save();
        let expected =
            TierStatus { index_bytes: 0, policy_bytes: 0, waiting_bytes: 0, ..told.clone() };
        assert!(told.index_bytes > 0 && told.policy_bytes > 0);
        assert_eq!(TieredStore::saved_status(&fast, &OWNER), Some(expected));
        assert_eq!(told.capacity_bytes, BYTES);
        assert_eq!(told.writes_per_day, budget.map(|_| 5 << 20));
        assert_eq!(TieredStore::saved_status(&fast, &[8; 16]), None, "it is somebody else's");
    }
}

#[test]
fn whose_a_folder_is_can_be_asked_without_a_change() {
    let fast = SimFolder::new();
    TieredStore::examine(&fast, &OWNER).unwrap();
    assert_eq!(fast.list().unwrap(), [""; 0]);
    let (_, slow) = slow();
    drop(tier(&slow, &fast, "lru"));
    let operations = fast.op_log();
    TieredStore::examine(&fast, &OWNER).unwrap();
    let said = TieredStore::examine(&fast, &[8; 16]).unwrap_err().to_string();
    assert!(said.contains("it is a cache of something else"), "{said}");
    assert_eq!(fast.op_log(), operations);
}

/// Reads that a folder's newest state tells of.
fn saved_reads(fast: &SimFolder) -> Option<u64> {
    TieredStore::saved_status(fast, &OWNER).map(|status| status.totals.requests)
}

#[test]
fn little_that_changed_is_saved_now_and_then_and_nothing_if_nothing_did() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    let mut saved = None;
    for reads in 1..=3 {
        read(&store, 1, 0, 100, "one more");
        for call in 1..CALLS {
            store.save_changes();
            assert_eq!(saved_reads(&fast), saved, "call {call} after {reads} reads");
        }
        store.save_changes();
        saved = Some(reads);
        assert_eq!(saved_reads(&fast), saved, "after {reads} reads");
    }
    assert_eq!(fast.list().unwrap(), ["cache", "extents", "state.0"]);
    let operations = fast.op_log();
    for _ in 0..2 * CALLS {
        store.save_changes();
    }
    assert_eq!(fast.op_log(), operations, "nothing changed");
    read(&store, 1, 0, 100, "one more");
    store.save_changes();
    assert_eq!(saved_reads(&fast), Some(4), "it is time since long");
    // What is saved on purpose counts the calls anew; the newer of the two files is read.
    read(&store, 1, 0, 100, "one more");
    store.save();
    assert_eq!(saved_reads(&fast), Some(5));
    assert_eq!(fast.list().unwrap(), ["cache", "extents", "state.0", "state.1"]);
    read(&store, 1, 0, 100, "one more");
    for _ in 1..CALLS {
        store.save_changes();
    }
    assert_eq!(saved_reads(&fast), Some(5));
    store.save_changes();
    assert_eq!(saved_reads(&fast), Some(6));
}

fn made_of(sizes: &[usize]) -> Arc<dyn ContainerStore> {
    let store = FolderContainerStore::new(Arc::new(SimFolder::new()));
    for (number, &size) in (0..).zip(sizes) {
        fill(&store, number, &vec![7; size]);
    }
    Arc::new(store)
}

#[test]
fn a_share_is_one_of_all_bytes_of_the_slow_store_and_grows_by_a_quarter_at_a_time() {
    let open = |sizes: &[usize]| {
        let options =
            TierOptions { size: TierSize::Percent(100), container_bytes: 1, ..options("lru") };
        TieredStore::open(made_of(sizes), Arc::new(SimFolder::new()), options, None).unwrap()
    };
    let ten = 10 * SEGMENT as usize;
    for (sizes, segments) in [(&[1000, ten - 1001][..], 9), (&[1000, ten - 1000], 10)] {
        assert_eq!(open(sizes).status().capacity_bytes, segments * SEGMENT);
    }
    let store = open(&[ten]);
    for (bytes, segments) in [(ten / 4, 10), (4, 10), (1, 12)] {
        fill(&store, 100 + bytes as u32, &vec![7; bytes]);
        assert_eq!(store.status().capacity_bytes, segments * SEGMENT, "{bytes}");
    }
}

#[test]
fn the_smallest_and_the_largest_container_are_kept() {
    for (bytes, kept) in [(1, true), (4 << 20, true), ((4 << 20) + 1, false)] {
        let (slow, fast) = (made_of(&[bytes]), SimFolder::new());
        let store = tier(&slow, &fast, "lru");
        for _ in 0..2 {
            store.read(id(0), 0, &mut [0]).unwrap();
        }
        let totals = store.status().totals;
        let expected = if kept { (2, 1, 1) } else { (0, 0, 0) };
        assert_eq!((totals.requests, totals.hits, totals.writes), expected, "{bytes}");
        // As soon as it is full.
        let through = TierOptions { write_through: true, ..options("lru") };
        let fast = Arc::new(SimFolder::new());
        let store = TieredStore::open(made_of(&[]), fast, through, None).unwrap();
        fill(&store, 1, &vec![7; bytes]);
        assert_eq!(store.status().totals.new_bytes > 0, kept, "{bytes}");
    }
}

#[test]
fn after_each_failed_write_twice_as_many_are_passed_over_until_one_succeeds() {
    let (_, slow) = slow();
    let fast = SimFolder::new();
    let store = tier(&slow, &fast, "lru");
    let mut failed_at = Vec::new();
    // Cells of 16 KiB: eleven fill a segment, and the twelfth has it written.
    for number in 0..240_u32 {
        if number == 0 || number == 157 {
            fast.fail_from(&[OpKind::Write], 1, FaultKind::Eio);
        }
        if number == 156 {
            fast.clear_faults();
        }
        let before = store.status().totals.failed_writes;
        read(&store, number % 40, (number / 40) as usize * 16_384, 100, "a sick disk");
        let status = store.status();
        if status.totals.failed_writes > before {
            failed_at.push(number);
            assert_eq!(status.totals.failed_writes, failed_at.len() as u64);
        }
        if number == 11 {
            let kept = (status.cached_extents, status.cached_bytes);
            assert_eq!(kept, (1, 16_896), "all but what goes into the next segment is lost");
        }
        let well = number < 11 || (156..167).contains(&number);
        assert_eq!(status.problem.is_none(), well, "{number}: {:?}", status.problem);
    }
    // 16, 32 and 64 between, and the eleven that fill a segment; then from the beginning.
    assert_eq!(failed_at, [11, 38, 81, 167, 194, 237]);
}

#[test]
fn what_could_not_be_read_once_is_kept_at_the_next_read() {
    for served in [true, false] {
        let (slow_media, slow) = slow();
        let store = tier(&slow, &SimFolder::new(), "lru");
        read(&store, 1, 50_000, 100, "to know the container");
        if served {
            slow_media.fail_once(&[OpKind::Read], 1, FaultKind::Eio);
        } else {
            slow_media.fail_from(&[OpKind::Read], 1, FaultKind::Eio);
        }
        let result = store.read(id(1), 0, &mut [0; 100]);
        assert_eq!(result.is_ok(), served, "part of it may be readable");
        slow_media.clear_faults();
        for (writes, hits) in [(2, 0), (2, 1)] {
            read(&store, 1, 0, 100, "again");
            let totals = store.status().totals;
            assert_eq!((totals.writes, totals.hits), (writes, hits));
        }
    }
}

#[test]
fn what_others_do_to_the_slow_store_is_noticed_when_this_one_takes_part() {
    let (_, slow) = slow();
    let store = tier(&slow, &SimFolder::new(), "lru");
    let hits = |number: u32| {
        let before = store.status().totals.hits;
        for _ in 0..2 {
            store.read(id(number), 0, &mut [0; 100]).unwrap();
        }
        store.status().totals.hits - before
    };
    assert_eq!(hits(1), 1);
    // A container goes by this store, and comes back by another.
    store.remove(id(1)).unwrap();
    fill(&*slow, 1, &[5; 10_000]);
    assert_eq!(hits(1), 1, "it is another one");
    // It goes by another, and this one fills it anew.
    slow.remove(id(1)).unwrap();
    store.create(id(1), 10_000).unwrap();
    assert!(store.read(id(1), 0, &mut [0; 100]).is_err(), "it is empty");
    store.append(id(1), 0, &[6; 10_000]).unwrap();
    assert_eq!(hits(1), 0, "it is being filled");
    store.seal(id(1), 10_000).unwrap();
    assert_eq!(hits(1), 1);
    // Bytes of one that went are not taken for those of another, though it is as long.
    let through = TierOptions { write_through: true, ..options("lru") };
    let fast = Arc::new(SimFolder::new());
    let store = TieredStore::open(Arc::clone(&slow), fast, through, None).unwrap();
    store.create(id(100), 10_000).unwrap();
    store.append(id(100), 0, &[7; 10_000]).unwrap();
    store.remove(id(100)).unwrap();
    slow.create(id(100), 10_000).unwrap();
    slow.append(id(100), 0, &[8; 10_000]).unwrap();
    store.seal(id(100), 10_000).unwrap();
    let mut byte = [0];
    store.read(id(100), 0, &mut byte).unwrap();
    assert_eq!((byte, store.status().totals.new_bytes), ([8], 0));
}

#[test]
fn what_a_store_is_told_is_told_to_the_slow_one_below_it() {
    let through = || TierOptions { write_through: true, ..options("plc") };
    let open = |slow| TieredStore::open(slow, Arc::new(SimFolder::new()), through(), None).unwrap();
    let below = Arc::new(open(made_of(&[])));
    let above = open(Arc::clone(&below) as Arc<dyn ContainerStore>);
    fill(&above, 1, &[1; 10_000]);
    let new = || [&above, &*below].map(|store| store.status().totals.new_bytes);
    let before = new();
    assert!(before[0] > 0 && before[0] == before[1]);
    above.create(id(2), 10_000).unwrap();
    above.tell_moved(id(2));
    above.append(id(2), 0, &[2; 10_000]).unwrap();
    above.seal(id(2), 10_000).unwrap();
    assert_eq!(new(), before, "what moves is not new, to none of them");
    let memory = || [&above, &*below].map(|store| store.status().policy_bytes);
    let before = memory();
    above.tell_references(&[(id(1), 3)]);
    let after = memory();
    assert!(after[0] > before[0] && after[1] > before[1], "{before:?}, {after:?}");
}

#[test]
fn a_cache_of_fewer_than_32_of_its_segments_begins_anew_with_smaller_ones() {
    let large = 51 * 4096;
    for (bytes, capacity, kept) in
        [(32 * large, 32 * large, true), (32 * large - 1, 33 * SEGMENT, false)]
    {
        let (_, slow) = slow();
        let fast = SimFolder::new();
        let open = |size| {
            let options = TierOptions { size: TierSize::Bytes(size), ..options("lru") };
            TieredStore::open(Arc::clone(&slow), Arc::new(fast.clone()), options, None).unwrap()
        };
        let store = open(64 * large);
        assert_eq!(store.status().capacity_bytes, 64 * large);
        read(&store, 1, 0, 9000, "to keep it");
        store.save();
        store.resize(TierSize::Bytes(bytes)).unwrap();
        let status = store.status();
        assert_eq!((status.capacity_bytes, status.cached_extents > 0), (capacity, kept));
        drop(store);
        // Nothing of what it was before is left on the device.
        let status = open(bytes).status();
        assert_eq!((status.capacity_bytes, status.cached_extents > 0), (capacity, kept));
        assert_eq!((status.totals.torn_segments, status.totals.bad_copies), (0, 0));
    }
}
