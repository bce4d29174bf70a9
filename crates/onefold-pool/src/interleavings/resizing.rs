//! Sizes of a volume that change beside each other and beside writes.
//! Room: onefold-pool.

use std::sync::Arc;

use onefold_block::interleave::{PointFolder, Switches, run};
use onefold_block::{BlockDevice, ByteSize, CrashMode, FaultKind, OpKind, SimFolder, WriteRequest};

use crate::{OpenOptions, Pool, PoolError, PoolSettings, Volume};

const CHUNK: u64 = 4096;
const BEFORE: u64 = 20;

/// A disk, and a pool on it with a volume of so many chunks.
fn stage() -> (SimFolder, Pool, Volume) {
    let sim = SimFolder::new();
    let folder = PointFolder::new(Arc::new(sim.clone()));
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(BEFORE * CHUNK)).unwrap();
    (sim, pool, volume)
}

fn resize(pool: &Pool, chunks: u64) -> Result<(), PoolError> {
    pool.resize_volume("main", ByteSize(chunks * CHUNK), true)
}

/// The size in chunks that the volume has once the power went.
fn durable(sim: &SimFolder) -> u64 {
    let left = sim.after_crash(1, CrashMode::KeepNothing);
    let pool = Pool::open(&left, &OpenOptions::default()).unwrap();
    pool.volume("main").unwrap().size_bytes() / CHUNK
}

/// A growth beside `second`, which comes to its end at each point of it; the growth finds no space
/// afterwards. What `second` made of the size stays.
fn growth_beside(second: impl Fn(&Pool) -> Result<(), PoolError> + Sync, expected: u64) {
    let mut failed = 0;
    for to_second in 1.. {
        let (sim, pool, volume) = stage();
        pool.snapshot("main@small", 0, false).unwrap();
        resize(&pool, 25).unwrap();
        let second = || {
            second(&pool).unwrap();
            sim.fail_once(&[OpKind::Write], 1, FaultKind::Enospc);
        };
        let ran = run(Switches { to_second, back: None }, || resize(&pool, 30), second);
        sim.clear_faults();
        failed += u32::from(ran.first.is_err());
        let at = ran.points.get(to_second - 1);
        let sizes = (volume.size_bytes() / CHUNK, durable(&sim));
        assert_eq!(sizes, (expected, expected), "{at:?}");
        volume.write_at((expected - 1) * CHUNK, &[7; CHUNK as usize], true).unwrap();
        if to_second > ran.points.len() {
            break;
        }
    }
    assert!(failed > 0, "none came so late that it found no space");
}

#[test]
fn of_two_sizes_one_of_which_fails_the_other_stays() {
    growth_beside(|pool| resize(pool, 40), 40);
}

#[test]
fn a_rollback_beside_a_size_that_fails_gives_the_size_of_the_snapshot() {
    growth_beside(|pool| pool.rollback("main@small"), BEFORE);
}

#[test]
fn nothing_that_was_written_while_a_volume_became_shorter_comes_back_when_it_grows() {
    let [mut written, mut refused] = [0; 2];
    for to_second in 1.. {
        let (_sim, pool, volume) = stage();
        volume.write_at(15 * CHUNK, &[5; CHUNK as usize], false).unwrap();
        // As one whose range was looked at before.
        let data = [6; 2 * CHUNK as usize];
        let request = WriteRequest { offset: 14 * CHUNK, data: &data, fua: false };
        let write = || pool.inner.write(&volume.state, &[request]);
        let ran = run(Switches { to_second, back: None }, || resize(&pool, 10), write);
        ran.first.unwrap();
        match ran.second {
            Ok(()) => written += 1,
            Err(PoolError::PastEnd { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        resize(&pool, BEFORE).unwrap();
        let mut found = vec![1; (BEFORE * CHUNK) as usize];
        volume.read_at(0, &mut found).unwrap();
        let at = ran.points.get(to_second - 1);
        assert!(found.iter().all(|&byte| byte == 0), "{at:?}");
        if to_second > ran.points.len() {
            break;
        }
    }
    assert!(written > 0 && refused > 0, "{written} {refused}");
}

/// A shrink that would lose what is stored beside a write past the new end, at each point of it.
/// How often each was done.
fn shrink_beside_a_write(stored: bool) -> [usize; 3] {
    let mut done = [0; 3];
    for to_second in 1.. {
        let (_sim, pool, volume) = stage();
        if stored {
            volume.write_at(15 * CHUNK, &[5; CHUNK as usize], false).unwrap();
        }
        let shrink = || pool.resize_volume("main", ByteSize(10 * CHUNK), false);
        let write = || volume.write_at(14 * CHUNK, &[6; CHUNK as usize], false);
        let ran = run(Switches { to_second, back: None }, shrink, write);
        let (shrunk, written) = (ran.first.is_ok(), ran.second.is_ok());
        let at = ran.points.get(to_second - 1);
        assert!(!(shrunk && written) || to_second > ran.points.len(), "{at:?}: one was lost");
        if to_second > ran.points.len() {
            return done;
        }
        for (count, was) in done.iter_mut().zip([shrunk, written, true]) {
            *count += usize::from(was);
        }
    }
    unreachable!("it ends")
}

#[test]
fn nothing_that_was_written_is_lost_by_a_shrink_that_may_lose_nothing() {
    let [shrunk, written, all] = shrink_beside_a_write(false);
    assert!(shrunk > 0 && written > 0 && shrunk + written <= all, "{shrunk} {written} {all}");
    let [shrunk, written, all] = shrink_beside_a_write(true);
    assert_eq!((shrunk, written), (0, all), "who is refused keeps no writer from anything");
}

#[test]
fn space_for_a_new_size_is_got_before_the_lock_that_everybody_waits_for() {
    let (_sim, pool, _volume) = stage();
    let all = Switches { to_second: usize::MAX, back: None };
    let ran = run(all, || resize(&pool, 1 << 30), || {});
    ran.first.unwrap();
    let first = |name| ran.points.iter().position(|point| point == name);
    let [got, locked] = ["after reserve of map", "flusher"].map(first);
    assert!(got.is_some() && got < locked, "{:#?}", ran.points);
}
