//! What goes in comes out, whatever the settings.

use onefold_archive::{
    AddOptions, ArchiveError, ArchiveSettings, Chunking, INDEX_BYTES_MIN, Kind, Rewriting,
};
use onefold_block::{Folder as _, SplitMix64};
use onefold_content::Compression;
use proptest::prelude::*;

use crate::support::{
    Tree, add, add_with, assert_sound, entry, new_archive, next, open, read, small, tree,
};

#[test]
fn versions_come_back_as_they_were_added() {
    for (seed, chunking) in Chunking::ALL.into_iter().enumerate() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
            let settings = ArchiveSettings { chunking, compression, ..small() };
            let (folder, mut archive) = new_archive(&settings);
            let mut random = SplitMix64::new(seed as u64);
            let mut trees = vec![tree(&mut random, 30, 60_000)];
            for _ in 0..4 {
                let last = trees.last().unwrap();
                trees.push(next(last, &mut random));
            }
            for (number, tree) in (1..).zip(&trees) {
                let info = add(&mut archive, tree).unwrap();
                assert_eq!(info.number, number);
                let logical: usize = tree.values().flatten().map(Vec::len).sum();
                assert_eq!(info.totals.logical_bytes, logical as u64);
                assert_eq!(info.totals.entries, tree.len() as u64);
            }
            // The next process sees the same.
            let archive = open(&folder);
            for (number, tree) in (1..).zip(&trees) {
                assert!(read(&archive, number).unwrap() == *tree, "version {number}");
            }
            assert_sound(&archive, "after five versions");
            let totals: Vec<_> = archive.versions().map(|version| version.totals).collect();
            let new: u64 = totals[1..].iter().map(|totals| totals.new_bytes).sum();
            let all: u64 = totals[1..].iter().map(|totals| totals.logical_bytes).sum();
            assert!(new * 4 < all, "{new} new bytes of {all}: most is shared");
        }
    }
}

#[test]
fn the_same_tree_again_stores_nothing() {
    let (_, mut archive) = new_archive(&small());
    let tree = tree(&mut SplitMix64::new(7), 20, 50_000);
    let first = add(&mut archive, &tree).unwrap();
    let second = add(&mut archive, &tree).unwrap();
    assert_eq!(second.totals.new_bytes, 0);
    assert_eq!(second.totals.logical_bytes, first.totals.logical_bytes);
    // Two halves with the same content inside one version, too.
    let mut twice = Tree::new();
    for (path, content) in &tree {
        twice.insert([b"x/", path.as_slice()].concat(), content.clone());
        twice.insert([b"y/", path.as_slice()].concat(), content.clone());
    }
    let (_, mut archive) = new_archive(&small());
    let both = add(&mut archive, &twice).unwrap();
    assert_eq!(both.totals.logical_bytes, 2 * first.totals.logical_bytes);
    assert!(both.totals.new_bytes <= first.totals.new_bytes);
    assert!(read(&archive, 1).unwrap() == twice);
}

#[test]
fn an_index_without_memory_costs_reduction_and_nothing_else() {
    let options = || AddOptions { index_bytes: INDEX_BYTES_MIN, ..AddOptions::default() };
    let (folder, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(3);
    let first = tree(&mut random, 60, 60_000);
    add_with(&mut archive, &first, options()).unwrap();
    let second = next(&first, &mut random);
    let info = add_with(&mut archive, &second, options()).unwrap();
    assert!(info.totals.new_bytes > info.totals.logical_bytes / 4, "little memory, little found");
    let archive = open(&folder);
    assert!(read(&archive, 1).unwrap() == first && read(&archive, 2).unwrap() == second);
    assert_sound(&archive, "with a tiny index");
}

#[test]
fn paths_are_found_one_by_one_and_by_folder() {
    let (_, mut archive) = new_archive(&small());
    let paths = ["a", "a/b", "a/b/c", "a b", "a.b", "ab", "z/deep/er"];
    let tree: Tree =
        paths.iter().map(|p| (p.as_bytes().to_vec(), Some(p.as_bytes().to_vec()))).collect();
    let tree: Tree = tree
        .into_iter()
        .map(|(path, content)| {
            let folder = path == b"a" || path == b"a/b";
            (path, content.filter(|_| !folder))
        })
        .collect();
    add(&mut archive, &tree).unwrap();
    let version = archive.version(None).unwrap();
    for path in paths {
        assert_eq!(version.find(path.as_bytes()).unwrap().path, path.as_bytes());
    }
    for path in ["", "b", "a/", "a/b/d", "z", "zz", "A"] {
        let result = version.find(path.as_bytes());
        assert!(matches!(result, Err(ArchiveError::NoPath { .. })), "{path}: {result:?}");
    }
    let within = |path: &str| version.within(path.as_bytes()).map(|range| range.len()).ok();
    assert_eq!(within(""), Some(7));
    assert_eq!(within("a"), Some(3));
    assert_eq!(within("a/b"), Some(2));
    assert_eq!(within("z"), Some(1), "a folder that was not added itself");
    assert_eq!(within("y"), None);
}

/// Gives that many reads of data, then fails.
struct Broken(usize);
impl std::io::Read for Broken {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("bad sector"))?;
        buf.fill(self.0 as u8);
        Ok(buf.len())
    }
}

