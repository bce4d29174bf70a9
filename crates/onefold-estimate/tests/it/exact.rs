//! Trees whose answer is known beforehand.

use onefold_content::Compression;
use onefold_estimate::{Options, Progress, Report, scan};

use crate::tree::{Tree, mixed, noise, options, prose, report, run, small, timeless};

#[test]
fn two_copies_of_a_tree_give_exactly_two_at_every_size() {
    let tree = Tree::new();
    for copy in ["left", "right"] {
        for (seed, len) in [(1, 1), (2, 511), (3, 4096), (4, 100_000), (5, 131_072), (6, 700_001)] {
            tree.file(&format!("{copy}/{seed}"), &noise(seed, len));
        }
    }
    let report = report(&[&tree.path()], &options());
    assert_eq!(report.chunk_sizes.len(), 10);
    for row in &report.chunk_sizes {
        assert_eq!(row.dedup_ratio, Some(2.0), "{}", row.method);
        assert_eq!(row.unique_bytes * 2, report.input.bytes);
    }
    assert_eq!(report.skew.hot_fraction, Some(0.0));
    assert_eq!(report.copies.len(), 1);
    assert_eq!((report.copies[0].copies_min, report.copies[0].referenced_bytes), (2, 1_871_362));
    let left = report
        .by_folder
        .iter()
        .find(|group| group.name.ends_with("/left"))
        .expect("the test set it up");
    let right = report
        .by_folder
        .iter()
        .find(|group| group.name.ends_with("/right"))
        .expect("the test set it up");
    assert_eq!((left.unique_bytes, right.unique_bytes), (report.input.bytes / 2, 0));
    assert_eq!((right.stored_bytes, right.saved_bytes), (0, report.input.bytes as i64 / 2));
    assert_eq!(report.duplicate_files.len(), 6);
    assert!(report.duplicate_files[0].first.ends_with("left/6"));
    assert!(report.duplicate_files[0].second.ends_with("right/6"));
    assert_eq!(report.duplicate_files[0].duplicate_bytes, 700_001);
    assert!(report.answer.line.starts_with("dedup 2.00x  compress "), "{}", report.answer.line);
}

#[test]
fn compression_is_what_a_pool_would_store() {
    let tree = Tree::new();
    tree.file("noise", &noise(1, 10 * 4096));
    tree.file("prose", &prose(1, 10 * 4096));
    let compressions =
        vec![Compression::Lz4, Compression::None, Compression::Zstd(3), Compression::Zstd(9)];
    let report = report(&[&tree.path()], &Options { compressions, ..options() });
    let stored: Vec<u64> = report.compression.iter().map(|row| row.stored_bytes).collect();
    assert_eq!(stored[1], 20 * 4096);
    // Noise stays raw, prose becomes about half as long.
    assert!(stored[0] > 14 * 4096 && stored[0] < 15 * 4096, "{stored:?}");
    assert!(stored[2] > 13 * 4096 && stored[2] < stored[0], "{stored:?}");
    assert_eq!(report.compression[0].metadata_bytes, 20 * (48 + 8));
    assert_eq!(report.answer.compression, "lz4");
    let row = &report.compression[0];
    assert_eq!(row.total_ratio, Some(20.0 * 4096.0 / stored[0] as f64));
}

#[test]
fn the_report_does_not_depend_on_threads_or_batches() {
    let tree = mixed();
    let with = |threads| report(&[&tree.path()], &Options { threads, ..options() });
    let one = with(1);
    for threads in [2, 3, 7, 40] {
        assert_eq!(with(threads), one, "{threads} threads");
    }
}

#[test]
fn json_reads_back_and_csv_has_its_columns() {
    let tree = mixed();
    let report = report(&[&tree.path()], &options());
    let back: Report = serde_json::from_str(&report.to_json()).expect("the test set it up");
    assert_eq!(back, report);
    assert!(report.to_json().contains("\"schema_version\": 1"));
    let csv = report.to_csv();
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, vec![20; 11]);
    let primary =
        csv.lines().find(|line| line.contains(",fixed,4096,")).expect("the test set it up");
    assert!(primary.contains(&format!(",lz4,{},", report.compression[0].stored_bytes)));
}

