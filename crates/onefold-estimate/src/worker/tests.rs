//! A worker on files that are not what they were, and what it makes of their bytes.
//! Room: onefold-estimate.

use super::*;

use std::fs::File;
use std::path::Path;

use crate::options::Options;

fn read_piece(worker: &mut Worker<'_>) {
    worker.read_piece();
}

/// Run one worker on one file that is said to have `size` bytes.
fn work(path: &Path, size: u64, read: impl Fn(&mut Worker<'_>)) -> ScanFacts {
    let plan = Plan::new(&Options::default()).unwrap();
    let (shared, progress) = (Shared::new(&plan), Progress::new());
    let mut worker = Worker::new(&plan, &shared, &progress);
    let file = FileRef {
        number: 0,
        path: path.into(),
        group: 0,
        size,
        is_sparse: false,
        place: 0,
        is_input: false,
        inside: Inside::Bytes,
    };
    let piece = Piece { file: Arc::new(file), segment: 0 };
    worker.pieces.push(Current { piece, content: Content::default() });
    read(&mut worker);
    worker.end_stream();
    worker.process();
    worker.commit();
    worker.finish();
    assert_eq!(progress.snapshot().bytes_done, size, "all of it is dealt with");
    assert_eq!(lock(&shared.files).records().count(), 0, "it cannot be compared");
    crate::scan::into_inner(shared.scan)
}

#[test]
fn a_file_that_became_shorter_counts_with_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for (left, said) in [(0, 10), (5000, 5001), (300_000, 20 << 20)] {
        std::fs::write(&path, vec![1; left]).unwrap();
        let facts = work(&path, said, read_piece);
        assert_eq!((facts.bytes, facts.unread_bytes), (left as u64, 0));
        assert_eq!(facts.problems.count(ProblemKind::Changed), 1);
        let named: Vec<_> = facts.problems.named().collect();
        assert_eq!((named.len(), named[0].0), (1, 0), "the number of its file");
        let missing = said - left as u64;
        let told = format!("became {missing} bytes shorter while it was read");
        assert_eq!(named[0].1.reason, told);
    }
}

#[test]
fn a_file_that_is_gone_or_became_something_else_is_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("gone"), folder.path().to_path_buf()] {
        let facts = work(&path, 5000, read_piece);
        assert_eq!((facts.bytes, facts.unread_bytes), (0, 5000));
        assert_eq!(facts.problems.count(ProblemKind::UnreadableFile), 1);
    }
}

#[test]
fn blocks_that_cannot_be_read_are_left_out_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    // Reading a folder as a file fails on every block.
    let handle = Handle::Bytes { file: File::open(folder.path()).unwrap(), is_sparse: false };
    for size in [5, BLOCK, 3 * BLOCK + 1, 30 << 20] {
        let facts = work(folder.path(), size, |worker| {
            assert_eq!(worker.read_run(&handle, 0, size), size);
        });
        assert_eq!((facts.bytes, facts.unread_bytes), (0, size));
        assert_eq!(facts.problems.count(ProblemKind::ReadError), 1);
    }
}

#[test]
fn the_place_of_a_chunk_matters_to_the_name_of_its_file() {
    let (a, b) = (u128::MAX / 3, u128::MAX / 7);
    let sum = |x, y| weighed(x, 0).wrapping_add(weighed(y, 1));
    assert_ne!(sum(a, b), sum(b, a));
    assert_ne!(sum(a, a), weighed(a, 0));
}

#[test]
fn a_piece_is_a_segment_of_32_mib_or_what_is_left() {
    let file = |size, inside| FileRef {
        number: 0,
        path: Path::new("f").into(),
        group: 0,
        size,
        is_sparse: false,
        place: 0,
        is_input: false,
        inside,
    };
    let planned = |size, inside, segment| {
        let piece = Piece { file: Arc::new(file(size, inside)), segment };
        (piece.start(), piece.end(), piece.planned_bytes())
    };
    let (whole, bytes) = (SEGMENT_BYTES, Inside::Bytes);
    assert_eq!(planned(5, bytes, 0), (0, 5, 5));
    assert_eq!(planned(2 * whole + 7, bytes, 1), (whole, 2 * whole, whole));
    assert_eq!(planned(2 * whole + 7, bytes, 2), (2 * whole, 2 * whole + 7, 7));
    let stream = Inside::Stream(onefold_image::Format::Gzip);
    assert_eq!(planned(2 * whole + 7, stream, 0), (0, 2 * whole + 7, 2 * whole + 7));
}

/// Files keep their names in partial results. Worked out by another program.
#[test]
fn the_weight_of_a_place_stays_the_same() {
    let name = 0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210;
    let found = [0, 1, 2, 1 << 40].map(|place| weighed(name, place));
    let wanted = [
        0x4f32_226f_b34c_d241_0585_f42f_4c7d_b410,
        0x9c1d_ba10_5342_08a2_0c2f_2dc6_22a7_3610,
        0xe68e_2b1e_982f_35cd_16c9_661e_8952_5bf0,
        0xbde2_51b8_8909_7b5e_e7ab_32d4_91b3_2270,
    ];
    assert_eq!(found, wanted);
}

