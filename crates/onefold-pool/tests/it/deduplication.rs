//! What the index missed is found when fingerprint runs are merged.

use onefold_block::{BlockDevice, ByteSize, CrashMode, Folder, SimFolder};
use onefold_pool::{Pool, PoolSettings, SpaceTarget, Thoroughness, Volume};

use crate::support::{IDENTITY, assert_sound, content, options, small};

const CHUNK: u64 = 4096;

/// A pool whose index knows nothing of what was there before it was opened.
fn opened_blind(folder: &SimFolder) -> (Pool, Volume) {
    let pool = Pool::open(folder, &options()).unwrap();
    pool.fill_index_beside();
    let volume = pool.volume("main").unwrap();
    (pool, volume)
}

fn write(volume: &Volume, at: u64, seeds: std::ops::Range<u64>) {
    for (n, seed) in (at..).zip(seeds) {
        volume.write_at(n * CHUNK, &content(seed, CHUNK as usize), false).unwrap();
    }
}

fn expect(volume: &Volume, at: u64, seeds: std::ops::Range<u64>) {
    let mut found = vec![0; CHUNK as usize];
    for (n, seed) in (at..).zip(seeds) {
        volume.read_at(n * CHUNK, &mut found).unwrap();
        assert!(found == content(seed, CHUNK as usize), "block {n}");
    }
}

/// Deduplicate until nothing is left. Returns what was found.
fn finish(pool: &Pool, thoroughness: Thoroughness) -> u64 {
    pool.checkpoint().unwrap();
    let mut found = 0;
    for _ in 0..100_000 {
        let step = pool.deduplicate(32 << 10, thoroughness).unwrap();
        found += step.found;
        if step.done {
            return found;
        }
    }
    panic!("it never ends");
}

