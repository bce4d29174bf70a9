//! Numbers of reports, worked out by hand from a few chunks.
//! Room: onefold-estimate.

use std::path::Path;

use onefold_content::Compression;

use super::*;
use crate::files::{Content, Named, OpenFile};
use crate::groups::{GroupTally, pack};
use crate::options::{Options, Plan};
use crate::table::{Scratch, Seen};
use crate::walk::WalkFacts;
use crate::worker::{Shared, Tally, lock};

/// A partition each: the upper six bits of a fingerprint choose it. The lower ones are even at
/// any level that these tests sample at.
const fn fp(part: u64) -> u64 {
    part << 58
}

/// One distinct chunk: partition, copies, length, file, group, stored under each compression.
type Chunk = (u64, u64, u32, u32, u32, [u32; 2]);

/// Three chunks of two files: 1 + 2 + 5 copies, 8,292 bytes once and 12,788 in all.
const CHUNKS: [Chunk; 3] = [
    (0, 1, 4096, 0, pack(1, 1), [1000, 4096]),
    (1, 2, 4096, 0, pack(1, 1), [2000, 4096]),
    (2, 5, 100, 1, pack(2, 1), [4096, 4096]),
];

fn plan() -> Plan {
    let options = Options {
        chunk_sizes: vec![4096],
        content_defined: Vec::new(),
        compressions: vec![Compression::Lz4, Compression::None],
        ..Options::default()
    };
    Plan::new(&options).unwrap()
}

/// What a run found: these chunks, one chunk of zeroes beside them, `bytes` in all.
fn partial(chunks: &[Chunk], bytes: u64, level: u8, change: impl FnOnce(&Shared)) -> Partial {
    let plan = plan();
    let shared = Shared::new(&plan);
    shared.tables[0].raise_to(level);
    for &(part, copies, len, file, group, stored) in chunks {
        let seen = vec![Seen { fp: fp(part), len, file, group }; copies as usize];
        shared.tables[0].observe(&seen, &mut Scratch::default(), &mut Vec::new());
        for (codec, stored) in stored.into_iter().enumerate() {
            shared.tables[0].set_stored(fp(part), codec, stored);
        }
    }
    let mut scan = lock(&shared.scan);
    scan.bytes = bytes;
    scan.hole_bytes = 7;
    let copies: u64 = chunks.iter().map(|chunk| chunk.1).sum();
    scan.tallies[0] = Tally { chunks: copies + 1, zero_chunks: 1, zero_bytes: 4096 };
    drop(scan);
    let mut breakdown = lock(&shared.breakdown);
    for name in ["img", "txt"] {
        breakdown.extensions.number(name);
    }
    breakdown.extensions.add(1, GroupTally { files: 1, bytes: 16_384, zero_bytes: 4096 });
    breakdown.extensions.add(2, GroupTally { files: 1, bytes: 500, zero_bytes: 0 });
    let folder = breakdown.folders.number("/all");
    breakdown.folders.add(folder, GroupTally { files: 2, bytes: 16_884, zero_bytes: 4096 });
    drop(breakdown);
    change(&shared);
    Partial::new(plan, shared, vec!["/all".to_owned()], WalkFacts::default())
}

fn close(found: Option<f64>, wanted: f64) {
    let found = found.expect("a number");
    assert!((found - wanted).abs() <= wanted.abs() * 1e-12, "{found} for {wanted}");
}

