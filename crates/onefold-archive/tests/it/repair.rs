//! Settings and log put together again; and every file removed, every byte flipped: right data or
//! a named error, and never a deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_archive::{AddOptions, Archive, ArchiveError, Kind, RepairReport, VersionInfo};
use onefold_block::{CrashMode, Folder, SimFolder, SplitMix64};

use crate::support::{Tree, add, add_with, check, create, entry, open, read, small, tree};

/// Every file, by its path.
type Files = BTreeMap<String, Vec<u8>>;

fn files(folder: &SimFolder) -> Files {
    let mut files = Files::new();
    for sub in ["", "versions", "containers"] {
        let within: Arc<dyn Folder> = match sub {
            "" => Arc::new(folder.clone()),
            sub => match folder.existing_subfolder(sub) {
                Ok(within) => within,
                Err(_) => continue,
            },
        };
        for name in within.list().unwrap() {
            let file = within.open(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read(0, &mut bytes).unwrap();
            files.insert(if sub.is_empty() { name } else { format!("{sub}/{name}") }, bytes);
        }
    }
    files
}

fn copy(folder: &SimFolder) -> SimFolder {
    folder.after_crash(1, CrashMode::KeepEverything)
}

fn remove(folder: &SimFolder, path: &str) {
    match path.split_once('/') {
        Some((sub, name)) => folder.subfolder(sub).unwrap().remove(name).unwrap(),
        None => folder.remove(path).unwrap(),
    }
}

/// Small versions: 1 was removed, 2 to 4 are there.
fn history() -> (SimFolder, BTreeMap<u32, Tree>) {
    history_in(false)
}

fn history_in(encrypted: bool) -> (SimFolder, BTreeMap<u32, Tree>) {
    let folder = SimFolder::new();
    create(&folder, encrypted).unwrap();
    let mut archive = open(&folder);
    let mut random = SplitMix64::new(77);
    let mut trees = BTreeMap::new();
    for number in 1..=4_u32 {
        let options = AddOptions {
            time_s: i64::from(number) * 1000,
            label: format!("day {number}"),
            index_bytes: 1 << 20,
            ..AddOptions::default()
        };
        let mut content = tree(&mut random, 2, 700);
        content.insert(b"same".to_vec(), Some(b"in all of them".repeat(40)));
        assert_eq!(add_with(&mut archive, &content, options).unwrap().number, number);
        trees.insert(number, content);
    }
    archive.remove(1).unwrap();
    trees.remove(&1);
    (copy(&folder), trees)
}

fn infos(archive: &Archive) -> Vec<VersionInfo> {
    archive.versions().cloned().collect()
}

/// Repair says first what it would do, does it, and everything is as it was.
fn repairs(folder: &SimFolder, trees: &BTreeMap<u32, Tree>, before: &[VersionInfo], what: &str) {
    let untouched = files(folder);
    let told = check(folder, false).unwrap();
    assert!(!told.steps.is_empty() && told.lost.is_empty(), "{what}: {told:?}");
    assert!(files(folder) == untouched, "{what}: a check writes nothing");
    let done = check(folder, true).unwrap();
    assert_eq!(done, told, "{what}");
    is_whole(folder, trees, before, what);
}

fn is_whole(folder: &SimFolder, trees: &BTreeMap<u32, Tree>, before: &[VersionInfo], what: &str) {
    assert_eq!(check(folder, false).unwrap(), RepairReport::default(), "{what}");
    let mut archive = open(folder);
    assert_eq!(infos(&archive), before, "{what}");
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(report.is_sound() && report.notes.is_empty(), "{what}: {report:?}");
    for (number, tree) in trees {
        assert!(read(&archive, *number).unwrap() == *tree, "{what}: version {number}");
    }
    let new = add(&mut archive, &trees[&3]).unwrap();
    assert!(new.number > 4, "{what}: {}", new.number);
    let archive = open(folder);
    assert!(read(&archive, new.number).unwrap() == trees[&3], "{what}");
    assert!(archive.verify(&mut |_, _| true).unwrap().is_sound(), "{what}");
}

#[test]
fn lost_settings_and_logs_are_put_together_again() {
    lost_settings_and_logs(false);
}

#[test]
fn lost_settings_and_logs_of_an_encrypted_archive_are_put_together_again() {
    lost_settings_and_logs(true);
}

fn lost_settings_and_logs(encrypted: bool) {
    let (pristine, trees) = history_in(encrypted);
    let before = infos(&open(&pristine));
    let both = |a: &'static str, b: &'static str| vec![a, b];
    let cases = [
        both("log.0", "log.1"),
        both("archive.0", "archive.1"),
        both("archive.0", "log.1"),
        vec!["archive.0", "archive.1", "log.0", "log.1"],
        vec!["archive.1"],
        vec!["log.0"],
    ];
    for lost in cases {
        let folder = copy(&pristine);
        for name in &lost {
            folder.remove(name).unwrap();
        }
        repairs(&folder, &trees, &before, &format!("{lost:?}"));
    }
    for records in 0..4 {
        let what = format!("{records} records");
        let folder = copy(&pristine);
        for name in ["log.0", "log.1"] {
            let whole = if encrypted { 512 + records * 1024 } else { records * 512 };
            folder.truncate(name, whole + 100).unwrap();
        }
        if records == 0 {
            repairs(&folder, &trees, &before, &what);
            continue;
        }
        // That version 1 was removed is forgotten: it is missed until it is removed again.
        let report = check(&folder, true).unwrap();
        assert_eq!(report.lost, ["version 1: its file is missing"], "{what}");
        let mut archive = open(&folder);
        assert!(archive.remove(2).is_err(), "{what}: what version 1 needs is not known");
        archive.remove(1).unwrap();
        is_whole(&folder, &trees, &before, &what);
    }
    let folder = copy(&pristine);
    for (name, at) in [("log.0", 3), ("log.1", 400)] {
        let third = if encrypted { 512 + 2 * 1024 } else { 2 * 512 };
        folder.flip_bit(name, third + at, 3).unwrap();
    }
    repairs(&folder, &trees, &before, "a record damaged in both copies");
}

#[test]
fn a_repair_tells_each_of_its_steps_and_is_durable_when_it_has_ended() {
    let (pristine, trees) = history();
    let before = infos(&open(&pristine));
    let tell = |damage: &dyn Fn(&SimFolder), expected: &[&str]| {
        let folder = copy(&pristine);
        damage(&folder);
        // Durable, so that a power cut takes nothing but what the repair does.
        let folder = copy(&folder);
        let report = check(&folder, true).unwrap();
        let said = report.steps.join("\n");
        for expected in expected {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        let after = folder.after_crash(1, CrashMode::KeepNothing);
        is_whole(&after, &trees, &before, &said);
    };
    let copied = "log.0 is missing or damaged: it is written from the other copy";
    tell(&|folder| folder.remove("log.0").unwrap(), &[copied]);
    let third = "record 2 of the log is copied to where it is missing";
    tell(&|folder| folder.flip_bit("log.1", 2 * 512 + 40, 1).unwrap(), &[third]);
    let both = |folder: &SimFolder| {
        for name in ["log.0", "log.1"] {
            folder.flip_bit(name, 2 * 512 + 40, 1).unwrap();
        }
    };
    tell(&both, &["the log is damaged: record 2", "the new log tells of version 2"]);
}

#[test]
fn a_repair_that_loses_power_at_any_operation_is_repeated() {
    let (pristine, trees) = history();
    let before = infos(&open(&pristine));
    for mode in [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything] {
        for cut in 1.. {
            let folder = copy(&pristine);
            for name in ["archive.0", "archive.1", "log.1"] {
                folder.remove(name).unwrap();
            }
            folder.truncate("log.0", 300).unwrap();
            let folder = copy(&folder);
            folder.crash_at(folder.op_count() + cut);
            let done = check(&folder, true).is_ok();
            let what = format!("cut at {cut}, {mode:?}");
            let after = folder.after_crash(cut, mode);
            // Meanwhile nobody takes it for whole.
            if let Ok(mut archive) = Archive::open(Arc::new(copy(&after)))
                && infos(&archive) != before
            {
                let refused = add(&mut archive, &trees[&2]).unwrap_err();
                assert!(refused.is_corruption(), "{what}: {refused}");
            }
            check(&after, true).unwrap_or_else(|e| panic!("{what}: {e}"));
            is_whole(&after, &trees, &before, &what);
            if done {
                assert!(cut > 10, "a repair has only {cut} operations");
                break;
            }
        }
    }
}

#[test]
fn a_version_whose_file_is_damaged_keeps_what_it_may_refer_to_until_it_is_removed() {
    let (folder, trees) = history();
    for name in ["log.0", "log.1"] {
        folder.remove(name).unwrap();
    }
    folder.truncate("versions/00000004.version", 300).unwrap();
    let report = check(&folder, true).unwrap();
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].contains("version 4"), "{report:?}");
    let mut archive = open(&folder);
    assert!(archive.remove(2).unwrap_err().is_corruption(), "it may need the same containers");
    assert!(read(&archive, 3).unwrap() == trees[&3]);
    archive.remove(4).unwrap();
    archive.remove(2).unwrap();
    let archive = open(&folder);
    assert!(read(&archive, 3).unwrap() == trees[&3]);
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(report.is_sound() && report.unused_containers == 0, "{report:?}");
}

