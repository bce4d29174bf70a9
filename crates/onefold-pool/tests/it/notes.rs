//! What doors keep with volumes goes where the volumes go, and survives any power cut.

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, SimFolder};
use onefold_pool::{Pool, PoolError};

use crate::support::{IDENTITY, assert_sound, new_pool, options, small};

const SIZE: ByteSize = ByteSize(1 << 20);

fn note(pool: &Pool, name: &str) -> Vec<u8> {
    pool.volume(name).unwrap().note().to_vec()
}

#[test]
fn a_note_stays_with_its_volume_and_clones_begin_with_it() {
    let (folder, pool) = new_pool(&small());
    pool.create_volume("a", SIZE).unwrap();
    pool.create_volume("b", SIZE).unwrap();
    assert!(note(&pool, "a").is_empty());
    pool.set_note("a", b"mine").unwrap();
    pool.snapshot("a@one", 1, false).unwrap();
    pool.clone_snapshot("a@one", "copy", 2).unwrap();
    // The snapshot has its volume's, as it is now; the clone goes its own way.
    pool.set_note("a", b"ours").unwrap();
    pool.rename_volume("a", "c").unwrap();
    let found = ["c", "c@one", "copy", "b"].map(|name| note(&pool, name));
    assert_eq!(found, [&b"ours"[..], b"ours", b"mine", b""]);
    pool.rollback("c@one").unwrap();
    assert_eq!(note(&pool, "c"), b"ours", "who may use it is no part of what it holds");
    let folder = folder.after_crash(1, CrashMode::KeepNothing);
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_eq!(["c", "c@one", "copy", "b"].map(|name| note(&pool, name)), found);
    // A volume of a former name begins without.
    pool.delete_volume("copy").unwrap();
    pool.create_volume("copy", SIZE).unwrap();
    assert!(note(&pool, "copy").is_empty());
    pool.set_note("c", b"").unwrap();
    assert!(note(&pool, "c@one").is_empty());
    pool.close().unwrap();
    assert_sound(&folder, "after notes");
}

#[test]
fn what_cannot_be_kept_is_refused_and_changes_nothing() {
    let (folder, pool) = new_pool(&small());
    pool.create_volume("a", SIZE).unwrap();
    pool.set_note("a", &[1; 16 << 10]).unwrap();
    pool.snapshot("a@one", 1, false).unwrap();
    for (name, bytes) in [("a", vec![2; (16 << 10) + 1]), ("a@one", vec![2]), ("x", vec![2])] {
        assert!(pool.set_note(name, &bytes).is_err(), "{name}");
    }
    assert_eq!(note(&pool, "a"), [1; 16 << 10]);
    drop(pool);
    let reading = onefold_pool::OpenOptions { read_only: true, ..options() };
    let pool = Pool::open(&folder, &reading).unwrap();
    assert_eq!(note(&pool, "a@one"), [1; 16 << 10]);
    assert!(matches!(pool.set_note("a", b"x"), Err(PoolError::ReadOnly)));
}

#[test]
fn notes_find_room_where_the_disk_is_full_or_are_refused_and_flushes_never_are() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("a", SIZE).unwrap();
    volume.write_at(0, &[7; 4096], true).unwrap();
    folder.set_capacity(Some(folder.used_bytes()));
    let mut kept = Vec::new();
    for round in 0..40_u8 {
        let next = vec![round + 1; 16 << 10];
        match pool.set_note("a", &next) {
            Ok(()) => kept = next,
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                break;
            }
        }
        volume.flush().unwrap();
    }
    assert_eq!(note(&pool, "a"), kept);
    volume.write_zeroes(0, 4096, onefold_block::ZeroOptions::default()).unwrap();
    volume.flush().unwrap();
}

/// Notes are set one after another until the power goes; the last that was set must be there, or
/// the one that was being set. True if the power went.
fn cut(at: u64, mode: CrashMode) -> bool {
    let folder = SimFolder::new();
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume("a", SIZE).unwrap();
    folder.crash_at(folder.op_count() + at);
    let notes: [&[u8]; 5] = [b"", b"one", &[2; 3000], b"", b"four"];
    let mut done = 0;
    for (number, &next) in notes.iter().enumerate().skip(1) {
        let written = volume.write_at(0, &[number as u8; 4096], number % 2 == 0).is_ok();
        if !written || pool.set_note("a", next).is_err() {
            break;
        }
        done = number;
    }
    let cloned = done == 4
        && pool.snapshot("a@s", 1, false).is_ok()
        && pool.clone_snapshot("a@s", "b", 2).is_ok();
    let folder = folder.after_crash(at, mode);
    let pool = Pool::open(&folder, &options()).unwrap();
    let found = note(&pool, "a");
    let expected = &notes[done..=(done + 1).min(4)];
    assert!(expected.contains(&found.as_slice()), "cut at {at}, {mode:?}: {found:?} after {done}");
    // A clone that is there has never been without.
    match pool.volume("b") {
        Ok(clone) => assert_eq!(clone.note()[..], *b"four", "cut at {at}, {mode:?}"),
        Err(_) => assert!(!cloned, "cut at {at}, {mode:?}"),
    }
    pool.close().unwrap();
    assert_sound(&folder, "after notes and a power cut");
    !cloned
}

#[test]
fn the_power_may_go_at_every_operation() {
    for mode in [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything] {
        let mut at = 0;
        while cut(at, mode) {
            at += 1;
        }
        assert!(at > 30, "there are only {at} operations");
    }
}