#[test]
fn three_chunks_give_the_numbers_that_a_pencil_gives() {
    let report = partial(&CHUNKS, 16_884, 0, |_| ()).report(10);
    let size = report.primary();
    assert_eq!((size.chunks, size.zero_chunks, size.zero_bytes), (9, 1, 4096));
    assert_eq!((size.unique_chunks, size.unique_bytes, size.duplicate_bytes), (3, 8292, 4496));
    close(size.dedup_ratio, 16_884.0 / 8292.0);
    close(Some(size.zero_fraction), 4096.0 / 16_884.0);
    close(Some(size.duplicate_fraction), 4496.0 / 16_884.0);
    assert_eq!((size.index_memory_bytes, size.sampled_one_in, size.sampled_chunks), (30, 1, 3));
    // Pairs of chunks, times two to the minus 64.
    close(Some(size.expected_false_merges), 3.0 / 2f64.powi(64));
    assert_eq!(size.dedup_ratio_interval, None);

    let lz4 = &report.compression[0];
    assert_eq!((lz4.compression.as_str(), lz4.stored_bytes), ("lz4", 7096));
    // An entry of 48 bytes for each distinct chunk, and one of 8 for each that is not zero.
    assert_eq!(lz4.metadata_bytes, 3 * 48 + 8 * 8);
    close(lz4.compress_ratio, 8292.0 / 7096.0);
    close(lz4.total_ratio, 16_884.0 / 7096.0);
    close(lz4.total_ratio_with_metadata, 16_884.0 / (7096.0 + 208.0));
    assert_eq!((lz4.total_ratio_interval, lz4.stored_bytes_interval), (None, None));
    assert_eq!(report.compression[1].stored_bytes, 3 * 4096);

    let row = |copies_min, (chunks, bytes, stored), (in_use, in_use_bytes, in_use_stored)| Copies {
        copies_min,
        allocated_chunks: chunks,
        allocated_bytes: bytes,
        allocated_stored_bytes: stored,
        referenced_chunks: in_use,
        referenced_bytes: in_use_bytes,
        referenced_stored_bytes: in_use_stored,
    };
    let rows = [
        row(1, (1, 4096, 1000), (1, 4096, 1000)),
        row(2, (1, 4096, 2000), (2, 8192, 4000)),
        row(4, (1, 100, 4096), (5, 500, 20_480)),
    ];
    assert_eq!(report.copies, rows);
    let skew = &report.skew;
    assert_eq!((skew.duplicated_chunks, skew.hot_chunks), (2, 1));
    close(skew.hot_fraction, 0.5);
    // 4 * 100 redundant bytes of the hot chunk, 4,096 of the other.
    close(skew.hot_redundancy_fraction, 400.0 / 4496.0);
}

#[test]
fn a_group_has_the_chunks_that_come_first_in_it() {
    let report = partial(&CHUNKS, 16_884, 0, |_| ()).report(10);
    let group = |name: &str, files, bytes, zero_bytes, unique_bytes, stored_bytes| Group {
        name: name.to_owned(),
        files,
        bytes,
        zero_bytes,
        unique_bytes,
        stored_bytes,
        saved_bytes: bytes as i64 - stored_bytes as i64,
    };
    let img = group("img", 1, 16_384, 4096, 8192, 3000);
    let txt = group("txt", 1, 500, 0, 100, 4096);
    assert_eq!(report.by_extension, [img.clone(), txt], "and none without files");
    assert_eq!(report.by_folder, [group("/all", 2, 16_884, 4096, 8292, 7096)]);
    let sampled = partial(&CHUNKS, 100_000, 1, |_| ()).report(10);
    assert_eq!(sampled.by_extension[0], group("img", 1, 16_384, 4096, 16_384, 6000));
}

#[test]
fn small_groups_become_one_row_when_there_are_more_than_rows() {
    let many = |rows: usize| {
        let more = |shared: &Shared| {
            let mut breakdown = lock(&shared.breakdown);
            for (name, bytes) in [("a", 600), ("b", 600), ("c", 50)] {
                let number = breakdown.extensions.number(name);
                let tally = GroupTally { files: 2, bytes, zero_bytes: 5 };
                breakdown.extensions.add(number, tally);
            }
        };
        partial(&CHUNKS, 16_884, 0, more).report(rows).by_extension
    };
    let names = |rows| many(rows).into_iter().map(|group| group.name).collect::<Vec<_>>();
    assert_eq!(names(5), ["img", "a", "b", "txt", "c"], "by bytes, then by name");
    assert_eq!(names(4), ["img", "a", "b", "(2 others)"]);
    assert_eq!(names(1), ["(5 others)"]);
    let others = &many(2)[1];
    assert_eq!((others.name.as_str(), others.files, others.bytes), ("(4 others)", 7, 1750));
    assert_eq!((others.zero_bytes, others.unique_bytes, others.stored_bytes), (15, 100, 4096));
    assert_eq!(others.saved_bytes, 1750 - 4096);
}

