//! Partial results: written, damaged, merged.

use std::fs;
use std::path::{Path, PathBuf};

use onefold_estimate::{EstimateError, Options, Partial, Report, Shard};
use proptest::prelude::*;

use crate::tree::{Tree, mixed, noise, options, report, run, small, timeless};

fn save(partial: &Partial, folder: &Tree, name: &str) -> PathBuf {
    let path = folder.at(name);
    partial.write(fs::File::create(&path).expect("a file")).expect("the folder takes it");
    path
}

fn merge(paths: &[PathBuf]) -> Report {
    timeless(&Partial::merge(paths, None).expect("they belong together"))
}

fn shards(tree: &Path, options: &Options, count: u32, folder: &Tree) -> Vec<PathBuf> {
    (0..count)
        .map(|index| {
            let shard = Shard::new(index, count).expect("it is one of them");
            let partial = run(&[tree], &Options { shard, ..options.clone() });
            assert!(!partial.is_complete() || count == 1);
            save(&partial, folder, &format!("{index}-of-{count}"))
        })
        .collect()
}

#[test]
fn merged_shards_equal_one_run_exactly() {
    let (tree, folder) = (mixed(), Tree::new());
    // Once exactly, once sampled.
    for memory_bytes in [64 << 20, 4 << 20] {
        let options = Options { memory_bytes, ..options() };
        let whole = report(&[&tree.path()], &options);
        for count in [1, 2, 5] {
            let mut parts = shards(&tree.path(), &options, count, &folder);
            assert_eq!(merge(&parts), whole, "{count} shards of {memory_bytes}");
            parts.reverse();
            assert_eq!(merge(&parts), whole, "{count} shards backwards");
        }
    }
}

#[test]
fn merged_results_of_disjoint_inputs_equal_one_run_over_all() {
    let folder = Tree::new();
    let (left, right) = (mixed(), Tree::new());
    right.file("other/base.txt", &fs::read(left.at("a/base.txt")).expect("the test set it up"));
    right.file("other/new.bin", &noise(77, 200_000));
    right.file("loose.cfg", b"key = value\n");
    let whole = report(&[&left.path(), &right.path()], &options());
    let one = save(&run(&[&left.path()], &options()), &folder, "left");
    let two = save(&run(&[&right.path()], &options()), &folder, "right");
    assert_eq!(merge(&[one.clone(), two.clone()]), whole);
    // Shards of one tree and a whole other one, and the result of a merge merged again.
    let mut parts = shards(&left.path(), &options(), 2, &folder);
    parts.push(two.clone());
    assert_eq!(merge(&parts), whole);
    let again = Partial::merge(&[one], None).expect("the test set it up");
    let again = save(&again, &folder, "again");
    assert_eq!(merge(&[again, two]), whole);
}

