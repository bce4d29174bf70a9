//! What simulated media hold after a power cut: exactly what their header says, no more, no less.
//! Room: onefold-block.

use std::collections::{BTreeMap, BTreeSet};

use onefold_block::{CrashMode, Folder, Media, MediaError, OpKind, SimFolder, SplitMix64};

const SECTOR: usize = 512;

fn contents(media: &dyn Media) -> Vec<u8> {
    let mut bytes = vec![0; media.len().unwrap() as usize];
    media.read(0, &mut bytes).unwrap();
    bytes
}

fn file_of(folder: &SimFolder, name: &str) -> Option<Vec<u8>> {
    folder.open(name).ok().map(|media| contents(&*media))
}

/// One sector of a snapshot; zeroes past its end.
fn sector(bytes: &[u8], index: usize) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    let start = (index * SECTOR).min(bytes.len());
    let end = (start + SECTOR).min(bytes.len());
    sector[..end - start].copy_from_slice(&bytes[start..end]);
    sector
}

/// One random change to a file, made to its plain twin as well.
fn step(random: &mut SplitMix64, media: &dyn Media, plain: &mut Vec<u8>) {
    let offset = random.below(6000) as usize;
    let len = random.below(3000) as usize;
    match random.below(8) {
        0..5 => {
            let data = random.bytes(len + 1);
            media.write(offset as u64, &data).unwrap();
            plain.resize(plain.len().max(offset + data.len()), 0);
            plain[offset..offset + data.len()].copy_from_slice(&data);
        }
        5 => {
            media.punch(offset as u64, len as u64).unwrap();
            let end = (offset + len).min(plain.len());
            plain[offset.min(end)..end].fill(0);
        }
        _ => {
            media.set_len(offset as u64).unwrap();
            plain.resize(offset, 0);
        }
    }
    assert_eq!(contents(media), *plain);
}

#[test]
fn every_sector_and_length_is_one_that_was_there() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let folder = SimFolder::new();
        let media = folder.create("a").unwrap();
        folder.sync_names().unwrap();
        let mut history = vec![Vec::new()];
        for _ in 0..25 {
            let mut plain = history.last().unwrap().clone();
            step(&mut random, &*media, &mut plain);
            history.push(plain);
            if random.chance(1, 6) {
                media.sync().unwrap();
                history.drain(..history.len() - 1);
            }
            let nothing = folder.after_crash(0, CrashMode::KeepNothing);
            assert_eq!(file_of(&nothing, "a").as_ref(), history.first(), "seed {seed}");
            let everything = folder.after_crash(0, CrashMode::KeepEverything);
            assert_eq!(file_of(&everything, "a").as_ref(), history.last(), "seed {seed}");
            for crash_seed in 0..6 {
                let left = folder.after_crash(crash_seed, CrashMode::Random);
                let left = file_of(&left, "a").expect("its name is durable");
                assert!(history.iter().any(|h| h.len() == left.len()), "seed {seed}");
                for index in 0..left.len().div_ceil(SECTOR) {
                    let end = left.len().min((index + 1) * SECTOR);
                    let inside = end - index * SECTOR;
                    let held = sector(&left, index);
                    let known =
                        history.iter().any(|h| sector(h, index)[..inside] == held[..inside]);
                    assert!(known, "seed {seed}/{crash_seed}: sector {index} was never like this");
                }
            }
        }
    }
}

#[test]
fn every_mix_of_unsynced_sectors_does_come_up() {
    let folder = SimFolder::new();
    let media = folder.create("a").unwrap();
    media.write(0, &[1; 2 * SECTOR]).unwrap();
    media.sync().unwrap();
    folder.sync_names().unwrap();
    media.write(0, &[2; 2 * SECTOR]).unwrap();
    media.write(0, &[3; 2 * SECTOR]).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let left = file_of(&folder.after_crash(seed, CrashMode::Random), "a").unwrap();
        seen.insert((left[0], left[SECTOR]));
        assert!(left[..SECTOR].iter().all(|&b| b == left[0]), "torn inside a sector");
    }
    let all: BTreeSet<(u8, u8)> = (1..=3).flat_map(|a| (1..=3).map(move |b| (a, b))).collect();
    assert_eq!(seen, all);
}

