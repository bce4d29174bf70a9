//! Inputs with more distinct chunks than the memory holds.

use onefold_estimate::{Options, Report};

use crate::tree::{Tree, noise, options, prose, report};

/// 40 MiB with duplicates, zeroes and two kinds of compressibility.
fn large() -> Tree {
    let tree = Tree::new();
    for i in 0..20 {
        let mut bytes = prose(i, 700_000);
        bytes.extend(noise(i, 700_000));
        bytes.resize(1_500_000, 0);
        tree.file(&format!("{i:02}.dat"), &bytes);
        // Every second file occurs twice, every fourth three times.
        if i % 2 == 0 {
            tree.file(&format!("{i:02}.again"), &bytes);
        }
        if i % 4 == 0 {
            tree.file(&format!("{i:02}.thrice"), &bytes);
        }
    }
    tree
}

fn small_memory() -> Options {
    Options { memory_bytes: 4 << 20, ..options() }
}

fn holds(report: &Report, truth: &Report) {
    // Two widths, so that a correct program fails once in ten thousand such numbers.
    let within = |low: f64, high: f64, truth: f64| {
        let half = (high - low) / 2.0;
        truth >= low - half && truth <= high + half
    };
    for (row, exact) in report.chunk_sizes.iter().zip(&truth.chunk_sizes) {
        assert_eq!((row.chunks, row.zero_bytes), (exact.chunks, exact.zero_bytes));
        let truth = exact.dedup_ratio.expect("the test set it up");
        match row.dedup_ratio_interval {
            None => assert_eq!(row.dedup_ratio, exact.dedup_ratio, "{}", row.method),
            Some(i) => assert!(within(i.low, i.high, truth), "{}: {truth} {i:?}", row.method),
        }
    }
    for (row, exact) in report.compression.iter().zip(&truth.compression) {
        let i = row.total_ratio_interval.expect("the primary table is sampled");
        assert!(within(i.low, i.high, exact.total_ratio.expect("the test set it up")));
        let i = row.compress_ratio_interval.expect("the test set it up");
        assert!(within(i.low, i.high, exact.compress_ratio.expect("the test set it up")));
    }
    let i = report.skew.hot_redundancy_fraction_interval.expect("the test set it up");
    assert!(within(i.low, i.high, truth.skew.hot_redundancy_fraction.expect("the test set it up")));
}

#[test]
fn sampled_numbers_stay_near_the_exact_ones_and_say_how_near() {
    let tree = large();
    let truth = report(&[&tree.path()], &options());
    assert!(truth.exact && truth.primary().sampled_one_in == 1);
    let primary_4k = report(&[&tree.path()], &small_memory());
    assert!(!primary_4k.exact);
    assert!(primary_4k.chunk_sizes[0].sampled_one_in >= 2);
    assert_eq!(primary_4k.file_lists_least_bytes, 1);

    // The finest size as primary is sampled most.
    let finest = Options { primary_bytes: 512, ..small_memory() };
    let truth = report(&[&tree.path()], &Options { primary_bytes: 512, ..options() });
    assert!(truth.exact);
    let sampled = report(&[&tree.path()], &finest);
    assert!(sampled.primary().sampled_one_in >= 2);
    holds(&sampled, &truth);
    assert!(sampled.answer.line.contains("+-"), "{}", sampled.answer.line);
    let relative = |r: &Report| r.answer.total_ratio.expect("the test set it up");
    assert!((relative(&sampled) / relative(&truth) - 1.0).abs() < 0.05);
    assert!(sampled.to_text(5).contains("are full, each with its share of --memory"));
    // Threads change nothing, though they may raise the level at other moments.
    assert_eq!(report(&[&tree.path()], &Options { threads: 5, ..finest }), sampled);
}