#[test]
fn merged_shards_of_a_small_tree_equal_one_run() {
    let (tree, folder) = (small(), Tree::new());
    fs::hard_link(tree.at("one"), tree.at("a/third")).expect("the test set it up");
    let _socket =
        std::os::unix::net::UnixListener::bind(tree.at("socket")).expect("the test set it up");
    let whole = report(&[&tree.path()], &options());
    assert_eq!(whole.problems.special_files, 1);
    let mut parts = shards(&tree.path(), &options(), 3, &folder);
    assert_eq!(merge(&parts), whole);
    parts.rotate_left(1);
    let again = Partial::merge(&parts, Some(32 << 20)).expect("they belong together");
    assert_eq!(timeless(&again), Report { memory_bytes: 32 << 20, ..whole.clone() });
    // Of two inputs, what is in both is counted once, and files are numbered on.
    let other = Tree::new();
    other.file("first/base.txt", &fs::read(tree.at("a/base.txt")).expect("it is there"));
    other.file("first/new.bin", &noise(9, 9000));
    other.file("last", b"");
    let more = std::os::unix::net::UnixListener::bind(other.at("socket"));
    let _more = more.expect("the test set it up");
    let both = report(&[&tree.path(), &other.path()], &options());
    let second = run(&[&other.path()], &options());
    parts.push(save(&second, &folder, "second"));
    assert_eq!(merge(&parts), both);
    let names: Vec<&str> = both.duplicate_files.iter().map(|file| file.first.as_str()).collect();
    assert!(names[0].ends_with("a/base.txt") && both.duplicate_files[0].copies == 3, "{names:?}");
    assert_eq!((both.input.hard_links, both.input.hard_link_bytes), (2, 2));
    assert_eq!((both.problems.special_files, both.problems.named.len()), (2, 2));
    assert_eq!(both.inputs, [tree.path(), other.path()].map(|path| path.display().to_string()));
    // The time of all of them together.
    let merged = Partial::merge(&parts[3..], None).expect("one is enough");
    assert_eq!(merged.report(1).elapsed_ns, second.report(1).elapsed_ns);
    let twice = Partial::merge(&parts, None).expect("they belong together").report(1).elapsed_ns;
    assert!(twice > second.report(1).elapsed_ns);
    assert_eq!(format!("{merged:?}"), format!("{second:?}"));
}

#[test]
fn the_same_result_gives_the_same_file() {
    let (tree, folder) = (small(), Tree::new());
    let partial = run(&[&tree.path()], &options());
    let (a, b) = (save(&partial, &folder, "a"), save(&partial, &folder, "b"));
    assert_eq!(fs::read(a).expect("the test set it up"), fs::read(b).expect("the test set it up"));
}

#[test]
fn a_shard_says_what_it_is_and_what_to_do_next() {
    let tree = small();
    let shard = Shard::new(1, 3).expect("the test set it up");
    let report = report(&[&tree.path()], &Options { shard, ..options() });
    assert!(!report.complete);
    assert_eq!(report.shard, Some(shard));
    assert!(report.to_text(3).contains("this is shard 1/3 only"));
    assert!(report.answer.next.starts_with("onefold estimate merge"));
}

#[test]
fn results_that_do_not_belong_together_are_refused() {
    let (tree, folder) = (small(), Tree::new());
    let parts = shards(&tree.path(), &options(), 3, &folder);
    let error = |paths: &[PathBuf]| Partial::merge(paths, None).unwrap_err();
    assert!(matches!(error(&[]), EstimateError::NoInput));
    let missing = error(&parts[1..]);
    assert!(matches!(missing, EstimateError::MissingShard { missing: 0, count: 3, .. }));
    assert!(missing.to_string().contains("shard 0 of 3 is missing"), "{missing}");
    let twice = error(&[parts[0].clone(), parts[0].clone(), parts[1].clone(), parts[2].clone()]);
    assert!(twice.to_string().contains("was given already"), "{twice}");
    let other = Options { chunk_sizes: vec![4096], ..options() };
    let other = save(&run(&[&tree.path()], &other), &folder, "other");
    let mixed = error(&[parts[0].clone(), parts[1].clone(), parts[2].clone(), other]);
    assert!(matches!(mixed, EstimateError::Mismatch { .. }), "{mixed}");
    let again = Options { shard: Shard::new(1, 3).expect("the test set it up"), ..options() };
    let again = save(&run(&[&tree.path()], &again), &folder, "again");
    let mut all = parts.clone();
    all.push(again);
    assert!(error(&all).to_string().contains("shard 1/3 was given already"));
    let gone = error(&[folder.at("nothing")]);
    assert!(matches!(gone, EstimateError::PartialIo { .. }), "{gone}");
}

#[test]
fn a_tree_that_changed_between_its_shards_is_noted() {
    let (tree, folder) = (small(), Tree::new());
    let part = |index| {
        let shard = Shard::new(index, 2).expect("the test set it up");
        let partial = run(&[&tree.path()], &Options { shard, ..options() });
        save(&partial, &folder, &index.to_string())
    };
    let first = part(0);
    tree.file("a/new", b"later");
    let second = part(1);
    let merged = merge(&[first, second]);
    let told = format!("{}: changed between the runs of its shards", tree.path().display());
    assert_eq!(merged.notes, [told]);
}

