//! A check beside others who use the pool says what one of the stopped pool would have said.

use onefold_block::{BlockDevice, BlockError, ByteSize, Folder, SimFolder};
use onefold_pool::{CheckReport, Pool, PoolError, SpaceTarget, Volume};

use crate::support::{assert_sound, content, new_pool, options, read_only, small};

const BLOCKS: u64 = 900;

fn write(volume: &dyn BlockDevice, block: u64, seed: u64) -> Result<(), BlockError> {
    volume.write_at(block * 4096, &content(seed, 4096), false)
}

/// A pool in use: containers of several ages, one that is being filled, and a snapshot.
fn used_pool() -> (SimFolder, Pool, Volume) {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    for block in 0..BLOCKS {
        write(&volume, block, block % 700).unwrap();
    }
    pool.snapshot("main@before", 0, false).unwrap();
    for block in (0..BLOCKS).step_by(3) {
        write(&volume, block, 10_000 + block).unwrap();
    }
    (folder, pool, volume)
}

/// All that a report says.
fn said(report: &CheckReport) -> (Vec<String>, [u64; 6], Vec<String>) {
    let findings = report.findings.iter().map(|finding| finding.problem.clone()).collect();
    let CheckReport { findings_total, containers, chunks, live, bytes, references, .. } = *report;
    let numbers = [findings_total, containers, chunks, live, bytes, references];
    (findings, numbers, report.notes.clone())
}

/// What a check of the pool would say if it stopped now.
fn stopped(pool: Pool, volume: Volume, folder: &SimFolder) -> CheckReport {
    drop(volume);
    pool.close().unwrap();
    Pool::check_in(folder, &mut |_, _| {}).unwrap()
}

#[test]
fn it_says_what_a_check_of_the_stopped_pool_says() {
    let (folder, pool, volume) = used_pool();
    let beside = pool.check_beside(&mut |_, _| true).unwrap().unwrap();
    assert!(beside.is_sound(), "{:?}", beside.findings);
    assert!(beside.containers > 5 && beside.references > BLOCKS);
    let after = stopped(pool, volume, &folder);
    assert_eq!(said(&beside), said(&after));
}

#[test]
fn damage_is_named_in_the_same_words() {
    let (folder, pool, volume) = used_pool();
    pool.checkpoint().unwrap();
    let containers = folder.existing_subfolder("containers").unwrap();
    let names = containers.list().unwrap();
    let hurt = containers.open(&names[1]).unwrap();
    hurt.write(9000, &[0xA5; 8]).unwrap();
    hurt.sync().unwrap();
    let beside = pool.check_beside(&mut |_, _| true).unwrap().unwrap();
    assert!(!beside.is_sound());
    assert!(beside.findings[0].problem.contains("corrupt container"), "{:?}", beside.findings);
    let after = stopped(pool, volume, &folder);
    assert_eq!(said(&beside), said(&after));
}

#[test]
fn a_map_that_is_none_is_named_and_nothing_of_it_is_read() {
    let (folder, pool, _volume) = used_pool();
    folder.flip_bit("map", 20, 1).unwrap();
    let report = pool.check_beside(&mut |_, _| true).unwrap().unwrap();
    let problems: Vec<&str> = report.findings.iter().map(|found| &*found.problem).collect();
    assert!(matches!(problems[..], [problem] if problem.contains("map")), "{problems:?}");
}

/// Everything that gives containers and map pages back, or changes what they hold.
fn turn_over(pool: &Pool, volume: &Volume, round: u64) {
    for block in 0..BLOCKS {
        write(volume, block, 100_000 * (round + 1) + block).unwrap();
    }
    if round == 1 {
        pool.delete_snapshot("main@before").unwrap();
    }
    pool.snapshot(&format!("main@round{round}"), 0, false).unwrap();
    volume.trim(0, 50 * 4096, false).unwrap();
    let target = SpaceTarget::new(1.05).unwrap();
    for _ in 0..20 {
        pool.background(1 << 20, target).unwrap();
    }
    pool.checkpoint().unwrap();
    pool.checkpoint().unwrap();
}

