//! Partial results as bytes: what lies where, and what is refused.
//! Room: onefold-estimate.

use std::collections::BTreeSet;

use super::*;
use crate::files::{Content, Named};
use crate::options::{Options, Plan};
use crate::table::{Scratch, Seen};
use crate::walk::WalkFacts;
use crate::worker::{Shared, lock};
use crate::{Progress, scan};

#[test]
fn a_checksum_is_of_the_frames_place_its_kind_and_every_byte() {
    let sum = checksum(1, KIND_RECORDS, b"bytes");
    assert_eq!(checksum(1, KIND_RECORDS, b"bytes"), sum);
    for other in [
        checksum(2, KIND_RECORDS, b"bytes"),
        checksum(1 << 56, KIND_RECORDS, b"bytes"),
        checksum(1, KIND_OPEN_FILES, b"bytes"),
        checksum(1, KIND_RECORDS, b"bytez"),
        checksum(1, KIND_RECORDS, b"byte"),
    ] {
        assert_ne!(other, sum);
    }
}

#[test]
fn a_header_whose_parts_do_not_fit_together_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), [7; 9000]).expect("a file");
    let inputs = [folder.path().to_owned()];
    let sound = || scan(&inputs, &Options::default(), &Progress::new()).expect("scanned").header;
    check_header(&sound()).expect("it is as it was made");
    let refused = |change: fn(&mut Header), why: &str| {
        let mut header = sound();
        change(&mut header);
        let said = check_header(&header).expect_err(why);
        assert!(said.contains(why), "{said}");
    };
    refused(|header| header.levels.push(0), "other numbers of levels");
    refused(|header| header.settings.compressions.push("lz5".to_owned()), "lz5");
    refused(|header| header.breakdown.folders.names.clear(), "groups whose names");
    refused(|header| header.breakdown.extensions.names.push("x".to_owned()), "groups whose names");
    let first = |header: &mut Header| header.breakdown.folders.names[0] = "x".to_owned();
    refused(first, "groups whose names");
    let tally_lost = |header: &mut Header| header.scan.tallies.truncate(1);
    refused(tally_lost, "other numbers of levels or tallies");
    refused(|header| header.levels[0] = 61, "above 60");
    refused(|header| header.file_least_bytes = 3, "no power of two");
    refused(|header| header.shard.index = header.shard.count, "shard");
    let mut deepest = sound();
    deepest.levels[0] = 60;
    check_header(&deepest).expect("the last level that there is");
}

#[test]
fn counts_that_are_together_more_than_a_number_end_at_the_largest() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["a", "b"].map(|name| {
        let tree = folder.path().join(name);
        std::fs::create_dir(&tree).expect("a folder");
        std::fs::write(tree.join("file"), [7; 9000]).expect("a file");
        let mut partial = scan(&[tree], &Options::default(), &Progress::new()).expect("scanned");
        partial.header.scan.bytes = u64::MAX - 5;
        partial.header.walk.bytes = u64::MAX - 5;
        partial.header.scan.tallies[0].chunks = u64::MAX;
        partial.header.elapsed_ns = u64::MAX;
        let path = folder.path().join(format!("{name}.partial"));
        partial.write(&mut File::create(&path).expect("a file")).expect("written");
        path
    });
    let merged = Partial::merge(&paths, None).expect("they belong together").header;
    assert_eq!([merged.scan.bytes, merged.walk.bytes, merged.elapsed_ns], [u64::MAX; 3]);
    assert_eq!(merged.scan.tallies[0].chunks, u64::MAX);
}

/// A 4 KiB table with stored sizes under two compressions, and one of 512 bytes with none.
fn small() -> Partial {
    let options = Options {
        chunk_sizes: vec![512, 4096],
        content_defined: Vec::new(),
        compressions: vec![Compression::Lz4, Compression::None],
        ..Options::default()
    };
    let plan = Plan::new(&options).expect("good options");
    let shared = Shared::new(&plan);
    let (mut scratch, mut fresh) = (Scratch::default(), Vec::new());
    let seen = |fp, len| Seen { fp, len, file: 0x0201, group: 0 };
    let twice = [seen(0x0807_0605_0403_0201, 512), seen(0x0807_0605_0403_0201, 512)];
    shared.tables[0].observe(&twice, &mut scratch, &mut fresh);
    shared.tables[0].observe(&[seen(5, 77)], &mut scratch, &mut fresh);
    shared.tables[1].observe(&[seen(9, 4096)], &mut scratch, &mut fresh);
    shared.tables[1].set_stored(9, 0, 300);
    shared.tables[1].set_stored(9, 1, 4096);
    let mut files = lock(&shared.files);
    for number in 0..3 {
        let name = Named::new(number, Path::new("f"));
        let content = Content { bytes: 90, sum: u128::from(number % 2), ..Content::default() };
        // The first two are whole, the third lacks a part.
        let planned_bytes = if number < 2 { 90 } else { 40 };
        files.add_segment(OpenFile { size: 90, name, planned_bytes, content });
    }
    drop(files);
    Partial::new(plan, shared, vec!["f".to_owned()], WalkFacts::default())
}