fn new_pool(settings: &PoolSettings) -> SimFolder {
    let folder = SimFolder::new();
    Pool::create(&folder, settings, IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    pool.close().unwrap();
    folder
}

#[test]
fn what_was_stored_again_is_stored_once_after_the_runs_were_merged() {
    for fingerprint in ["blake3", "sha256", "crc32"] {
        let settings = PoolSettings { fingerprint: fingerprint.parse().unwrap(), ..small() };
        let folder = new_pool(&settings);
        for copy in 0..3 {
            let (pool, volume) = opened_blind(&folder);
            write(&volume, copy * 10_000, 0..1500);
            // The same within the copy, found at once: several blocks refer to the second record.
            write(&volume, copy * 10_000 + 5000, 100..300);
            drop(volume);
            pool.close().unwrap();
        }
        let (pool, volume) = opened_blind(&folder);
        let before = pool.status().unwrap();
        assert_eq!((before.chunks, before.deduplication.found), (4500, 0), "{fingerprint}");
        let found = finish(&pool, Thoroughness::Whole);
        assert_eq!(found, 3000, "{fingerprint}");
        let after = pool.status().unwrap();
        assert_eq!((after.deduplication.found, after.deduplication.undetermined()), (3000, 0));
        assert_eq!(after.deduplication.runs, 1);
        assert_eq!(after.chunks, 1500, "{fingerprint}: what is dead is known to be");
        let target = SpaceTarget::new(1.1).unwrap();
        while !pool.background(1 << 20, target).unwrap().done {}
        let settled = pool.status().unwrap();
        assert!(settled.container_bytes < before.container_bytes * 45 / 100, "{fingerprint}");
        for copy in 0..3 {
            expect(&volume, copy * 10_000, 0..1500);
            expect(&volume, copy * 10_000 + 5000, 100..300);
        }
        assert_eq!(finish(&pool, Thoroughness::Whole), 0, "nothing is left to find");
        drop(volume);
        pool.close().unwrap();
        assert_sound(&folder, fingerprint);
    }
}

/// A pool in which `copies` copies of the same 3000 chunks are stored.
fn stored_often(settings: &PoolSettings, copies: u64) -> SimFolder {
    let folder = new_pool(settings);
    for copy in 0..copies {
        let (pool, volume) = opened_blind(&folder);
        write(&volume, copy * 10_000, 0..3000);
        drop(volume);
        pool.close().unwrap();
    }
    folder
}

fn expect_copies(folder: &SimFolder, copies: u64) {
    let (pool, volume) = opened_blind(folder);
    for copy in 0..copies {
        expect(&volume, copy * 10_000, 0..3000);
    }
    drop(volume);
    pool.close().unwrap();
    assert_sound(folder, "deduplicated");
}

#[test]
fn what_is_closed_or_loses_power_in_the_midst_goes_on_from_there() {
    let intact = stored_often(&small(), 3);
    for cut_every in [1, 4, 9] {
        let mut folder = intact.after_crash(1, CrashMode::KeepEverything);
        let (mut found, mut rounds) = (0, 0);
        loop {
            let (pool, volume) = opened_blind(&folder);
            drop(volume);
            pool.checkpoint().unwrap();
            folder.crash_at(folder.op_count() + cut_every + rounds);
            let done = loop {
                match pool.deduplicate(64 << 10, Thoroughness::Whole) {
                    Ok(step) if step.done => break true,
                    Ok(_) => {}
                    Err(_) if folder.has_crashed() => break false,
                    Err(error) => panic!("{error}"),
                }
            };
            found += pool.status().map_or(0, |status| status.deduplication.found);
            if done {
                folder.crash_at(u64::MAX);
                pool.close().unwrap();
                break;
            }
            drop(pool);
            folder = folder.after_crash(rounds, CrashMode::Random);
            rounds += 1;
            assert!(rounds < 2000, "it never gets to an end");
        }
        assert!(rounds > 0, "the power never went");
        let (pool, _) = opened_blind(&folder);
        assert!(pool.status().unwrap().chunks <= 3300, "found {found} in {rounds} rounds");
        drop(pool);
        expect_copies(&folder, 3);
    }
}

#[test]
fn damaged_runs_cost_only_work_and_a_check_names_them() {
    let folder = stored_often(&small(), 2);
    let (pool, volume) = opened_blind(&folder);
    drop(volume);
    assert_eq!(finish(&pool, Thoroughness::Whole), 3000);
    pool.close().unwrap();
    let names = || folder.subfolder("fingerprints").unwrap().list().unwrap();
    let [name] = names().try_into().unwrap();
    for at in [10, 5000, 30_000] {
        let (pool, volume) = opened_blind(&folder);
        write(&volume, 50_000, 0..3000);
        drop(volume);
        pool.close().unwrap();
        let Ok([name]) = <[String; 1]>::try_from(names()) else { panic!("{:?}", names()) };
        let run = folder.subfolder("fingerprints").unwrap().open(&name).unwrap();
        let mut byte = [0];
        run.read(at, &mut byte).unwrap();
        run.write(at, &[byte[0] ^ 16]).unwrap();
        let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.findings);
        assert!(report.notes.iter().any(|note| note.contains(&name)), "{:?}", report.notes);
        let (pool, volume) = opened_blind(&folder);
        assert_eq!(finish(&pool, Thoroughness::Whole), 3000, "byte {at}");
        volume.trim(50_000 * CHUNK, 3000 * CHUNK, false).unwrap();
        while !pool.background(1 << 20, SpaceTarget::new(1.1).unwrap()).unwrap().done {}
        finish(&pool, Thoroughness::Whole);
        drop(volume);
        pool.close().unwrap();
    }
    assert!(!names().contains(&name), "it was made again");
    expect_copies(&folder, 2);
}