/// A batch of one block: the file ends, earlier than was said, where the batch does. Then the
/// last chunk of its stream is in no batch any more, and is counted all the same.
#[test]
fn a_stream_that_ends_with_its_batch_loses_no_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let bytes: Vec<u8> =
        (0..BLOCK / 8).flat_map(|i| quick_hash(&i.to_le_bytes()).to_le_bytes()).collect();
    std::fs::write(&path, &bytes).unwrap();
    let options = Options { chunk_sizes: vec![4096], ..Options::default() };
    let mut plan = Plan::new(&options).unwrap();
    plan.batch_bytes = BLOCK as usize;
    for is_input in [false, true] {
        let (shared, progress) = (Shared::new(&plan), Progress::new());
        let mut worker = Worker::new(&plan, &shared, &progress);
        let file = FileRef {
            number: 3,
            path: path.as_path().into(),
            group: 0,
            size: BLOCK + 5,
            is_sparse: false,
            place: 0,
            is_input,
            inside: Inside::Bytes,
        };
        let piece = |segment| Piece { file: Arc::new(copy(&file)), segment };
        worker.work(vec![piece(0)]);
        // Read as if nobody knew, as one that grows shorter between two reads.
        worker.pieces.push(Current { piece: piece(0), content: Content::default() });
        let handle = Handle::Bytes { file: File::open(&path).unwrap(), is_sparse: false };
        assert_eq!(worker.read_run(&handle, 0, BLOCK + 5), BLOCK);
        assert!(worker.blocks.is_empty(), "the batch was full and was processed");
        worker.end_stream();
        worker.process();
        worker.commit();
        worker.finish();
        let mut lens = 0;
        shared.tables[1].visit(|_, entry| {
            assert_eq!((entry.count, entry.group), (2, 0));
            lens += u64::from(entry.len);
        });
        assert_eq!(lens, BLOCK, "all bytes, and twice the same chunks");
        let scan = lock(&shared.scan);
        assert_eq!((scan.bytes, scan.tallies[1].chunks), (2 * BLOCK, 2 * shared.tables[1].len()));
        assert_eq!(scan.tallies[0].chunks, 2 * 32);
        assert_eq!(scan.problems.count(ProblemKind::Changed), 1);
    }
}

fn copy(file: &FileRef) -> FileRef {
    let FileRef { number, ref path, group, size, is_sparse, place, is_input, inside } = *file;
    FileRef { number, path: path.clone(), group, size, is_sparse, place, is_input, inside }
}

/// What a pool would store: padded, and raw unless that saves eight bytes.
#[test]
fn stored_sizes_are_those_of_padded_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    let noise: Vec<u8> =
        (0..512u64).flat_map(|i| quick_hash(&i.to_le_bytes()).to_le_bytes()).collect();
    let content = [&noise[..], &[7; 4096], &noise[..100], &[0; 50]].concat();
    std::fs::write(&path, &content).unwrap();
    let compressions = vec![onefold_content::Compression::Lz4, onefold_content::Compression::None];
    let options = Options { chunk_sizes: vec![4096], compressions, ..Options::default() };
    let plan = Plan::new(&options).unwrap();
    let (shared, progress) = (Shared::new(&plan), Progress::new());
    let mut worker = Worker::new(&plan, &shared, &progress);
    let file = FileRef {
        number: 0,
        path: path.as_path().into(),
        group: 0,
        size: content.len() as u64,
        is_sparse: false,
        place: 0,
        is_input: false,
        inside: Inside::Bytes,
    };
    worker.work(vec![Piece { file: Arc::new(file), segment: 0 }]);
    worker.finish();
    let mut found = Vec::new();
    shared.tables[0].visit(|_, entry| found.push((entry.len, entry.stored.to_vec())));
    found.sort_unstable();
    let packed = |bytes: &[u8]| {
        let (mut padded, mut out) = (bytes.to_vec(), Vec::new());
        padded.resize(4096, 0);
        let mut lz4 = Compressor::new(onefold_content::Compression::Lz4);
        assert!(!matches!(lz4.compress_into(&padded, &mut out, 4088), Codec::Raw));
        out.len() as u32
    };
    let wanted = [
        (150, vec![packed(&content[8192..]), 4096]),
        (4096, vec![packed(&[7; 4096]), 4096]),
        (4096, vec![4096, 4096]),
    ];
    assert_eq!(found, wanted);
    let files = lock(&shared.files);
    let record = files.records().next().expect("it is whole");
    assert_eq!((record.size, record.zero_bytes), (content.len() as u64, 0));
    let breakdown = lock(&shared.breakdown);
    let tally = GroupTally { files: 1, bytes: content.len() as u64, zero_bytes: 0 };
    assert_eq!((breakdown.extensions.tallies[0], breakdown.folders.tallies[0]), (tally, tally));
}
