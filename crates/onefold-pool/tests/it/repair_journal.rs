//! What the journal alone knows when a repair has an older checkpoint than it, or none.

use onefold_block::{BlockDevice as _, ByteSize, Folder as _};
use onefold_pool::format::frame;
use onefold_pool::format::superblock::Superblock;
use onefold_pool::{Pool, Volume};

use crate::repair::{files, repair};
use crate::support::{assert_sound, content, new_pool, options, small};

const BLOCKS: u64 = 1100;

/// All bytes of a volume, as far as it was and as far again.
fn grown(pool: &Pool, name: &str) -> Vec<u8> {
    let size = pool.volume(name).unwrap().size_bytes();
    pool.resize_volume(name, ByteSize(2 * size), false).unwrap();
    let mut bytes = vec![1; 2 * size as usize];
    pool.volume(name).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_was_written_past_the_end_of_an_older_checkpoint_is_named_and_not_there_when_it_grows() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(4 * 4096)).unwrap();
    volume.write_at(0, &content(1, 4 * 4096), false).unwrap();
    pool.checkpoint().unwrap();
    pool.resize_volume("main", ByteSize(8 * 4096), false).unwrap();
    // From before the old end to past it: written, and zeroes.
    volume.write_at(3 * 4096, &content(2, 3 * 4096), true).unwrap();
    volume.trim(2 * 4096, 4096, true).unwrap();
    volume.trim(3 * 4096, 2 * 4096, true).unwrap();
    drop((volume, pool));
    let supers = ["super.0", "super.1"].map(|name| Superblock::decode(name, &files(&folder)[name]));
    let [even, odd] = supers.map(|found| found.unwrap().sequence);
    folder.remove(if even > odd { "super.0" } else { "super.1" }).unwrap();
    let report = repair(&folder).unwrap();
    let named: Vec<&String> =
        report.uncertain.iter().filter(|what| what.contains("has no such blocks")).collect();
    let [named] = named[..] else { panic!("{report:#?}") };
    assert!(named.starts_with("3 changes to blocks of volume 'main' in the journal"), "{named}");
    assert_sound(&folder, "repaired");
    let pool = Pool::open(&folder, &options()).unwrap();
    let expected = [&content(1, 2 * 4096)[..], &vec![0; 6 * 4096]].concat();
    assert!(grown(&pool, "main") == expected);
}

#[test]
fn what_only_the_journal_says_comes_back_without_any_checkpoint() {
    let (folder, mut pool) = new_pool(&small());
    for (name, blocks, seed) in [("a", 0..40, 0), ("b", 3..9, 100)] {
        let volume = pool.create_volume(name, ByteSize(BLOCKS * 4096)).unwrap();
        for block in blocks {
            volume.write_at(block * 4096, &content(seed + block, 4096), true).unwrap();
        }
        // That a block is given up does not say how long the volume is, but it stays given up.
        for gone in [5, 100] {
            volume.trim(gone * 4096, 4096, true).unwrap();
        }
        drop(volume);
        if name == "a" {
            pool.close().unwrap();
            pool = Pool::open(&folder, &options()).unwrap();
        }
    }
    // Older records say what was there before the last checkpoint, and not that this is gone.
    pool.volume("a").unwrap().trim(7 * 4096, 4096, true).unwrap();
    // The second container has no directory yet: nothing else says whose its records are.
    drop(pool);
    for name in ["super.0", "super.1"] {
        folder.flip_bit(name, 50, 1).unwrap();
    }
    let report = repair(&folder).unwrap();
    assert_sound(&folder, "repaired");
    let stray = Some(("lost-and-found".to_owned(), 1));
    assert_eq!(report.lost_and_found, stray, "what was given up: {:?}", report.uncertain);
    let pool = Pool::open(&folder, &options()).unwrap();
    let volumes = pool.volumes();
    let sizes = volumes.iter().map(|volume| (volume.name(), volume.size_bytes() / 4096));
    let expected = [("recovered-1", 40), ("recovered-2", 9), ("lost-and-found", 1)];
    assert!(sizes.eq(expected.map(|(name, blocks)| (name.to_owned(), blocks))));
    let mut found = vec![0; 4096];
    for (volume, (seed, from)) in volumes.iter().zip([(0, 0), (100, 3)]) {
        for block in 0..volume.size_bytes() / 4096 {
            let read = volume.read_at(block * 4096, &mut found);
            assert_eq!(read.is_ok(), block >= from, "block {block} was written, or is lost");
            // What was given up before the last checkpoint nobody knows.
            let is_gone = block == if seed > 0 { 5 } else { 7 };
            let is = if is_gone { vec![0; 4096] } else { content(seed + block, 4096) };
            assert!(read.is_err() || found == is, "block {block}");
        }
    }
}

