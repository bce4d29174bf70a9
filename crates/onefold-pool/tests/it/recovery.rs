//! What opening does again after a power cut, and what it leaves alone.

use std::collections::BTreeSet;

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, Folder as _, OpKind, SimFolder};
use onefold_pool::format::frame;
use onefold_pool::format::superblock::{SEALED_IN_JOURNAL, Superblock};
use onefold_pool::{Pool, RescuePoint, Volume};

use crate::rescue::rescue;
use crate::support::{assert_sound, content, new_pool, options, small};

/// Blocks of a volume that fill some thirty containers.
const BLOCKS: u64 = 2000;

/// Write all blocks, with a flush after every hundred.
fn fill(volume: &Volume) {
    for n in 0..BLOCKS {
        volume.write_at(n * 4096, &content(n, 4096), n % 100 == 99).unwrap();
    }
}

fn assert_filled(volume: &Volume) {
    let mut found = vec![0; 4096];
    for n in 0..BLOCKS {
        volume.read_at(n * 4096, &mut found).unwrap();
        assert!(found == content(n, 4096), "block {n}");
    }
}

/// The containers that were written since the disk was powered on.
fn written(folder: &SimFolder) -> BTreeSet<String> {
    let log = folder.op_log();
    let writes = log.lines().filter(|line| line.contains(" Write ") || line.contains(" Punch "));
    let names = writes.filter_map(|line| line.split_whitespace().nth(2));
    names.filter(|name| name.ends_with(".container")).map(str::to_owned).collect()
}

#[test]
fn what_the_journal_tells_to_be_sealed_and_durable_is_not_written_again() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    fill(&volume);
    let disk = folder.after_crash(3, CrashMode::KeepNothing);
    let there = disk.subfolder("containers").unwrap().list().unwrap().len();
    assert!(there > 20, "{there} containers");

    let pool = Pool::open(&disk, &options()).unwrap();
    let again = written(&disk);
    assert_eq!(again.len(), 1, "only the one that was being filled: {again:?}");
    let volume = pool.volume("main").unwrap();
    assert_filled(&volume);
    // The index learns what only the journal told of.
    for n in [0, BLOCKS / 2, BLOCKS - 1] {
        volume.write_at((BLOCKS + n) * 4096, &content(n, 4096), false).unwrap();
    }
    assert_eq!(pool.activity().duplicate, 3);
    drop(volume);
    pool.close().unwrap();
    assert_sound(&disk, "after recovery");
}

#[test]
fn what_was_made_ahead_or_never_got_a_header_goes_whatever_its_file_has() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    let list = |folder: &SimFolder| folder.subfolder("containers").unwrap().list().unwrap();
    let mut block = 0;
    while list(&folder).len() < 2 {
        volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
        block += 1;
    }
    pool.checkpoint().unwrap();
    let disk = folder.after_crash(1, CrashMode::KeepEverything);
    let ahead = list(&disk).into_iter().max().unwrap();
    let without = folder.after_crash(1, CrashMode::KeepEverything);
    without.subfolder("containers").unwrap().remove(&ahead).unwrap();
    let (_, report) = rescue(&without, RescuePoint::Newest).unwrap();
    assert_eq!(report.missing.len(), 0, "nothing was in it: {report:?}");
    let containers = disk.subfolder("containers").unwrap();
    containers.open(&ahead).unwrap().write(0, &[0xA5; 100]).unwrap();
    let digits = ahead.len() - ".container".len();
    let stray = format!("{:0digits$}.container", 77);
    containers.create(&stray).unwrap().set_len(100_000).unwrap();
    let pool = Pool::open(&disk, &options()).unwrap();
    let left = list(&disk);
    assert!(!left.contains(&ahead) && !left.contains(&stray), "{left:?}");
    drop(pool);
    assert_sound(&disk, "after recovery");
}

