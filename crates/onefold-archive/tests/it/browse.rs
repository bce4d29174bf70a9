//! Walking about in an archive: what is found and read is what was added, and damage is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use onefold_archive::browse::tree::NAME_BYTES_MAX;
use onefold_archive::{
    AddOptions, Adder, Archive, ArchiveError, BrowseMemory, Browser, Found, FoundKind, Kind,
    Listed, Metadata, Node,
};
use onefold_block::{Folder, SimFolder, SplitMix64};

use super::support::{
    Tree, add, assert_golden, create, damage, entry, names, new_archive, next, small, tree,
    try_open,
};

/// Room for next to nothing: everything is let go of and got again.
const LITTLE: BrowseMemory = BrowseMemory { metadata_bytes: 1, content_bytes: 1 };

fn browser(archive: Archive) -> Browser {
    Browser::new(archive, LITTLE).unwrap()
}

/// All names in a folder, asked for `at_once` at a time.
fn list(browser: &Browser, node: Node, at_once: usize) -> Result<Vec<Listed>, ArchiveError> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let mut some = Vec::new();
        browser.list(node, from, &mut |_| {}, &mut |listed| {
            let wanted = some.len() < at_once;
            if wanted {
                some.push(listed);
            }
            wanted
        })?;
        let Some(last) = some.last() else { return Ok(all) };
        from = last.next;
        all.append(&mut some);
        assert!(all.len() < 10_000, "a listing ends");
    }
}

/// Everything below a folder by its path, and content where there is some.
fn walk(
    browser: &Browser,
    node: Node,
    path: &[u8],
    all: &mut BTreeMap<Vec<u8>, Result<Option<Vec<u8>>, String>>,
) {
    let listed = match list(browser, node, 3) {
        Ok(listed) => listed,
        Err(error) => {
            all.insert(path.to_vec(), Err(error.to_string()));
            // What can be had is there before the error comes.
            let mut some = Vec::new();
            let seen = &mut |listed| {
                some.push(listed);
                true
            };
            let _ = browser.list(node, 0, &mut |_| {}, seen);
            some
        }
    };
    for Listed { name, found, .. } in listed {
        let path = if path.is_empty() { name } else { [path, b"/", &name].concat() };
        match found.kind {
            FoundKind::Folder | FoundKind::Entry(Kind::Directory) => {
                all.insert(path.clone(), Ok(None));
                walk(browser, found.node, &path, all);
            }
            _ => {
                let mut bytes = Vec::new();
                let file = browser.open(found.node).unwrap();
                let read = browser.read(&file, 0, usize::MAX, &mut bytes);
                let read = read.map(|()| Some(bytes)).map_err(|error| error.to_string());
                all.insert(path, read);
            }
        }
    }
}

fn walked(browser: &Browser, slot: usize) -> BTreeMap<Vec<u8>, Result<Option<Vec<u8>>, String>> {
    let mut all = BTreeMap::new();
    walk(browser, Node::Version(slot), b"", &mut all);
    all
}

/// The tree with the folders that have no entry.
fn with_folders(tree: &Tree) -> Tree {
    let mut all = tree.clone();
    for path in tree.keys() {
        for (at, _) in path.iter().enumerate().filter(|&(_, &byte)| byte == b'/') {
            all.entry(path[..at].to_vec()).or_insert(None);
        }
    }
    all
}

