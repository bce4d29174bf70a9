//! A tiny pool of which one thing is damaged, or two: what a check, rescues and a repair say of it,
//! word for word, and what there is then, block by block, as `harmed_*.txt` have it.
//! `ONEFOLD_UPDATE=1` writes these files anew.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, Folder, SimFolder, ZeroOptions};
use onefold_content::Compression;
use onefold_pool::{Blocks, Pool, PoolSettings, RescuePoint, Scrubber, Volume};

use crate::operations::hash;
use crate::repair::{files, repair};
use crate::support::{IDENTITY, assert_golden, assert_sound, content, options, read_only, small};

pub const CHUNK: u64 = 4096;
const BLOCKS: u64 = 16;
/// Of a container: its header, and each record of a block that is stored as it is.
pub const HEADER: u64 = 48;
pub const RECORD: u64 = 4112;
/// Of its directory: each entry, and what ends it.
const ENTRY: u64 = 44;
const FOOTER: u64 = 32;

pub fn write(volume: &Volume, block: u64, seed: u64) {
    volume.write_at(block * CHUNK, &content(seed, CHUNK as usize), false).unwrap();
}

/// Stopped cleanly, or left as it was after the last flush.
pub fn life(clean: bool) -> SimFolder {
    let folder = SimFolder::new();
    let settings = PoolSettings { compression: Compression::None, ..small() };
    Pool::create(&folder, &settings, IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let main = pool.create_volume_at("main", ByteSize(BLOCKS * CHUNK), 1).unwrap();
    (0..5).for_each(|block| write(&main, block, block + 1));
    pool.snapshot("main@a", 2, false).unwrap();
    write(&main, 2, 6);
    // Shares a record with what only the snapshot will have.
    write(&main, 8, 3);
    main.trim(CHUNK, CHUNK, false).unwrap();
    let copy = pool.clone_snapshot("main@a", "copy", 3).unwrap();
    write(&copy, 0, 7);
    drop((main, copy));
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let main = pool.volume("main").unwrap();
    write(&main, 3, 8);
    write(&main, 9, 9);
    let other = pool.create_volume_at("other", ByteSize(700 * CHUNK), 4).unwrap();
    write(&other, 1, 10);
    write(&other, 600, 11);
    // One frame after the other.
    write(&main, 10, 12);
    main.flush().unwrap();
    main.trim(4 * CHUNK, CHUNK, true).unwrap();
    let zero = ZeroOptions { no_hole: true, fua: true, ..ZeroOptions::default() };
    main.write_zeroes(5 * CHUNK, CHUNK, zero).unwrap();
    write(&other, 2, 13);
    other.flush().unwrap();
    drop((main, other));
    if clean {
        pool.close().unwrap();
    }
    folder
}

/// What blocks hold, and its letter.
static LETTERS: LazyLock<Vec<(Vec<u8>, char)>> = LazyLock::new(|| {
    let of = |letter: char| (content(letter as u64 - 'a' as u64 + 1, CHUNK as usize), letter);
    ('a'..='z').map(of).collect()
});

/// What each block holds: the letter of its seed, a point for zeroes, and `!` for an error; and how
/// many there are that are alike.
fn held(pool: &Pool) -> String {
    let mut names: Vec<String> = pool.volumes().iter().map(Volume::name).collect();
    names.extend(pool.snapshots(None).unwrap().into_iter().map(|snapshot| snapshot.name));
    let mut told = String::new();
    for name in names {
        let volume = pool.volume(&name).unwrap();
        let size = volume.size_bytes();
        let (mut runs, mut bytes) = (Vec::<(char, u64)>::new(), vec![0; CHUNK as usize]);
        for block in 0..size.div_ceil(CHUNK) {
            let letter = match volume.read_at(block * CHUNK, &mut bytes) {
                Err(_) => '!',
                Ok(()) if bytes.iter().all(|&byte| byte == 0) => '.',
                Ok(()) => {
                    LETTERS.iter().find(|(is, _)| *is == bytes).map_or('?', |(_, letter)| *letter)
                }
            };
            match runs.last_mut() {
                Some((last, count)) if *last == letter => *count += 1,
                _ => runs.push((letter, 1)),
            }
        }
        write!(told, " {name} {}K ", size >> 10).unwrap();
        for (letter, count) in runs {
            told.push(letter);
            if count > 1 {
                write!(told, "{count}").unwrap();
            }
        }
    }
    let status = pool.status().unwrap();
    let mapped: Vec<u64> =
        status.volumes.iter().map(|volume| volume.mapped_bytes / CHUNK).collect();
    format!("{told} {mapped:?}")
}

pub fn copied(folder: &SimFolder) -> SimFolder {
    folder.after_crash(1, CrashMode::KeepEverything)
}

fn lines(told: &mut String, what: &str, lines: &[String]) {
    for line in lines {
        writeln!(told, "{what}: {line}").unwrap();
    }
}

fn checked(folder: &SimFolder) -> String {
    let report = match Pool::check_in(folder, &mut |_, _| {}) {
        Ok(report) => report,
        Err(error) => return format!("check: {error}\n"),
    };
    let mut told = String::new();
    let found: Vec<String> = report.findings.iter().map(|found| found.problem.clone()).collect();
    lines(&mut told, "found", &found);
    lines(&mut told, "note", &report.notes);
    let counts = [report.containers, report.chunks, report.live, report.bytes, report.references];
    writeln!(told, "check: {} findings, {counts:?}{}", report.findings_total, listed(&report.lost))
        .unwrap();
    told
}

/// What a scrub says of each container, if the pool can be opened.
fn scrubbed(folder: &SimFolder) -> String {
    let Ok(pool) = Pool::open(folder, &read_only()) else { return String::new() };
    let (mut told, mut scrubber) = (String::new(), Scrubber::default());
    while let Some(found) = scrubber.step(&pool).unwrap() {
        assert_eq!(scrubber.position(), found.container.get());
        let (records, problems) = (found.records, found.problems_total);
        write!(told, "scrub: {} {} bytes, {records} records", found.container, found.bytes)
            .unwrap();
        write!(told, ", {problems} problems, {} blocks", found.blocks_total).unwrap();
        for range in &found.blocks {
            write!(told, " {} {}+{}", range.volume, range.first.get(), range.count).unwrap();
        }
        told.push('\n');
        lines(&mut told, "scrub", &found.problems);
    }
    told
}

fn listed(blocks: &Blocks) -> String {
    let mut told = String::new();
    for range in &blocks.ranges {
        write!(told, " {} {}+{}", range.volume, range.first.get(), range.count).unwrap();
    }
    assert_eq!(blocks.ranges_total, blocks.ranges.len() as u64);
    assert_eq!(blocks.total, blocks.ranges.iter().map(|range| range.count).sum::<u64>());
    told
}

fn rescued(folder: &SimFolder) -> String {
    let mut told: Vec<String> = Vec::new();
    for point in [RescuePoint::Consistent, RescuePoint::Newest] {
        let mut now = String::new();
        match Pool::rescue(folder, options().budgets, point) {
            Ok((pool, report)) => {
                lines(&mut now, "damage", &report.damage);
                lines(&mut now, "missing", &report.missing);
                let (checkpoint, frames) = (report.checkpoint, report.frames);
                writeln!(now, "checkpoint {checkpoint}, {frames} frames:{}", held(&pool)).unwrap();
            }
            Err(error) => writeln!(now, "{error}").unwrap(),
        }
        told.push(now);
    }
    if told[0] == told[1] {
        return format!("rescued:\n{}", told[0]);
    }
    format!("rescued, of one moment:\n{}rescued, the newest:\n{}", told[0], told[1])
}

fn repaired(folder: &SimFolder) -> String {
    let folder = copied(folder);
    let report = match repair(&folder) {
        Ok(report) => report,
        Err(error) => return format!("repaired: {error}\n"),
    };
    let mut told = String::from("repaired:\n");
    lines(&mut told, "uncertain", &report.uncertain);
    lines(&mut told, "plan", &report.plan);
    for (what, blocks) in [("lost", &report.lost), ("restored", &report.restored)] {
        if !blocks.is_empty() {
            writeln!(told, "{what}:{}", listed(blocks)).unwrap();
        }
    }
    let (bytes, pages) = (report.bytes_to_write, report.map_pages_read);
    writeln!(told, "{:?}, {bytes} bytes, {pages} pages", report.lost_and_found).unwrap();
    let after = files(&folder);
    let mut sum = Vec::new();
    for (name, bytes) in after.iter().filter(|(name, _)| !name.starts_with("generation")) {
        sum.extend_from_slice(name.as_bytes());
        sum.extend_from_slice(bytes);
    }
    let new: Vec<&str> =
        after.keys().filter(|name| !name.contains(".before-repair-")).map(String::as_str).collect();
    writeln!(told, "{} kept of {}, {}: {}", after.len() - new.len(), after.len(), hash(&sum), {
        new.join(" ").replace("containers/0000000", "")
    })
    .unwrap();
    assert_sound(&folder, &told);
    let again = repair(&folder).unwrap();
    assert!(again.is_nothing_to_do(), "{told}: {again:#?}");
    assert_eq!(again.lost, report.lost, "{told}");
    let pool = Pool::open(&folder, &options()).unwrap();
    writeln!(told, "{}", held(&pool)).unwrap();
    pool.close().unwrap();
    told
}

/// What comes of each harm, where that is not what came of nothing.
pub fn tell(whole: &SimFolder, harms: &[(String, Harm)]) -> String {
    let mut told = [checked(whole), scrubbed(whole), rescued(whole)].concat();
    told.insert_str(0, "# nothing\n\n");
    for (what, harm) in harms {
        let folder = copied(whole);
        harm(&folder);
        let folder = copied(&folder);
        writeln!(told, "\n# {what}\n").unwrap();
        told += &checked(&folder);
        told += &scrubbed(&folder);
        told += &rescued(&folder);
        told += &repaired(&folder);
    }
    told
}

pub type Harm = Arc<dyn Fn(&SimFolder)>;

pub fn harm(what: impl Into<String>, harm: impl Fn(&SimFolder) + 'static) -> (String, Harm) {
    (what.into(), Arc::new(harm))
}

pub fn flip(name: impl Into<String>, at: u64) -> (String, Harm) {
    let name = name.into();
    harm(format!("{name}: byte {at}"), move |folder| folder.flip_bit(&name, at, 3).unwrap())
}

pub fn remove(name: &'static str) -> (String, Harm) {
    harm(format!("no {name}"), move |folder| match name.split_once('/') {
        Some((inside, name)) => folder.existing_subfolder(inside).unwrap().remove(name).unwrap(),
        None => folder.remove(name).unwrap(),
    })
}

pub fn cut(name: impl Into<String>, len: u64) -> (String, Harm) {
    let name = name.into();
    harm(format!("{name}: cut to {len}"), move |folder| folder.truncate(&name, len).unwrap())
}

/// Change all bytes of a file.
fn edit(what: &str, name: &'static str, edit: impl Fn(&mut Vec<u8>) + 'static) -> (String, Harm) {
    harm(format!("{name}: {what}"), move |folder| {
        let mut bytes = files(folder)[name].clone();
        edit(&mut bytes);
        let (inside, name) = name.split_once('/').unwrap_or(("", name));
        let at: Arc<dyn Folder> = match inside {
            "" => Arc::new(folder.clone()),
            inside => folder.existing_subfolder(inside).unwrap(),
        };
        at.create(name).unwrap().write(0, &bytes).unwrap();
    })
}

pub const FIRST: &str = "containers/00000001.container";
const SECOND: &str = "containers/00000002.container";

/// Another pool's header, whole in itself.
fn foreign(bytes: &mut [u8]) {
    bytes[12] ^= 1;
    let check = crc32fast::hash(&bytes[..44]);
    bytes[44..48].copy_from_slice(&check.to_le_bytes());
}

/// Two records have each other's fingerprint, and the directory is whole in itself.
fn swap(bytes: &mut [u8]) {
    let footer = bytes.len() - FOOTER as usize;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (count, start, id) = (word(footer + 12) as usize, word(footer + 16) as usize, word(8));
    for byte in start..start + 24 {
        bytes.swap(byte, byte + ENTRY as usize);
    }
    let mut sum = crc32fast::Hasher::new();
    for at in (0..count).map(|number| start + number * ENTRY as usize) {
        sum.update(&bytes[at..at + 40]);
        let check = crc32fast::hash(&bytes[at..at + 40]) ^ id;
        bytes[at + 40..at + 44].copy_from_slice(&check.to_le_bytes());
    }
    bytes[footer + 20..footer + 24].copy_from_slice(&sum.finalize().to_le_bytes());
    let check = crc32fast::hash(&bytes[footer..footer + 28]);
    bytes[footer + 28..].copy_from_slice(&check.to_le_bytes());
}

fn to_containers() -> Vec<(String, Harm)> {
    // Seven records: a to e, f and g; c is there once.
    let directory = HEADER + 7 * RECORD;
    let mut harms = vec![
        flip(FIRST, 30),
        flip(FIRST, directory + 3),
        flip(FIRST, directory + 2 * ENTRY + 30),
        flip(FIRST, directory + 7 * ENTRY + 9),
        cut(FIRST, directory + 7 * ENTRY + FOOTER - 1),
        cut(FIRST, directory),
        cut(FIRST, directory - 100),
        cut(FIRST, 30),
        cut(FIRST, 0),
        remove(FIRST),
        edit("one byte more", FIRST, |bytes| bytes.push(0)),
        edit("as long as can be", FIRST, |bytes| bytes.resize(256 << 10, 0)),
        edit("one byte too long", FIRST, |bytes| bytes.resize((256 << 10) + 1, 0)),
        edit("another pool's", FIRST, |bytes| foreign(bytes)),
        edit("fingerprints are swapped", FIRST, |bytes| swap(bytes)),
        edit("header and a record", FIRST, |bytes| (bytes[3], bytes[5000]) = (9, 9)),
    ];
    for record in 0..7 {
        harms.push(flip(FIRST, HEADER + record * RECORD + 100));
    }
    // Its length, its last byte, and what follows that.
    harms.extend([4, 4103, 4108].map(|at| flip(FIRST, HEADER + 2 * RECORD + at)));
    harms
}

fn to_the_second_container() -> Vec<(String, Harm)> {
    let mut harms = vec![remove(SECOND), cut(SECOND, HEADER + RECORD), flip(SECOND, 30)];
    harms.extend((0..6).map(|record| flip(SECOND, HEADER + record * RECORD + 9)));
    harms.push(edit("another pool's", SECOND, |bytes| foreign(bytes)));
    harms.push(harm("both containers are gone", |folder| {
        for (_, harm) in [remove(FIRST), remove(SECOND)] {
            harm(folder);
        }
    }));
    harms.push(harm("containers that nobody knows", |folder| {
        let mut bytes = files(folder)[FIRST].clone();
        let containers = folder.existing_subfolder("containers").unwrap();
        bytes[8] = 99;
        let check = crc32fast::hash(&bytes[..44]);
        bytes[44..48].copy_from_slice(&check.to_le_bytes());
        containers.create("00000063.container").unwrap().write(0, &bytes).unwrap();
        containers.create("notes").unwrap().write(0, b"mine").unwrap();
        folder.flip_bit("generation", 9, 1).unwrap();
    }));
    harms
}

fn to_checkpoints() -> Vec<(String, Harm)> {
    let both = |what: &str, harms: [(String, Harm); 2]| {
        harm(format!("both checkpoints: {what}"), move |folder| {
            for (_, harm) in &harms {
                harm(folder);
            }
        })
    };
    vec![
        flip("super.0", 50),
        flip("super.1", 50),
        remove("super.0"),
        remove("super.1"),
        cut("super.0", 20),
        cut("super.1", 0),
        both("a byte", [flip("super.0", 50), flip("super.1", 50)]),
        both("gone", [remove("super.0"), remove("super.1")]),
        both("one is cut", [cut("super.0", 20), remove("super.1")]),
        flip("generation", 9),
        remove("generation"),
    ]
}

fn to_map_and_journal() -> Vec<(String, Harm)> {
    let mut harms = vec![remove("map"), cut("map", 0), cut("map", 3 * CHUNK), flip("map", 3)];
    let pages = files(&life(false))["map"].len() as u64 / CHUNK;
    harms.extend((1..pages).map(|page| flip("map", page * CHUNK + 17)));
    harms
}

fn to_the_journal() -> Vec<(String, Harm)> {
    let len = files(&life(false))["journal"].len() as u64;
    let mut harms = vec![remove("journal"), cut("journal", 0), cut("journal", len - 1)];
    for at in (0..len).step_by(64) {
        harms.push(flip("journal", at + 1));
        harms.push(cut("journal", at + 40));
    }
    harms.push(edit("zeroes", "journal", |bytes| bytes.fill(0)));
    harms
}

fn two_of() -> Vec<(String, Harm)> {
    let directory = HEADER + 7 * RECORD;
    let single = [
        ("super.0", "a checkpoint", flip("super.0", 50)),
        ("super.1", "the other checkpoint", flip("super.1", 50)),
        ("journal", "the journal's beginning", flip("journal", 1)),
        ("journal", "the journal", remove("journal")),
        ("map", "the map", remove("map")),
        (FIRST, "the first container", remove(FIRST)),
        (FIRST, "a record", flip(FIRST, HEADER + 2 * RECORD + 100)),
        (FIRST, "a directory", flip(FIRST, directory + 7 * ENTRY + 9)),
        (SECOND, "the second container", remove(SECOND)),
    ];
    let mut pairs = Vec::new();
    for (number, (file, first, (_, one))) in single.iter().enumerate() {
        for (other, second, (_, two)) in &single[number + 1..] {
            if file == other {
                continue;
            }
            let (one, two) = (Arc::clone(one), Arc::clone(two));
            pairs.push(harm(format!("{first} and {second}"), move |folder| {
                one(folder);
                two(folder);
            }));
        }
    }
    pairs
}

#[test]
fn whatever_is_damaged_of_a_container_comes_to_what_it_did() {
    assert_golden("harmed_containers.txt", &tell(&life(true), &to_containers()));
}

#[test]
fn whatever_is_damaged_of_a_container_that_was_left_comes_to_what_it_did() {
    assert_golden("harmed_left.txt", &tell(&life(false), &to_the_second_container()));
}

#[test]
fn whatever_is_damaged_of_checkpoints_comes_to_what_it_did() {
    let told = [true, false].map(|clean| tell(&life(clean), &to_checkpoints()));
    assert_golden("harmed_checkpoints.txt", &told.join("\n"));
}

#[test]
fn whatever_is_damaged_of_the_map_comes_to_what_it_did() {
    assert_golden("harmed_map.txt", &tell(&life(false), &to_map_and_journal()));
}

#[test]
fn whatever_is_damaged_of_the_journal_comes_to_what_it_did() {
    assert_golden("harmed_journal.txt", &tell(&life(false), &to_the_journal()));
}

#[test]
fn whichever_two_things_are_damaged_come_to_what_they_did() {
    assert_golden("harmed_twice.txt", &tell(&life(false), &two_of()));
}
