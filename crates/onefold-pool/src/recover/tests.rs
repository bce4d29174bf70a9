//! Tests: what recovery takes for a container that was made since the checkpoint.
//! Room: onefold-pool.

use onefold_block::SimFolder;

use super::*;
use crate::{OpenOptions, Pool, PoolSettings};

#[test]
fn a_journal_knows_as_many_containers_as_can_be_made_in_its_epoch_and_no_more() {
    let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
    let mut engine = pool.inner.engine();
    let first = 1000;
    let last = ContainerId::new(first + CONTAINERS_OF_AN_EPOCH - 1);
    assert!(!engine.know(ContainerId::new(first - 1), first).unwrap(), "the checkpoint does");
    assert!(engine.know(last, first).unwrap());
    assert!(!engine.know(last, first).unwrap(), "it was heard of before");
    assert_eq!(engine.next_container, last.get() + 1);
    let refused = engine.know(ContainerId::new(last.get() + 1), first).unwrap_err();
    let PoolError::Corrupt { what, offset, .. } = refused else { panic!("{refused}") };
    assert_eq!((what.as_str(), offset), ("journal", 0));
}

#[test]
fn what_a_journal_has_when_a_pool_is_opened_counts_as_used() {
    let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
    let (used, len) = (pool.inner.engine().space.journal_used(), pool.inner.files.journal.len());
    assert_eq!(used, len.unwrap());
}

#[test]
fn the_number_of_a_container_that_nothing_refers_to_is_not_given_out_again() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let next = pool.inner.engine().next_container;
    // Made, and not begun.
    let stray = ContainerId::new(next + 7);
    pool.inner.store.create(stray, 1 << 20).unwrap();
    // After the last number there is none.
    pool.inner.store.create(ContainerId::new(CONTAINER_ID_MAX), 1 << 20).unwrap();
    pool.close().unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    assert!(!pool.inner.store.list().unwrap().contains(&stray));
    assert_eq!(pool.inner.engine().next_container, stray.get() + 1);
}

#[test]
fn a_journal_of_the_checkpoint_before_is_begun_anew_before_there_is_another_checkpoint() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let journal = Arc::clone(&pool.inner.files.journal);
    let mut before = [0; 64];
    journal.read(0, &mut before).unwrap();
    pool.checkpoint().unwrap();
    // The power went before that was done.
    journal.write(0, &before).unwrap();
    journal.set_len(64).unwrap();
    drop(pool);
    let mut seen = 0;
    folder.ops_since(&mut seen);
    drop(Pool::open(&folder, &OpenOptions::default()).unwrap());
    let ops = folder.ops_since(&mut seen);
    let wrote = |what: &str| ops.lines().position(|line| line.starts_with(what)).unwrap();
    let (newest, next) = ("Write super.0 ", "Write super.1 ");
    let steps = [newest, "Write journal bytes 0..64", "Write journal bytes 64..128", next];
    assert!(steps.map(wrote).is_sorted(), "{ops}");
}