#[test]
fn every_version_is_found_listed_and_read_as_it_was_added() {
    let (_, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(7);
    let mut trees = vec![tree(&mut random, 30, 9000)];
    // Folders without entries, one of them beside names that sort around it.
    for path in ["implied/a/b", "implied/a/c", "implied/z", "implied-not", "implied.d/x/y/z"] {
        trees[0].insert(path.as_bytes().to_vec(), Some(random.bytes(50)));
    }
    trees[0].insert(b"zeroes".to_vec(), Some(vec![0; 100_000]));
    trees.push(next(&trees[0], &mut random));
    trees.push(Tree::from([(b"only".to_vec(), Some(Vec::new()))]));
    for tree in &trees {
        add(&mut archive, tree).unwrap();
    }
    let browser = browser(archive);
    for (slot, tree) in trees.iter().enumerate() {
        let expected = with_folders(tree);
        let all = walked(&browser, slot);
        let all: Tree = all.into_iter().map(|(path, found)| (path, found.unwrap())).collect();
        assert!(all == expected, "version {}", slot + 1);
        for path in expected.keys() {
            let mut node = Node::Version(slot);
            for name in path.split(|&byte| byte == b'/') {
                let found = browser.find(node, name).unwrap().unwrap();
                assert_eq!(browser.node(found.node).unwrap(), found);
                let number = found.node.number().unwrap();
                assert_eq!(Node::of(number), Some(found.node));
                node = found.node;
            }
        }
        for absent in ["", ".", "..", "d", "d0/f0", "zz", "implied\0"] {
            let found = browser.find(Node::Version(slot), absent.as_bytes()).unwrap();
            assert_eq!(found.filter(|_| absent != "d0/f0"), None, "{absent}");
        }
    }
    let root: Vec<Vec<u8>> =
        list(&browser, Node::Root, 2).unwrap().into_iter().map(|listed| listed.name).collect();
    assert_eq!(root, [&b"1"[..], b"2", b"3", b"newest"]);
    let newest = browser.find(Node::Root, b"newest").unwrap().unwrap();
    assert_eq!(newest.kind, FoundKind::Newest(3));
    for absent in ["0", "01", "+1", "4", "", ".."] {
        assert_eq!(browser.find(Node::Root, absent.as_bytes()).unwrap(), None, "{absent}");
    }
}

#[test]
fn any_bytes_can_be_read_in_any_order() {
    let (_, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(3);
    // More than one block of references, and zeroes within.
    let mut content = random.bytes(2_600_000);
    content[900_000..1_100_000].fill(0);
    add(&mut archive, &Tree::from([(b"f".to_vec(), Some(content.clone()))])).unwrap();
    let browser = browser(archive);
    let found = browser.find(Node::Version(0), b"f").unwrap().unwrap();
    assert_eq!(found.size, content.len() as u64);
    let mut file = browser.open(found.node).unwrap();
    for round in 0..200 {
        if round % 20 == 0 {
            file = browser.open(found.node).unwrap();
        }
        let offset = random.below(content.len() as u64 + 1000);
        let len = random.below(100_000) as usize;
        let mut bytes = Vec::new();
        browser.read(&file, offset, len, &mut bytes).unwrap();
        let start = (offset as usize).min(content.len());
        let end = (start + len).min(content.len());
        assert!(bytes == content[start..end], "{offset} + {len}");
    }
    for (offset, len) in [(u64::MAX, 5), (0, 0), (content.len() as u64, 9)] {
        let mut bytes = Vec::new();
        browser.read(&file, offset, len, &mut bytes).unwrap();
        assert!(bytes.is_empty());
    }
}

#[test]
fn hard_links_are_one_file_with_so_many_names() {
    let (_, mut archive) = new_archive(&small());
    let mut adder =
        archive.add(AddOptions { index_bytes: 1 << 20, ..AddOptions::default() }).unwrap();
    let content = b"content".to_vec();
    adder.file(entry(b"a", Kind::File), true, &mut content.as_slice()).unwrap().unwrap();
    for path in ["b", "c"] {
        let target = b"a".to_vec();
        adder.entry(entry(path.as_bytes(), Kind::HardLink { target })).unwrap();
    }
    adder.commit().unwrap();
    let browser = browser(archive);
    let find = |name: &str| browser.find(Node::Version(0), name.as_bytes());
    let first = find("a").unwrap().unwrap();
    assert_eq!((first.links, first.size), (3, 7));
    for other in ["b", "c"] {
        assert_eq!(find(other).unwrap(), Some(first.clone()));
    }
    let listed = list(&browser, Node::Version(0), 10).unwrap();
    assert!(listed.iter().all(|listed| listed.found == first) && listed.len() == 3);
}

#[test]
fn a_name_that_cannot_be_shown_is_told_of() {
    let (_, mut archive) = new_archive(&small());
    let long = vec![b'n'; NAME_BYTES_MAX + 1];
    let deep = vec![b"x".as_slice(); 3000].join(&b'/');
    let mut tree = Tree::from([(b"a".to_vec(), Some(b"1".to_vec()))]);
    tree.insert([b"f/", &long[..]].concat(), Some(Vec::new()));
    tree.insert(deep, Some(Vec::new()));
    add(&mut archive, &tree).unwrap();
    let browser = browser(archive);
    let names: Vec<Vec<u8>> = list(&browser, Node::Version(0), 10)
        .unwrap()
        .into_iter()
        .map(|listed| listed.name)
        .collect();
    assert_eq!(names, [b"a", b"f", b"x"]);
    let folder = browser.find(Node::Version(0), b"f").unwrap().unwrap();
    assert!(list(&browser, folder.node, 10).is_err());
}

/// Whatever is damaged: what comes is what was added, and what does not come is named, or lies in
/// what is named.
fn check_damaged(folder: &SimFolder, expected: &Tree, context: &str) -> bool {
    let Ok(archive) = try_open(folder) else { return true };
    let Ok(browser) = Browser::new(archive, LITTLE) else { return true };
    let all = walked(&browser, 0);
    let mut failed: BTreeSet<&[u8]> = BTreeSet::new();
    for (path, found) in &all {
        match found {
            Ok(content) => assert_eq!(Some(content), expected.get(path), "{context}: {path:?}"),
            Err(_) => {
                failed.insert(path);
            }
        }
    }
    for path in expected.keys().filter(|path| !all.contains_key(*path)) {
        let mut above = path.as_slice();
        let named = loop {
            above = above.iter().rposition(|&b| b == b'/').map_or(&b""[..], |end| &above[..end]);
            if failed.contains(above) || above.is_empty() {
                break failed.contains(above);
            }
        };
        assert!(named, "{context}: {path:?} is missing and nobody says so");
    }
    !failed.is_empty()
}

#[test]
fn damage_is_an_error_to_what_it_concerns_and_to_nothing_else() {
    for encrypted in [false, true] {
        let folder = SimFolder::new();
        create(&folder, encrypted).unwrap();
        let mut archive = try_open(&folder).unwrap();
        let mut random = SplitMix64::new(11);
        let mut tree = tree(&mut random, 8, 3000);
        tree.insert(b"implied/a/b".to_vec(), Some(random.bytes(500)));
        tree.insert(b"implied/a/c".to_vec(), Some(random.bytes(500)));
        add(&mut archive, &tree).unwrap();
        drop(archive);
        let expected = with_folders(&tree);
        assert!(!check_damaged(&folder, &expected, "whole"));
        let mut noticed = 0;
        for sub in ["versions", "containers"] {
            let name = names(&folder, sub).remove(0);
            let path = format!("{sub}/{name}");
            let len = folder.subfolder(sub).unwrap().open(&name).unwrap().len().unwrap();
            // Prime, so that every field of what repeats is met.
            for at in (0..len).step_by(41) {
                damage(&folder, &path, at);
                let context = format!("{path} at {at}, encrypted: {encrypted}");
                noticed += u32::from(check_damaged(&folder, &expected, &context));
                damage(&folder, &path, at);
            }
        }
        assert!(noticed > 50, "{noticed}");
    }
}

#[test]
fn a_path_whose_entry_is_damaged_is_never_said_to_be_absent() {
    let (folder, mut archive) = new_archive(&small());
    let name = |n: u32| format!("file{n:05}").into_bytes();
    // Some pages of entries, of which one is damaged.
    let tree: Tree = (0..3000).map(|n| (name(n), Some(b"x".to_vec()))).collect();
    add(&mut archive, &tree).unwrap();
    drop(archive);
    damage(&folder, "versions/00000001.version", 150_000);
    let browser = browser(try_open(&folder).unwrap());
    let found: Vec<Option<bool>> = (0..3000)
        .step_by(13)
        .map(|n| browser.find(Node::Version(0), &name(n)).ok().map(|found| found.is_some()))
        .collect();
    let count = |wanted: Option<bool>| found.iter().filter(|&&found| found == wanted).count();
    let (there, absent, damaged) = (count(Some(true)), count(Some(false)), count(None));
    assert!(there > 115 && damaged > 23 && absent == 0, "{there} {absent} {damaged}");
    // What was never there is so, but where it cannot be told.
    let between = |n: u32| [name(n), b"x".to_vec()].concat();
    for n in (0..3000).step_by(13) {
        assert!(!browser.find(Node::Version(0), &between(n)).is_ok_and(|found| found.is_some()));
    }
    assert_eq!(browser.find(Node::Version(0), &between(5)).unwrap(), None);
}

/// What a folder holds, one name a line, and what is in its folders behind it.
fn told(browser: &Browser, node: Node, indent: usize, out: &mut String) {
    let listed = list(browser, node, usize::MAX).unwrap();
    for Listed { next, name, found } in listed {
        assert_eq!(browser.node(found.node).unwrap(), found);
        let Found { node, kind, metadata: Metadata { mode, mtime_s, .. }, size, links } = found;
        let name = String::from_utf8_lossy(&name);
        writeln!(
            out,
            "{:indent$}{name}: {node:?}, {kind:?}, {mode:o}, time {mtime_s}, {size} bytes, \
             {links} links, then {next}",
            ""
        )
        .unwrap();
        if matches!(kind, FoundKind::Folder | FoundKind::Entry(Kind::Directory)) {
            told(browser, node, indent + 2, out);
        }
    }
}

#[test]
fn everything_is_shown_as_it_is() {
    let (_, mut archive) = new_archive(&small());
    for time_s in [1000, 2000] {
        let options = AddOptions { time_s, index_bytes: 1 << 20, ..AddOptions::default() };
        let mut adder = archive.add(options).unwrap();
        let file = |adder: &mut Adder<'_>, path: &str, linked: bool| {
            let content = &mut path.as_bytes();
            let entry = entry(path.as_bytes(), Kind::File);
            adder.file(entry, linked, content).unwrap().unwrap();
        };
        let other = |adder: &mut Adder<'_>, path: &str, kind| {
            adder.entry(entry(path.as_bytes(), kind)).unwrap();
        };
        other(&mut adder, "a", Kind::Directory);
        file(&mut adder, "a/file", true);
        other(&mut adder, "a/folder", Kind::Directory);
        other(&mut adder, "a/link", Kind::Symlink { target: b"nowhere".to_vec() });
        file(&mut adder, "b/implied/deep", false);
        file(&mut adder, "b/implied/next", false);
        other(&mut adder, "b/pipe", Kind::Fifo);
        other(&mut adder, "c", Kind::CharDevice { number: 259 });
        other(&mut adder, "d", Kind::BlockDevice { number: 8 });
        let target = || Kind::HardLink { target: b"a/file".to_vec() };
        other(&mut adder, "e", target());
        if time_s == 2000 {
            other(&mut adder, "f", target());
        }
        adder.commit().unwrap();
    }
    archive.remove(1).unwrap();
    let browser = browser(archive);
    let mut out = String::new();
    for node in [Node::Root, Node::Newest, Node::Version(0), Node::Implied(0, 4, 2)] {
        writeln!(out, "{:?}", browser.node(node).unwrap()).unwrap();
    }
    told(&browser, Node::Root, 0, &mut out);
    // And from every place on.
    for from in 0..13 {
        let mut names = Vec::new();
        let take = &mut |listed: Listed| {
            names.push(String::from_utf8(listed.name).unwrap());
            true
        };
        browser.list(Node::Version(0), from, &mut |_| {}, take).unwrap();
        writeln!(out, "from {from}: {names:?}").unwrap();
        let mut names = Vec::new();
        let take = &mut |listed: Listed| {
            names.push(String::from_utf8(listed.name).unwrap());
            true
        };
        browser.list(Node::Root, from, &mut |_| {}, take).unwrap();
        writeln!(out, "of versions: {names:?}").unwrap();
    }
    assert_golden("browse.txt", &out);
    let nothing = "there is no such file in the archive";
    for node in [
        Node::Version(1),
        Node::Entry(0, 12),
        Node::Entry(1, 0),
        Node::Implied(0, 4, 3),
        Node::Implied(0, 12, 1),
        Node::Implied(1, 0, 1),
    ] {
        assert_eq!(browser.node(node).unwrap_err().to_string(), nothing, "{node:?}");
        assert_eq!(browser.open(node).err().unwrap().to_string(), nothing, "{node:?}");
        let listed = browser.list(node, 0, &mut |_| {}, &mut |_| true);
        assert_eq!(listed.unwrap_err().to_string(), nothing, "{node:?}");
    }
    // A link is no file of its own, and a folder is none.
    for node in [Node::Entry(0, 0), Node::Entry(0, 3), Node::Entry(0, 9), Node::Root] {
        assert_eq!(browser.open(node).err().unwrap().to_string(), nothing, "{node:?}");
    }
    let open = browser.open(Node::Entry(0, 1)).unwrap();
    assert_eq!((open.size(), open.path()), (6, &b"a/file"[..]));
    assert_eq!(browser.find(Node::Newest, b"a").unwrap(), None);
}