/// A container of which the journal tells, but whose end the disk has lost since, is damage.
#[test]
fn a_sealed_container_that_is_cut_is_named_by_check_and_never_read_as_something_else() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    fill(&volume);
    let disk = folder.after_crash(3, CrashMode::KeepNothing);
    let containers = disk.subfolder("containers").unwrap();
    let mut names = containers.list().unwrap();
    names.sort();
    containers.open(&names[3]).unwrap().set_len(100_000).unwrap();

    let pool = Pool::open(&disk, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    let mut found = vec![0; 4096];
    let (mut right, mut refused) = (0, 0);
    for n in 0..BLOCKS {
        match volume.read_at(n * 4096, &mut found) {
            Ok(()) => right += u64::from(found == content(n, 4096)),
            Err(_) => refused += 1,
        }
    }
    assert_eq!(right + refused, BLOCKS, "wrong bytes were given out");
    assert!((1..200).contains(&refused), "{refused} blocks are refused");
    drop(volume);
    pool.close().unwrap();
    let report = Pool::check_in(&disk, &mut |_, _| {}).unwrap();
    let number = names[3].trim_start_matches('0').trim_end_matches(".container");
    assert!(!report.is_sound() && format!("{report:?}").contains(number), "{report:?}");
}

/// The containers that the journal tells of.
fn told(folder: &SimFolder) -> usize {
    let media = folder.open("journal").unwrap();
    let mut bytes = vec![0; media.len().unwrap() as usize];
    media.read(0, &mut bytes).unwrap();
    let (mut at, mut told) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(frame::decode) {
        told += frame::decode_contents(found.payload).unwrap().sealed.len();
        at += found.len_bytes();
    }
    told
}

/// An onefold that knows of no such journal would take it for damage: it is refused by name first.
#[test]
fn the_journal_tells_of_containers_once_a_checkpoint_says_that_it_may() {
    let (folder, pool) = new_pool(&small());
    drop(pool.create_volume("main", ByteSize(64 << 20)).unwrap());
    pool.close().unwrap();
    for name in ["super.0", "super.1"] {
        let media = folder.open(name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        let mut older = Superblock::decode(name, &bytes).unwrap();
        assert_eq!(older.features.must_refuse, SEALED_IN_JOURNAL);
        older.features.must_refuse = 0;
        media.write(0, &older.encode()).unwrap();
    }
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    fill(&volume);
    assert_eq!(told(&folder), 0);
    let pool_before = Pool::open(&folder.after_crash(3, CrashMode::KeepNothing), &options());
    assert_filled(&pool_before.unwrap().volume("main").unwrap());
    drop(volume);
    pool.close().unwrap();

    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume("second", ByteSize(64 << 20)).unwrap();
    for n in 0..BLOCKS {
        volume.write_at(n * 4096, &content(BLOCKS + n, 4096), n % 100 == 99).unwrap();
    }
    assert!(told(&folder) > 20, "{}", told(&folder));
}

/// A container whose sync failed is told of by no frame, before or after.
#[test]
fn a_container_that_could_not_be_synced_is_not_told_of() {
    let mut failed = 0;
    for nth in 1..60 {
        let (folder, pool) = new_pool(&small());
        let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
        folder.fail_once(&[OpKind::Sync], nth, onefold_block::FaultKind::Eio);
        let mut acknowledged = 0;
        for n in 0..BLOCKS / 2 {
            match volume.write_at(n * 4096, &content(n, 4096), n % 20 == 19) {
                Ok(()) if n % 20 == 19 => acknowledged = n + 1,
                Ok(()) => {}
                Err(_) => break,
            }
        }
        failed += u64::from(acknowledged < BLOCKS / 2);
        for seed in 0..4 {
            let disk = folder.after_crash(seed, CrashMode::KeepNothing);
            let pool = Pool::open(&disk, &options()).unwrap();
            let volume = pool.volume("main").unwrap();
            let mut found = vec![0; 4096];
            for n in 0..acknowledged {
                volume.read_at(n * 4096, &mut found).unwrap();
                assert!(found == content(n, 4096), "sync {nth}, seed {seed}, block {n}");
            }
        }
    }
    assert!(failed > 20, "{failed} pools met the fault");
}
