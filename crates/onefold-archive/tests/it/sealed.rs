//! Encrypted archives: nothing of what they hold is on the disk, and only their secret opens them.

use std::sync::Arc;

use onefold_archive::seal::protection::Keys;
use onefold_archive::seal::{NewKey, SealedFolder, Secret};
use onefold_archive::{Archive, ArchiveError, Argon2Cost, SecretKind};
use onefold_block::conformance::media::CHECKS;
use onefold_block::{CrashMode, Folder, SimFolder, SplitMix64};

use crate::support::{
    IDENTITY, add, assert_sound, check, create, damage, names, next, open, read, secret, small,
    tree, try_open,
};

/// A cheap key that the given secret opens.
fn key(secret: &Secret) -> NewKey<'_> {
    let cost = Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 };
    NewKey { secret, cost, salt: [1; 16], master: [2; 32] }
}

fn encrypted() -> (SimFolder, Archive) {
    let folder = SimFolder::new();
    create(&folder, true).unwrap();
    let archive = open(&folder);
    (folder, archive)
}

#[test]
fn encrypted_media_keep_the_contract_of_media() {
    let keys = Arc::new(Keys::new([7; 32]));
    let make = || -> Arc<dyn Folder> {
        Arc::new(SealedFolder::new(Arc::new(SimFolder::new()), Arc::clone(&keys), vec![1; 100]))
    };
    for (name, check) in CHECKS {
        println!("{name}");
        check(&make);
    }
}

/// The bytes of every file on the disk.
fn everything(folder: &SimFolder) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for sub in ["", "versions", "containers"] {
        let within: Arc<dyn Folder> = match sub {
            "" => Arc::new(folder.clone()),
            sub => folder.subfolder(sub).unwrap(),
        };
        for name in within.list().unwrap() {
            let file = within.open(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read(0, &mut bytes).unwrap();
            all.push((format!("{sub}/{name}"), bytes));
        }
    }
    all
}

#[test]
fn nothing_of_what_is_kept_is_on_the_disk() {
    let content = b"what nobody is to read ".repeat(2000);
    let mut kept = tree(&mut SplitMix64::new(3), 3, 20_000);
    kept.insert(b"a name that tells".to_vec(), Some(content));
    let hidden: [&[u8]; 5] = [b"nobody is to", b"name that", b"monday", b"OFENTRIE", &IDENTITY.key];
    for encrypt in [false, true] {
        let folder = SimFolder::new();
        create(&folder, encrypt).unwrap();
        let mut archive = open(&folder);
        assert_eq!(archive.is_encrypted(), encrypt);
        let options = onefold_archive::AddOptions {
            label: "monday".to_owned(),
            index_bytes: 1 << 20,
            ..Default::default()
        };
        let info = crate::support::add_with(&mut archive, &kept, options).unwrap();
        assert!(read(&open(&folder), info.number).unwrap() == kept);
        let mut found = 0;
        for (name, bytes) in everything(&folder) {
            for text in hidden {
                let shows = bytes.windows(text.len()).any(|window| window == text);
                assert!(!(encrypt && shows), "{name} shows {text:?}");
                found += usize::from(shows);
            }
        }
        assert!(encrypt || found >= hidden.len(), "the search finds what is there: {found}");
    }
}

