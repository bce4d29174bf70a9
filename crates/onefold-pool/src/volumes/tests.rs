//! Tests: what is left of a volume that could not be made.
//! Room: onefold-pool.

use onefold_block::{FaultKind, OpKind, SimFolder};

use super::*;
use crate::{Pool, PoolSettings};

#[test]
fn a_volume_whose_checkpoint_had_no_space_is_gone_at_once() {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    drop(pool.create_volume("first", ByteSize(1 << 20)).unwrap());
    folder.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
    let failed = pool.create_volume("second", ByteSize(1 << 20));
    assert!(failed.map(drop).unwrap_err().is_no_space());
    let names = || pool.inner.all_volumes().iter().map(|v| v.name()).collect::<Vec<_>>();
    assert_eq!(names(), ["first"], "not even as one that is being deleted");
    drop(pool.create_volume("second", ByteSize(1 << 20)).unwrap());
    assert_eq!(names(), ["first", "second"]);
    pool.close().unwrap();
    assert!(Pool::check_in(&folder, &mut |_, _| {}).unwrap().is_sound());
}