#[test]
fn a_sample_stands_for_as_many_chunks_as_its_level_says() {
    let report = partial(&CHUNKS, 100_000, 2, |_| ()).report(10);
    let size = report.primary();
    assert_eq!((size.sampled_one_in, size.sampled_chunks), (4, 3));
    assert_eq!((size.unique_chunks, size.unique_bytes), (12, 4 * 8292));
    assert_eq!(size.duplicate_bytes, 100_000 - 4096 - 4 * 8292);
    assert_eq!(report.compression[0].stored_bytes, 4 * 7096);
    assert_eq!(report.compression[0].metadata_bytes, 12 * 48 + 8 * 8);
    let last = report.copies.last().expect("three rows");
    assert_eq!((last.allocated_chunks, last.allocated_bytes), (4, 400));
    assert_eq!((last.allocated_stored_bytes, last.referenced_chunks), (4 * 4096, 20));
    assert_eq!((last.referenced_bytes, last.referenced_stored_bytes), (2000, 4 * 20_480));
    assert!(!report.exact && size.dedup_ratio_interval.is_some());
    // By chance it may stand for more bytes than there are.
    let much = partial(&CHUNKS, 16_884, 2, |_| ()).report(10);
    assert_eq!((much.primary().unique_bytes, much.primary().duplicate_bytes), (12_788, 0));
    close(much.compression[0].compress_ratio, 12_788.0 / (4.0 * 7096.0));
}

/// 64 groups of one chunk each, all alike: leaving out any one says the same.
#[test]
fn intervals_are_as_wide_as_groups_differ_and_end_at_what_zeroes_alone_give() {
    let alike: Vec<Chunk> =
        (0..64).map(|part| (part, 2, 4096, 0, pack(1, 1), [1024, 4096])).collect();
    let bytes = 64 * 2 * 2 * 4096 + 4096;
    let report = partial(&alike, bytes, 1, |_| ()).report(10);
    let ratio = bytes as f64 / (64.0 * 2.0 * 4096.0);
    let near = |interval: Option<Interval>, wanted: f64| {
        let Interval { low, high } = interval.expect("it is sampled");
        close(Some(low), wanted);
        close(Some(high), wanted);
    };
    near(report.primary().dedup_ratio_interval, ratio);
    let lz4 = &report.compression[0];
    near(lz4.stored_bytes_interval, 64.0 * 2.0 * 1024.0);
    near(lz4.compress_ratio_interval, 4.0);
    near(lz4.total_ratio_interval, bytes as f64 / (64.0 * 2.0 * 1024.0));
    // None of them occurs more than twice; all redundant bytes are theirs.
    let skew = &report.skew;
    assert_eq!((skew.duplicated_chunks, skew.hot_chunks), (128, 0));
    assert_eq!(skew.hot_fraction_interval, Some(Interval { low: 0.0, high: 0.0 }));
    let share = skew.hot_redundancy_fraction_interval.expect("it is sampled");
    assert!(share.low.abs() < 1e-12 && share.high.abs() < 1e-12, "{share:?}");
    assert!(report.answer.line.ends_with("  +-0.0 %"), "{}", report.answer.line);

    // One chunk of 64 alone is long: leaving it out makes a difference.
    let mut uneven = alike;
    uneven[7].2 = 65_536;
    let filled = 64 * 2 * 4096 + 2 * 61_440;
    let report = partial(&uneven, filled + 4096, 1, |_| ()).report(10);
    let interval = report.primary().dedup_ratio_interval.expect("it is sampled");
    let floor = (filled + 4096) as f64 / filled as f64;
    close(Some(interval.low), floor);
    assert!(interval.high > report.primary().dedup_ratio.expect("a number"));
}

#[test]
fn without_duplicates_there_is_no_skew() {
    let once = [CHUNKS[0], (1, 1, 4096, 0, pack(1, 1), [2000, 4096])];
    for level in [0, 1] {
        let bytes = if level == 0 { 3 * 4096 } else { 100_000 };
        let skew = partial(&once, bytes, level, |_| ()).report(10).skew;
        assert_eq!((skew.duplicated_chunks, skew.hot_chunks), (0, 0));
        assert_eq!((skew.hot_fraction, skew.hot_redundancy_fraction), (None, None));
        assert_eq!(skew.hot_fraction_interval, None);
        assert_eq!(skew.hot_redundancy_fraction_interval, None);
    }
}

/// Of a run that was stopped, a chunk may lack its stored size.
#[test]
fn a_chunk_of_unknown_stored_size_counts_as_it_is() {
    let unknown = [(0, 1, 4096, 0, pack(1, 1), [u32::MAX, u32::MAX]), CHUNKS[2]];
    let report = partial(&unknown, 3 * 4096, 0, |_| ()).report(10);
    assert_eq!(report.compression[0].stored_bytes, 4096 + 4096);
    assert_eq!(report.copies[0].allocated_stored_bytes, 4096);
    assert_eq!(report.by_extension[0].stored_bytes, 4096);
}

