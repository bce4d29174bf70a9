//! What differs between two versions, against the trees that were added.

use std::collections::BTreeSet;

use onefold_archive::{AddOptions, Archive, Changed, Difference, Kind, Metadata, Version, diff};
use onefold_block::SplitMix64;

use crate::support::{Tree, add, damage, entry, names, new_archive, next, open, small, tree};

fn versions(archive: &Archive, old: u32, new: u32) -> (Version, Version) {
    (archive.version(Some(old)).unwrap(), archive.version(Some(new)).unwrap())
}

fn differences(archive: &Archive, old: u32, new: u32, path: &[u8]) -> Vec<(char, Vec<u8>)> {
    let (old, new) = versions(archive, old, new);
    let mut found = Vec::new();
    diff(&old, &new, path, &mut |difference| {
        found.push((difference.letter(), difference.path().to_vec()));
        true
    })
    .unwrap();
    found
}

/// The same from the trees themselves.
fn expected(old: &Tree, new: &Tree) -> BTreeSet<(char, Vec<u8>)> {
    let paths: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
    let letter = |path: &Vec<u8>| match (old.get(path), new.get(path)) {
        (Some(_), None) => Some('-'),
        (None, Some(_)) => Some('+'),
        (Some(Some(a)), Some(Some(b))) => (a != b).then_some('M'),
        (Some(a), Some(b)) => (a.is_some() != b.is_some()).then_some('T'),
        (None, None) => None,
    };
    paths.into_iter().filter_map(|path| Some((letter(path)?, path.clone()))).collect()
}

#[test]
fn differences_are_those_of_the_trees() {
    let mut seen = BTreeSet::new();
    for seed in 0..8 {
        let mut random = SplitMix64::new(seed);
        let (_, mut archive) = new_archive(&small());
        let mut trees = vec![tree(&mut random, 12, 30_000)];
        for _ in 0..3 {
            trees.push(next(trees.last().unwrap(), &mut random));
        }
        // One file of the last version is a folder's name turned file, or the other way round.
        let mut last = trees.last().unwrap().clone();
        last.insert(b"zz".to_vec(), Some(b"a file".to_vec()));
        trees.push(last.clone());
        last.insert(b"zz".to_vec(), None);
        trees.push(last);
        for tree in &trees {
            add(&mut archive, tree).unwrap();
        }
        for (i, old) in trees.iter().enumerate() {
            for (j, new) in trees.iter().enumerate() {
                let found = differences(&archive, i as u32 + 1, j as u32 + 1, b"");
                let as_set: BTreeSet<_> = found.iter().cloned().collect();
                assert_eq!(as_set.len(), found.len(), "each path once");
                assert_eq!(as_set, expected(old, new), "seed {seed}, {i} to {j}");
                seen.extend(found.iter().map(|(letter, _)| *letter));
            }
        }
    }
    assert_eq!(seen, BTreeSet::from(['+', '-', 'M', 'T']));
}

