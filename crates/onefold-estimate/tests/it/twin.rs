//! The slow obvious twin: whole chunks as keys of hash maps. Every number must be the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use onefold_content::{Codec, Compression, Compressor, FastCdc};
use onefold_estimate::{
    Copies, Group, Method, Options, Report, SEGMENT_BYTES, SizeReport, content_defined,
};
use proptest::prelude::*;

use crate::tree::{Tree, mixed, noise, options, prose, report};

const BLOCK: usize = 128 << 10;

/// Regular files in walk order, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the test set it up")
        .map(|entry| entry.expect("the test set it up").path())
        .collect();
    entries.sort();
    let each = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.into_iter().flat_map(each).collect()
}

/// Content-defined chunks as the estimator defines them: afresh in every segment and after every
/// block of zeroes, which is a chunk of its own.
fn cdc_chunks(data: &[u8], avg: u32) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    for segment in data.chunks(SEGMENT_BYTES as usize) {
        let mut stream = Vec::new();
        let cut = |stream: &mut Vec<u8>, chunks: &mut Vec<Vec<u8>>| {
            let mut chunker = FastCdc::new(content_defined(avg).expect("the test set it up"));
            let mut add = |c: onefold_content::Cut| {
                chunks.push(stream[c.offset as usize..c.offset as usize + c.len].to_vec());
            };
            chunker.push(stream, &mut add);
            chunker.finish().into_iter().for_each(&mut add);
            stream.clear();
        };
        for block in segment.chunks(BLOCK) {
            if block.len() == BLOCK && block.iter().all(|&byte| byte == 0) {
                cut(&mut stream, &mut chunks);
                chunks.push(block.to_vec());
            } else {
                stream.extend_from_slice(block);
            }
        }
        cut(&mut stream, &mut chunks);
    }
    chunks
}

/// Count, length and first file of each distinct chunk.
type Distinct = HashMap<Vec<u8>, (u64, usize)>;

struct Counted {
    chunks: u64,
    zero_chunks: u64,
    zero_bytes: u64,
    distinct: Distinct,
}

fn count(contents: &[Vec<u8>], method: Method) -> Counted {
    let mut counted =
        Counted { chunks: 0, zero_chunks: 0, zero_bytes: 0, distinct: Distinct::new() };
    for (file, data) in contents.iter().enumerate() {
        let chunks = match method {
            Method::Fixed { chunk_bytes } => {
                data.chunks(chunk_bytes as usize).map(<[u8]>::to_vec).collect()
            }
            Method::Cdc { avg_bytes, .. } => cdc_chunks(data, avg_bytes),
        };
        for chunk in chunks {
            counted.chunks += 1;
            if chunk.iter().all(|&byte| byte == 0) {
                counted.zero_chunks += 1;
                counted.zero_bytes += chunk.len() as u64;
            } else {
                counted.distinct.entry(chunk).or_insert((0, file)).0 += 1;
            }
        }
    }
    counted
}

fn stored(chunk: &[u8], size: usize, compressor: &mut Compressor) -> u64 {
    let mut padded = chunk.to_vec();
    padded.resize(size, 0);
    let mut out = Vec::new();
    match compressor.compress_into(&padded, &mut out, size - 8) {
        Codec::Raw => size as u64,
        _ => out.len() as u64,
    }
}

fn check_size(row: &SizeReport, counted: &Counted, bytes: u64) {
    let unique: u64 = counted.distinct.keys().map(|chunk| chunk.len() as u64).sum();
    let what = row.method;
    assert_eq!(row.chunks, counted.chunks, "{what} chunks");
    assert_eq!(row.zero_chunks, counted.zero_chunks, "{what} zero chunks");
    assert_eq!(row.zero_bytes, counted.zero_bytes, "{what} zero bytes");
    assert_eq!(row.unique_chunks, counted.distinct.len() as u64, "{what} unique chunks");
    assert_eq!(row.unique_bytes, unique, "{what} unique bytes");
    assert_eq!(row.duplicate_bytes, bytes - row.zero_bytes - unique, "{what} duplicates");
    assert_eq!(row.index_memory_bytes, 10 * row.unique_chunks);
    if unique > 0 {
        assert_eq!(row.dedup_ratio, Some(bytes as f64 / unique as f64));
    }
    assert_eq!((row.sampled_one_in, row.dedup_ratio_interval), (1, None));
}