#[test]
fn foreign_and_future_files_are_named() {
    let folder = Tree::new();
    let foreign = folder.file("foreign", b"PK\x03\x04 this is no estimate at all");
    let error = Partial::merge(&[foreign], None).unwrap_err().to_string();
    assert!(error.contains("foreign, byte 0: is no partial estimate"), "{error}");
    let short = folder.file("short", b"1f");
    let error = Partial::merge(&[short], None).unwrap_err().to_string();
    assert!(error.ends_with("short, byte 0: too short for a partial estimate"), "{error}");
    let cut = folder.file("cut", b"1fold-es\x01\0\0");
    let error = Partial::merge(&[cut], None).unwrap_err().to_string();
    assert!(error.ends_with("cut, byte 8: ends before the version"), "{error}");
    let future = folder.file("future", b"1fold-es\x09\0\0\0");
    let error = Partial::merge(&[future], None).unwrap_err().to_string();
    assert!(error.contains("byte 8: has format version 9, this program reads 1"), "{error}");
}

fn small_result(folder: &Tree) -> Vec<u8> {
    let tree = Tree::new();
    tree.file("a", &noise(1, 20_000));
    tree.file("b", &noise(1, 20_000));
    let few = Options { chunk_sizes: vec![4096], content_defined: Vec::new(), ..options() };
    fs::read(save(&run(&[&tree.path()], &few), folder, "good")).expect("it was just written")
}

#[test]
fn every_cut_and_every_added_byte_is_noticed() {
    let folder = Tree::new();
    let good = small_result(&folder);
    assert!(Partial::merge(&[folder.at("good")], None).is_ok());
    for len in (0..good.len()).step_by(7).chain([good.len() - 1]) {
        let cut = folder.file("cut", &good[..len]);
        let error = Partial::merge(&[cut], None).unwrap_err();
        assert!(matches!(error, EstimateError::BadPartial { .. }), "{len}: {error}");
    }
    let long = folder.file("long", &[&good[..], b"x"].concat());
    let error = Partial::merge(&[long], None).unwrap_err().to_string();
    assert!(error.contains("bytes after the last frame"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_flipped_bit_is_noticed(at in any::<prop::sample::Index>(), bit in 0u32..8) {
        thread_local! {
            static GOOD: (Tree, Vec<u8>) = {
                let folder = Tree::new();
                let good = small_result(&folder);
                (folder, good)
            };
        }
        GOOD.with(|(folder, good)| {
            let mut bad = good.clone();
            let at = at.index(bad.len());
            bad[at] ^= 1 << bit;
            let path = folder.file("bad", &bad);
            let error = Partial::merge(&[path], None).unwrap_err();
            assert!(matches!(error, EstimateError::BadPartial { .. }), "byte {at}: {error}");
        });
    }
}

#[test]
fn a_result_with_more_chunks_than_a_frame_holds_comes_back_whole() {
    let (tree, folder) = (Tree::new(), Tree::new());
    tree.file("noise", &noise(5, 16 << 20));
    let chunks = Options { chunk_sizes: vec![512], primary_bytes: 512, ..options() };
    let options = Options { memory_bytes: 256 << 20, ..chunks };
    let partial = run(&[&tree.path()], &options);
    // Several frames, and each entry in one of them.
    let mut bytes = vec![0; 4 << 20];
    let mut left = &mut bytes[..];
    partial.write(&mut left).expect("4 MiB are enough");
    let len = (4 << 20) - left.len();
    assert!(len > 4 * (256 << 10), "{len} bytes");
    fs::write(folder.at("many"), &bytes[..len]).expect("the folder takes it");
    assert_eq!(merge(&[folder.at("many")]), timeless(&partial));
}