#[test]
fn a_version_that_cannot_be_read_is_named_also_where_the_log_is_whole() {
    let (folder, _) = history();
    folder.truncate("versions/00000004.version", 300).unwrap();
    for repair in [false, true] {
        let report = check(&folder, repair).unwrap();
        assert!(report.steps.is_empty(), "{report:?}");
        let [lost] = &report.lost[..] else { panic!("{report:?}") };
        assert!(lost.starts_with("version 4: "), "{lost}");
    }
}

/// What a version says it refers to must be right before anything else may be removed.
#[test]
fn what_repair_takes_for_a_whole_version_tells_its_containers() {
    let (pristine, _) = history();
    let name = "versions/00000004.version";
    let len = files(&pristine)[name].len() as u64;
    let (mut named, mut kept) = (0, 0);
    for at in 0..len {
        let folder = copy(&pristine);
        for log in ["log.0", "log.1"] {
            folder.remove(log).unwrap();
        }
        folder.flip_bit(name, at, 2).unwrap();
        let report = check(&folder, true).unwrap();
        if report.lost.iter().any(|lost| lost.contains("version 4")) {
            named += 1;
            continue;
        }
        kept += 1;
        let version = open(&folder).version(Some(4)).unwrap();
        let containers = version.containers();
        assert!(containers.is_ok_and(|uses| !uses.is_empty()), "byte {at} of {len}");
    }
    assert!(named > 100 && kept > 0, "{named} and {kept} of {len}");
}