fn written(partial: &Partial) -> Vec<u8> {
    let mut bytes = Vec::new();
    partial.write(&mut bytes).expect("memory takes it");
    bytes
}

/// Kind and payload of each frame, read by the table in `docs/estimate.md`.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    assert_eq!(&bytes[..12], b"1fold-es\x01\0\0\0");
    bytes = &bytes[12..];
    let mut frames = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        let len = u32::from_le_bytes(rest[..4].try_into().expect("four")) as usize;
        frames.push((kind, rest[4..4 + len].to_vec()));
        bytes = &rest[4 + len + 8..];
    }
    frames
}

#[test]
fn a_result_is_these_frames_and_entries_are_these_bytes() {
    let frames = frames(&written(&small()));
    let kinds: Vec<u8> = frames.iter().map(|frame| frame.0).collect();
    assert_eq!(kinds, [1, 2, 2, 3, 4, 255]);
    let fine = b"\0\
        \x05\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x4d\0\0\0\
        \x01\x02\x03\x04\x05\x06\x07\x08\x02\0\0\0\0\0\0\0\0\x02\0\0";
    assert_eq!(frames[1].1, fine, "table, then fingerprint, count and length of each");
    let primary = b"\x01\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x10\0\0\
        \x01\x02\0\0\0\0\0\0\x2c\x01\0\0\0\x10\0\0";
    assert_eq!(frames[2].1, primary, "and its first file, its groups and its stored sizes");
    let records: Vec<Record> = serde_json::from_slice(&frames[3].1).expect("records");
    let sums: Vec<u128> = records.iter().map(|record| record.sum).collect();
    assert_eq!(sums, [0, 1], "in order of their sizes and sums");
    let open: Vec<OpenFile> = serde_json::from_slice(&frames[4].1).expect("open files");
    assert_eq!((open[0].name.number, open[0].planned_bytes), (2, 40));
    assert_eq!(frames[5].1, [5, 0, 0, 0, 0, 0, 0, 0], "how many came before");
}

fn read_back(bytes: &[u8]) -> Result<Reader, EstimateError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("partial");
    std::fs::write(&path, bytes).expect("a file");
    Reader::open(&path)
}

/// What is said of a file whose frames are sound, but not what is in them.
fn refused(kind: u8, payload: &[u8]) -> String {
    let mut writer = Writer { to: Vec::new(), frames: 0 };
    writer.to.extend_from_slice(MAGIC);
    writer.to.extend_from_slice(&VERSION.to_le_bytes());
    let header = small().header;
    writer.json(KIND_HEADER, &header).expect("a header");
    let at = writer.to.len();
    writer.frame(kind, payload).expect("a frame");
    let mut reader = read_back(&writer.to).expect("the header is good");
    let error = loop {
        match reader.next_frame() {
            Ok(Some(_)) => {}
            Ok(None) => return "nothing".to_owned(),
            Err(error) => break error,
        }
    };
    let EstimateError::BadPartial { offset, what, .. } = error else { panic!("{error}") };
    // It is named where it begins, or where the file ends too early.
    assert!(offset == at as u64 || what.contains("cut short"), "{offset}: {what}");
    what
}