#[test]
fn what_cannot_be_added_is_refused_and_a_broken_source_left_out() {
    let (_, mut archive) = new_archive(&small());
    let mut adder = archive.add(AddOptions::default()).unwrap();
    for path in ["", "/a", "a/", "a/../b", ".", "a\0"] {
        let result = adder.entry(entry(path.as_bytes(), Kind::Directory));
        assert!(matches!(result, Err(ArchiveError::Path { .. })), "{path:?}");
    }
    adder.entry(entry(b"m", Kind::Directory)).unwrap();
    for path in ["m", "a"] {
        let result = adder.entry(entry(path.as_bytes(), Kind::Directory));
        assert!(matches!(result, Err(ArchiveError::Path { .. })), "{path:?} after m");
    }
    let good = SplitMix64::new(5).bytes(40_000);
    adder.file(entry(b"n", Kind::File), false, &mut good.as_slice()).unwrap().unwrap();
    for (path, reads) in [(&b"o"[..], 0), (b"p", 1), (b"q", 40)] {
        let read = adder.file(entry(path, Kind::File), false, &mut Broken(reads)).unwrap();
        assert_eq!(read.unwrap_err().to_string(), "bad sector");
    }
    adder.file(entry(b"r", Kind::File), false, &mut good.as_slice()).unwrap().unwrap();
    let (info, _) = adder.commit().unwrap();
    assert_eq!((info.totals.entries, info.totals.files), (3, 2));
    let tree = read(&archive, 1).unwrap();
    let expected: Tree =
        [(b"m".to_vec(), None), (b"n".to_vec(), Some(good.clone())), (b"r".to_vec(), Some(good))]
            .into();
    assert!(tree == expected);
    assert_sound(&archive, "after broken sources");
}

#[test]
fn hard_links_share_a_recipe_and_need_their_target() {
    let (_, mut archive) = new_archive(&small());
    let link = |path: &[u8], target: &[u8]| entry(path, Kind::HardLink { target: target.to_vec() });
    let mut adder = archive.add(AddOptions::default()).unwrap();
    let data = SplitMix64::new(1).bytes(9000);
    adder.file(entry(b"a", Kind::File), true, &mut data.as_slice()).unwrap().unwrap();
    adder.entry(link(b"b", b"a")).unwrap();
    adder.commit().unwrap();
    let tree = read(&archive, 1).unwrap();
    assert_eq!(tree[&b"b"[..]], Some(data));
    let mut adder = archive.add(AddOptions::default()).unwrap();
    adder.entry(link(b"b", b"a")).unwrap();
    assert!(matches!(adder.commit(), Err(ArchiveError::Path { .. })));
    assert_eq!(archive.versions().len(), 1);
}

