//! Tests: what is set aside for a change, and which numbers new containers have.
//! Room: onefold-pool.

use onefold_block::{FaultKind, Lba, OpKind, SimFolder};

use super::*;
use crate::PoolSettings;
use crate::format::frame::Entries;
use crate::pba::MapEntry;

#[test]
fn a_commit_has_room_in_the_journal_for_a_run_of_each_chunk_and_a_fill_for_itself() {
    for chunks in [1, 2, 64] {
        let mut entries = Entries::default();
        for chunk in 0..chunks {
            entries.run(1, Lba::new(2 * chunk as u64), &[MapEntry::Hole]);
        }
        let needs = Needs::of_commit(1, chunks, Purpose::Data, NewRecords::None);
        assert_eq!(needs.journal_bytes, entries.len_bytes() as u64, "{chunks} chunks");
    }
    let mut entries = Entries::default();
    entries.fill(1, Lba::new(7), 1 << 40, MapEntry::Zero);
    assert_eq!(Needs::of_fill(1, 3).journal_bytes, entries.len_bytes() as u64);
}

#[test]
fn after_a_failure_no_change_begins_though_all_that_it_needs_is_there() {
    let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
    let needs = Needs::of_fill(1, 1);
    assert!(pool.inner.engine_with(&needs).is_ok());
    pool.inner.poison.set("a test".to_owned()).unwrap();
    assert!(matches!(pool.inner.engine_with(&needs).err(), Some(PoolError::Poisoned(_))));
    let more = Needs::of_fill(1, 100_000);
    assert!(matches!(pool.inner.engine_with(&more).err(), Some(PoolError::Poisoned(_))));
}

#[test]
fn numbers_are_given_out_to_the_last_one_and_given_back_unless_others_followed() {
    let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
    let mut engine = pool.inner.engine();
    engine.next_container = CONTAINER_ID_MAX - 1;
    let [former, last] = [(); 2].map(|()| engine.next_number().unwrap());
    assert_eq!((former.get(), last.get()), (CONTAINER_ID_MAX - 1, CONTAINER_ID_MAX));
    assert!(engine.next_number().unwrap_err().is_no_space());
    engine.give_number_back(former);
    assert!(engine.next_number().is_err(), "the last one was given out after it");
    engine.give_number_back(last);
    assert_eq!(engine.next_number().unwrap(), last);
}

#[test]
fn a_container_that_could_not_be_made_leaves_its_number_to_the_next() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let mut engine = pool.inner.engine();
    engine.ready.clear();
    let next = engine.next_container;
    folder.fail_once(&[OpKind::Create], 1, FaultKind::Enospc);
    assert!(pool.inner.take_container(&mut engine).unwrap_err().is_no_space());
    assert_eq!(pool.inner.take_container(&mut engine).unwrap().get(), next);
}