#[test]
fn ratios_of_nothing_are_one_and_to_nothing_there_is_none() {
    assert_eq!((ratio(0, 0), ratio(5, 0)), (Some(1.0), None));
    assert_eq!((ratio(0, 5), ratio(3, 2)), (Some(0.0), Some(1.5)));
    let plan = plan();
    let shared = Shared::new(&plan);
    let empty = Partial::new(plan, shared, Vec::new(), WalkFacts::default()).report(10);
    let size = empty.primary();
    assert_eq!((size.zero_fraction, size.duplicate_fraction), (0.0, 0.0));
    assert_eq!((size.expected_false_merges, size.dedup_ratio), (0.0, Some(1.0)));
    assert!(empty.answer.saved_fraction.abs() < f64::EPSILON);
    assert_eq!(empty.answer.line, "dedup 1.00x  compress 1.00x  total 1.00x (0.0 % saved)");
}

fn file(number: u32, size: u64, zero_bytes: u64, sum: u128) -> OpenFile {
    let name = Named::new(number, Path::new(&format!("f{number}")));
    let content = Content { bytes: size, zero_bytes, sum, is_broken: false };
    OpenFile { size, name, planned_bytes: size, content }
}

#[test]
fn duplicate_files_waste_what_is_not_zero_in_all_copies_but_one() {
    let with = |rows: usize| {
        let fill = |shared: &Shared| {
            let mut files = lock(&shared.files);
            // Three of 900 bytes, two of 1,000, two of 700, one alone, and two of zeroes only.
            for (number, size, zero_bytes, sum) in [
                (4, 900, 100, 1),
                (2, 900, 100, 1),
                (9, 900, 100, 1),
                (5, 1000, 100, 2),
                (6, 1000, 100, 2),
                (7, 700, 0, 3),
                (8, 700, 0, 3),
                (0, 900, 0, 4),
                (1, 900, 0, 4),
                (3, 5000, 0, 5),
                (10, 4096, 4096, 0),
                (11, 4096, 4096, 0),
            ] {
                files.add_segment(file(number, size, zero_bytes, sum));
            }
        };
        partial(&CHUNKS, 16_884, 0, fill).report(rows).duplicate_files
    };
    let row = |file_bytes, copies, duplicate_bytes, first: &str, second: &str| DuplicateFile {
        file_bytes,
        copies,
        duplicate_bytes,
        first: first.to_owned(),
        second: second.to_owned(),
    };
    let all = [
        row(900, 3, 1600, "f2", "f4"),
        row(900, 2, 900, "f0", "f1"),
        row(1000, 2, 900, "f5", "f6"),
        row(700, 2, 700, "f7", "f8"),
    ];
    assert_eq!(with(10), all, "by what is wasted, then by place");
    assert_eq!(with(2), all[..2]);
}

#[test]
fn repeated_files_have_what_they_are_not_the_first_to_have() {
    // File 0 has 8,192 bytes that come first there, file 1 has 100, file 2 has none.
    let with = |level: u8, sizes: [u64; 3]| {
        let fill = |shared: &Shared| {
            let mut files = lock(&shared.files);
            for (number, size) in (0..).zip(sizes) {
                files.add_segment(file(number, size, 64, u128::from(number) + 1));
            }
        };
        partial(&CHUNKS, 1 << 30, level, fill).report(10).repeated_files
    };
    let row = |number: u32, file_bytes, repeated_bytes| RepeatedFile {
        path: format!("f{number}"),
        file_bytes,
        repeated_bytes,
        repeated_fraction: repeated_bytes as f64 / file_bytes as f64,
    };
    let found = with(0, [8192 + 64, 8192 + 64 + 100, 8192 + 64]);
    assert_eq!(found, [row(1, 8356, 8192), row(2, 8256, 8192)], "none of the first");
    // In a sample of one in two a file needs 400 chunks to be judged: 800 of 4 KiB.
    let least = 800 * 4096;
    let found = with(1, [least, least - 1, least]);
    assert_eq!(found, [row(2, least, least - 64), row(0, least, least - 64 - 2 * 8192)]);
}

