//! Tests: what is looked for again, and what is told of what was read.
//! Room: onefold-pool.

use onefold_block::{BlockDevice as _, ByteSize, ContainerId, SimFolder};

use super::*;
use crate::pba::{Location, UNIT_BYTES};
use crate::volume::Volume;
use crate::{OpenOptions, Pool, PoolSettings};

fn pool() -> (SimFolder, Pool, Volume) {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 4096], false).unwrap();
    (folder, pool, volume)
}

/// What the map has at the first block; whether that is looked up again if it cannot be found.
fn again(volume: &Volume) -> (MapEntry, Result<(), PoolError>) {
    let (inner, state, mut entries) = (&volume.inner, &volume.state, Vec::new());
    inner.map.entries(state.number, Lba::new(0), 1, &mut entries).unwrap();
    (entries[0], inner.explain(state, Lba::new(0), &entries, FetchError::Gone))
}

#[test]
fn what_is_in_memory_or_in_the_store_is_looked_for_again_and_nothing_else() {
    let (folder, pool, volume) = pool();
    let changed =
        volume.inner.explain(&volume.state, Lba::new(0), &[MapEntry::Hole], FetchError::Gone);
    changed.unwrap();
    let (entry, found) = again(&volume);
    found.unwrap();
    pool.flush().unwrap();
    let left = folder.after_crash(1, onefold_block::CrashMode::KeepNothing);
    pool.inner.store.remove(entry.pba().unwrap().container).unwrap();
    again(&volume).1.expect("it is in memory");
    let pool = Pool::open(&left, &OpenOptions::default()).unwrap();
    let volume = pool.volume("main").unwrap();
    let (entry, found) = again(&volume);
    found.expect("it is in the store");
    pool.inner.store.remove(entry.pba().unwrap().container).unwrap();
    let error = again(&volume).1.unwrap_err().to_string();
    assert!(error.contains("LBA 0,") && error.contains("does not exist"), "{error}");
}

#[test]
fn what_was_read_is_told_with_the_entries_it_was_read_under_and_counted() {
    let (_folder, pool, volume) = pool();
    let (inner, mut scratch) = (&volume.inner, volume.inner.take_scratch());
    let (mut entries, mut out) = (vec![MapEntry::Lost; 3], [0; 4096]);
    let first = Lba::new(0);
    inner
        .read_still(&inner.engine(), &volume.state, first, &mut entries, &mut out, &mut scratch)
        .unwrap();
    assert_eq!((entries, out), (vec![again(&volume).0], [7; 4096]));
    let before = pool.activity();
    volume.read_at(0, &mut out).unwrap();
    volume.read_at(10, &mut out[..20]).unwrap();
    volume.read_at(8192, &mut out).unwrap();
    let after = pool.activity();
    assert_eq!((after.cache_hits - before.cache_hits, after.read - before.read), (2, 3));
}

#[test]
fn chunks_are_read_together_up_to_a_gap_and_in_the_order_of_their_container() {
    let wanted = |container: u32, unit: usize| {
        let location = Location::new(unit, 1);
        Wanted { pba: Pba { container: ContainerId::new(container), location }, number: 0 }
    };
    let far = 1 + GAP_BYTES_MAX / UNIT_BYTES;
    let run = |second| run_len(&[wanted(1, 1000), second]);
    assert_eq!((run(wanted(1, 1000 + far)), run(wanted(1, 1001 + far))), (2, 1));
    assert_eq!((run(wanted(1, 1001)), run(wanted(1, 1000)), run(wanted(1, 999))), (2, 1, 1));
    assert_eq!(run(wanted(2, 1001)), 1);
}
