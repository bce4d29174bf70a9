//! Reports that were made up, and what people and programs read of them, to the byte.
//! Room: onefold-estimate.

use onefold_estimate::{
    Answer, Compressed, Copies, DuplicateFile, Group, InputReport, Interval, Method, Problem,
    ProblemKind, ProblemReport, RepeatedFile, Report, SCHEMA_VERSION, Shard, SizeReport, Skew,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn size(method: &str, chunks: u64) -> SizeReport {
    SizeReport {
        method: method.parse().expect("a method"),
        chunks,
        zero_chunks: chunks / 4,
        zero_bytes: 768 * MIB,
        zero_fraction: 0.25,
        unique_chunks: chunks / 2,
        unique_bytes: 1536 * MIB,
        duplicate_bytes: 768 * MIB,
        duplicate_fraction: 0.25,
        dedup_ratio: Some(2.0),
        dedup_ratio_interval: None,
        index_memory_bytes: chunks * 5,
        sampled_one_in: 1,
        sampled_chunks: chunks / 2,
        expected_false_merges: 0.0,
    }
}

fn compressed(name: &str, stored_bytes: u64) -> Compressed {
    let [compress, total] = [1536 * MIB, 3 * GIB].map(|of| Some(of as f64 / stored_bytes as f64));
    Compressed {
        compression: name.to_owned(),
        stored_bytes,
        stored_bytes_interval: None,
        compress_ratio: compress,
        compress_ratio_interval: None,
        total_ratio: total,
        total_ratio_interval: None,
        metadata_bytes: 24 * MIB,
        total_ratio_with_metadata: Some((3 * GIB) as f64 / (stored_bytes + 24 * MIB) as f64),
    }
}

fn copies(copies_min: u64, chunks: u64, in_use: u64) -> Copies {
    Copies {
        copies_min,
        allocated_chunks: chunks,
        allocated_bytes: chunks * 4096,
        allocated_stored_bytes: chunks * 1024,
        referenced_chunks: in_use,
        referenced_bytes: in_use * 4096,
        referenced_stored_bytes: in_use * 1024,
    }
}

fn group(name: &str, files: u64, bytes: u64, saved_bytes: i64) -> Group {
    let stored_bytes = (bytes as i64 - saved_bytes) as u64;
    let (zero_bytes, unique_bytes) = (0, bytes / 2);
    Group {
        name: name.to_owned(),
        files,
        bytes,
        zero_bytes,
        unique_bytes,
        stored_bytes,
        saved_bytes,
    }
}

/// 3 GiB in three tables, exact, with nothing wrong.
fn sound() -> Report {
    let double = |number: u64| DuplicateFile {
        file_bytes: number * MIB,
        copies: 1000 * number,
        duplicate_bytes: number * MIB,
        first: format!("/data/first-{number}"),
        second: format!("/data/second-{number}"),
    };
    let again = |number: u64| RepeatedFile {
        path: format!("/data/again-{number}"),
        file_bytes: 4 * MIB,
        repeated_bytes: number * MIB,
        repeated_fraction: number as f64 / 4.0,
    };
    Report {
        schema_version: SCHEMA_VERSION,
        complete: true,
        exact: true,
        shard: None,
        inputs: vec!["/data".to_owned()],
        input: InputReport {
            files: 1234,
            folders: 1,
            bytes: 3 * GIB,
            hole_bytes: 0,
            symlinks: 0,
            hard_links: 0,
            hard_link_bytes: 0,
        },
        problems: ProblemReport {
            unreadable_files: 0,
            unreadable_folders: 0,
            read_errors: 0,
            changed_files: 0,
            special_files: 0,
            unread_bytes: 0,
            named: Vec::new(),
        },
        chunk_sizes: vec![size("4K", 786_432), size("64K", 49_152), size("cdc:8K", 400_000)],
        primary_chunk_bytes: 4096,
        compression: vec![compressed("lz4", 768 * MIB), compressed("none", 1536 * MIB)],
        copies: vec![copies(1, 300_000, 300_000), copies(2, 93_216, 289_824)],
        skew: Skew {
            duplicated_chunks: 93_216,
            hot_chunks: 0,
            hot_fraction: Some(0.125),
            hot_fraction_interval: None,
            hot_redundancy_fraction: Some(0.5),
            hot_redundancy_fraction_interval: None,
        },
        by_extension: vec![
            group("img", 1000, 2 * GIB, 1024 * MIB as i64),
            group("txt", 200, 768 * MIB, 0),
            group("c", 34, 256 * MIB, -64 * MIB as i64),
        ],
        by_folder: vec![group("/data/all", 1234, 3 * GIB, 2304 * MIB as i64)],
        duplicate_files: vec![double(3), double(2), double(1)],
        repeated_files: vec![again(3), again(2), again(1)],
        file_lists_least_bytes: 1,
        answer: Answer {
            chunk_bytes: 4096,
            compression: "lz4".to_owned(),
            dedup_ratio: Some(2.0),
            compress_ratio: Some(2.0),
            total_ratio: Some(4.0),
            total_ratio_interval: None,
            saved_fraction: 0.75,
            stored_bytes: 768 * MIB,
            line: "THE ANSWER".to_owned(),
            next: "WHAT NEXT".to_owned(),
        },
        notes: Vec::new(),
        memory_bytes: 256 * MIB,
        elapsed_ns: 2_500_000_000,
    }
}

#[test]
fn a_sound_report_is_these_words() {
    assert_eq!(sound().to_text(2), SOUND, "{}", sound().to_text(2));
}

#[test]
fn a_list_of_no_rows_is_left_out_and_one_that_fits_has_no_rest() {
    let none = sound().to_text(0);
    assert!(!none.contains("By extension") && !none.contains("Largest duplicate files"), "{none}");
    assert!(!none.contains("Files with most chunks") && !none.contains("By top folder"), "{none}");
    let all = sound().to_text(3);
    assert!(all.contains("/data/second-1") && all.contains("/data/again-1"), "{all}");
    assert!(!all.contains("in smaller ones"), "{all}");
    let mut bare = sound();
    bare.by_extension.clear();
    bare.by_folder.clear();
    bare.duplicate_files.clear();
    bare.repeated_files.clear();
    assert_eq!(bare.to_text(3), sound().to_text(0));
}

/// The same, sampled, with a problem of each kind and with everything that is said aside.
fn troubled() -> Report {
    let mut report = sound();
    report.exact = false;
    report.complete = false;
    report.input.hole_bytes = 512 * MIB;
    report.input.hard_links = 2;
    report.input.hard_link_bytes = 2048;
    report.input.symlinks = 1;
    report.problems = ProblemReport {
        unreadable_files: 2,
        unreadable_folders: 1,
        read_errors: 3,
        changed_files: 1,
        special_files: 5,
        unread_bytes: 4096,
        named: (0..11)
            .map(|number| Problem {
                kind: ProblemKind::UnreadableFile,
                path: format!("/data/problem-{number:02}"),
                reason: "denied".to_owned(),
            })
            .collect(),
    };
    // So long a reason leaves thirty columns for the path.
    report.problems.named[0].reason = "x".repeat(64);
    report.problems.named[0].path = format!("/{}/{}", "p".repeat(40), "q".repeat(26));
    report.problems.named[1].path = "/p".repeat(45);
    let sampled = &mut report.chunk_sizes[0];
    sampled.sampled_one_in = 4;
    sampled.dedup_ratio_interval = Some(Interval { low: 1.9375, high: 2.0625 });
    report.compression[0].total_ratio_interval = Some(Interval { low: 3.75, high: 4.25 });
    report.file_lists_least_bytes = 4096;
    report.notes = vec!["a remark".to_owned()];
    report
}

#[test]
fn a_report_of_troubles_is_these_words() {
    assert_eq!(troubled().to_text(1), TROUBLED, "{}", troubled().to_text(1));
}

#[test]
fn the_rest_of_the_problems_is_counted_only_where_there_is_one() {
    let with = |special_files: u64, named: usize| {
        let mut report = troubled();
        report.problems.special_files = special_files;
        report.problems.named.truncate(named);
        report.to_text(0)
    };
    assert!(with(4, 11).contains("    and 1 more\n"), "eleven, of which ten are named");
    assert!(!with(3, 10).contains(" more\n"), "ten, all named");
    assert!(!with(4, 10).contains(" more\n"), "eleven, but no other name is known");
    assert!(!with(3, 11).contains(" more\n"), "ten by count");
    let mut read = troubled();
    read.problems.unread_bytes = 0;
    assert!(!read.to_text(0).contains("not read"));
}

#[test]
fn notes_come_with_an_empty_line_before_them_and_a_shard_says_what_it_is() {
    let end = |report: &Report| {
        let text = report.to_text(0);
        let lines: Vec<&str> =
            text.lines().skip_while(|line| !line.contains("redundancy")).collect();
        lines[1..].join("\n")
    };
    let answer = "\nTHE ANSWER\nnext: WHAT NEXT";
    assert_eq!(end(&sound()), answer);
    let noted = Report { notes: vec!["one".to_owned(), "two".to_owned()], ..sound() };
    assert_eq!(end(&noted), format!("\nnote: one\nnote: two\n{answer}"));
    let stopped = Report { complete: false, ..sound() };
    let told = "note: stopped before the end; this is what was known by then";
    assert_eq!(end(&stopped), format!("\n{told}\n{answer}"));
    let shard = Report { complete: false, shard: Some(Shard { index: 1, count: 3 }), ..sound() };
    assert_eq!(end(&shard), format!("\nnote: this is shard 1/3 only\n{answer}"));
}

#[test]
fn of_no_bytes_and_no_time_there_are_no_tables_and_no_rate() {
    let mut empty = sound();
    empty.input.bytes = 0;
    empty.elapsed_ns = 0;
    let told = "0 B in 1,234 files and 1 folder, read in 0.0 s (0 B/s)\n\nTHE ANSWER\n\
                next: WHAT NEXT\n";
    assert_eq!(empty.to_text(5), told);
    let one = InputReport { bytes: 1, ..empty.input };
    let one = Report { input: one, elapsed_ns: 1_000_000_000, ..empty };
    assert!(one.to_text(5).contains("(1 B/s)\n\nDeduplication by chunk size"));
}

#[test]
fn csv_has_a_row_for_each_size_and_of_the_primary_one_for_each_compression() {
    assert_eq!(troubled().to_csv(), CSV);
}

#[test]
fn a_report_is_clean_unless_something_is_missing_that_was_to_be_read() {
    let with = |change: fn(&mut Report)| {
        let mut report = sound();
        change(&mut report);
        report.is_clean()
    };
    assert!(with(|_| ()) && with(|report| report.problems.special_files = 3));
    assert!(!with(|report| report.complete = false));
    assert!(!with(|report| report.problems.unreadable_files = 1));
    assert!(!with(|report| report.problems.unreadable_folders = 1));
    assert!(!with(|report| report.problems.read_errors = 1));
    assert!(!with(|report| report.problems.changed_files = 1));
    let all = |report: &mut Report| {
        let p = &mut report.problems;
        (p.unreadable_files, p.unreadable_folders, p.read_errors, p.changed_files) = (1, 1, 1, 1);
    };
    assert!(!with(all));
    let method = Method::Fixed { chunk_bytes: 4096 };
    assert_eq!(sound().primary().method, method);
    let other = Report { primary_chunk_bytes: 65_536, ..sound() };
    assert_eq!(other.primary().chunks, 49_152);
}

const SOUND: &str = "\
3.00 GiB in 1,234 files and 1 folder, read in 2.5 s (1.20 GiB/s)

Deduplication by chunk size (* what the rest is for)
  chunks      number    zero  duplicate    unique  dedup  index RAM
  4 KiB *    786,432  25.0 %     25.0 %  1.50 GiB  2.00x   3.75 MiB
  64 KiB      49,152  25.0 %     25.0 %  1.50 GiB  2.00x    240 KiB
  cdc 8 KiB  400,000  25.0 %     25.0 %  1.50 GiB  2.00x   1.91 MiB

Compression of the 1.50 GiB that are unique at 4 KiB
  compression    stored  compress  total  metadata  total with
  lz4           768 MiB     2.00x  4.00x  24.0 MiB       3.88x
  none         1.50 GiB     1.00x  2.00x  24.0 MiB       1.97x

Copies per chunk, zeroes left out
  copies from   unique      size    stored   in use      size   stored
  1            300,000  1.14 GiB   293 MiB  300,000  1.14 GiB  293 MiB
  2             93,216   364 MiB  91.0 MiB  289,824  1.11 GiB  283 MiB
  total        393,216  1.50 GiB   384 MiB  589,824  2.25 GiB  576 MiB
  12.5 % of the duplicated chunks have more than two copies; they hold 50.0 % of the redundancy

By extension
  extension  files     bytes    unique    stored   saved
  img        1,000  2.00 GiB  1.00 GiB  1.00 GiB  50.0 %
  txt          200   768 MiB   384 MiB   768 MiB   0.0 %
  and 256 MiB in smaller ones

By top folder
  top folder  files     bytes    unique   stored   saved
  /data/all   1,234  3.00 GiB  1.50 GiB  768 MiB  75.0 %

Largest duplicate files
  wasted    copies
  3.00 MiB   3,000  /data/first-3
                    /data/second-3
  2.00 MiB   2,000  /data/first-2
                    /data/second-2

Files with most chunks seen before
  file           seen before        of   share
  /data/again-3     3.00 MiB  4.00 MiB  75.0 %
  /data/again-2     2.00 MiB  4.00 MiB  50.0 %

THE ANSWER
next: WHAT NEXT
";
const TROUBLED: &str = "\
3.00 GiB in 1,234 files and 1 folder, read in 2.5 s (1.20 GiB/s)
  512 MiB in holes, which take no space today
  2 further hard links (2.00 KiB) counted once
  1 symbolic link not followed
  skipped: 2 unreadable files, 1 unreadable folder, 3 files with read errors, 1 file that \
    changed meanwhile, 5 special files
    4.00 KiB not read
    .../qqqqqqqqqqqqqqqqqqqqqqqqqq: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    ...p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p/p: denied
    /data/problem-02: denied
    /data/problem-03: denied
    /data/problem-04: denied
    /data/problem-05: denied
    /data/problem-06: denied
    /data/problem-07: denied
    /data/problem-08: denied
    /data/problem-09: denied
    and 2 more

Deduplication by chunk size (* what the rest is for)
  chunks      number    zero  duplicate    unique  dedup  index RAM     95 % interval    kept
  4 KiB *    786,432  25.0 %     25.0 %  1.50 GiB  2.00x   3.75 MiB  1.938x to 2.062x  1 in 4
  64 KiB      49,152  25.0 %     25.0 %  1.50 GiB  2.00x    240 KiB             exact     all
  cdc 8 KiB  400,000  25.0 %     25.0 %  1.50 GiB  2.00x   1.91 MiB             exact     all

Compression of the 1.50 GiB that are unique at 4 KiB
  compression    stored  compress  total  metadata  total with  95 % interval of total
  lz4           768 MiB     2.00x  4.00x  24.0 MiB       3.88x        3.750x to 4.250x
  none         1.50 GiB     1.00x  2.00x  24.0 MiB       1.97x                   exact

Copies per chunk, zeroes left out, from a sample
  copies from   unique      size    stored   in use      size   stored
  1            300,000  1.14 GiB   293 MiB  300,000  1.14 GiB  293 MiB
  2             93,216   364 MiB  91.0 MiB  289,824  1.11 GiB  283 MiB
  total        393,216  1.50 GiB   384 MiB  589,824  2.25 GiB  576 MiB
  12.5 % of the duplicated chunks have more than two copies; they hold 50.0 % of the redundancy

By extension
  extension  files     bytes    unique    stored   saved
  img        1,000  2.00 GiB  1.00 GiB  1.00 GiB  50.0 %
  and 1.00 GiB in smaller ones

By top folder
  top folder  files     bytes    unique   stored   saved
  /data/all   1,234  3.00 GiB  1.50 GiB  768 MiB  75.0 %

Largest duplicate files (files of at least 4.00 KiB)
  wasted    copies
  3.00 MiB   3,000  /data/first-3
                    /data/second-3

Files with most chunks seen before (files of at least 4.00 KiB)
  file           seen before        of   share
  /data/again-3     3.00 MiB  4.00 MiB  75.0 %

note: a remark
note: the tables of 4 KiB are full, each with its share of --memory 256 MiB: their numbers come \
    from a sample, see the intervals
note: stopped before the end; this is what was known by then

THE ANSWER
next: WHAT NEXT
";
const CSV: &str = "\
schema_version,method,chunk_bytes,chunks,bytes,zero_chunks,zero_bytes,unique_chunks,\
    unique_bytes,duplicate_bytes,dedup_ratio,dedup_ratio_low,dedup_ratio_high,\
    index_memory_bytes,sampled_one_in,compression,stored_bytes,compress_ratio,total_ratio,\
    metadata_bytes
1,fixed,4096,786432,3221225472,196608,805306368,393216,1610612736,805306368,2,1.9375,2.0625,\
    3932160,4,lz4,805306368,2,4,25165824
1,fixed,4096,786432,3221225472,196608,805306368,393216,1610612736,805306368,2,1.9375,2.0625,\
    3932160,4,none,1610612736,1,2,25165824
1,fixed,65536,49152,3221225472,12288,805306368,24576,1610612736,805306368,2,,,245760,1,,,,,
1,cdc,8192,400000,3221225472,100000,805306368,200000,1610612736,805306368,2,,,2000000,1,,,,,
";
