//! Sick and full disks.

use onefold_block::{
    BlockDevice, BlockError, ByteSize, CrashMode, FaultKind, OpKind, SimFolder, SplitMix64,
};
use onefold_pool::Pool;

use crate::model::{CHUNK, Model, main_volume, step};
use crate::support::{assert_sound, content, new_pool, options, small};

#[test]
fn after_an_io_error_nothing_is_promised_until_reopened_and_nothing_flushed_is_lost() {
    for kind in [OpKind::Write, OpKind::Sync] {
        for nth in 1..40 {
            let context = format!("{kind:?} {nth}");
            let (folder, pool) = new_pool(&small());
            let volume = main_volume(&pool, 400).unwrap();
            let mut model = Model::new(400);
            folder.fail_once(&[kind], nth, FaultKind::Eio);
            let mut random = SplitMix64::new(nth);
            let mut failed = false;
            for _ in 0..200 {
                if step(&pool, &volume, &mut model, &mut random).is_err() {
                    failed = true;
                    break;
                }
            }
            assert!(failed, "{context}: the workload has too few operations");
            let error = volume.write_at(0, &[1; 4096], false).unwrap_err();
            assert!(matches!(error, BlockError::Poisoned(_)), "{context}: {error}");
            assert!(matches!(volume.flush(), Err(BlockError::Poisoned(_))), "{context}");
            volume.read_at(0, &mut [0; 4096]).unwrap();
            assert!(pool.status().unwrap().failure.is_some());
            assert!(pool.clone().close().is_err());
            drop((volume, pool));
            let pool = Pool::open(&folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
            let volume = pool.volume("main").unwrap();
            model.adopt(&volume, &context);
            drop(volume);
            pool.close().unwrap();
            assert_sound(&folder, &context);
        }
    }
}

#[test]
fn a_container_that_cannot_be_made_fails_its_write_and_no_other() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 400).unwrap();
    for (round, fault) in [FaultKind::Eio, FaultKind::Enospc].into_iter().enumerate() {
        let first = round as u64 * 150;
        // As many chunks as fill the open container, and one that needs the next. That it could not
        // be made ahead nobody hears of.
        folder.fail_from(&[OpKind::Create], 1, fault);
        let written = |n: u64| volume.write_at(n * CHUNK as u64, &content(n, CHUNK), false);
        let failed = (first..first + 150).find(|&n| written(n).is_err());
        let failed = failed.expect("a container is made");
        folder.clear_faults();
        written(failed).unwrap();
        volume.flush().unwrap();
        assert!(pool.status().unwrap().failure.is_none());
        let mut found = vec![0; CHUNK];
        for n in first..=failed {
            volume.read_at(n * CHUNK as u64, &mut found).unwrap();
            assert!(found == content(n, CHUNK), "chunk {n}");
        }
    }
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after both");
}

/// Write distinct chunks until the disk is full; returns how many were accepted.
fn fill(volume: &dyn BlockDevice, from: u64, limit: u64) -> u64 {
    for n in from..limit {
        match volume.write_at(n * 4096, &content(1000 + n, 4096), false) {
            Ok(()) => {}
            Err(BlockError::NoSpace(_)) => return n,
            Err(error) => panic!("chunk {n}: {error}"),
        }
    }
    panic!("the disk never ran full");
}

#[test]
fn a_full_disk_refuses_writes_keeps_data_and_recovers_with_space() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    folder.set_capacity(Some(12 << 20));
    let full = fill(&volume, 0, 20_000);
    assert!(full > 2000, "only {full} chunks fit into 12 MiB");
    volume.flush().expect("what was accepted can be made durable");
    let verify = |volume: &dyn BlockDevice, range: std::ops::Range<u64>| {
        let mut found = vec![0; 4096];
        for n in range {
            volume.read_at(n * 4096, &mut found).unwrap();
            assert!(found == content(1000 + n, 4096), "chunk {n}");
        }
    };
    verify(&volume, 0..full);
    // Duplicates still fit: they take no container space.
    volume.write_at(full * 4096, &content(1000, 4096), true).unwrap();
    // Space given back is space to write again.
    volume.trim(0, full / 2 * 4096, false).unwrap();
    let again = fill(&volume, full + 1, 40_000);
    assert!(again - full > full / 4, "{} chunks fit after trimming {}", again - full, full / 2);
    volume.flush().unwrap();
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after running full");
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    verify(&volume, full / 2..full);
    verify(&volume, full + 1..again);
}

