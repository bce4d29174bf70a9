//! One flipped bit, anywhere: it is named, and never read as data.

use onefold_archive::format::log_record::{self, LogEvent, LogRecord};
use onefold_archive::{AddOptions, Archive, ArchiveError, Kind, VersionInfo};
use onefold_block::{FaultKind, Folder as _, OpKind, SimFolder, SplitMix64};

use crate::support::{
    IDENTITY, Tree, add, create, damage, entry, names, new_archive, next, open, read, small, tree,
};

fn two_versions() -> (SimFolder, [Tree; 2]) {
    two_versions_in(false)
}

fn two_versions_in(encrypted: bool) -> (SimFolder, [Tree; 2]) {
    let folder = SimFolder::new();
    create(&folder, encrypted).unwrap();
    let mut archive = open(&folder);
    let mut random = SplitMix64::new(11);
    let first = tree(&mut random, 6, 40_000);
    let second = next(&first, &mut random);
    add(&mut archive, &first).unwrap();
    add(&mut archive, &second).unwrap();
    (folder, [first, second])
}

/// Every path that can be read holds what was added; returns how many cannot be.
fn check_readable(archive: &Archive, trees: &[Tree; 2], context: &str) -> usize {
    let mut lost = 0;
    for (number, tree) in (1..).zip(trees) {
        let version = match archive.version(Some(number)) {
            Ok(version) => version,
            Err(error) => {
                assert!(error.is_corruption(), "{context}: {error}");
                lost += tree.len();
                continue;
            }
        };
        for index in 0..version.len() {
            let Ok(entry) = version.entry(index) else {
                lost += 1;
                continue;
            };
            let mut bytes = Vec::new();
            let result = onefold_archive::tree::restore::read_file(
                archive,
                &version,
                &entry,
                1 << 20,
                &mut |piece| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                },
            );
            let expected = tree[&entry.path].clone().unwrap_or_default();
            match result {
                Ok(_) => assert!(bytes == expected, "{context}: wrong data"),
                Err(error) => {
                    assert!(error.is_corruption(), "{context}: {error}");
                    assert!(expected.starts_with(&bytes), "{context}: wrong data before an error");
                    lost += 1;
                }
            }
        }
    }
    lost
}

#[test]
fn a_flipped_bit_anywhere_is_named_and_never_read_as_data() {
    flip_bits_anywhere(false);
}

#[test]
fn a_flipped_bit_anywhere_in_an_encrypted_archive_is_named_and_never_read_as_data() {
    flip_bits_anywhere(true);
}

fn flip_bits_anywhere(encrypted: bool) {
    let mut random = SplitMix64::new(1);
    let (pristine, trees) = two_versions_in(encrypted);
    let mut files: Vec<String> =
        ["archive.0", "log.0", "log.1"].map(str::to_owned).into_iter().collect();
    files.extend(names(&pristine, "versions").iter().map(|name| format!("versions/{name}")));
    files.extend(names(&pristine, "containers").iter().map(|name| format!("containers/{name}")));
    for name in files {
        for _ in 0..12 {
            let folder = pristine.after_crash(1, onefold_block::CrashMode::KeepEverything);
            let len = match name.split_once('/') {
                Some((sub, name)) => folder.subfolder(sub).unwrap().open(name).unwrap().len(),
                None => folder.open(&name).unwrap().len(),
            }
            .unwrap();
            let at = random.below(len);
            // Between the encrypted records of a log there is nothing.
            let nothing =
                encrypted && name.starts_with("log") && at >= 512 && (at - 512) % 1024 >= 552;
            if nothing {
                continue;
            }
            damage(&folder, &name, at);
            let context = format!("{name} byte {at}");
            let archive = open(&folder);
            let lost = check_readable(&archive, &trees, &context);
            let report = archive.verify(&mut |_, _| true).unwrap();
            if name.starts_with("archive") {
                assert_eq!(lost, 0, "{context}: the other copy serves");
            }
            let noticed = !report.is_sound() || !report.notes.is_empty();
            assert!(noticed, "{context} goes unnoticed");
            if name.starts_with("log") {
                assert_eq!(lost, 0, "{context}: the other copy serves");
            }
        }
    }
}

#[test]
fn a_missing_or_cut_container_is_named_with_the_files_it_takes_along() {
    let (folder, trees) = two_versions();
    let name = names(&folder, "containers")[0].clone();
    folder.truncate(&format!("containers/{name}"), 5000).unwrap();
    let check = |what: &str| {
        let archive = open(&folder);
        assert!(check_readable(&archive, &trees, what) > 0);
        let report = archive.verify(&mut |_, _| true).unwrap();
        let text = format!("{:#?}", report.findings);
        assert!(text.contains("container 1"), "{what}: {text}");
        assert!(text.contains("of version 1") && text.contains("of version 2"), "{what}: {text}");
    };
    check("cut");
    folder.subfolder("containers").unwrap().remove(&name).unwrap();
    check("missing");
}

