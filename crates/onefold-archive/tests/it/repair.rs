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

fn bytes_of(folder: &SimFolder, path: &str) -> Vec<u8> {
    files(folder)[path].clone()
}

fn put(folder: &SimFolder, sub: &str, name: &str, bytes: &[u8]) {
    folder.subfolder(sub).unwrap().create(name).unwrap().write(0, bytes).unwrap();
}

/// Two records are gone from both logs.
fn without_a_record(folder: &SimFolder) {
    for name in ["log.0", "log.1"] {
        folder.flip_bit(name, 2 * 512 + 40, 1).unwrap();
    }
}

#[test]
fn a_new_log_tells_of_the_newest_whole_file_of_each_version_and_the_rest_goes() {
    let (folder, trees) = history();
    let mut archive = open(&folder);
    let old = bytes_of(&folder, "versions/00000002.version");
    archive.remove(4).unwrap();
    archive.compact(0, &mut |_, _| true).unwrap();
    let name = "00000002-1.version";
    assert!(files(&folder).contains_key(&format!("versions/{name}")));
    // As if the power had gone before the old file was removed, and more was begun since.
    put(&folder, "versions", "00000002.version", &old);
    for (name, bytes) in [("00000002-2.version", &old[..50]), ("00000003-a.version", &old[..])] {
        put(&folder, "versions", name, bytes);
    }
    for log in ["log.0", "log.1"] {
        folder.remove(log).unwrap();
    }
    let report = check(&folder, true).unwrap();
    assert_eq!(report.lost, [""; 0], "{report:?}");
    let versions = folder.subfolder("versions").unwrap().list().unwrap();
    assert!(
        versions.contains(&name.to_owned()) && versions.contains(&"00000002.version".to_owned())
    );
    assert!(!versions.contains(&"00000002-2.version".to_owned()), "{versions:?}");
    assert!(!versions.contains(&"00000003-a.version".to_owned()), "{versions:?}");
    let mut archive = open(&folder);
    let generations: Vec<_> = infos(&archive).iter().map(|i| (i.number, i.generation)).collect();
    assert_eq!(generations, [(2, 1), (3, generations[1].1)]);
    assert!(read(&archive, 2).unwrap() == trees[&2]);
    add(&mut archive, &trees[&2]).unwrap();
    let versions = folder.subfolder("versions").unwrap().list().unwrap();
    assert!(!versions.contains(&"00000002.version".to_owned()));
}

#[test]
fn what_was_removed_stays_so_in_a_new_log_and_what_was_begun_is_no_version() {
    let (folder, trees) = history();
    let before = infos(&open(&folder));
    let number_1 = bytes_of(&folder, "versions/00000002.version");
    // A removal that did not come to the file, and an addition that was cut short.
    put(&folder, "versions", "00000001.version", &number_1);
    let mut archive = open(&folder);
    put(&folder, "versions", "00000001.version", &number_1);
    drop(archive.add(AddOptions::default()).unwrap());
    put(&folder, "versions", "00000001.version", &number_1);
    let folder = copy(&folder);
    without_a_record(&folder);
    let told = check(&folder, false).unwrap();
    let untold = files(&folder);
    assert_eq!(check(&folder, true).unwrap(), told);
    let lost = "version 1: corrupt 00000001.version at byte 0: it was written as another version";
    assert!(told.lost.len() == 1 && told.lost[0].starts_with(lost), "{told:?}");
    assert!(untold.contains_key("versions/00000005.version"));
    let now = files(&folder);
    assert!(!now.contains_key("versions/00000005.version") && !now.contains_key("pending"));
    assert_eq!(infos(&open(&folder)), before);
    let info = add(&mut open(&folder), &trees[&2]).unwrap();
    // That of the version that was begun is not given out again.
    assert_eq!(info.number, 6);
    assert!(!files(&folder).contains_key("versions/00000001.version"));
}

#[test]
fn settings_are_found_in_the_newest_version_that_is_long_enough() {
    let (pristine, _) = history();
    for (len, source) in [(110, 4), (109, 3), (0, 3)] {
        let folder = copy(&pristine);
        for name in ["archive.0", "archive.1"] {
            folder.remove(name).unwrap();
        }
        folder.truncate("versions/00000004.version", len).unwrap();
        let report = check(&folder, true).unwrap();
        let said = |name| {
            format!("{name} is missing or damaged: written from versions/0000000{source}.version")
        };
        assert_eq!(report.steps, [said("archive.0"), said("archive.1")]);
        let settings = bytes_of(&pristine, "archive.0");
        assert!(bytes_of(&folder, "archive.0") == settings);
        assert!(bytes_of(&folder, "archive.1") == settings);
    }
}