#[test]
fn settings_outside_of_what_is_accepted_are_refused() {
    let folder = onefold_block::SimFolder::new();
    let refused = |settings: ArchiveSettings| {
        let result = onefold_archive::Archive::create(&folder, &settings, crate::support::IDENTITY);
        matches!(result, Err(ArchiveError::Setting(_)))
    };
    assert!(refused(ArchiveSettings { chunk_bytes: 3000, ..small() }));
    assert!(refused(ArchiveSettings { chunk_bytes: 512, ..small() }));
    assert!(refused(ArchiveSettings { container_bytes: 100 << 10, ..small() }));
    assert!(refused(ArchiveSettings { container_bytes: 17 << 20, ..small() }));
    assert!(refused(ArchiveSettings { chunk_bytes: 1 << 20, ..small() }));
    assert!(refused(ArchiveSettings { compression: Compression::Zstd(40), ..small() }));
    let (_, mut archive) = new_archive(&small());
    let options = |label: &str, index_bytes| AddOptions {
        label: label.to_owned(),
        index_bytes,
        ..AddOptions::default()
    };
    for bad in [options(&"x".repeat(201), 1 << 20), options("a\nb", 1 << 20), options("", 100)] {
        assert!(matches!(archive.add(bad), Err(ArchiveError::Setting(_))));
    }
    assert!(archive.add(options(&"x".repeat(200), 1 << 20)).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_versions_comes_back(
        seed in any::<u64>(),
        versions in 1_usize..4,
        cap in proptest::option::of(0_u32..6),
        har in any::<bool>(),
    ) {
        let (folder, mut archive) = new_archive(&small());
        let mut random = SplitMix64::new(seed);
        let mut trees = Vec::new();
        let mut now = tree(&mut random, 12, 40_000);
        for _ in 0..versions {
            let rewriting = Rewriting { cap, har };
            let options = AddOptions { rewriting, index_bytes: 1 << 20, ..AddOptions::default() };
            add_with(&mut archive, &now, options).unwrap();
            trees.push(now.clone());
            now = next(&now, &mut random);
        }
        let archive = open(&folder);
        for (number, tree) in (1..).zip(&trees) {
            prop_assert!(read(&archive, number).unwrap() == *tree);
        }
        assert_sound(&archive, "after random versions");
    }
}

#[test]
fn a_version_of_more_paths_than_are_held_in_memory_comes_back() {
    let (folder, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(12);
    let mut tree = Tree::new();
    for number in 0..6000 {
        let name = format!("a path that is long enough to fill a buffer soon/{number:05}");
        let content = if number % 50 == 0 { random.bytes(3000) } else { Vec::new() };
        tree.insert(name.into_bytes(), Some(content));
    }
    add(&mut archive, &tree).unwrap();
    let archive = open(&folder);
    assert!(read(&archive, 1).unwrap() == tree);
    assert_sound(&archive, "many paths");
}

#[test]
fn a_version_without_options_has_neither_time_nor_label() {
    let (_, mut archive) = new_archive(&small());
    let tree = Tree::from([(b"f".to_vec(), Some(b"x".to_vec()))]);
    let info = add_with(&mut archive, &tree, AddOptions::default()).unwrap();
    assert_eq!((info.time_s, info.label.as_str()), (0, ""));
}

#[test]
fn a_verification_says_how_far_it_is_from_nothing_to_all_bytes() {
    let (folder, mut archive) = new_archive(&small());
    add(&mut archive, &tree(&mut SplitMix64::new(8), 12, 100_000)).unwrap();
    let mut told = Vec::new();
    let report = archive.verify(&mut |done, total| {
        told.push((done, total));
        true
    });
    assert!(report.unwrap().is_sound());
    let containers = folder.subfolder("containers").unwrap();
    let lens = containers.list().unwrap().into_iter();
    let lens: Vec<u64> = lens.map(|name| containers.open(&name).unwrap().len().unwrap()).collect();
    let all = lens.iter().sum();
    assert!(lens.len() > 3 && told.iter().all(|&(_, total)| total == all), "{told:?} of {lens:?}");
    let mut expected = vec![0];
    for len in &lens {
        expected.push(expected.last().unwrap() + len);
    }
    let mut done: Vec<u64> = told.into_iter().map(|(done, _)| done).collect();
    done.dedup();
    assert_eq!(done, expected);
    assert!(matches!(archive.verify(&mut |_, _| false), Err(ArchiveError::Interrupted)));
}
