//! What repairs and rescues come to, whatever is damaged: their reports, and what every volume and
//! snapshot holds then, as `mended.txt` has it. `ONEFOLD_UPDATE=1` writes that file anew.

use std::fmt::Write as _;

use onefold_block::{BlockDevice, ByteSize, CrashMode, Folder, SimFolder};
use onefold_pool::{Pool, RescuePoint, Volume};

use crate::operations::hash;
use crate::repair::{repair, used};
use crate::support::{assert_golden, assert_sound, options};

const CHUNK: u64 = 4096;

/// Blocks that cannot be read, as runs, and the hash of all others.
fn read(volume: &Volume) -> String {
    let mut bytes = vec![0; volume.size_bytes() as usize];
    if volume.read_at(0, &mut bytes).is_ok() {
        return hash(&bytes);
    }
    let mut lost: Vec<std::ops::Range<u64>> = Vec::new();
    for (batch, chunks) in (0..).step_by(16).zip(bytes.chunks_mut(16 * CHUNK as usize)) {
        if volume.read_at(batch * CHUNK, chunks).is_ok() {
            continue;
        }
        for (block, chunk) in (batch..).zip(chunks.chunks_mut(CHUNK as usize)) {
            if volume.read_at(block * CHUNK, chunk).is_err() {
                chunk.fill(0xEE);
                match lost.last_mut() {
                    Some(run) if run.end == block => run.end += 1,
                    _ => lost.push(block..block + 1),
                }
            }
        }
    }
    let (runs, lost) = (lost.len(), format!("{lost:?}"));
    format!("{} without {runs} runs of blocks, {}", hash(&bytes), hash(lost.as_bytes()))
}

/// A report in few words: lists of many are told of by their number and first ones.
fn brief(report: &dyn std::fmt::Debug) -> String {
    let told = format!("{report:?}");
    let mut brief = String::new();
    for (number, part) in told.split(", ").enumerate() {
        let is_number = part.trim_matches(['(', ')', '[', ']', '.']).parse::<u64>().is_ok();
        let is_range = part.contains("..") || part.starts_with('(') || is_number;
        if !is_range && number < 60 {
            write!(brief, "{part}, ").unwrap();
        }
    }
    format!("{brief}{} bytes, {}", told.len(), hash(told.as_bytes()))
}

fn holds(pool: &Pool) -> String {
    let mut names: Vec<String> = pool.volumes().iter().map(Volume::name).collect();
    names.extend(pool.snapshots(None).unwrap().into_iter().map(|snapshot| snapshot.name));
    let of = |name: &String| format!("{name}: {}\n", read(&pool.volume(name).unwrap()));
    let told = names.iter().fold(String::new(), |told, name| told + &of(name));
    let status = pool.status().unwrap();
    let mapped: Vec<u64> = status.volumes.iter().map(|volume| volume.mapped_bytes).collect();
    format!("{told}mapped {mapped:?}\n")
}

fn flip(folder: &SimFolder, name: &str, at: u64) {
    folder.flip_bit(name, at, 3).unwrap();
}

/// The damaged pool, repaired and grown.
fn repaired(folder: &SimFolder) -> String {
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    let report = repair(&folder);
    let mut told = format!("repaired: {}\n", brief(&report));
    if report.is_err() {
        return told;
    }
    let pool = Pool::open(&folder, &options()).unwrap();
    told += &holds(&pool);
    // What was replaced is kept under another name.
    writeln!(told, "{}", folder.list().unwrap().join(" ")).unwrap();
    let space = pool.space();
    writeln!(told, "{space:?}, {} pages of maps", pool.status().unwrap().map_pages).unwrap();
    // Nothing is past the end, whatever is lost.
    for volume in pool.volumes() {
        let (name, size) = (volume.name(), volume.size_bytes());
        pool.resize_volume(&name, ByteSize(size + 800 * CHUNK), false).unwrap();
        let mut past = vec![1; 800 * CHUNK as usize];
        volume.read_at(size, &mut past).unwrap();
        assert!(past.iter().all(|&byte| byte == 0), "{name}: {told}");
    }
    pool.close().unwrap();
    assert_sound(&folder, &told);
    told
}

fn rescued(folder: &SimFolder) -> String {
    let mut told = String::new();
    for point in [RescuePoint::Consistent, RescuePoint::Newest] {
        match Pool::rescue(folder, options().budgets, point) {
            Ok((pool, report)) => {
                writeln!(told, "rescued: {}\n{}", brief(&report), holds(&pool)).unwrap();
            }
            Err(error) => writeln!(told, "rescued: {error}").unwrap(),
        }
    }
    told
}

#[test]
fn each_page_of_a_map_that_is_damaged_comes_back_as_far_as_it_did() {
    let (folder, _) = used(true);
    let pages = folder.open("map").unwrap().len().unwrap() / CHUNK;
    let mut told = String::new();
    for page in 1..pages {
        let damaged = folder.after_crash(1, CrashMode::KeepEverything);
        flip(&damaged, "map", page * CHUNK + 40);
        writeln!(told, "# page {page} of the map\n\n{}", repaired(&damaged)).unwrap();
    }
    assert_golden("mended.txt", &told);
}

type Damage<'a> = &'a dyn Fn(&SimFolder);

/// Whatever is gone, and what comes of it.
fn without(clean: bool) -> String {
    let mut told = String::new();
    let (folder, _) = used(clean);
    let containers = folder.existing_subfolder("containers").unwrap().list().unwrap();
    let first = format!("containers/{}", containers[0]);
    let (second, last) = (&containers[1], containers.last().unwrap());
    let damages: [(&str, Damage<'_>); 7] = [
        ("the map and a checkpoint", &|folder| {
            folder.remove("map").unwrap();
            flip(folder, "super.0", 50);
        }),
        ("both checkpoints", &|folder| {
            flip(folder, "super.0", 50);
            flip(folder, "super.1", 50);
        }),
        ("the journal", &|folder| folder.remove("journal").unwrap()),
        ("a container", &|folder| {
            folder.existing_subfolder("containers").unwrap().remove(second).unwrap();
        }),
        ("records and a directory", &|folder| {
            for at in [3000, 90_000] {
                flip(folder, &first, at);
            }
            let of_last = format!("containers/{last}");
            let len = folder.existing_subfolder("containers").unwrap().open(last).unwrap().len();
            flip(folder, &of_last, len.unwrap() - 30);
        }),
        ("half of the map", &|folder| {
            let len = folder.open("map").unwrap().len().unwrap();
            folder.truncate("map", len / 2 / CHUNK * CHUNK).unwrap();
        }),
        ("all but containers", &|folder| {
            for name in ["map", "journal", "super.0", "super.1"] {
                folder.remove(name).unwrap();
            }
        }),
    ];
    for (what, damage) in damages {
        let damaged = folder.after_crash(1, CrashMode::KeepEverything);
        damage(&damaged);
        let damaged = damaged.after_crash(1, CrashMode::KeepEverything);
        writeln!(told, "# without {what}\n").unwrap();
        told += &rescued(&damaged);
        told += &repaired(&damaged);
        told.push('\n');
    }
    told
}

#[test]
fn whatever_is_gone_after_a_stop_is_mended_and_rescued_as_it_was() {
    assert_golden("mended_stopped.txt", &without(true));
}

#[test]
fn whatever_is_gone_after_a_power_cut_is_mended_and_rescued_as_it_was() {
    assert_golden("mended_left.txt", &without(false));
}