#[test]
fn on_a_full_disk_it_waits_and_takes_nobody_s_space() {
    let folder = stored_often(&small(), 2);
    let (pool, volume) = opened_blind(&folder);
    pool.checkpoint().unwrap();
    for room in [0, 10_000, 60_000] {
        folder.set_capacity(Some(folder.used_bytes() + room));
        let mut steps = 0;
        while !pool.deduplicate(1 << 20, Thoroughness::Whole).unwrap().done {
            steps += 1;
            assert!(steps < 1000, "it never gives up");
        }
        assert_eq!(pool.status().unwrap().deduplication.runs, 0);
        let left = folder.subfolder("fingerprints").unwrap().list().unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
    folder.set_capacity(None);
    write(&volume, 100_000, 7000..7001);
    assert_eq!(finish(&pool, Thoroughness::Whole), 3000);
    drop(volume);
    pool.close().unwrap();
    expect_copies(&folder, 2);
}

/// Tiny contents that keep a test quick.
fn tiny(n: u64) -> Vec<u8> {
    let mut chunk = vec![0u8; CHUNK as usize];
    chunk[..8].copy_from_slice(&(n + 1).to_le_bytes());
    chunk
}

/// Write those with these numbers, each to its own block.
fn write_tiny(volume: &Volume, numbers: std::ops::Range<u64>) {
    for from in numbers.step_by(1000) {
        let data: Vec<u8> = (from..from + 1000).map(tiny).collect::<Vec<_>>().concat();
        volume.write_at(from * CHUNK, &data, false).unwrap();
    }
}

#[test]
fn after_opening_the_hooks_of_old_containers_come_from_the_runs() {
    let settings = PoolSettings { container_bytes: 1 << 20, ..PoolSettings::default() };
    let folder = new_pool(&settings);
    let (pool, volume) = opened_blind(&folder);
    write_tiny(&volume, 0..120_000);
    assert_eq!(finish(&pool, Thoroughness::Whole), 0);
    // A new run of what comes now is written once and not read again for its filter: 44 bytes of
    // each chunk's directory, and 16 of the run.
    write_tiny(&volume, 120_000..150_000);
    pool.checkpoint().unwrap();
    let seen = pool.status().unwrap().deduplication;
    let mut work = 0;
    loop {
        let step = pool.deduplicate(32 << 10, Thoroughness::Levels).unwrap();
        work += step.work_bytes;
        if step.done {
            break;
        }
    }
    let now = pool.status().unwrap().deduplication;
    let learned = seen.new - now.new;
    assert!(learned > 20_000 && now.runs > seen.runs + 2, "{learned} in {now:?}");
    let each = work as f64 / learned as f64;
    assert!((60.0..63.0).contains(&each), "{each} bytes for each chunk");
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    volume.write_at(200_000 * CHUNK, &tiny(999_999), false).unwrap();
    let index = pool.status().unwrap();
    assert_eq!((index.index_containers_left, index.index_let_go > 0), (0, true));
    // Of four containers.
    for from in (0..120_000).step_by(30_000) {
        let copy: Vec<u8> = (from..from + 1000).map(tiny).collect::<Vec<_>>().concat();
        volume.write_at((210_000 + from / 30) * CHUNK, &copy, false).unwrap();
    }
    let again = pool.activity().stored - 1;
    assert!(again < 80, "{again} of 4,000 are stored again");
}

#[test]
fn what_only_the_runs_know_is_found_by_asking_them() {
    let folder = stored_often(&small(), 1);
    let (pool, volume) = opened_blind(&folder);
    drop(volume);
    assert_eq!(finish(&pool, Thoroughness::Whole), 0);
    let volume = pool.volume("main").unwrap();
    // All over the place, so that no container leads to the next chunk.
    let scattered = || (0..3000).map(|n| n * 1789 % 3000);
    for (n, seed) in (20_000..).zip(scattered()) {
        volume.write_at(n * CHUNK, &content(seed, CHUNK as usize), false).unwrap();
    }
    write(&volume, 30_000, 10_000..13_000);
    let status = pool.status().unwrap();
    assert_eq!(status.activity.duplicate, 3000, "all are found, and nothing else");
    let made = status.deduplication.predictions;
    assert!(made.asked < 3300 && made.right <= 3000, "{made:?}");
    // Each leads to a container, whose directory has the others.
    assert!(made.right > 20, "{made:?}");
    let mut found = vec![0; CHUNK as usize];
    for (n, seed) in (20_000..).zip(scattered()) {
        volume.read_at(n * CHUNK, &mut found).unwrap();
        assert!(found == content(seed, CHUNK as usize), "block {n}");
    }
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "asked");
}