#[test]
fn an_archive_without_versions_is_an_empty_folder() {
    let (_, archive) = new_archive(&small());
    let browser = Browser::new(archive, BrowseMemory::default()).unwrap();
    let root = browser.node(Node::Root).unwrap();
    assert_eq!((root.metadata.mtime_s, root.metadata.mode, root.links), (0, 0o755, 2));
    assert!(browser.versions().is_empty());
    assert!(list(&browser, Node::Root, 5).unwrap().is_empty());
    assert!(browser.node(Node::Newest).is_err());
    assert_eq!(browser.find(Node::Root, b"newest").unwrap(), None);
    let BrowseMemory { metadata_bytes, content_bytes } = BrowseMemory::default();
    assert_eq!((metadata_bytes, content_bytes), (67_108_864, 67_108_864));
}

#[test]
fn names_and_depths_are_shown_up_to_their_limits() {
    let (_, mut archive) = new_archive(&small());
    let name = |len: usize| vec![b'n'; len];
    let deep = |components: usize| vec![b"x".as_slice(); components].join(&b'/');
    let file = |path: Vec<u8>| Tree::from([(path, Some(Vec::new()))]);
    for tree in [file(name(255)), file(name(256)), file(deep(2048)), file(deep(2049))] {
        add(&mut archive, &tree).unwrap();
    }
    let browser = browser(archive);
    let listed = list(&browser, Node::Version(0), 9).unwrap();
    assert_eq!(listed.len(), 1);
    let mut told = Vec::new();
    let listed =
        browser.list(Node::Version(1), 0, &mut |error| told.push(error.to_string()), &mut |_| {
            panic!("it cannot be shown")
        });
    let long = String::from_utf8(name(256)).unwrap();
    let why = format!("'{long}': it cannot be shown: a name is too long");
    assert_eq!(told, [format!("corrupt version 2 at byte 0: {why}")]);
    let whole = "corrupt version 2 at byte 0: something in this folder cannot be listed";
    assert_eq!(listed.unwrap_err().to_string(), whole);
    // A folder without an entry may have 2,047 components; an entry may have any.
    for (slot, last) in [(2, true), (3, false)] {
        let mut node = Node::Version(slot);
        for _ in 0..2047 {
            node = browser.find(node, b"x").unwrap().unwrap().node;
        }
        assert_eq!(browser.find(node, b"x").unwrap().is_some(), last);
        assert_eq!(list(&browser, node, 5).is_ok(), last);
    }
}