#[test]
fn only_its_secret_opens_an_archive_and_another_can_take_its_place() {
    let old = Secret::Passphrase(b"correct horse".to_vec());
    let new = Secret::Passphrase(b"battery staple".to_vec());
    let folder = SimFolder::new();
    Archive::create_with(&folder, &small(), IDENTITY, Some(&key(&old))).unwrap();
    let open_by = |folder: &SimFolder, secret: Option<&Secret>| {
        Archive::open_with(Arc::new(folder.clone()), secret)
    };
    let kept = tree(&mut SplitMix64::new(4), 3, 20_000);
    add(&mut open_by(&folder, Some(&old)).unwrap(), &kept).unwrap();
    let kind = SecretKind::Passphrase;
    for (given, file) in [(None, false), (Some(&new), false), (Some(&secret()), true)] {
        let before = everything(&folder);
        let error = open_by(&folder, given).err().unwrap();
        let needed = matches!(&error, ArchiveError::KeyNeeded { kind: found } if *found == kind);
        let wrong = matches!(&error, ArchiveError::WrongKey { kind: found } if *found == kind);
        assert!(if given.is_none() || file { needed } else { wrong }, "{error}");
        let error = Archive::check_with(Arc::new(folder.clone()), true, given).unwrap_err();
        assert!(!error.is_corruption(), "{error}");
        let lost = folder.after_crash(1, CrashMode::KeepEverything);
        lost.remove("archive.0").unwrap();
        let error = Archive::check_with(Arc::new(lost.clone()), true, given).unwrap_err();
        assert!(!error.is_corruption(), "{error}");
        assert!(lost.open("archive.0").is_err(), "nothing is repaired by who cannot open it");
        assert!(everything(&folder) == before, "nothing is written");
    }
    // The power goes at every operation of the change: one of the two opens it, and the next work
    // brings both copies of the settings to the same.
    let (mut cut, mut opened_by_both) = (0, 0);
    loop {
        cut += 1;
        let disk = folder.after_crash(1, CrashMode::KeepEverything);
        let mut archive = open_by(&disk, Some(&old)).unwrap();
        disk.crash_at(disk.op_count() + cut);
        let changed = archive.change_secret(&NewKey { salt: [9; 16], ..key(&new) });
        drop(archive);
        let after = disk.after_crash(cut, CrashMode::Random);
        let by = [&old, &new].map(|secret| open_by(&after, Some(secret)));
        assert!(by.iter().any(Result::is_ok), "cut at {cut}");
        opened_by_both += u32::from(by.iter().all(Result::is_ok));
        if changed.is_ok() {
            assert!(by[0].is_err(), "the old one opens it no more");
        }
        let mut archive = by.into_iter().flatten().next().unwrap();
        assert!(read(&archive, 1).unwrap() == kept, "cut at {cut}");
        add(&mut archive, &kept).unwrap();
        assert_sound(&archive, "after a change");
        let by = [&old, &new].map(|secret| open_by(&after, Some(secret)).is_ok());
        assert!(by[0] != by[1], "cut at {cut}: {by:?}");
        if changed.is_ok() {
            break;
        }
    }
    assert!(cut > 4, "the change has only {cut} operations");
    // Between the two copies of the settings, of which each is opened by its own secret.
    assert!(opened_by_both > 0, "the old secret opens what the new one opens already");
    let (_, mut plain) = crate::support::new_archive(&small());
    assert!(matches!(plain.change_secret(&key(&new)), Err(ArchiveError::Setting(_))));
}

type Change = fn(&mut Vec<u8>);

