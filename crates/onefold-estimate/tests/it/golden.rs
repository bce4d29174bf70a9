//! Reports of a known tree, whole: exact, sampled and merged, as text, CSV and JSON.
//! Room: onefold-estimate.

use std::path::PathBuf;

use onefold_content::Compression;
use onefold_estimate::{Method, Options, Shard, content_defined};

use crate::tree::{Tree, noise, options, prose, report};

/// FNV-1a of a text.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Duplicates, zeroes, tails and extensions, and enough distinct chunks for samples of little
/// memory; no holes, which not every file system has.
fn known() -> Tree {
    let tree = Tree::new();
    for i in 0..12_u64 {
        let mut bytes = prose(i, 500_000 + i as usize * 777);
        bytes.extend(noise(i, 600_000));
        bytes.resize(1_200_000 + i as usize, 0);
        tree.file(&format!("data/{i:02}.dat"), &bytes);
        if i % 3 == 0 {
            tree.file(&format!("copies/{i:02}.again"), &bytes);
            tree.file(&format!("copies/part-{i:02}.dat"), &bytes[4096 * 7..300_000]);
        }
        if i % 6 == 0 {
            tree.file(&format!("copies/{i:02}.thrice"), &bytes);
        }
    }
    tree.file("loose.tar.gz", &noise(99, 5000));
    tree.file("empty", b"");
    std::os::unix::fs::symlink("empty", tree.at("link")).expect("the test set it up");
    std::fs::hard_link(tree.at("loose.tar.gz"), tree.at("hard")).expect("the test set it up");
    tree
}

fn told(tree: &Tree, options: &Options) -> String {
    let report = report(&[&tree.path()], options);
    let all = format!("{}\n{}\n{}", report.to_text(7), report.to_csv(), report.to_json());
    all.replace(tree.path().to_str().expect("a plain path"), "TREE")
}

#[test]
fn the_same_tree_gives_the_same_words_exactly_and_sampled() {
    let tree = known();
    let few = Options {
        chunk_sizes: vec![512, 4096, 131_072],
        primary_bytes: 512,
        content_defined: vec![content_defined(4096).expect("it is in range")],
        compressions: vec![Compression::Lz4, Compression::None],
        memory_bytes: 4 << 20,
        ..options()
    };
    let shard = Options { shard: Shard::new(1, 3).expect("one of three"), ..options() };
    let told = [options(), few, shard].map(|options| told(&tree, &options));
    let digests = told.each_ref().map(|told| digest(told));
    assert_eq!(digests, TOLD, "{}\n{digests:#x?}", told.join("\n----\n"));
}

#[test]
fn an_empty_tree_has_an_answer_too() {
    let tree = Tree::new();
    let report = report(&[&tree.path()], &options());
    assert_eq!((report.input.files, report.input.bytes), (0, 0));
    let text = report.to_text(3);
    assert!(!text.contains("Deduplication by chunk size"), "{text}");
    assert_eq!(report.primary().dedup_ratio, Some(1.0));
    assert_eq!(report.to_csv().lines().count(), 11);
}

#[test]
fn shards_and_methods_are_read_within_their_limits() {
    for (text, good) in
        [("0/1", true), ("65535/65536", true), ("0/65537", false), ("3/3", false), ("0/0", false)]
    {
        assert_eq!(text.parse::<Shard>().is_ok(), good, "{text}");
    }
    for text in ["", "1", "1/", "/2", "a/b", "-1/2"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
    for (text, good) in [
        ("512", true),
        ("128K", true),
        ("256", false),
        ("256K", false),
        ("3K", false),
        ("cdc:8K", true),
        ("cdc:2M", true),
        ("cdc:4M", false),
        ("cdc:64", false),
        ("cdc:128", true),
        ("cdc:", false),
        ("17M", false),
    ] {
        assert_eq!(text.parse::<Method>().is_ok(), good, "{text}");
    }
    assert_eq!("cdc:8K".parse::<Method>().expect("good").to_string(), "cdc 8 KiB");
    let sizes = content_defined(8192).expect("good");
    assert_eq!((sizes.min(), sizes.avg(), sizes.max()), (2048, 8192, 65_536));
    assert_eq!(content_defined(128).expect("good").min(), 64);
}

#[test]
fn settings_beyond_their_limits_are_refused() {
    let tree = Tree::new();
    let paths: Vec<PathBuf> = vec![tree.path()];
    let fits = |change: &dyn Fn(&mut Options)| {
        let mut options = options();
        change(&mut options);
        onefold_estimate::scan(&paths, &options, &onefold_estimate::Progress::new()).is_ok()
    };
    let cdc = |n: u32| (0..n).map(|i| content_defined(1024 << i).expect("good")).collect();
    assert!(fits(&|o| o.content_defined = cdc(4)) && !fits(&|o| o.content_defined = cdc(5)));
    let levels = |n| (1..=n).map(Compression::Zstd).collect();
    assert!(fits(&|o| o.compressions = levels(4)) && !fits(&|o| o.compressions = levels(5)));
    assert!(fits(&|o| o.compressions.clear()));
    assert!(!fits(&|o| o.chunk_sizes.clear()) && !fits(&|o| o.primary_bytes = 2048 * 3));
    assert!(!fits(&|o| o.chunk_sizes = vec![4096, 256]) && !fits(&|o| o.memory_bytes = 1 << 20));
    assert!(!fits(&|o| o.shard = Shard { index: 2, count: 2 }));
}

const TOLD: [u64; 3] = [0x7e53_c305_6989_3bc6, 0x1c96_5779_bb1b_692a, 0xb82d_8427_e4f1_4888];