#[test]
fn a_path_limits_what_is_compared() {
    let (_, mut archive) = new_archive(&small());
    let folder = |name: &[u8]| (name.to_vec(), None);
    let file = |name: &[u8], text: &[u8]| (name.to_vec(), Some(text.to_vec()));
    add(&mut archive, &[folder(b"a"), file(b"a/x", b"1"), file(b"b", b"1")].into()).unwrap();
    add(&mut archive, &[file(b"b", b"2"), folder(b"c"), file(b"c/y", b"1")].into()).unwrap();
    let gone = vec![('-', b"a".to_vec()), ('-', b"a/x".to_vec())];
    assert_eq!(differences(&archive, 1, 2, b"a"), gone);
    assert_eq!(differences(&archive, 1, 2, b"b"), [('M', b"b".to_vec())]);
    let come = vec![('+', b"c".to_vec()), ('+', b"c/y".to_vec())];
    assert_eq!(differences(&archive, 1, 2, b"c"), come);
    let (old, new) = versions(&archive, 1, 2);
    let error = diff(&old, &new, b"nowhere", &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn metadata_links_and_devices_are_told_apart() {
    let (_, mut archive) = new_archive(&small());
    let link = |target: &[u8]| Kind::Symlink { target: target.to_vec() };
    let mut add = |mode: u32, target: &[u8], number: u64| {
        let mut adder = archive.add(AddOptions::default()).unwrap();
        adder.entry(entry(b"device", Kind::CharDevice { number })).unwrap();
        let mut file = entry(b"file", Kind::File);
        file.metadata = Metadata { mode, ..file.metadata };
        adder.file(file, false, &mut b"text".as_slice()).unwrap().unwrap();
        adder.entry(entry(b"link", link(target))).unwrap();
        adder.commit().unwrap();
    };
    add(0o644, b"there", 1);
    add(0o600, b"there", 1);
    add(0o600, b"elsewhere", 2);
    assert_eq!(differences(&archive, 1, 2, b""), [('U', b"file".to_vec())]);
    let content = vec![('M', b"device".to_vec()), ('M', b"link".to_vec())];
    assert_eq!(differences(&archive, 2, 3, b""), content);
    assert_eq!(differences(&archive, 3, 3, b""), []);
    let (old, new) = versions(&archive, 1, 3);
    let mut first = Vec::new();
    diff(&old, &new, b"", &mut |difference| {
        first.push(difference);
        false
    })
    .unwrap();
    assert!(
        matches!(first[..], [Difference::Changed { what: Changed::Content, .. }]),
        "it ends where it is told to: {first:?}"
    );
}

#[test]
fn a_damaged_version_is_named() {
    let (folder, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(3);
    let first = tree(&mut random, 6, 40_000);
    add(&mut archive, &first).unwrap();
    add(&mut archive, &next(&first, &mut random)).unwrap();
    let right: BTreeSet<_> = differences(&archive, 1, 2, b"").into_iter().collect();
    drop(archive);
    let versions_before = names(&folder, "versions");
    let mut failed = 0;
    for at in (110..4000).step_by(97) {
        let copy = folder.after_crash(1, onefold_block::CrashMode::KeepEverything);
        damage(&copy, &format!("versions/{}", versions_before[0]), at);
        let archive = open(&copy);
        let Ok(old) = archive.version(Some(1)) else { continue };
        let new = archive.version(Some(2)).unwrap();
        let mut said = BTreeSet::new();
        let result = diff(&old, &new, b"", &mut |difference| {
            said.insert((difference.letter(), difference.path().to_vec()));
            true
        });
        assert!(said.is_subset(&right), "byte {at}: {said:?}");
        match result {
            Ok(()) => assert_eq!(said, right, "byte {at}"),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn every_kind_of_difference_has_its_letter_its_word_and_its_sizes() {
    let (_, mut archive) = new_archive(&small());
    let mut add = |new: bool| {
        let mut adder = archive.add(AddOptions::default()).unwrap();
        let file = |adder: &mut onefold_archive::Adder<'_>, path: &str, text: &str| {
            let entry = entry(path.as_bytes(), Kind::File);
            adder.file(entry, true, &mut text.as_bytes()).unwrap().unwrap();
        };
        if new {
            file(&mut adder, "a", "come");
        }
        file(&mut adder, "b", if new { "longer" } else { "long" });
        if !new {
            file(&mut adder, "c", "gone");
        }
        if new {
            adder.entry(entry(b"d", Kind::Directory)).unwrap();
        } else {
            file(&mut adder, "d", "file");
        }
        let target = b"b".to_vec();
        adder.entry(entry(b"e", Kind::HardLink { target })).unwrap();
        let mut folder = entry(b"f", Kind::Directory);
        folder.metadata.uid = u32::from(new);
        adder.entry(folder).unwrap();
        adder.entry(entry(b"g", Kind::Fifo)).unwrap();
        file(&mut adder, "h", "same");
        if new {
            let target = b"h".to_vec();
            adder.entry(entry(b"i", Kind::HardLink { target })).unwrap();
        } else {
            file(&mut adder, "i", "same");
        }
        adder.commit().unwrap();
    };
    add(false);
    add(true);
    let (old, new) = versions(&archive, 1, 2);
    let mut told = Vec::new();
    diff(&old, &new, b"", &mut |found| {
        let path = String::from_utf8(found.path().to_vec()).unwrap();
        told.push(format!("{path} {} {} {:?}", found.letter(), found.name(), found.sizes()));
        true
    })
    .unwrap();
    let expected = [
        "a + added (0, 4)",
        "b M content (4, 6)",
        "c - removed (4, 0)",
        "d T kind (4, 0)",
        "e M content (0, 0)",
        "f U metadata (0, 0)",
        "i U metadata (4, 0)",
    ];
    assert_eq!(told, expected);
}
