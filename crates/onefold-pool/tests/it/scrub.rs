//! A scrub reads every record, names the blocks that damage hits, and can go on where it stopped.

use onefold_block::{BlockDevice, ByteSize, Folder, SimFolder, SplitMix64};
use onefold_content::Compression;
use onefold_pool::{Pool, PoolSettings, Scrubbed, Scrubber};

use crate::support::{content, new_pool, options, read_only, small};

const CHUNKS: u64 = 600;

/// A pool of several containers; blocks from 500 on share what the first hundred hold.
fn used_pool() -> SimFolder {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    for n in 0..CHUNKS {
        volume.write_at(n * 4096, &content(n % 500, 4096), n % 50 == 0).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    folder
}

fn scrub(pool: &Pool) -> Vec<Scrubbed> {
    let mut scrubber = Scrubber::default();
    std::iter::from_fn(|| scrubber.step(pool).unwrap()).collect()
}

/// The blocks that cannot be read.
fn unreadable(pool: &Pool) -> Vec<u64> {
    let volume = pool.volume("main").unwrap();
    (0..CHUNKS).filter(|n| volume.read_at(n * 4096, &mut [0; 4096]).is_err()).collect()
}

fn named(found: &[Scrubbed]) -> Vec<u64> {
    let ranges = found.iter().flat_map(|found| &found.blocks);
    let mut blocks: Vec<u64> = ranges
        .inspect(|range| assert_eq!(range.volume, "main"))
        .flat_map(|range| range.first.get()..range.first.get() + range.count)
        .collect();
    blocks.sort_unstable();
    blocks
}

#[test]
fn a_sound_pool_is_read_whole_and_a_scrub_goes_on_where_it_stopped() {
    let folder = used_pool();
    let before = folder.op_count();
    let pool = Pool::open(&folder, &read_only()).unwrap();
    let found = scrub(&pool);
    assert!(found.len() > 3, "{found:?}");
    assert!(found.iter().all(|found| found.problems_total == 0 && found.blocks.is_empty()));
    assert_eq!(found.iter().map(|found| found.records).sum::<u64>(), 500);
    for (stopped, container) in found.iter().enumerate() {
        let mut rest = Scrubber::after(container.container.get());
        let left: Vec<_> = std::iter::from_fn(|| rest.step(&pool).unwrap()).collect();
        assert_eq!(left, found[stopped + 1..]);
    }
    assert_eq!(folder.op_count(), before, "a scrub changes nothing");
}

#[test]
fn the_blocks_that_cannot_be_read_are_those_that_a_scrub_names() {
    let mut random = SplitMix64::new(5);
    let containers = used_pool().subfolder("containers").unwrap();
    let mut hit = 0;
    for name in containers.list().unwrap() {
        let len = containers.open(&name).unwrap().len().unwrap();
        for round in 0..12 {
            let folder = used_pool();
            let file = format!("containers/{name}");
            let context = match round {
                0 => {
                    folder.subfolder("containers").unwrap().remove(&name).unwrap();
                    format!("no {file}")
                }
                1 | 2 => {
                    let short = random.below(len);
                    folder.truncate(&file, short).unwrap();
                    format!("{file} cut to {short}")
                }
                _ => {
                    let at = random.below(len);
                    folder.flip_bit(&file, at, random.below(8) as u8).unwrap();
                    format!("{file} byte {at}")
                }
            };
            let pool = Pool::open(&folder, &read_only()).unwrap();
            let found = scrub(&pool);
            let bad = unreadable(&pool);
            assert_eq!(named(&found), bad, "{context}: {found:?}");
            let total: u64 = found.iter().map(|found| found.blocks_total).sum();
            assert_eq!(total, bad.len() as u64, "{context}");
            let problems: u64 = found.iter().map(|found| found.problems_total).sum();
            assert!(problems > 0 || bad.is_empty(), "{context}");
            hit += usize::from(!bad.is_empty());
        }
    }
    assert!(hit > 20, "only {hit} of the damages hit a block");
}

#[test]
fn blocks_that_only_a_snapshot_has_are_named_as_its_own() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    let fill = |from: u64| {
        for n in 0..40 {
            volume.write_at(n * 4096, &content(from + n, 4096), false).unwrap();
        }
    };
    fill(0);
    pool.snapshot("main@old", 1, false).unwrap();
    fill(1000);
    drop(volume);
    pool.close().unwrap();
    let name = folder.subfolder("containers").unwrap().list().unwrap().remove(0);
    folder.flip_bit(&format!("containers/{name}"), 6000, 1).unwrap();
    let pool = Pool::open(&folder, &read_only()).unwrap();
    let found = scrub(&pool);
    let bad = |name: &str| -> Vec<u64> {
        let volume = pool.volume(name).unwrap();
        (0..40).filter(|n| volume.read_at(n * 4096, &mut [0; 4096]).is_err()).collect()
    };
    assert_eq!((bad("main"), bad("main@old").len()), (vec![], 1));
    let ranges: Vec<_> = found.iter().flat_map(|found| &found.blocks).collect();
    let [range] = ranges[..] else { panic!("{found:?}") };
    assert_eq!((range.volume.as_str(), range.count), ("main@old", 1));
    assert_eq!(vec![range.first.get()], bad("main@old"));
}

