//! Tests: what recovery takes for a container that was made since the checkpoint.
//! Room: onefold-pool.

use onefold_block::SimFolder;

use super::*;
use crate::PoolSettings;

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