#[test]
fn a_damaged_container_is_no_obstacle_to_the_next_version() {
    let (folder, trees) = two_versions();
    let name = names(&folder, "containers")[0].clone();
    let len = folder.subfolder("containers").unwrap().open(&name).unwrap().len().unwrap();
    damage(&folder, &format!("containers/{name}"), len - 40);
    let mut archive = open(&folder);
    let info = add(&mut archive, &trees[0]).unwrap();
    assert!(info.totals.new_bytes > 0, "what it held is stored again");
    assert!(read(&archive, info.number).unwrap() == trees[0]);
}

#[test]
fn a_log_damaged_in_both_copies_stops_writers_only() {
    let (folder, trees) = two_versions();
    damage(&folder, "log.0", 100);
    damage(&folder, "log.1", 200);
    let mut archive = open(&folder);
    assert_eq!(archive.damage().len(), 1);
    assert!(read(&archive, 2).unwrap() == trees[1]);
    let error = add(&mut archive, &trees[0]).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(!archive.verify(&mut |_, _| true).unwrap().is_sound());
}

#[test]
fn one_lost_copy_of_everything_that_is_kept_twice_does_no_harm() {
    for lost in ["archive.0", "archive.1", "log.0", "log.1"] {
        let (folder, trees) = two_versions();
        folder.remove(lost).unwrap();
        let mut archive = open(&folder);
        assert!(read(&archive, 1).unwrap() == trees[0], "{lost}");
        let info = add(&mut archive, &trees[0]).unwrap();
        let archive = open(&folder);
        assert!(read(&archive, info.number).unwrap() == trees[0], "{lost}");
        let report = archive.verify(&mut |_, _| true).unwrap();
        assert!(report.is_sound() && report.notes.is_empty(), "{lost} is repaired: {report:?}");
    }
}

#[test]
fn another_archives_files_are_not_taken_for_ones_own() {
    let (folder, _) = two_versions();
    let other = SimFolder::new();
    let identity = onefold_archive::ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
    Archive::create(&other, &small(), identity).unwrap();
    let mut archive = open(&other);
    add(&mut archive, &tree(&mut SplitMix64::new(9), 6, 40_000)).unwrap();
    for name in names(&other, "containers") {
        let from = other.subfolder("containers").unwrap().open(&name).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read(0, &mut bytes).unwrap();
        let to = folder.subfolder("containers").unwrap().create(&name).unwrap();
        to.write(0, &bytes).unwrap();
    }
    let archive = open(&folder);
    let error = read(&archive, 1).unwrap_err();
    assert!(matches!(error, ArchiveError::Corrupt { .. }), "{error}");
    let report = archive.verify(&mut |_, _| true).unwrap();
    assert!(format!("{:?}", report.findings).contains("another archive"));
}

#[test]
fn a_damaged_version_can_be_removed_and_holds_up_no_other() {
    let (folder, trees) = two_versions();
    let mut archive = open(&folder);
    let third = add(&mut archive, &trees[0]).unwrap().number;
    // The list of containers, right before the footer.
    let name = format!("versions/{third:08x}.version");
    let len = archive.versions().next_back().unwrap().file_bytes;
    damage(&folder, &name, len - 57);
    let mut archive = open(&folder);
    let refused = archive.remove(1).unwrap_err();
    assert!(refused.is_corruption(), "what the damaged one needs is not known: {refused}");
    assert!(read(&archive, 1).unwrap() == trees[0], "and so nothing was removed");
    archive.remove(third).unwrap();
    archive.remove(1).unwrap();
    assert!(read(&archive, 2).unwrap() == trees[1]);
    // After a removal, damage does not keep anybody from adding.
    let again = add(&mut archive, &trees[0]).unwrap().number;
    let kept = add(&mut archive, &trees[1]).unwrap().number;
    archive.remove(again).unwrap();
    let len = archive.versions().next_back().unwrap().file_bytes;
    damage(&folder, &format!("versions/{kept:08x}.version"), len - 57);
    let mut archive = open(&folder);
    let last = add(&mut archive, &trees[0]).unwrap().number;
    assert!(read(&archive, last).unwrap() == trees[0]);
}

#[test]
fn two_damaged_versions_do_not_keep_each_other() {
    let (folder, trees) = two_versions();
    let mut archive = open(&folder);
    let third = add(&mut archive, &trees[0]).unwrap().number;
    for number in [1, 2] {
        damage(&folder, &format!("versions/{number:08x}.version"), 5);
    }
    let mut archive = open(&folder);
    assert!(archive.remove(third).unwrap_err().is_corruption(), "a whole one stays");
    assert_eq!(archive.remove(1).unwrap().containers, 0, "what version 2 needs is not known");
    assert!(archive.remove(2).unwrap().containers > 0, "now it is");
    assert!(read(&archive, third).unwrap() == trees[0]);
    assert!(archive.remove(third).unwrap().containers > 0);
}