#[test]
fn an_archive_of_another_format_version_is_refused_by_name() {
    let (folder, _) = history();
    let old = "not read any more";
    for (version, expected) in [(1_u32, old), (2, old), (3, old), (6, "reads up to version 5")] {
        for name in ["archive.0", "archive.1"] {
            let file = folder.open(name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read(0, &mut bytes).unwrap();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            let end = bytes.len() - 4;
            let sum = crc32fast::hash(&bytes[..end]);
            bytes[end..].copy_from_slice(&sum.to_le_bytes());
            file.write(0, &bytes).unwrap();
        }
        let error = Archive::open(Arc::new(folder.clone())).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(check(&folder, true).is_err(), "and nothing is repaired");
        let made = Archive::create(&folder, &small(), crate::support::IDENTITY);
        assert!(matches!(made, Err(ArchiveError::NotEmpty(_))));
    }
}

/// An archive that is damaged somehow: what is read is right or named, and no command but one that
/// removes a version takes a container or a version's file away.
fn is_safe(folder: &SimFolder, trees: &BTreeMap<u32, Tree>, may_add: &str, what: &str) {
    let before = files(folder);
    let kept = |folder: &SimFolder, when: &str| {
        let now = files(folder);
        for name in before.keys().filter(|name| name.contains('/') && *name != may_add) {
            assert!(now.contains_key(name), "{what}, {when}: {name} was deleted");
        }
    };
    let readable = |folder: &SimFolder, when: &str| -> Vec<u32> {
        let archive = match Archive::open(Arc::new(folder.clone())) {
            Ok(archive) => archive,
            Err(error) => {
                assert!(error.is_corruption(), "{what}, {when}: {error}");
                return Vec::new();
            }
        };
        let report = archive.verify(&mut |_, _| true).unwrap();
        let noticed = !report.is_sound() || !report.notes.is_empty();
        assert!(noticed || when != "first", "{what}: it goes unnoticed");
        let whole = |number: &u32| match read(&archive, *number) {
            Ok(tree) => {
                assert!(tree == trees[number], "{what}, {when}: wrong data in version {number}");
                true
            }
            Err(ArchiveError::NoVersion { .. } | ArchiveError::NoVersions) => {
                assert!(!report.is_sound(), "{what}, {when}: version {number} is forgotten");
                false
            }
            Err(error) => {
                assert!(error.is_corruption(), "{what}, {when}: {error}");
                false
            }
        };
        trees.keys().copied().filter(whole).collect()
    };
    let first = readable(folder, "first");
    if let Ok(mut archive) = Archive::open(Arc::new(folder.clone()))
        && let Ok(info) = add(&mut archive, &trees[&2])
    {
        match read(&archive, info.number) {
            Ok(tree) => assert!(tree == trees[&2], "{what}: wrong data was added"),
            Err(error) => assert!(error.is_corruption(), "{what}: {error}"),
        }
    }
    kept(folder, "after an addition");
    if check(folder, true).is_ok() {
        kept(folder, "after a repair");
        let then = readable(folder, "after a repair");
        let missing: Vec<_> = first.iter().filter(|number| !then.contains(number)).collect();
        assert!(missing.is_empty(), "{what}: repair lost versions {missing:?}");
    }
}

/// An archive with three versions, and the same with an addition cut short.
fn two_states() -> [(SimFolder, BTreeMap<u32, Tree>, &'static str); 2] {
    let (whole, trees) = history();
    let cut = copy(&whole);
    let mut archive = open(&cut);
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let data = SplitMix64::new(4).bytes(150_000);
    let mut source = data.as_slice();
    adder.file(entry(b"large", Kind::File), false, &mut source).unwrap().unwrap();
    drop(adder);
    [(whole, trees.clone(), ""), (copy(&cut), trees, "versions/00000005.version")]
}

#[test]
fn every_file_and_every_two_files_removed_are_named_and_nothing_else_goes() {
    let (pristine, trees, _) = &two_states()[0];
    let names: Vec<String> = files(pristine).into_keys().collect();
    for (at, first) in names.iter().enumerate() {
        for second in &names[at..] {
            let folder = copy(pristine);
            remove(&folder, first);
            if first != second {
                remove(&folder, second);
            }
            is_safe(&folder, trees, "", &format!("without {first} and {second}"));
        }
    }
}

#[test]
fn every_byte_flipped_is_named_and_nothing_goes() {
    // Every byte has its turn with a stride of 1.
    let stride = std::env::var("ONEFOLD_DAMAGE_STRIDE").map_or(17, |text| text.parse().unwrap());
    for (state, (pristine, trees, may_go)) in two_states().iter().enumerate() {
        for (name, bytes) in files(pristine) {
            // What an interrupted addition stored is nobody's.
            if state == 1 && (name == *may_go || bytes.len() > 100_000) {
                continue;
            }
            for at in (0..bytes.len()).step_by(stride) {
                let folder = copy(pristine);
                folder.flip_bit(&name, at as u64, (at % 8) as u8).unwrap();
                is_safe(&folder, trees, may_go, &format!("state {state}, {name}, byte {at}"));
            }
        }
    }
}