#[test]
fn an_archive_that_never_held_anything_begins_with_its_first_numbers_again() {
    let folder = SimFolder::new();
    create(&folder, false).unwrap();
    for name in ["log.0", "log.1"] {
        folder.remove(name).unwrap();
    }
    let report = check(&folder, true).unwrap();
    assert_eq!(report.steps, ["the log is damaged: both of its copies are missing or damaged"]);
    let tree = tree(&mut SplitMix64::new(1), 2, 500);
    assert_eq!(add(&mut open(&folder), &tree).unwrap().number, 1);
    assert!(files(&folder).contains_key("containers/00000001.container"));
}

#[test]
fn missing_folders_are_made_and_missing_containers_are_told_of() {
    let (pristine, _) = history();
    for gone in ["containers", "versions"] {
        let bare = SimFolder::new();
        for (path, bytes) in files(&pristine) {
            match path.split_once('/') {
                None => bare.create(&path).unwrap().write(0, &bytes).unwrap(),
                Some((sub, _)) if sub == gone => {}
                Some((sub, name)) => put(&bare, sub, name, &bytes),
            }
        }
        let bare = copy(&bare);
        let step = format!("the folder {gone} is missing: an empty one is made");
        let told = check(&bare, false).unwrap();
        assert_eq!(told.steps, std::slice::from_ref(&step));
        assert!(bare.existing_subfolder(gone).is_err() && !told.is_sound());
        let done = check(&bare, true).unwrap();
        assert_eq!(done.steps, [step]);
        let after = bare.after_crash(1, CrashMode::KeepNothing);
        assert!(after.existing_subfolder(gone).is_ok());
        let report = check(&after, false).unwrap();
        assert!(report.steps.is_empty() && !report.is_sound(), "{report:?}");
        let expected = if gone == "containers" {
            "log: it tells of versions, but there is no container at all: is their disk there?"
        } else {
            "version 2: corrupt 00000002.version at byte 0: it is missing"
        };
        assert_eq!(report.lost[0], expected);
    }
    assert!(RepairReport::default().is_sound());
}

#[test]
fn an_archive_in_the_system_is_checked_beside_readers_and_repaired_alone() {
    use onefold_archive::LockKind;
    let dir = tempfile::tempdir().unwrap();
    let none = Archive::check_at(dir.path(), true, None);
    assert!(matches!(none, Err(ArchiveError::NoArchive)));
    let secret = Archive::secret_kind_at(dir.path());
    assert!(matches!(secret, Err(ArchiveError::NoArchive)));
    let make = || {
        let user = Some("[archive]");
        Archive::create_at(dir.path(), &small(), crate::support::IDENTITY, None, user)
    };
    std::fs::write(dir.path().join("mine"), "").unwrap();
    assert!(matches!(make(), Err(ArchiveError::NotEmpty(name)) if name == "mine"));
    std::fs::remove_file(dir.path().join("mine")).unwrap();
    std::fs::create_dir(dir.path().join("containers")).unwrap();
    std::fs::write(dir.path().join("log.0"), "").unwrap();
    std::fs::write(dir.path().join("archive.1.new"), "half").unwrap();
    make().unwrap();
    assert!(matches!(make(), Err(ArchiveError::NotEmpty(name)) if name == "archive.0"));
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("onefold.toml"), "[archive]");
    assert_eq!(Archive::secret_kind_at(dir.path()).unwrap(), None);
    let lock = dir.path().join("lock");
    assert!(lock.exists());
    // Who writes leaves the file that it is locked by.
    std::fs::remove_file(&lock).unwrap();
    drop(Archive::open_at(dir.path(), LockKind::Add).unwrap());
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    assert!(Archive::check_at(dir.path(), true, None).unwrap().is_sound());
    assert!(lock.exists());
    let reader = Archive::open_at(dir.path(), LockKind::Read).unwrap();
    assert!(Archive::check_at(dir.path(), false, None).unwrap().is_sound());
    let refused = Archive::check_at(dir.path(), true, None);
    assert!(matches!(refused, Err(ArchiveError::Locked { .. })));
    drop(reader);
    // Without settings and logs the folders still show what it is.
    for name in ["archive.0", "archive.1", "log.0", "log.1"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let error = Archive::check_at(dir.path(), false, None).unwrap_err();
    assert!(matches!(error, ArchiveError::NoArchive), "of no version nothing can be told");
    std::fs::remove_dir(dir.path().join("versions")).unwrap();
    assert!(matches!(Archive::check_at(dir.path(), true, None), Err(ArchiveError::NoArchive)));
}

#[test]
fn a_folder_with_a_log_that_holds_something_is_not_made_an_archive() {
    let folder = SimFolder::new();
    folder.create("log.1").unwrap();
    folder.create("log.0").unwrap().write(0, b"x").unwrap();
    let made = Archive::create(&folder, &small(), crate::support::IDENTITY);
    assert!(matches!(made, Err(ArchiveError::NotEmpty(name)) if name == "log.0"));
    folder.create("log.0").unwrap();
    create(&folder, false).unwrap();
    let made = Archive::create(&folder, &small(), crate::support::IDENTITY);
    assert!(matches!(made, Err(ArchiveError::NotEmpty(name)) if name == "archive.0"));
}