#[test]
fn random_work_on_a_disk_that_is_nearly_full_never_breaks_the_model() {
    for seed in 0..12 {
        let (folder, pool) = new_pool(&small());
        let volume = main_volume(&pool, 1200).unwrap();
        let mut model = Model::new(1200);
        folder.set_capacity(Some(folder.used_bytes() + (1200 << 10) + (seed << 16)));
        let mut random = SplitMix64::new(seed);
        let mut refused = 0;
        for _ in 0..250 {
            let mut attempt = Model { blocks: model.blocks.clone() };
            match step(&pool, &volume, &mut attempt, &mut random) {
                Ok(()) => model = attempt,
                Err(error) if error.contains("no space") => {
                    // Block by block the old or the new state.
                    refused += 1;
                    attempt.adopt(&volume, &format!("seed {seed}"));
                    model = attempt;
                    volume.flush().unwrap_or_else(|e| panic!("seed {seed}: flush: {e}"));
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        assert!(seed > 3 || refused > 0, "seed {seed}: the disk never ran full");
        model.assert_current(&volume, &format!("seed {seed}"));
        drop(volume);
        pool.close().unwrap_or_else(|e| panic!("seed {seed}: close: {e}"));
        assert_sound(&folder, &format!("seed {seed}"));
    }
}

#[test]
fn a_lack_of_space_anywhere_is_survived() {
    for nth in 1..60 {
        let (folder, pool) = new_pool(&small());
        let volume = main_volume(&pool, 400).unwrap();
        let mut model = Model::new(400);
        folder.fail_once(&[OpKind::Reserve, OpKind::Create], nth, FaultKind::Enospc);
        let mut random = SplitMix64::new(nth + 500);
        for number in 0..150 {
            let mut attempt = Model { blocks: model.blocks.clone() };
            match step(&pool, &volume, &mut attempt, &mut random) {
                Ok(()) => model = attempt,
                Err(error) if error.contains("no space") => {
                    attempt.adopt(&volume, &format!("nth {nth}, step {number}"));
                    model = attempt;
                }
                Err(error) => panic!("nth {nth}, step {number}: {error}"),
            }
        }
        model.assert_current(&volume, &format!("nth {nth}"));
        drop(volume);
        pool.close().unwrap();
        assert_sound(&folder, &format!("nth {nth}"));
    }
}

#[test]
fn read_errors_are_errors_and_pass() {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 400).unwrap();
    let data: Vec<u8> = (0..200).map(|n| content(n, CHUNK)).collect::<Vec<_>>().concat();
    volume.write_at(0, &data, true).unwrap();
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    folder.fail_once(&[OpKind::Read], 1, FaultKind::Eio);
    let mut found = vec![0; data.len()];
    assert!(matches!(volume.read_at(0, &mut found), Err(BlockError::Io { .. })));
    volume.read_at(0, &mut found).unwrap();
    assert!(found == data);
    volume.write_at(0, &[1; 4096], true).expect("a read error is no reason to refuse writes");
}

/// Fills a volume until the disk is full, after which so many bytes are free, and ends without a
/// clean stop.
fn filled(free: u64) -> SimFolder {
    filled_with(4 << 20, free)
}

/// The same, on a disk with room for so many bytes.
fn filled_with(room: u64, free: u64) -> SimFolder {
    let (folder, pool) = new_pool(&small());
    let keep = pool.create_volume("keep", ByteSize(1 << 20)).unwrap();
    keep.write_at(0, &content(1, 1 << 18), true).unwrap();
    let volume = pool.create_volume("full", ByteSize(256 << 20)).unwrap();
    folder.set_capacity(Some(folder.used_bytes() + room));
    let mut seed = 2;
    while volume.write_at(seed * 4096, &content(seed, 4096), false).is_ok() {
        seed += 1;
    }
    volume.flush().unwrap();
    drop((volume, keep, pool));
    let left = folder.after_crash(0, CrashMode::KeepEverything);
    left.set_capacity(Some(left.used_bytes() + free));
    left
}

#[test]
fn a_full_disk_gets_its_space_back_however_little_is_left() {
    let mut gave = 0;
    for free in (0..24).map(|pages| pages * 8192) {
        let folder = filled(free);
        let context = format!("{free} bytes free");
        let open = || Pool::open(&folder, &options());
        // Without any room at all not even what recovery writes can be stored.
        let Ok(pool) = open() else {
            assert!(free < 64 << 10, "{context}");
            continue;
        };
        let deleted = pool.delete_volume("full");
        assert!(deleted.is_ok() || free < 64 << 10, "{context}: {deleted:?}");
        gave += u32::from(deleted.is_ok());
        drop(pool);
        let pool = open().unwrap_or_else(|error| panic!("{context}, again: {error}"));
        let mut kept = vec![0; 1 << 18];
        pool.volume("keep").unwrap().read_at(0, &mut kept).unwrap();
        assert!(kept == content(1, 1 << 18), "{context}");
        if deleted.is_ok() {
            pool.volume("keep").unwrap().write_at(0, &content(9, 1 << 18), true).unwrap();
        }
        pool.close().unwrap();
        assert_sound(&folder, &context);
    }
    assert!(gave >= 16, "{gave}");
}

#[test]
fn a_pool_just_opened_on_a_disk_without_room_takes_trims() {
    const PIECE: u64 = 64 << 10;
    for free in (0..64).map(|pages| pages * 4096) {
        // Too few containers for a reserve.
        let folder = filled_with(1500 << 10, 8 << 20);
        Pool::open(&folder, &options()).unwrap().close().unwrap();
        folder.set_capacity(Some(folder.used_bytes() + free));
        let context = format!("{free} bytes free");
        let pool = Pool::open(&folder, &options()).expect(&context);
        let volume = pool.volume("full").unwrap();
        for piece in 0..40 {
            let trimmed = volume.trim(2 * piece * PIECE, PIECE, false);
            trimmed.unwrap_or_else(|error| panic!("{context}, piece {piece}: {error}"));
        }
        volume.flush().expect(&context);
        drop((volume, pool));
        assert_sound(&folder.after_crash(0, CrashMode::KeepNothing), &context);
    }
}

#[test]
fn after_a_clean_stop_on_a_full_disk_trimmed_space_can_be_written_again() {
    for (step, piece) in [(2, 64 << 10), (4, 32 << 10), (2, 4096)] {
        let folder = filled_with(40 << 20, 8 << 20);
        Pool::open(&folder, &options()).unwrap().close().unwrap();
        folder.set_capacity(Some(folder.used_bytes()));
        let context = format!("one of {step} pieces of {piece} bytes");
        let pool = Pool::open(&folder, &options()).expect(&context);
        let volume = pool.volume("full").unwrap();
        let mapped = || pool.status().unwrap().volumes[1].mapped_bytes;
        let before = mapped();
        for at in (0..before).step_by(step * piece as usize) {
            volume.trim(at, piece, false).unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        let trimmed = before - mapped();
        let mut written = 0;
        let write = |at: u64| {
            let fresh = content(100_000 + at / 4096, 4096);
            volume.write_at((128 << 20) + at, &fresh, false)
        };
        while written < before && write(written).is_ok() {
            written += 4096;
        }
        assert!(written * 10 >= trimmed * 8, "{context}: {written} of {trimmed}");
        volume.flush().expect(&context);
        drop((volume, pool));
        assert_sound(&folder.after_crash(0, CrashMode::KeepNothing), &context);
    }
}