#[test]
fn the_answer_says_whether_it_is_more_or_less_than_now() {
    let line = |bytes: u64, stored: u64, interval| {
        let report = partial(&CHUNKS, 16_884, 0, |_| ()).report(1);
        let mut compressed = report.compression[0].clone();
        compressed.stored_bytes = stored;
        compressed.total_ratio = ratio(bytes, stored);
        compressed.total_ratio_interval = interval;
        answer(report.primary(), &compressed, bytes)
    };
    let saved = |bytes, stored| {
        let line = line(bytes, stored, None).line;
        line.split(['(', ')']).nth(1).expect("brackets").to_owned()
    };
    assert_eq!(saved(10_000, 2500), "75.0 % saved");
    assert_eq!(saved(10_000, 10_000), "0.0 % saved");
    assert_eq!(saved(100_000, 100_049), "0.0 % saved");
    assert_eq!(saved(100_000, 100_051), "0.1 % more than now");
    assert_eq!(saved(10_000, 12_000), "20.0 % more than now");
    let found = line(10_000, 2500, Some(Interval { low: 3.8, high: 4.4 }));
    let words = "dedup 2.04x  compress 1.17x  total 4.00x (75.0 % saved)  +-7.5 %";
    assert_eq!(found.line, words);
    assert_eq!((found.chunk_bytes, found.stored_bytes), (4096, 2500));
    close(Some(found.saved_fraction), 0.75);
}

#[test]
fn the_next_command_has_room_for_the_input_and_what_is_not_the_default() {
    let next = |change: &dyn Fn(&mut Report)| {
        let mut report = partial(&CHUNKS, 16_884, 0, |_| ()).report(1);
        change(&mut report);
        next(&report)
    };
    assert_eq!(next(&|_| ()), "onefold serve ./pool");
    // A quarter more than the input, as a power of two: 51.2 GiB fit the 64 GiB of old.
    let fits = (64u64 << 30) / 5 * 4;
    assert_eq!(next(&|report| report.input.bytes = fits), "onefold serve ./pool");
    let more = next(&|report| report.input.bytes = fits + 4);
    assert_eq!(more, "onefold serve ./pool --size 128G");
    for (bytes, words) in [
        (512, ""),
        (1024, ""),
        (2048, ""),
        (4096, ""),
        (8192, " --chunk-size 8K"),
        (32_768, " --chunk-size 32K"),
        (65_536, " --chunk-size 64K"),
        (131_072, ""),
    ] {
        let told = next(&|report| report.answer.chunk_bytes = bytes);
        assert_eq!(told, format!("onefold serve ./pool{words}"), "{bytes}");
    }
}

#[test]
fn problems_of_walk_and_scan_are_one_list_in_walk_order() {
    let mut walk = WalkFacts { files: 3, folders: 4, symlinks: 5, ..WalkFacts::default() };
    (walk.hard_links, walk.hard_link_bytes) = (6, 7);
    let name = |number: u32| format!("p{number:05}");
    for number in (0..700).map(|number| number * 2) {
        walk.problems.add(number, name(number), ProblemKind::Special, "pipe".to_owned());
    }
    walk.problems.add(9, "folder".to_owned(), ProblemKind::UnreadableFolder, "denied".to_owned());
    let found = partial(&CHUNKS, 16_884, 0, |shared| {
        let mut scan = lock(&shared.scan);
        scan.unread_bytes = 11;
        for number in (0..700).map(|number| number * 2 + 1) {
            scan.problems.add(number, name(number), ProblemKind::ReadError, "bad".to_owned());
        }
        scan.problems.add(8, "x".to_owned(), ProblemKind::UnreadableFile, String::new());
        scan.problems.add(8, "y".to_owned(), ProblemKind::Changed, String::new());
        scan.problems.add(9, "z".to_owned(), ProblemKind::Special, String::new());
    });
    let mut found = found;
    found.header.walk = walk;
    let report = found.report(1);
    let p = &report.problems;
    assert_eq!((p.special_files, p.read_errors, p.unreadable_folders), (701, 700, 1));
    assert_eq!((p.unreadable_files, p.changed_files, p.unread_bytes), (1, 1, 11));
    assert_eq!(p.named.len(), 1000);
    let paths: Vec<&str> = p.named[..12].iter().map(|problem| problem.path.as_str()).collect();
    let wanted = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(name);
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).chain(["x", "y", "folder"]).collect();
    assert_eq!(paths, wanted);
    let input = &report.input;
    assert_eq!((input.files, input.folders, input.symlinks), (3, 4, 5));
    assert_eq!((input.hard_links, input.hard_link_bytes, input.hole_bytes), (6, 7, 7));
}