#[test]
fn pages_that_are_exchanged_cut_off_or_of_another_file_are_no_data() {
    let (folder, mut archive) = encrypted();
    let first = tree(&mut SplitMix64::new(5), 8, 60_000);
    let second = next(&first, &mut SplitMix64::new(6));
    add(&mut archive, &first).unwrap();
    add(&mut archive, &second).unwrap();
    let containers = names(&folder, "containers");
    let read_file = |folder: &SimFolder, sub: &str, name: &str| {
        let file = folder.subfolder(sub).unwrap().open(name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read(0, &mut bytes).unwrap();
        (file, bytes)
    };
    let changes: [(&str, Change); 4] = [
        ("two pages change places", |bytes| {
            let (a, b) = bytes.split_at_mut(512 + 16_384);
            a[512..].swap_with_slice(&mut b[..16_384]);
        }),
        ("cut at a page", |bytes| bytes.truncate(512 + 16_384)),
        ("cut within a page", |bytes| bytes.truncate(512 + 20_000)),
        ("another file's binding", |bytes| bytes[8] ^= 1),
    ];
    for (what, change) in changes {
        let disk = folder.after_crash(1, CrashMode::KeepEverything);
        let (file, mut bytes) = read_file(&disk, "containers", &containers[0]);
        change(&mut bytes);
        if bytes.len() > 512 && what.starts_with("another") {
            // Its checksum is put right, as somebody would who means to.
            let sum = crc32(&bytes[..508]).to_le_bytes();
            bytes[508..512].copy_from_slice(&sum);
        }
        file.set_len(0).unwrap();
        file.write(0, &bytes).unwrap();
        let archive = open(&disk);
        for (number, expected) in [(1, &first), (2, &second)] {
            match read(&archive, number) {
                Ok(found) => assert!(found == *expected, "{what}"),
                Err(error) => assert!(error.is_corruption(), "{what}: {error}"),
            }
        }
        assert!(!archive.verify(&mut |_, _| true).unwrap().is_sound(), "{what}");
    }
    // A whole file in the place of another: it is authentic, and says itself which one it is.
    for sub in ["containers", "versions"] {
        let all = names(&folder, sub);
        let disk = folder.after_crash(1, CrashMode::KeepEverything);
        let (_, bytes) = read_file(&disk, sub, &all[1]);
        let (file, _) = read_file(&disk, sub, &all[0]);
        file.set_len(0).unwrap();
        file.write(0, &bytes).unwrap();
        let archive = open(&disk);
        assert!(read(&archive, 1).unwrap_err().is_corruption(), "{sub}");
    }
    // One damaged page takes along what lies in its groups, and no more.
    let disk = folder.after_crash(1, CrashMode::KeepEverything);
    damage(&disk, &format!("containers/{}", containers[0]), 512 + 16_384 + 99);
    let archive = open(&disk);
    let version = archive.version(Some(1)).unwrap();
    let whole = (0..version.len()).filter(|&index| {
        let entry = version.entry(index).unwrap();
        let taken = &mut |_: &[u8]| Ok(());
        onefold_archive::tree::restore::read_file(&archive, &version, &entry, 1 << 20, taken)
            .is_ok()
    });
    let whole = whole.count();
    assert!(whole >= version.len() / 2 && whole < version.len(), "{whole} of {}", version.len());
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

#[test]
fn a_disk_without_space_leaves_an_encrypted_archive_as_it_was() {
    use onefold_block::{FaultKind, OpKind};
    let (pristine, mut archive) = encrypted();
    let kept = tree(&mut SplitMix64::new(8), 4, 40_000);
    add(&mut archive, &kept).unwrap();
    drop(archive);
    for nth in 1.. {
        let disk = pristine.after_crash(1, CrashMode::KeepEverything);
        let mut archive = open(&disk);
        disk.fail_once(&[OpKind::Reserve, OpKind::Write], nth, FaultKind::Enospc);
        let more = tree(&mut SplitMix64::new(9), 4, 40_000);
        let Err(error) = add(&mut archive, &more) else {
            assert!(nth > 4, "only {nth} places to fail");
            break;
        };
        assert!(matches!(error, ArchiveError::NoSpace(_)), "write {nth}: {error}");
        drop(archive);
        let mut archive = try_open(&disk).unwrap();
        assert!(read(&archive, 1).unwrap() == kept, "write {nth}");
        let info = add(&mut archive, &more).unwrap();
        assert!(read(&archive, info.number).unwrap() == more, "write {nth}");
        assert_sound(&archive, &format!("write {nth}"));
        assert!(check(&disk, false).unwrap().is_sound(), "write {nth}");
    }
}

#[test]
fn a_log_whose_header_is_gone_is_made_good_from_the_other_copy() {
    // A power cut while its first record is written leaves a file without a header: longer than it
    // was, and zeroes, where the header has not reached the disk.
    let (folder, _) = encrypted();
    folder.open("log.0").unwrap().write(0, &[0; 1536]).unwrap();
    let mut archive = open(&folder);
    assert_sound(&archive, "nothing was ever told by it");
    let mut random = SplitMix64::new(12);
    let trees = [tree(&mut random, 4, 9000), tree(&mut random, 4, 9000)];
    for tree in &trees {
        add(&mut archive, tree).unwrap();
    }
    for name in ["log.0", "log.1"] {
        damage(&folder, name, 100);
        let mut archive = open(&folder);
        let findings = archive.verify(&mut |_, _| true).unwrap().findings;
        assert!(findings.iter().any(|finding| finding.what == name), "{findings:?}");
        // The next addition puts it right.
        add(&mut archive, &trees[0]).unwrap();
        let archive = open(&folder);
        assert_sound(&archive, name);
        for (number, tree) in (1..).zip(&trees) {
            assert!(read(&archive, number).unwrap() == *tree, "{name}, version {number}");
        }
    }
    // Without either, nothing is believed and nothing is changed.
    damage(&folder, "log.0", 100);
    damage(&folder, "log.1", 100);
    let mut archive = open(&folder);
    assert!(add(&mut archive, &trees[0]).unwrap_err().is_corruption());
    assert!(check(&folder, true).unwrap().lost.is_empty());
    assert!(read(&open(&folder), 2).unwrap() == trees[1]);
}

#[test]
fn the_secret_of_an_archive_whose_log_is_damaged_stays() {
    let (folder, mut archive) = encrypted();
    for seed in [1, 2] {
        add(&mut archive, &tree(&mut SplitMix64::new(seed), 3, 5000)).unwrap();
    }
    for name in ["log.0", "log.1"] {
        damage(&folder, name, 512 + 30);
    }
    let before = everything(&folder);
    let new = Secret::KeyFile(vec![9; 32]);
    let error = open(&folder).change_secret(&key(&new)).unwrap_err();
    let problem = "record 0 is damaged in both copies; nothing is changed";
    assert_eq!(error.to_string(), format!("corrupt log at byte 0: {problem}"));
    assert!(everything(&folder) == before);
}