#[test]
fn the_text_fits_a_hundred_columns_and_ends_with_the_answer() {
    let tree = mixed();
    let long = "n".repeat(120);
    tree.file(&format!("{long}/{long}.text"), &prose(1, 300_000));
    for options in [options(), Options { memory_bytes: 4 << 20, ..options() }] {
        let report = report(&[&tree.path()], &options);
        let text = report.to_text(10);
        let widest =
            text.lines().map(|line| line.chars().count()).max().expect("the test set it up");
        assert!(widest <= 100, "{widest} columns:\n{text}");
        assert!(text.is_ascii());
        let tail: Vec<&str> = text.lines().rev().take(2).collect();
        assert_eq!(tail, ["next: onefold serve ./pool", report.answer.line.as_str()]);
    }
}

#[test]
fn the_next_command_follows_the_settings() {
    let tree = Tree::new();
    tree.file("f", b"x");
    let next = |change: fn(&mut Options)| {
        let mut options = options();
        change(&mut options);
        report(&[&tree.path()], &options).answer.next
    };
    assert_eq!(next(|_| ()), "onefold serve ./pool");
    assert_eq!(next(|o| o.primary_bytes = 16384), "onefold serve ./pool --chunk-size 16K");
    // No pool has 128 KiB chunks.
    assert_eq!(next(|o| o.primary_bytes = 131_072), "onefold serve ./pool");
    let zstd = next(|o| o.compressions = vec![Compression::Zstd(3)]);
    assert_eq!(zstd, "onefold serve ./pool --compression zstd:3");
    tree.sparse("big", 100 << 30, &[]);
    assert_eq!(next(|_| ()), "onefold serve ./pool --size 128G");
}

#[test]
fn a_run_that_was_cancelled_before_it_began_ends_and_says_so() {
    let (tree, progress) = (small(), Progress::new());
    progress.cancel();
    let partial = scan(&[tree.path()], &options(), &progress).expect("the test set it up");
    let nothing = timeless(&partial);
    assert!(!nothing.complete && !nothing.is_clean() && !partial.is_complete());
    assert_eq!((nothing.input.bytes, nothing.primary().chunks), (0, 0));
}

#[test]
fn a_cancelled_run_reports_what_it_knows() {
    let tree = mixed();
    let progress = Progress::new();
    progress.cancel();
    let partial = scan(&[tree.path()], &options(), &progress).expect("the test set it up");
    let early = timeless(&partial);
    assert!(!early.complete && !early.is_clean());
    assert!(early.to_text(5).contains("note: stopped before the end"));

    let progress = Progress::new();
    let partial = std::thread::scope(|scope| {
        let work = scope.spawn(|| scan(&[tree.path()], &options(), &progress));
        while progress.snapshot().bytes_done == 0 && !work.is_finished() {
            std::thread::yield_now();
        }
        progress.cancel();
        work.join().expect("the test set it up").expect("the test set it up")
    });
    let some = timeless(&partial);
    let whole = report(&[&tree.path()], &options());
    assert!(some.input.bytes <= whole.input.bytes);
    let row = some.primary();
    assert_eq!(row.zero_bytes + row.duplicate_bytes + row.unique_bytes, some.input.bytes);
}

#[test]
fn progress_ends_at_what_was_found() {
    let tree = small();
    let progress = Progress::new();
    scan(&[tree.path()], &options(), &progress).expect("the test set it up");
    let end = progress.snapshot();
    assert!(end.found_all);
    assert_eq!((end.bytes_done, end.files_done), (end.bytes_found, end.files_found));
    assert_eq!(end.bytes_found, run(&[&tree.path()], &options()).report(1).input.bytes);
    // 20,000 + 20,000 + 19,223 + 10,000 + 20,480 + 1 bytes, and 33 MiB and 5,000.
    assert_eq!((end.files_found, end.bytes_found), (8, 89_704 + (33 << 20) + 5000));
}
