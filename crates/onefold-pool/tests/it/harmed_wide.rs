//! The same of a pool whose volumes have several leaves, snapshots, one of which is half given up,
//! fingerprint runs, and a container of which pages were given back.

use std::fmt::Write as _;

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, Folder as _, SimFolder};
use onefold_content::Compression;
use onefold_pool::{Pool, PoolSettings, SpaceTarget, Thoroughness};

use crate::harmed::{
    CHUNK, FIRST, HEADER, Harm, RECORD, copied, cut, flip, harm, life, remove, tell, write,
};
use crate::operations::hash;
use crate::repair::{files, repair};
use crate::support::{assert_golden, content, new_pool, options, small};

fn raw() -> PoolSettings {
    PoolSettings { compression: Compression::None, ..small() }
}

/// Three leaves, some of which snapshots and a clone share; the deletion of one is half done.
fn wide() -> SimFolder {
    let (folder, pool) = new_pool(&raw());
    let main = pool.create_volume_at("main", ByteSize(1100 * CHUNK), 1).unwrap();
    let put = |blocks: &[(u64, u64)]| {
        for &(block, seed) in blocks {
            write(&main, block, seed);
        }
    };
    put(&[(0, 1), (511, 2), (512, 3), (700, 4), (1023, 5), (1024, 6), (1099, 7)]);
    pool.snapshot("main@a", 2, false).unwrap();
    put(&[(512, 8), (3, 9)]);
    pool.snapshot("main@b", 3, false).unwrap();
    put(&[(1024, 10)]);
    pool.snapshot("main@c", 4, false).unwrap();
    let copy = pool.clone_snapshot("main@a", "copy", 5).unwrap();
    write(&copy, 700, 11);
    put(&[(0, 12), (900, 1), (901, 1)]);
    drop((main, copy));
    // What is still being filled is in no run.
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    while !pool.deduplicate(1 << 20, Thoroughness::Whole).unwrap().done {}
    pool.delete_snapshot("main@b").unwrap();
    pool.give_up_deleted(1).unwrap();
    pool.close().unwrap();
    folder
}

fn map_pages(folder: &SimFolder) -> u64 {
    files(folder)["map"].len() as u64 / CHUNK
}

fn damage_of_pages(pages: &[u64]) -> (String, Harm) {
    let pages = pages.to_vec();
    harm(format!("pages {pages:?} of the map"), move |folder| {
        for page in &pages {
            folder.flip_bit("map", page * CHUNK + 17, 3).unwrap();
        }
    })
}

fn each_page(from: u64, step: usize) -> String {
    let whole = wide();
    let pages = (from..map_pages(&whole)).step_by(step);
    tell(&whole, &pages.map(|page| damage_of_pages(&[page])).collect::<Vec<_>>())
}

#[test]
fn whichever_odd_page_of_maps_that_share_is_damaged_comes_to_what_it_did() {
    assert_golden("harmed_odd.txt", &each_page(1, 2));
}

#[test]
fn whichever_even_page_of_maps_that_share_is_damaged_comes_to_what_it_did() {
    assert_golden("harmed_even.txt", &each_page(2, 2));
}

#[test]
fn whatever_else_is_damaged_beside_maps_that_share_comes_to_what_it_did() {
    let whole = wide();
    let mut harms = Vec::new();
    for (name, len) in files(&whole).into_iter().map(|(name, bytes)| (name, bytes.len() as u64)) {
        if name.starts_with("fingerprints/") {
            harms.push(flip(name.clone(), 3));
            harms.push(flip(name.clone(), len / 2));
            harms.push(cut(name, len - 1));
        }
    }
    assert!(!harms.is_empty());
    harms.push(remove("map"));
    harms.extend([0, 2, 7, 11].map(|record| flip(FIRST, HEADER + record * RECORD + 100)));
    assert_golden("harmed_wide.txt", &tell(&whole, &harms));
}

#[test]
fn whichever_two_pages_of_maps_that_share_are_damaged_come_to_what_they_did() {
    let whole = wide();
    let pages = map_pages(&whole);
    let mut told = String::new();
    for first in 1..pages {
        for second in first + 1..pages {
            let (what, harm) = damage_of_pages(&[first, second]);
            let damaged = copied(&whole);
            harm(&damaged);
            let report = repair(&damaged).unwrap();
            let of = |blocks: &onefold_pool::Blocks| {
                let name = |range: &onefold_pool::DamagedBlocks| {
                    format!("{} {}+{}", range.volume, range.first.get(), range.count)
                };
                blocks.ranges.iter().map(name).collect::<Vec<_>>().join(" ")
            };
            let (lost, restored) = (of(&report.lost), of(&report.restored));
            let mut bytes = Vec::new();
            for (name, file) in outcome(&damaged) {
                bytes.extend_from_slice(name.as_bytes());
                bytes.extend_from_slice(&file);
            }
            let read = report.map_pages_read;
            let hash = hash(&bytes);
            writeln!(told, "{what}: {read} read, {hash}; lost {lost}; restored {restored}")
                .unwrap();
        }
    }
    assert_golden("harmed_pages.txt", &told);
}