#[test]
fn sound_frames_of_nonsense_are_named() {
    let entry = [&[0][..], &[7; 8], &[1, 0, 0, 0, 0, 0, 0, 0], &[9; 4]].concat();
    let good = "the file ends inside a frame: it is cut short";
    assert_eq!(refused(KIND_ENTRIES, &entry), good, "no other frame follows");
    assert_eq!(refused(KIND_ENTRIES, &entry[..1]), good, "a table without entries");
    let part = "a frame of entries holds a part of one";
    assert_eq!(refused(KIND_ENTRIES, &entry[..20]), part);
    assert_eq!(refused(KIND_ENTRIES, &[&entry[..], &[1]].concat()), part);
    // An entry of the primary table is 16 bytes longer.
    let mut primary = [&entry[..], &[0; 16]].concat();
    primary[0] = 1;
    assert_eq!(refused(KIND_ENTRIES, &primary), good);
    assert_eq!(refused(KIND_ENTRIES, &primary[..21]), part);
    let mut third = entry.clone();
    third[0] = 2;
    let none = "a frame of entries names a table that does not exist";
    assert_eq!(refused(KIND_ENTRIES, &third), none);
    assert_eq!(refused(KIND_ENTRIES, &[]), "a frame of entries names no table");
    let mut never = entry;
    never[9] = 0;
    assert_eq!(refused(KIND_ENTRIES, &never), "an entry has the count 0");
    assert_eq!(refused(7, b""), "unknown kind of frame 7");
    assert!(refused(KIND_RECORDS, b"[").contains("EOF"));
    assert!(refused(KIND_OPEN_FILES, b"{}").contains("expected a sequence"));
    let count = |frames: u64| refused(KIND_END, &frames.to_le_bytes());
    assert_eq!(count(1), "nothing", "the header is before it");
    let other = "the last frame counts other frames than there are";
    assert_eq!((count(0), count(2)), (other.to_owned(), other.to_owned()));
}

#[test]
fn what_is_written_is_read_entry_by_entry() {
    let mut reader = read_back(&written(&small())).expect("it was just written");
    assert_eq!(reader.header.levels, [0, 0]);
    let mut found = Vec::new();
    while let Some(frame) = reader.next_frame().expect("sound frames") {
        let Frame::Entries(entries) = frame else { continue };
        for ReadEntry { fp, count, len, first, group, stored } in entries.iter() {
            found.push((entries.table(), fp, count, len, (first, group), stored));
        }
    }
    let wanted = [
        (0, 5, 1, 77, (0, 0), vec![]),
        (0, 0x0807_0605_0403_0201, 2, 512, (0, 0), vec![]),
        (1, 9, 1, 4096, (0x0201, 0), vec![300, 4096]),
    ];
    assert_eq!(found, wanted);
}

/// 256 KiB of entries of 20 bytes are 13,108 of them, the table's number before them included.
#[test]
fn entries_are_put_into_frames_of_256_kib() {
    let partial = small();
    let batch: Vec<Seen> = (1..=2 * 13_108 + 1)
        .map(|number: u64| Seen { fp: number.reverse_bits() | 1, len: 1, file: 0, group: 0 })
        .collect();
    partial.tables[0].observe(&batch, &mut Scratch::default(), &mut Vec::new());
    let frames = frames(&written(&partial));
    let lens: Vec<usize> =
        frames.iter().filter(|frame| frame.0 == KIND_ENTRIES).map(|frame| frame.1.len()).collect();
    let full = 1 + 13_108 * 20;
    // Two entries were there before.
    assert_eq!(lens, [full, full, 1 + 3 * 20, 37]);
    let fine = frames.iter().filter(|frame| frame.0 == KIND_ENTRIES && frame.1[0] == 0);
    let all: BTreeSet<Vec<u8>> =
        fine.flat_map(|frame| frame.1[1..].chunks(20).map(<[u8]>::to_vec)).collect();
    assert_eq!(all.len(), 2 * 13_108 + 3, "each once");
}

#[test]
fn a_frame_has_at_most_64_mib() {
    let mut head = b"1fold-es\x01\0\0\0\x01".to_vec();
    head.extend((64u32 << 20).to_le_bytes());
    let said = |bytes: &[u8]| read_back(bytes).err().expect("it is no result").to_string();
    assert!(said(&head).contains("the file ends inside a frame"), "{}", said(&head));
    head[13] = 1;
    let told = "byte 12: a frame of 67108865 bytes, at most 67108864";
    assert!(said(&head).contains(told), "{}", said(&head));
    let other = b"1fold-es\x01\0\0\0\x02\0\0\0\0";
    let sum = checksum(0, 2, b"").to_le_bytes();
    let said = said(&[&other[..], &sum].concat());
    assert!(said.contains("byte 12: the first frame has kind 2, expected 1"), "{said}");
}