#[test]
fn of_a_volume_that_containers_alone_know_each_block_is_there_or_listed_as_lost() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    for block in (2..150).filter(|block| block % 50 != 7) {
        volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
    }
    volume.flush().unwrap();
    drop((volume, pool));
    let supers = ["super.0", "super.1"].map(|name| Superblock::decode(name, &files(&folder)[name]));
    let [even, odd] = supers.map(|found| found.unwrap().sequence);
    // The only one that has the volume, and the journal that follows it.
    folder.remove(if even > odd { "super.0" } else { "super.1" }).unwrap();
    folder.flip_bit("journal", 50, 1).unwrap();
    let report = repair(&folder).unwrap();
    assert_sound(&folder, "repaired");
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("recovered-1").unwrap();
    let blocks = volume.size_bytes() / 4096;
    assert!(blocks > 90, "{blocks}: those of the containers that are full, at least");
    let mut lost = Vec::new();
    for block in 0..blocks {
        let mut found = vec![0; 4096];
        match volume.read_at(block * 4096, &mut found) {
            Ok(()) => assert!(found == content(block, 4096), "block {block}"),
            Err(_) => lost.push(block),
        }
    }
    assert!(lost.iter().all(|block| *block < 2 || block % 50 == 7), "{lost:?}");
    let listed = report.lost.ranges.iter().flat_map(|range| {
        assert_eq!(range.volume, "recovered-1");
        range.first.get()..range.first.get() + range.count
    });
    assert!(lost.len() > 3 && listed.eq(lost), "{:?}", report.lost);
}

#[test]
fn a_map_of_many_pages_is_whole_after_a_repair() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(200 * 512 * 4096)).unwrap();
    let at = |leaf: u64| leaf * 512 * 4096;
    for leaf in 0..200 {
        volume.write_at(at(leaf), &content(leaf % 7, 4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    // One leaf, or a page above them.
    folder.flip_bit("map", 150 * 4096 + 9, 1).unwrap();
    let report = repair(&folder).unwrap();
    assert!(!report.findings.is_empty(), "{report:#?}");
    assert_sound(&folder, "repaired");
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    let right = |leaf: &u64| {
        let mut found = vec![0; 4096];
        let read = volume.read_at(at(*leaf), &mut found);
        assert!(read.is_err() || found == content(leaf % 7, 4096), "leaf {leaf}");
        read.is_ok()
    };
    assert!((0..200).filter(right).count() > 198, "{report:#?}");
}

/// What the first block holds once the third frame of the journal was damaged and the pool
/// repaired: a seed, 0 for zeroes. It was written in each of the first three; the fourth is of
/// other blocks, which fill the container, and of whatever else happened.
fn without_the_third_frame(then: impl Fn(&Volume)) -> u64 {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * 4096)).unwrap();
    pool.checkpoint().unwrap();
    for seed in [3, 1, 2] {
        volume.write_at(0, &content(seed, 4096), true).unwrap();
    }
    then(&volume);
    for block in 1..150 {
        volume.write_at(block * 4096, &content(1000 + block, 4096), block == 149).unwrap();
    }
    drop((volume, pool));
    let journal = files(&folder).remove("journal").unwrap();
    let at = (0..3).fold(0, |at, _| at + frame::decode(&journal[at..]).unwrap().len_bytes());
    assert_eq!(frame::decode(&journal[at..]).unwrap().number, 3);
    folder.flip_bit("journal", at as u64 + 40, 1).unwrap();
    repair(&folder).unwrap();
    assert_sound(&folder, "repaired");
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    let mut found = [0; 4096];
    for block in 1..150 {
        volume.read_at(block * 4096, &mut found).unwrap();
        assert!(found[..] == content(1000 + block, 4096), "block {block}");
    }
    volume.read_at(0, &mut found).unwrap();
    let is = |seed: &u64| found[..] == content(*seed, 4096);
    if found == [0; 4096] { 0 } else { [1, 2, 3].into_iter().find(is).unwrap() }
}

#[test]
fn what_a_lost_frame_had_comes_back_unless_a_later_one_says_otherwise() {
    assert_eq!(without_the_third_frame(|_| {}), 2);
    assert_eq!(without_the_third_frame(|volume| volume.trim(0, 4096, false).unwrap()), 0);
}

#[test]
fn what_a_damaged_page_held_is_had_again_also_where_the_journal_writes_to_that_page() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(100 * 4096)).unwrap();
    volume.write_at(0, &content(1, 100 * 4096), false).unwrap();
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.volume("main").unwrap().write_at(3 * 4096, &content(2, 4096), true).unwrap();
    drop(pool);
    // The page of the volume, which has an entry for each of its blocks.
    let map = files(&folder)["map"].clone();
    let held = |page: &[u8]| page.chunks_exact(8).filter(|word| *word != [0; 8]).count() == 100;
    let pages: Vec<u64> =
        (1..).zip(map.chunks(4096).skip(1)).filter(|(_, page)| held(page)).map(|p| p.0).collect();
    let [page] = pages[..] else { panic!("{pages:?}") };
    folder.flip_bit("map", page * 4096 + 50, 1).unwrap();
    let report = repair(&folder).unwrap();
    let had = report.restored.ranges.iter().map(|range| range.count).sum::<u64>();
    assert_eq!((had, report.lost.ranges.len()), (99, 0), "{report:#?}");
    assert_sound(&folder, "repaired");
    let mut found = vec![0; 100 * 4096];
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.volume("main").unwrap().read_at(0, &mut found).unwrap();
    let mut expected = content(1, 100 * 4096);
    expected[3 * 4096..4 * 4096].copy_from_slice(&content(2, 4096));
    assert!(found == expected);
}