#[test]
fn lengths_and_contents_survive_independently() {
    let folder = SimFolder::new();
    let media = folder.create("a").unwrap();
    folder.sync_names().unwrap();
    media.sync().unwrap();
    media.write(0, &[1; 100]).unwrap();
    let seen: BTreeSet<Vec<u8>> = (0..200)
        .map(|seed| file_of(&folder.after_crash(seed, CrashMode::Random), "a").unwrap())
        .collect();
    // Bytes without the length cannot be seen; the length without the bytes reads as zeroes.
    assert_eq!(seen, [vec![], vec![0; 100], vec![1; 100]].into());

    media.sync().unwrap();
    media.set_len(50).unwrap();
    let seen: BTreeSet<usize> = (0..100)
        .map(|seed| file_of(&folder.after_crash(seed, CrashMode::Random), "a").unwrap().len())
        .collect();
    assert_eq!(seen, [50, 100].into());
}

#[test]
fn names_survive_only_when_synced_and_any_mix_of_the_others_does() {
    let folder = SimFolder::new();
    for name in ["kept", "removed"] {
        folder.create(name).unwrap();
    }
    folder.sync_names().unwrap();
    folder.remove("removed").unwrap();
    let new = folder.create("new").unwrap();
    new.write(0, &[1]).unwrap();
    new.sync().unwrap();
    folder.create("gone").unwrap();
    folder.remove("gone").unwrap();
    let names = |seed, mode| folder.after_crash(seed, mode).list().unwrap();
    assert_eq!(names(0, CrashMode::KeepNothing), ["kept", "removed"]);
    assert_eq!(names(0, CrashMode::KeepEverything), ["kept", "new"]);
    let seen: BTreeSet<Vec<String>> = (0..2000).map(|s| names(s, CrashMode::Random)).collect();
    assert_eq!(seen.len(), 8, "{seen:?}");
    assert!(seen.iter().all(|names| names.contains(&"kept".to_owned())));
    for seed in 0..100 {
        let left = folder.after_crash(seed, CrashMode::Random);
        assert!(file_of(&left, "new").is_none_or(|bytes| bytes == [1]), "synced, but changed");
    }
}

#[test]
fn a_removed_name_may_come_back_with_its_contents_and_an_emptied_file_too() {
    let folder = SimFolder::new();
    let media = folder.create("a").unwrap();
    media.write(0, b"old").unwrap();
    media.sync().unwrap();
    folder.sync_names().unwrap();
    drop(media);
    folder.remove("a").unwrap();
    folder.create("a").unwrap().write(0, b"new!").unwrap();
    let seen: BTreeSet<Option<Vec<u8>>> =
        (0..300).map(|seed| file_of(&folder.after_crash(seed, CrashMode::Random), "a")).collect();
    let expected =
        [None, Some(b"old".to_vec()), Some(vec![]), Some(vec![0; 4]), Some(b"new!".to_vec())];
    assert_eq!(seen, expected.into());
    // Once the names are durable, the old file is gone for good.
    folder.sync_names().unwrap();
    let left = folder.after_crash(0, CrashMode::KeepNothing);
    assert_eq!(file_of(&left, "a"), Some(vec![]));

    let folder = folder.after_crash(0, CrashMode::KeepEverything);
    folder.create("a").unwrap();
    assert_eq!(file_of(&folder, "a"), Some(vec![]));
    let left = folder.after_crash(0, CrashMode::KeepNothing);
    assert_eq!(file_of(&left, "a"), Some(b"new!".to_vec()));
}

#[test]
fn a_folder_that_is_lost_takes_everything_with_it() {
    let folder = SimFolder::new();
    let inner = folder.subfolder("d").unwrap();
    let media = inner.create("x").unwrap();
    media.write(0, b"x").unwrap();
    media.sync().unwrap();
    inner.sync_names().unwrap();
    let listed = |folder: &SimFolder| folder.subfolder("d").unwrap().list().unwrap();
    assert!(listed(&folder.after_crash(0, CrashMode::KeepNothing)).is_empty());
    folder.sync_names().unwrap();
    assert_eq!(listed(&folder.after_crash(0, CrashMode::KeepNothing)), ["x"]);
}

/// A little of everything; stops at the first error.
fn script(folder: &SimFolder) -> Result<(), MediaError> {
    let media = folder.create("a")?;
    media.reserve(0, 8192)?;
    media.write(0, &[1; 1500])?;
    media.sync()?;
    folder.sync_names()?;
    media.punch(0, 512)?;
    media.set_len(1000)?;
    let inner = folder.subfolder("d")?;
    inner.create("b")?.write(10, &[2; 10])?;
    inner.sync_names()?;
    folder.remove("a")?;
    folder.sync_names()
}