const BLOCKS: u64 = 300;

/// A container of which a snapshot has a part, and pages of the rest were given back.
fn punched() -> SimFolder {
    let (folder, pool) = new_pool(&raw());
    let main = pool.create_volume_at("main", ByteSize(BLOCKS * CHUNK), 1).unwrap();
    for block in 0..BLOCKS {
        // The first of each eight have letters.
        write(&main, block, if block % 8 == 1 { 1 + block / 8 % 26 } else { 100 + block });
    }
    pool.snapshot("main@a", 2, false).unwrap();
    pool.snapshot("main@b", 2, false).unwrap();
    drop(main);
    let main = pool.volume("main").unwrap();
    for block in (0..BLOCKS).filter(|block| block % 8 != 1) {
        main.trim(block * CHUNK, CHUNK, false).unwrap();
    }
    pool.snapshot("main@c", 3, false).unwrap();
    for name in ["main@a", "main@b"] {
        pool.delete_snapshot(name).unwrap();
    }
    while !pool.give_up_deleted(1 << 20).unwrap() {}
    drop(main);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    for _ in 0..200 {
        if pool.background(1 << 20, SpaceTarget::new(1.05).unwrap()).unwrap().done {
            break;
        }
    }
    assert!(pool.activity().punched_bytes > 0, "{:?}", pool.activity());
    pool.close().unwrap();
    folder
}

#[test]
fn whatever_is_damaged_where_pages_were_given_back_comes_to_what_it_did() {
    let mut harms: Vec<(String, Harm)> =
        [0, 1, 9, 17].map(|record| flip(FIRST, HEADER + record * RECORD + 100)).to_vec();
    harms.push(damage_of_pages(&[1]));
    harms.push(flip("super.0", 50));
    harms.push(flip("super.1", 50));
    harms.push(remove("map"));
    harms.push(flip(FIRST, HEADER + 60 * RECORD + 50));
    assert_golden("harmed_punched.txt", &tell(&punched(), &harms));
}

/// A pool that needs a repair in which files of every kind are replaced.
fn to_be_repaired() -> SimFolder {
    let folder = life(false);
    for (_, harm) in
        [flip(FIRST, HEADER + 2 * RECORD + 100), flip("super.0", 50), flip("generation", 9)]
    {
        harm(&folder);
    }
    let runs = folder.subfolder("fingerprints").unwrap();
    runs.create("any").unwrap().write(0, &content(1, 100)).unwrap();
    runs.sync_names().unwrap();
    for name in ["map.before-repair-6", "map.before-repair-x", "mine.before-repair-"] {
        drop(folder.create(name).unwrap());
    }
    copied(&folder)
}

/// The files that count, without those that were replaced, and without what is drawn at random.
fn outcome(folder: &SimFolder) -> Vec<(String, Vec<u8>)> {
    let mut files = files(folder);
    files.retain(|name, _| !name.contains(".before-repair-") && name != "generation");
    files.into_iter().collect()
}

/// What becomes of a repair that loses power at each of its operations.
fn resumed(mode: CrashMode) -> String {
    let pristine = to_be_repaired();
    let whole = copied(&pristine);
    let mut seen = whole.op_log().lines().count();
    repair(&whole).unwrap();
    let mut told = whole.ops_since(&mut seen);
    let expected = outcome(&whole);
    for cut in 0.. {
        let folder = copied(&pristine);
        folder.crash_at(folder.op_count() + cut);
        let done = repair(&folder).is_ok();
        if !folder.has_crashed() {
            assert!(done && cut > 50);
            return told;
        }
        let left = folder.after_crash(cut, mode);
        let mut seen = left.op_log().lines().count();
        let report = repair(&left).unwrap_or_else(|e| panic!("{mode:?} {cut}: {e}"));
        let ops = left.ops_since(&mut seen);
        let kept = files(&left).keys().filter(|name| name.contains(".before-")).count();
        let said = (report.findings_total, report.findings.len(), report.plan.len());
        let (finishes, count, hash) = (report.finishes, ops.lines().count(), hash(ops.as_bytes()));
        let now = format!("{finishes}, {said:?}, {count} operations {hash}, {kept} kept\n");
        if !told.ends_with(&now) {
            write!(told, "cut at {cut}: {now}").unwrap();
        }
        assert!(outcome(&left) == expected, "{mode:?} {cut}");
    }
    unreachable!("it ends")
}

#[test]
fn a_repair_that_was_cut_short_is_gone_on_with_as_it_was_where_all_is_kept() {
    assert_golden("resumed.txt", &resumed(CrashMode::KeepEverything));
}

#[test]
fn a_repair_that_was_cut_short_is_gone_on_with_as_it_was_where_nothing_is_kept() {
    assert_golden("resumed_nothing.txt", &resumed(CrashMode::KeepNothing));
}

#[test]
fn a_repair_that_was_cut_short_is_gone_on_with_as_it_was_where_something_is_kept() {
    assert_golden("resumed_random.txt", &resumed(CrashMode::Random));
}