#[test]
fn what_is_written_meanwhile_is_no_damage() {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    let mut scrubber = Scrubber::default();
    let mut read = 0;
    for n in 0..2000 {
        volume.write_at(n % 700 * 4096, &content(n, 4096), n % 40 == 0).unwrap();
        if n % 100 == 0 {
            pool.checkpoint().unwrap();
        }
        if n % 10 == 0 {
            match scrubber.step(&pool).unwrap() {
                Some(found) => {
                    assert_eq!(found.problems_total, 0, "{found:?}");
                    read += 1;
                }
                None => scrubber = Scrubber::default(),
            }
        }
    }
    assert!(read > 20, "only {read} containers were read");
}

/// A pool whose records are as long as each other, and its only container.
fn raw_pool(fill: impl FnOnce(&Pool)) -> (SimFolder, &'static str) {
    let (folder, pool) = new_pool(&PoolSettings { compression: Compression::None, ..small() });
    fill(&pool);
    pool.close().unwrap();
    (folder, "containers/00000001.container")
}

/// Byte 9 of a record.
const fn in_record(number: u64) -> u64 {
    48 + number * 4112 + 9
}

#[test]
fn twenty_problems_are_named_and_all_are_counted() {
    for bad in [19, 20, 21, 30] {
        let (folder, container) = raw_pool(|pool| {
            let volume = pool.create_volume("main", ByteSize(40 * 4096)).unwrap();
            for block in 0..40 {
                volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
            }
        });
        for record in 0..bad {
            folder.flip_bit(container, in_record(record), 1).unwrap();
        }
        let found = scrub(&Pool::open(&folder, &read_only()).unwrap());
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((found.problems_total, found.records), (bad, 40));
        assert_eq!(found.problems.len() as u64, bad.min(20));
        assert!(found.problems[1].starts_with("corrupt container 1 at byte 4160: checksum is "));
        let [range] = &found.blocks[..] else { panic!("{found:?}") };
        assert_eq!((range.first.get(), range.count, found.blocks_total), (0, bad, bad));
    }
}

#[test]
fn a_thousand_ranges_are_named_and_all_blocks_are_counted() {
    // The damaged record is at every other block, and at the last one before a gap twice.
    let (folder, container) = raw_pool(|pool| {
        for (name, blocks) in [("main", 1998), ("more", 8)] {
            let volume = pool.create_volume(name, ByteSize(blocks * 4096)).unwrap();
            for block in 0..blocks {
                let seed = u64::from(block % 2 == 1 && block != 3);
                volume.write_at(block * 4096, &content(seed, 4096), false).unwrap();
            }
        }
    });
    folder.flip_bit(container, in_record(0), 1).unwrap();
    let found = scrub(&Pool::open(&folder, &read_only()).unwrap());
    let [found] = &found[..] else { panic!("{found:?}") };
    let blocks = |name: &str| {
        let of = found.blocks.iter().filter(|range| range.volume == name);
        of.map(|range| (range.first.get(), range.count)).collect::<Vec<_>>()
    };
    assert_eq!(found.blocks_total, 1000 + 5);
    assert_eq!(blocks("main")[..3], [(0, 1), (2, 3), (6, 1)]);
    assert_eq!(blocks("main").len(), 998);
    // What is next to a range that is named is told of with it, whatever the number.
    assert_eq!(blocks("more"), [(0, 1), (2, 3)]);
    assert_eq!(found.blocks.len(), 1000);
}

#[test]
fn neighbours_of_two_volumes_are_two_ranges_and_what_is_being_deleted_is_none() {
    let (folder, container) = raw_pool(|pool| {
        for name in ["a", "b", "c"] {
            let volume = pool.create_volume(name, ByteSize(4 * 4096)).unwrap();
            // The last block of each, and the first.
            for block in [0, 3] {
                volume.write_at(block * 4096, &content(7, 4096), false).unwrap();
            }
        }
        pool.snapshot("c@gone", 1, false).unwrap();
        pool.snapshot("c@kept", 2, false).unwrap();
    });
    folder.flip_bit(container, in_record(0), 1).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let named = |pool: &Pool| {
        let found = scrub(pool);
        let [found] = &found[..] else { panic!("{found:?}") };
        let of = |range: &onefold_pool::DamagedBlocks| {
            format!("{} {}+{}", range.volume, range.first.get(), range.count)
        };
        let named: Vec<String> = found.blocks.iter().map(of).collect();
        (named.join(" "), found.blocks_total)
    };
    let all = "a 0+1 a 3+1 b 0+1 b 3+1 c 0+1 c 3+1 c@gone 0+1 c@gone 3+1 c@kept 0+1 c@kept 3+1";
    assert_eq!(named(&pool), (all.to_owned(), 10));
    pool.delete_snapshot("c@gone").unwrap();
    let left = all.replace(" c@gone 0+1 c@gone 3+1", "");
    assert_eq!(named(&pool), (left, 8));
}

#[test]
fn records_are_found_without_the_directory() {
    let (folder, container) = raw_pool(|pool| {
        let volume = pool.create_volume("main", ByteSize(40 * 4096)).unwrap();
        for block in 0..40 {
            volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
        }
    });
    let containers = folder.subfolder("containers").unwrap();
    let last = containers.open("00000001.container").unwrap().len().unwrap() - 1;
    for at in [last, in_record(3), in_record(38)] {
        folder.flip_bit(container, at, 1).unwrap();
    }
    let found = scrub(&Pool::open(&folder, &read_only()).unwrap());
    assert_eq!((found[0].records, found[0].problems_total), (38, 1));
    assert_eq!((named(&found), found[0].blocks_total), (vec![3, 38], 2));
}