/// A disk that cannot read one sector fails a read of the whole container, and few of its parts.
#[test]
fn groups_are_read_alone_where_their_container_cannot_be_read_at_once() {
    let (folder, _) = two_versions();
    let (mut whole, mut named) = (0, 0);
    for nth in 1..500 {
        let archive = open(&folder);
        folder.fail_once(&[OpKind::Read], nth, FaultKind::Eio);
        let sound = archive.verify(&mut |_, _| true).is_ok_and(|report| report.is_sound());
        folder.clear_faults();
        whole += u32::from(sound);
        named += u32::from(!sound);
        if whole > 5 {
            assert!(named > 0, "what nothing else can tell is named");
            return;
        }
    }
    panic!("{whole} of {} failures are made good", whole + named);
}

/// What has no number on its disk cannot be told from what stands in its place.
#[test]
fn files_without_an_inode_are_read_however_equal_they_look() {
    let (_, mut archive) = new_archive(&small());
    let options = AddOptions {
        time_s: 2_000_000,
        index_bytes: 1 << 20,
        skip_unchanged: true,
        ..AddOptions::default()
    };
    for (inode, taken_over) in [(0, false), (0, false), (7, false), (7, true), (8, false)] {
        let mut file = entry(b"file", Kind::File);
        file.stamp.inode = inode;
        let mut adder = archive.add(options.clone()).unwrap();
        assert_eq!(adder.unchanged_file(&file, 6, false).unwrap(), taken_over, "inode {inode}");
        if !taken_over {
            adder.file(file, false, &mut b"before".as_slice()).unwrap().unwrap();
        }
        adder.commit().unwrap();
    }
}

/// As when a disk comes back with an older file of that name and length.
#[test]
fn a_version_is_the_one_that_the_log_tells_of_and_no_other_of_its_number() {
    // With as many bytes in all.
    let named = |names: [&str; 2]| {
        let (folder, mut archive) = new_archive(&small());
        let files = names.map(|name| (name.as_bytes().to_vec(), Some(b"content".to_vec())));
        add(&mut archive, &Tree::from(files)).unwrap();
        folder
    };
    let (folder, other) = (named(["a", "bb"]), named(["aa", "b"]));
    let bytes_of = |folder: &SimFolder, path: &str| {
        let (sub, name) = path.split_once('/').unwrap();
        let file = folder.subfolder(sub).unwrap().open(name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read(0, &mut bytes).unwrap();
        (file, bytes)
    };
    let path = "versions/00000001.version";
    let ((file, ours), (_, theirs)) = (bytes_of(&folder, path), bytes_of(&other, path));
    assert!(ours.len() == theirs.len() && ours != theirs);
    file.write(0, &theirs).unwrap();
    let error = open(&folder).version(Some(1)).map(drop).unwrap_err().to_string();
    let expected = "corrupt 00000001.version at byte 0: \
                    its footer is not the one that the log tells of";
    assert_eq!(error, expected);
    file.write(0, &ours).unwrap();
    // Logs of before kept a number that fits every footer.
    let info = open(&folder).version(Some(1)).unwrap().info().clone();
    let info = VersionInfo { footer_checksum: 0x2144_df1c, ..info };
    let event = LogEvent::Added(info.clone());
    let record = LogRecord { sequence: 0, next_container: 2, event };
    for name in ["log.0", "log.1"] {
        let bytes = log_record::encode(&record, &IDENTITY.uuid);
        folder.open(name).unwrap().write(0, &bytes).unwrap();
    }
    let archive = open(&folder);
    assert_eq!(archive.version(Some(1)).unwrap().info(), &info);
    assert!(archive.verify(&mut |_, _| true).unwrap().is_sound());
}

#[test]
fn a_damaged_page_of_a_version_is_named_once_with_how_many_paths_it_takes_along() {
    let (folder, mut archive) = new_archive(&small());
    let path = |number: usize| format!("{number:04}").into_bytes();
    let files: Tree = (0..1000).map(|number| (path(number), Some(path(number)))).collect();
    add(&mut archive, &files).unwrap();
    drop(archive);
    damage(&folder, "versions/00000001.version", 70_000);
    let archive = open(&folder);
    let version = archive.version(None).unwrap();
    let lost = version.entries().filter(Result::is_err).count();
    assert!(lost > 100 && lost < 900, "{lost}");
    let told = format!("a page of it is damaged, and with it {lost} paths");
    let out = tempfile::tempdir().unwrap();
    let options = onefold_archive::tree::restore::RestoreOptions::default();
    let restored = onefold_archive::tree::restore::restore;
    let report = restored(&archive, &version, &[], out.path(), &options, &mut |_| true).unwrap();
    let of_version: Vec<_> = report.problems.iter().filter(|p| p.path == "version 1").collect();
    assert!(of_version.len() == 1 && of_version[0].problem.ends_with(&told), "{of_version:?}");
    assert_eq!(
        std::fs::read_dir(out.path()).unwrap().count(),
        1000 - lost - (report.problems.len() - 1)
    );
    let report = archive.verify(&mut |_, _| true).unwrap();
    let found: Vec<_> = report.findings.iter().filter(|f| f.what == "version 1").collect();
    assert!(found.len() == 1 && found[0].problem.ends_with(&told), "{found:?}");
}