/// Everything about the primary chunks.
fn check_primary(report: &Report, counted: &Counted, names: &[PathBuf], contents: &[Vec<u8>]) {
    let size = report.primary_chunk_bytes as usize;
    let mut lz4 = Compressor::new(Compression::Lz4);
    let mut rows: BTreeMap<u64, Copies> = BTreeMap::new();
    let mut own: HashMap<String, (u64, u64)> = HashMap::new();
    let extension = |file: usize| {
        let name = names[file].extension().map(|e| e.to_string_lossy().into_owned());
        name.unwrap_or_else(|| "(none)".to_owned())
    };
    for (chunk, &(copies, file)) in &counted.distinct {
        let (len, stored) = (chunk.len() as u64, stored(chunk, size, &mut lz4));
        let row = rows.entry(1 << copies.ilog2()).or_insert(Copies {
            copies_min: 1 << copies.ilog2(),
            allocated_chunks: 0,
            allocated_bytes: 0,
            allocated_stored_bytes: 0,
            referenced_chunks: 0,
            referenced_bytes: 0,
            referenced_stored_bytes: 0,
        });
        row.allocated_chunks += 1;
        row.allocated_bytes += len;
        row.allocated_stored_bytes += stored;
        row.referenced_chunks += copies;
        row.referenced_bytes += copies * len;
        row.referenced_stored_bytes += copies * stored;
        let own = own.entry(extension(file)).or_default();
        own.0 += len;
        own.1 += stored;
    }
    assert_eq!(report.copies, rows.into_values().collect::<Vec<_>>());
    let total: u64 = report.copies.iter().map(|row| row.allocated_stored_bytes).sum();
    assert_eq!(report.compression[0].stored_bytes, total);
    let mapped = counted.chunks - counted.zero_chunks;
    let metadata = 48 * counted.distinct.len() as u64 + 8 * mapped;
    assert_eq!(report.compression[0].metadata_bytes, metadata);

    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (file, content) in contents.iter().enumerate() {
        let name = extension(file);
        let (unique_bytes, stored_bytes) = own.get(&name).copied().unwrap_or_default();
        let zero = content.chunks(size).filter(|chunk| chunk.iter().all(|&byte| byte == 0));
        let group = groups.entry(name.clone()).or_insert(Group {
            name,
            files: 0,
            bytes: 0,
            zero_bytes: 0,
            unique_bytes,
            stored_bytes,
            saved_bytes: -(stored_bytes as i64),
        });
        group.files += 1;
        group.bytes += content.len() as u64;
        group.zero_bytes += zero.map(|chunk| chunk.len() as u64).sum::<u64>();
        group.saved_bytes += content.len() as i64;
    }
    let mut listed = report.by_extension.clone();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, groups.into_values().collect::<Vec<_>>());
    check_skew(report, counted);
}

fn check_skew(report: &Report, counted: &Counted) {
    let duplicated: Vec<(u64, u64)> = counted
        .distinct
        .iter()
        .filter(|(_, (copies, _))| *copies >= 2)
        .map(|(chunk, (copies, _))| (*copies, chunk.len() as u64))
        .collect();
    let hot = || duplicated.iter().filter(|(copies, _)| *copies > 2);
    assert_eq!(report.skew.duplicated_chunks, duplicated.len() as u64);
    assert_eq!(report.skew.hot_chunks, hot().count() as u64);
    if duplicated.is_empty() {
        assert_eq!(report.skew.hot_fraction, None);
        return;
    }
    let redundant = |(copies, len): &(u64, u64)| (copies - 1) * len;
    let all: u64 = duplicated.iter().map(redundant).sum();
    let share = hot().map(redundant).sum::<u64>() as f64 / all as f64;
    let reported = report.skew.hot_redundancy_fraction.expect("the test set it up");
    assert!((reported - share).abs() < 1e-12, "{reported} and {share}");
}

fn check_files(report: &Report, names: &[PathBuf], contents: &[Vec<u8>]) {
    let mut same: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (file, content) in contents.iter().enumerate() {
        same.entry(content).or_default().push(file);
    }
    let size = report.primary_chunk_bytes as usize;
    let zeroes = |content: &[u8]| {
        let zero = content.chunks(size).filter(|chunk| chunk.iter().all(|&byte| byte == 0));
        zero.map(<[u8]>::len).sum::<usize>()
    };
    let mut expected: Vec<(u64, String, u64)> = same
        .iter()
        .map(|(content, files)| {
            let wasted = (files.len() - 1) * (content.len() - zeroes(content));
            let first = names[files[0]].to_string_lossy().into_owned();
            (wasted as u64, first, files.len() as u64)
        })
        .filter(|(wasted, ..)| *wasted > 0)
        .collect();
    let mut listed: Vec<(u64, String, u64)> = report
        .duplicate_files
        .iter()
        .map(|file| (file.duplicate_bytes, file.first.clone(), file.copies))
        .collect();
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected);

    let mut seen = HashSet::new();
    let mut repeated = Vec::new();
    for (file, content) in contents.iter().enumerate() {
        let again = content.chunks(size).filter(|chunk| !chunk.iter().all(|&byte| byte == 0));
        let again = again.filter(|chunk| !seen.insert(chunk.to_vec()));
        let bytes: usize = again.map(<[u8]>::len).sum();
        if bytes > 0 && same[content.as_slice()][0] == file {
            repeated.push((names[file].to_string_lossy().into_owned(), bytes as u64));
        }
    }
    let mut listed: Vec<(String, u64)> =
        report.repeated_files.iter().map(|f| (f.path.clone(), f.repeated_bytes)).collect();
    listed.sort();
    repeated.sort();
    assert_eq!(listed, repeated);
}