#[test]
fn what_changes_meanwhile_is_not_seen_and_comes_back_in_the_end() {
    let (folder, pool, volume) = used_pool();
    let quiet = pool.check_beside(&mut |_, _| true).unwrap().unwrap();
    let mut rounds = 0;
    let beside = pool.check_beside(&mut |_, _| {
        if rounds < 4 {
            turn_over(&pool, &volume, rounds);
            rounds += 1;
        }
        true
    });
    let beside = beside.unwrap().unwrap();
    assert_eq!(rounds, 4);
    assert_eq!(said(&beside), said(&quiet), "of the moment at which it began");
    // What was kept back is free: as much is used as by one that did the same alone.
    let used = |folder: &SimFolder, pool: &Pool| {
        pool.checkpoint().unwrap();
        pool.checkpoint().unwrap();
        let names = folder.existing_subfolder("containers").unwrap().list().unwrap().len();
        (names, pool.status().unwrap().map_pages)
    };
    let (twin_folder, twin, twin_volume) = used_pool();
    for round in 0..4 {
        turn_over(&twin, &twin_volume, round);
    }
    let [(containers, pages), (twins, twin_pages)] =
        [used(&folder, &pool), used(&twin_folder, &twin)];
    assert!(containers <= twins + 2, "{containers} containers, and {twins} without a check");
    assert!(pages <= twin_pages + 8, "{pages} pages of maps, and {twin_pages} without a check");
    assert!(pool.check_beside(&mut |_, _| true).unwrap().unwrap().is_sound());
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "closed");
}

#[test]
fn it_gives_way_to_writes_that_need_what_it_keeps_back() {
    let (folder, pool, volume) = used_pool();
    let mut begun = false;
    let checked = pool.check_beside(&mut |_, _| {
        if !begun {
            begun = true;
            folder.set_capacity(Some(folder.used_bytes() + (2 << 20)));
            // More than fits beside what is kept back, and the same blocks again and again.
            for round in 1..12 {
                for block in 0..BLOCKS {
                    write(&volume, block, 100_000 * round + block).unwrap();
                }
                volume.flush().unwrap();
            }
        }
        true
    });
    assert!(matches!(checked, Err(PoolError::CheckGaveWay)), "{checked:?}");
    folder.set_capacity(None);
    let checked = pool.check_beside(&mut |_, _| true).unwrap().unwrap();
    assert!(checked.is_sound(), "{:?}", checked.findings);
}

#[test]
fn it_ends_when_it_is_told_to_and_a_pool_that_is_only_read_is_checked_as_it_is() {
    let (folder, pool, volume) = used_pool();
    let mut asked = 0;
    let ended = pool.check_beside(&mut |_, _| {
        asked += 1;
        asked < 3
    });
    assert!(ended.unwrap().is_none());
    assert_eq!(asked, 3);
    let beside = pool.check_beside(&mut |_, _| true).unwrap().unwrap();
    stopped(pool, volume, &folder);
    let pool = Pool::open(&folder, &read_only()).unwrap();
    let read = pool.check_beside(&mut |_, _| true).unwrap().unwrap();
    assert_eq!(said(&read), said(&beside));
}

#[test]
fn a_power_cut_under_it_leaves_nothing_behind() {
    let (folder, pool, volume) = used_pool();
    let mut cuts = Vec::new();
    let _ = pool.check_beside(&mut |_, _| {
        turn_over(&pool, &volume, cuts.len() as u64);
        cuts.push(folder.after_crash(1, onefold_block::CrashMode::KeepEverything));
        cuts.len() < 3
    });
    for (number, cut) in cuts.into_iter().enumerate() {
        let pool = Pool::open(&cut, &options()).unwrap();
        pool.close().unwrap();
        let report = Pool::check_in(&cut, &mut |_, _| {}).unwrap();
        assert!(report.is_sound() && report.notes.is_empty(), "cut {number}: {report:?}");
    }
}