#[test]
fn the_power_can_be_cut_at_every_operation() {
    let whole = SimFolder::new();
    script(&whole).unwrap();
    let total = whole.op_count();
    assert_eq!(total, 13);
    for op in 1..=total {
        let folder = SimFolder::new();
        folder.crash_at(op);
        let error = script(&folder).expect_err("the power is cut");
        assert!(error.to_string().ends_with("power lost"), "{error}");
        assert!(folder.has_crashed());
        assert_eq!(folder.op_count(), op, "{}", folder.op_log());
        let all_later: [Option<MediaError>; 4] = [
            folder.open("a").err(),
            folder.list().err(),
            folder.sync_names().err(),
            folder.create("z").err(),
        ];
        assert!(all_later.iter().all(Option::is_some), "op {op}");
        assert_eq!(folder.op_count(), op);
        let left = folder.after_crash(op, CrashMode::Random);
        assert!(!left.has_crashed());
        assert_eq!(left.op_count(), 0);
        script(&left).unwrap();
    }
    whole.crash_at(3);
    assert!(whole.has_crashed(), "a number that has passed cuts at once");
}

#[test]
fn open_handles_fail_after_the_power_is_gone() {
    let folder = SimFolder::new();
    let media = folder.create("a").unwrap();
    media.write(0, &[1; 10]).unwrap();
    folder.crash_at(3);
    media.write(0, &[2; 10]).expect_err("power lost");
    for error in [
        media.read(0, &mut [0]).err(),
        media.len().err(),
        media.write(0, &[1]).err(),
        media.sync().err(),
        media.set_len(0).err(),
        media.reserve(0, 1).err(),
        media.punch(0, 1).err(),
        media.allocated_bytes().err(),
    ] {
        let error = error.expect("no power");
        assert!(error.to_string().ends_with("power lost"), "{error}");
    }
    // The write under the cut may have happened; a sync under the cut may not have.
    let left = folder.after_crash(0, CrashMode::KeepEverything);
    assert_eq!(file_of(&left, "a"), Some(vec![2; 10]));
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    let dump = |folder: &SimFolder| -> BTreeMap<String, Vec<u8>> {
        let names = folder.list().unwrap();
        names.into_iter().map(|name| (name.clone(), file_of(folder, &name).unwrap())).collect()
    };
    let build = || {
        let folder = SimFolder::new();
        let mut random = SplitMix64::new(99);
        for index in 0..10 {
            let media = folder.create(&format!("f{index}")).unwrap();
            let mut plain = Vec::new();
            for _ in 0..8 {
                step(&mut random, &*media, &mut plain);
            }
            folder.fail_once(&[OpKind::Sync], 3, onefold_block::FaultKind::Eio);
            let _ = media.sync();
        }
        folder
    };
    let (one, two) = (build(), build());
    assert_eq!(one.op_log(), two.op_log());
    let mut images = BTreeSet::new();
    for seed in 0..20 {
        let left = dump(&one.after_crash(seed, CrashMode::Random));
        assert_eq!(left, dump(&two.after_crash(seed, CrashMode::Random)));
        images.insert(format!("{left:?}"));
    }
    assert!(images.len() > 15, "seeds make a difference");
}

#[test]
fn reservations_survive_when_synced_and_space_adds_up_after_a_cut() {
    let folder = SimFolder::new();
    folder.set_capacity(Some(1 << 20));
    let media = folder.create("a").unwrap();
    folder.sync_names().unwrap();
    media.reserve(0, 65_536).unwrap();
    let used = |mode| folder.after_crash(0, mode).used_bytes();
    assert_eq!((used(CrashMode::KeepNothing), used(CrashMode::KeepEverything)), (0, 65_536));
    media.sync().unwrap();
    assert_eq!(used(CrashMode::KeepNothing), 65_536);
    let left = folder.after_crash(0, CrashMode::KeepNothing);
    assert!(left.open("a").unwrap().write(65_536, &vec![1; 1 << 20]).is_err(), "same capacity");
}

/// The length may survive a cut without what it cut off: that never shows again.
#[test]
fn bytes_past_a_length_that_survived_are_zeroes() {
    for len in [1, 2, 511, 4095, 4096, 4097] {
        let folder = SimFolder::new();
        let media = folder.create("a").unwrap();
        media.write(0, &[7; 9000]).unwrap();
        media.sync().unwrap();
        folder.sync_names().unwrap();
        media.set_len(len).unwrap();
        let mut cut = 0;
        for seed in 0..60 {
            let left = folder.after_crash(seed, CrashMode::Random).open("a").unwrap();
            if left.len().unwrap() == len {
                left.set_len(9000).unwrap();
                let bytes = contents(&*left);
                assert!(bytes[len as usize..].iter().all(|&byte| byte == 0), "{len}, seed {seed}");
                cut += 1;
            }
        }
        assert!(cut > 5, "{cut}");
    }
}