fn check(folder: &Path, options: &Options) {
    let report = report(&[folder], options);
    let names = files(folder);
    let contents: Vec<Vec<u8>> =
        names.iter().map(|name| fs::read(name).expect("the test set it up")).collect();
    let bytes: u64 = contents.iter().map(|content| content.len() as u64).sum();
    assert_eq!((report.input.files, report.input.bytes), (names.len() as u64, bytes));
    assert!(report.exact && report.complete && report.is_clean());
    for row in &report.chunk_sizes {
        let counted = count(&contents, row.method);
        check_size(row, &counted, bytes);
        if row.method == (Method::Fixed { chunk_bytes: report.primary_chunk_bytes }) {
            check_primary(&report, &counted, &names, &contents);
        }
    }
    check_files(&report, &names, &contents);
}

#[test]
fn every_number_equals_the_twins_on_a_mixed_tree() {
    let tree = mixed();
    check(&tree.path(), &options());
}

#[test]
fn every_number_equals_the_twins_with_other_sizes_and_batches() {
    let tree = mixed();
    let few = Options {
        chunk_sizes: vec![4096, 65536],
        primary_bytes: 65536,
        content_defined: vec![
            content_defined(1024).expect("the test set it up"),
            content_defined(32768).expect("the test set it up"),
        ],
        // So little that batches shrink to one block.
        memory_bytes: 6 << 20,
        threads: 1,
        ..options()
    };
    check(&tree.path(), &few);
}

/// Of each of these files a batch holds some blocks, so that chunks and streams go on in the next.
#[test]
fn every_number_equals_the_twins_on_files_that_are_longer_than_a_batch() {
    let tree = Tree::new();
    let (text, random) = (prose(1, 200_000), noise(2, 70_000));
    tree.file("a/one.x", &text);
    tree.file("a/two.y", &[&random[..], &vec![0; 2 * BLOCK], &text[..150_000]].concat());
    tree.file("b/three.x", &[&text[5..100_000], &random].concat());
    tree.file("b/four", &[&vec![0; BLOCK], &random[..], &random[..512]].concat());
    tree.file("b/tiny.y", &text[..700]);
    tree.file("b/twice", &text[..700]);
    let cdc = |avg| content_defined(avg).expect("the test set it up");
    let few = Options {
        chunk_sizes: vec![1024, 4096, 32_768],
        content_defined: vec![cdc(1024), cdc(16_384)],
        memory_bytes: 6 << 20,
        threads: 1,
        ..options()
    };
    check(&tree.path(), &few);
    let only = Options { content_defined: Vec::new(), chunk_sizes: vec![4096], ..options() };
    check(&tree.path(), &only);
}

/// Files made of few kinds of pieces, so that everything repeats somewhere.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (0u64..6).prop_map(|seed| noise(seed, 512)),
        (0u64..6).prop_map(|seed| noise(seed, 3000)),
        (1usize..4).prop_map(|n| vec![0; n * 2048]),
        Just(vec![0; BLOCK]),
        (0u64..3).prop_map(|seed| noise(seed, 60_000)),
    ];
    (prop::collection::vec(piece, 0..12), 0usize..700).prop_map(|(pieces, cut)| {
        let mut bytes = pieces.concat();
        bytes.truncate(bytes.len().saturating_sub(cut));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_number_equals_the_twins_on_any_tree(
        files in prop::collection::vec(file(), 1..8),
        sizes in prop::sample::subsequence((9u32..=17).collect::<Vec<_>>(), 1..=9),
        primary in any::<prop::sample::Index>(),
    ) {
        let tree = Tree::new();
        for (i, bytes) in files.iter().enumerate() {
            tree.file(&format!("{}/f{i}.{}", i % 3, ["x", "y"][i % 2]), bytes);
        }
        let chunk_sizes: Vec<u32> = sizes.iter().map(|&shift| 1 << shift).collect();
        let primary_bytes = *primary.get(&chunk_sizes);
        check(&tree.path(), &Options { chunk_sizes, primary_bytes, ..options() });
    }
}
