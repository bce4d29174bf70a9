//! Every structure at the ends of what it may be: the most and the least that is read, and one
//! more, which is refused with its own words.
//! Room: onefold-pool.

use onefold_block::{ContainerId, Folder, Lba, SimFolder};
use onefold_content::{Codec, Compression, Compressor, Fingerprint};

use super::container::{self, DirectoryEntry, FOOTER_BYTES, Footer, Owner};
use super::container_table::{self, ContainerRecord};
use super::frame::{self, Change, Contents, Entries, Sealed};
use super::pair::Pair;
use super::run::{self, BLOCK_BYTES, INPUTS_MAX, PAIRS_PER_BLOCK, SegmentHeader};
use super::superblock::{
    Features, KIND_SNAPSHOT, KIND_VOLUME, NOTE_BYTES_MAX, NOTES, PAYLOAD_BYTES_MAX, SNAPSHOTS,
    Superblock, VolumeRecord,
};
use super::{SEQUENCE_MAX, check_version, record, witness};
use crate::map::{BITMAP_PAGES_MAX, ENTRIES_PER_PAGE, VOLUME_NUMBER_MAX};
use crate::pba::{CHUNKS_PER_CONTAINER_MAX, CONTAINER_BYTES_MAX, Location, MapEntry, Pba};
use crate::settings::{PoolIdentity, PoolSettings};

const ID: ContainerId = ContainerId::new(77);
const UUID: [u8; 16] = [9; 16];

/// Put a number where it is, and the CRC-32 of `range` at `check_at`.
fn forge(bytes: &[u8], (at, value): (usize, u32), range: std::ops::Range<usize>) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    forged[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let (end, check) = (range.end, crc32fast::hash(&forged[range]));
    forged[end..end + 4].copy_from_slice(&check.to_le_bytes());
    forged
}

#[test]
fn every_version_but_this_one_is_named() {
    let said = [0, 1, 2, 3].map(|found| check_version("it", found).map_err(|e| e.to_string()));
    let [none, older, this, newer] = said;
    assert!(none.unwrap_err().starts_with("it has format version 0; this onefold reads version 2"));
    assert!(older.unwrap_err().starts_with("it has format version 1; this onefold reads version"));
    assert_eq!(this, Ok(()));
    assert!(newer.unwrap_err().starts_with("it has format version 3; this onefold reads up to"));
}

#[test]
fn a_record_is_found_where_it_begins_and_is_as_long_as_it_says() {
    let draft = |chunk: &[u8], offset: usize, compression| {
        let mut bytes = vec![0; offset];
        let units = record::draft(chunk, &mut Compressor::new(compression), &mut bytes);
        let location = Location::new(offset / 16, units);
        record::place(&mut bytes[offset..], Pba { container: ID, location });
        (bytes, location)
    };
    for (len, units) in [(9, 2), (24, 2), (25, 3), (4096, 257)] {
        let chunk: Vec<u8> = (0..len).map(|n| (n * 37 % 251) as u8 ^ (n >> 3) as u8).collect();
        let (bytes, location) = draft(&chunk, 48, Compression::None);
        assert_eq!((location.len_units(), bytes.len()), (units, 48 + units * 16), "{len}");
        assert!(bytes[48 + 8 + len..].iter().all(|&byte| byte == 0));
        let found = |at, chunk_bytes| record::probe(&bytes, at, ID, chunk_bytes);
        assert_eq!(found(48, len), Some(location), "{len}");
        assert_eq!(found(48, len - 1), None, "longer than a chunk: {len}");
        assert_eq!((found(32, len), found(bytes.len(), len)), (None, None), "{len}");
        assert_eq!(found(bytes.len() + 1, len), None, "behind the end: {len}");
        assert_eq!(record::probe(&bytes, 48, ContainerId::new(78), len), None, "{len}");
        assert_eq!(record::probe(&bytes[..bytes.len() - 17], 48, ID, len), None, "{len}");
        let pba = Pba { container: ID, location };
        let whole = &bytes[48..48 + 8 + len];
        let (codec, stored) = record::verify(whole, pba).unwrap();
        assert_eq!((codec, stored), (Codec::Raw, &chunk[..]), "without its padding: {len}");
        let cut = record::verify(&whole[..whole.len() - 1], pba).unwrap_err().to_string();
        let words = "units of 16 bytes was expected, but its header says";
        assert_eq!(cut, format!("a record of {units} {words} {units}"), "{len}");
        for other in [units - 1, units + 1].into_iter().filter(|&n| n > 0) {
            let pba = Pba { location: Location::new(3, other), ..pba };
            let error = record::verify(&bytes[48..], pba).unwrap_err().to_string();
            assert_eq!(error, format!("a record of {other} {words} {units}"));
        }
    }
    assert_eq!(record::probe(&[0; 64], 0, ID, 4096), None, "nothing is no record");
    assert_eq!(record::probe(&[0; 15], 0, ID, 4096), None);
    // The shortest, of a unit, by hand.
    let by_hand = |codec: u32| {
        let mut bytes = [[0; 4], (8 | codec << 24).to_le_bytes(), [5; 4], [6; 4]].concat();
        let check = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&check.to_le_bytes());
        record::place(&mut bytes, Pba { container: ID, location: Location::new(0, 1) });
        bytes
    };
    let (raw, location) = (by_hand(0), Location::new(0, 1));
    assert_eq!(record::probe(&raw, 0, ID, 8), Some(location));
    assert_eq!(record::probe(&raw[..15], 0, ID, 8), None, "less than a unit");
    let error = record::verify(&by_hand(99), Pba { container: ID, location }).unwrap_err();
    assert_eq!(error.to_string(), "unknown codec 99");
    // Compressed only if that saves a unit.
    let mut seen = std::collections::BTreeSet::new();
    for noise in 4040..=4096 {
        let mut chunk = vec![0; 4096];
        onefold_block::SplitMix64::new(3).fill(&mut chunk[..noise]);
        let (bytes, location) = draft(&chunk, 0, Compression::Lz4);
        let (codec, stored) = record::verify(&bytes, Pba { container: ID, location }).unwrap();
        assert_eq!(codec == Codec::Raw, location.len_units() == 257, "{noise} bytes of noise");
        assert!(stored.len() == 4096 || stored.len() <= record::encoded_len_max(4096));
        seen.insert(location.len_units());
    }
    assert_eq!(seen.iter().rev().take(2).collect::<Vec<_>>(), [&257, &256]);
}

#[test]
fn a_frame_is_read_up_to_its_longest_payload() {
    let header = |len: u32| {
        let entries = Entries::from_payload(vec![7; 64]);
        forge(&frame::encode(5, 6, &entries), (24, len), 8..96)
    };
    let check = |mut bytes: Vec<u8>, len: usize| {
        let check = crc32fast::hash(&bytes[8..32 + len]);
        bytes[4..8].copy_from_slice(&check.to_le_bytes());
        bytes
    };
    for len in [0, 8, 64] {
        let bytes = check(header(len as u32), len);
        let found = frame::decode(&bytes).unwrap();
        assert_eq!((found.epoch, found.number, found.version), (5, 6, 2));
        assert_eq!((found.payload.len(), found.len_bytes()), (len, (32 + len).div_ceil(64) * 64));
    }
    for len in [1, 4, 63] {
        assert_eq!(frame::decode(&check(header(len as u32), len)), None, "{len} bytes");
    }
    let longest = Entries::from_payload(vec![1; frame::PAYLOAD_BYTES_MAX]);
    let found = frame::encode(1, 2, &longest);
    assert_eq!(frame::decode(&found).unwrap().payload.len(), frame::PAYLOAD_BYTES_MAX);
    let longer = Entries::from_payload(vec![1; frame::PAYLOAD_BYTES_MAX + 8]);
    assert_eq!(frame::decode(&frame::encode(1, 2, &longer)), None);
    assert!(frame::has_magic(&found) && !frame::has_magic(&found[1..]));
    assert!(!frame::has_magic(&found[..3]) && frame::has_magic(&found[..4]));
}

#[test]
fn what_is_collected_for_a_frame_is_in_order_and_can_be_taken_back() {
    let mut entries = Entries::default();
    assert!(entries.is_empty());
    entries.fill(1, Lba::new(2), 3, MapEntry::Zero);
    let before = entries.len_bytes();
    assert_eq!((before, entries.is_empty()), (32, false));
    entries.run(4, Lba::new(5), &[MapEntry::Hole, MapEntry::Lost]);
    let words: Vec<u64> =
        entries.since(before).as_chunks().0.iter().copied().map(u64::from_le_bytes).collect();
    assert_eq!(words, [1 | 4 << 8, 5, 2, 0, 2]);
    let mut other = Entries::default();
    other.sealed(&Sealed { id: ID, len_bytes: 4096, chunks: 3 });
    entries.append(&mut other);
    assert!(other.is_empty());
    assert_eq!(entries.len_bytes(), 32 + 40 + 24);
    entries.append(&mut other);
    assert_eq!(entries.len_bytes(), 32 + 40 + 24);
    entries.truncate(before);
    let mut all = Entries::default();
    all.append(&mut entries);
    let fill = Change::Fill { volume: 1, first: Lba::new(2), count: 3, entry: MapEntry::Zero };
    assert_eq!(frame::decode_changes(all.since(0)), Some(vec![fill]));
    assert!(entries.is_empty());
}

#[test]
fn entries_of_a_frame_reach_as_far_as_blocks_and_containers_do() {
    let decode = |words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        frame::decode_contents(&bytes)
    };
    assert_eq!(decode(&[]), Some(Contents::default()));
    let (head, most) = (container::HEADER_BYTES as u64, CONTAINER_BYTES_MAX as u64);
    let (chunks, largest) = (CHUNKS_PER_CONTAINER_MAX as u64, u64::from(u32::MAX));
    for (words, fits) in [
        ([3 | 1 << 8, head, 1], true),
        ([3, head, 1], false),
        ([3 | 1 << 8, head - 1, 1], false),
        ([3 | largest << 8, most, chunks], true),
        ([3 | (largest + 1) << 8, most, chunks], false),
        ([3 | 1 << 8, most + 1, chunks], false),
        ([3 | 1 << 8, most, chunks + 1], false),
        ([3 | 1 << 8, most, 0], false),
    ] {
        let found = decode(&words);
        assert_eq!(found.is_some(), fits, "{words:?}");
        let sealed = found.into_iter().flat_map(|found| found.sealed);
        for sealed in sealed {
            let words = words.map(|word| word as usize);
            assert_eq!((sealed.len_bytes, sealed.chunks), (words[1], words[2]));
        }
    }
    let past = u64::MAX;
    for (words, fits) in [
        (&[2, past - 5, 5, 0][..], true),
        (&[2, past - 4, 5, 0], false),
        (&[1, 7, 0], true),
        (&[1, 7, 1, 0], true),
        (&[1, 7, 2, 0], false),
        (&[1, 7, 2, 0, 1], true),
        (&[1, 7, 1, 3], false),
        (&[2, 7, 1], false),
        (&[2, 7], false),
        (&[2], false),
        (&[0, 7, 1, 0], false),
        (&[4, 7, 1, 0], false),
    ] {
        assert_eq!(decode(words).is_some(), fits, "{words:?}");
    }
}

#[test]
fn what_is_wrong_with_a_containers_header_is_said_with_its_place_and_no_epoch_is_too_high() {
    let header = container::encode_header(ID, &UUID, 7);
    let error = |bytes: &[u8]| container::check_header(bytes, ID, &UUID).unwrap_err().to_string();
    let mut flipped = header.clone();
    flipped[30] ^= 1;
    let check = u32::from_le_bytes([header[44], header[45], header[46], header[47]]);
    let found = crc32fast::hash(&flipped[..44]);
    for (bytes, said) in [
        (header[..47].to_vec(), "at byte 0: a header of 48 bytes was expected".to_owned()),
        (forge(&header, (0, 0), 0..44), {
            "at byte 0: magic is [00, 00, 00, 00], but [4f, 46, 43, 54] was expected".to_owned()
        }),
        (flipped, format!("at byte 44: header checksum is {check:08x}, not {found:08x}")),
        (forge(&header, (8, 78), 0..44), "at byte 8: the header says container 78".to_owned()),
        (forge(&header, (24, 0), 0..44), {
            "at byte 12: the container belongs to another pool".to_owned()
        }),
    ] {
        assert_eq!(error(&bytes), format!("corrupt container 77 {said}"));
    }
    for (epoch, fits) in [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false)] {
        let found = container::check_header(&container::encode_header(ID, &UUID, epoch), ID, &UUID);
        assert_eq!(found.is_ok(), fits, "{epoch}");
        let found = frame::encode(epoch, 6, &Entries::default());
        assert_eq!(frame::decode(&found).is_some(), fits, "{epoch}");
    }
    let longer = [&header[..], &[1; 9]].concat();
    assert_eq!(container::check_header(&longer, ID, &UUID).unwrap(), 7);
}

/// The directory of records with these places; where it begins is the end of the last.
fn directory(places: &[(usize, usize)], at: usize) -> Vec<u8> {
    let entries: Vec<DirectoryEntry> = places
        .iter()
        .map(|&(offset, units)| DirectoryEntry {
            fingerprint: container::kept(&Fingerprint::from_bytes([units as u8; 32])),
            location: Location::new(offset, units),
            owner: Owner { volume: 3, lba: Lba::new(offset as u64) },
        })
        .collect();
    container::encode_directory(ID, &entries, at)
}

#[test]
fn what_is_wrong_with_a_footer_is_said_with_its_place() {
    let bytes = directory(&[(3, 2)], 80);
    let (footer, len) = (&bytes[bytes.len() - FOOTER_BYTES..], 80 + 44 + 32);
    let good = container::decode_footer(footer, ID, len).unwrap();
    assert_eq!((good.count, good.directory_at), (1, 80));
    let mut flipped = footer.to_vec();
    flipped[25] ^= 1;
    let check = u32::from_le_bytes([footer[28], footer[29], footer[30], footer[31]]);
    let found = crc32fast::hash(&flipped[..28]);
    let sizes = |count, at, bytes, len| {
        format!(
            "{count} records and a directory at byte {at} make {bytes} bytes, but the container \
             has {len}"
        )
    };
    for (bytes, len, said) in [
        (footer[..31].to_vec(), len, "a footer of 32 bytes was expected".to_owned()),
        (forge(footer, (0, 0), 0..28), len, {
            "magic is [00, 00, 00, 00], but [4f, 46, 43, 46] was expected".to_owned()
        }),
        (flipped, len, format!("footer checksum is {check:08x}, not {found:08x}")),
        (forge(footer, (8, 5), 0..28), len, "the footer says container 5".to_owned()),
        (footer.to_vec(), len + 1, sizes(1, 80, len, len + 1)),
        (footer.to_vec(), len - 1, sizes(1, 80, len, len - 1)),
        (forge(footer, (12, 2), 0..28), len, sizes(2, 80, len + 44, len)),
        (forge(footer, (16, 81), 0..28), len, sizes(1, 81, len + 1, len)),
        (footer.to_vec(), 0, sizes(1, 80, len, 0)),
    ] {
        let error = container::decode_footer(&bytes, ID, len).unwrap_err().to_string();
        let at = len.saturating_sub(32);
        assert_eq!(error, format!("corrupt container 77 at byte {at}: {said}"));
    }
    for (count, fits) in [(CHUNKS_PER_CONTAINER_MAX, true), (CHUNKS_PER_CONTAINER_MAX + 1, false)] {
        let len = (80 + container::directory_bytes(count)) as u64;
        let found = container::decode_footer(&forge(footer, (12, count as u32), 0..28), ID, len);
        assert_eq!(found.is_ok(), fits, "{count} records");
    }
    for (version, newer) in [(1, false), (3, true)] {
        let error = container::decode_footer(&forge(footer, (4, version), 0..28), ID, len);
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&format!("container 77 has format version {version}")));
        assert_eq!(error.contains("up to"), newer, "{error}");
    }
}

#[test]
fn records_of_a_directory_are_in_order_and_end_where_it_begins() {
    let decode = |places: &[(usize, usize)], at: usize| {
        let bytes = directory(places, at);
        let (entries, footer) = bytes.split_at(bytes.len() - FOOTER_BYTES);
        let len = (at + bytes.len()) as u64;
        let footer = container::decode_footer(footer, ID, len).unwrap();
        container::decode_directory(entries, ID, &footer).map_err(|error| error.to_string())
    };
    let last = CONTAINER_BYTES_MAX / 16 - 1;
    for (places, at, said) in [
        (&[(3, 2), (5, 1)][..], 96, None),
        (&[], 48, None),
        (&[(4, 2), (9, 1)], 160, None),
        (&[(3, 2), (4, 1)], 80, Some("record 1 begins at byte 64, but the one before ends at 80")),
        (&[(2, 2)], 64, Some("record 0 begins at byte 32, but the one before ends at 48")),
        (&[(3, 2)], 81, Some("records end at byte 80, not where the directory begins")),
        (&[(3, 2)], 79, Some("records end at byte 80, not where the directory begins")),
        (&[(last, 1)], CONTAINER_BYTES_MAX, None),
        (&[(last, 2)], CONTAINER_BYTES_MAX + 16, {
            Some("records end at byte 4194320, not where the directory begins")
        }),
    ] {
        let said = said.map(|said| format!("corrupt container 77 at byte {at}: {said}"));
        assert_eq!(decode(places, at).map(|found| found.len()), said.map_or(Ok(places.len()), Err));
    }
    let bytes = directory(&[(3, 2), (5, 1)], 96);
    let entries = &bytes[..88];
    let footer = |count, bytes: &[u8]| {
        let sum = crc32fast::hash(bytes);
        Footer { count, directory_at: 96, directory_check: sum }
    };
    let fails = "corrupt container 77 at byte 96: a directory entry fails its checksum";
    for (bytes, count, said) in
        [(entries, 2, None), (entries, 1, Some(fails)), (entries, 3, Some(fails))]
    {
        let found = container::decode_directory(bytes, ID, &footer(count, bytes));
        assert_eq!(found.err().map(|error| error.to_string()).as_deref(), said, "{count}");
    }
    let cut = &entries[..87];
    let error = container::decode_directory(cut, ID, &footer(2, cut)).unwrap_err().to_string();
    assert_eq!(error, fails);
    for len in 0..44 {
        assert_eq!(container::decode_entry(&entries[..len], ID), None, "{len} bytes");
    }
    assert!(container::decode_entry(&entries[..45], ID).is_some());
}

#[test]
fn a_record_of_the_container_table_is_taken_up_to_its_limits() {
    let around = |chunks: usize| (48 + 32 + 44 * chunks) as u32;
    let good = ContainerRecord {
        id: ID,
        len_bytes: around(3),
        chunks: 3,
        references: 5,
        live_max: 3,
        punched: 0,
    };
    let (most, many) = (CONTAINER_BYTES_MAX as u32, CHUNKS_PER_CONTAINER_MAX as u32);
    for (what, record, fits) in [
        ("as short as can be", good, true),
        ("shorter", ContainerRecord { len_bytes: around(3) - 1, ..good }, false),
        ("as long as can be", ContainerRecord { len_bytes: most, ..good }, true),
        ("longer", ContainerRecord { len_bytes: most + 1, ..good }, false),
        ("more live than there", ContainerRecord { live_max: 4, ..good }, false),
        ("all", ContainerRecord { len_bytes: most, chunks: many, ..good }, true),
        ("one more", ContainerRecord { len_bytes: most, chunks: many + 1, ..good }, false),
        ("open", ContainerRecord { len_bytes: 0, chunks: 0, live_max: 0, ..good }, true),
        ("open with records", ContainerRecord { len_bytes: 0, live_max: 0, ..good }, false),
        ("punched whole", ContainerRecord { len_bytes: most, punched: 1024, ..good }, true),
        ("and more", ContainerRecord { len_bytes: most, punched: 1025, ..good }, false),
        ("punched to the end", ContainerRecord { len_bytes: 8192, punched: 2, ..good }, true),
        ("behind it", ContainerRecord { len_bytes: 8191, punched: 2, ..good }, false),
        ("no number", ContainerRecord { id: ContainerId::new(0), ..good }, false),
    ] {
        let mut page = [0; ENTRIES_PER_PAGE];
        container_table::encode(&record, &mut page);
        let found = container_table::decode(&page, ContainerId::new(0), 78);
        match found {
            Ok(found) => assert!(fits && found == [record], "{what}"),
            Err(error) => {
                let id = record.id;
                let said = format!(
                    "corrupt container table, record of {id} at byte {}: it makes no sense here",
                    id.get() * 16
                );
                assert!(!fits && error.to_string() == said, "{what}: {error}");
            }
        }
        let told: Vec<_> = container_table::references(&page, ContainerId::new(0)).collect();
        assert_eq!(told, [(record.id, 5)], "{what}");
    }
    let mut page = [0; ENTRIES_PER_PAGE];
    container_table::encode(&good, &mut page);
    assert!(container_table::decode(&page, ContainerId::new(0), 77).is_err(), "not given out yet");
    let most = ContainerRecord { references: container_table::REFERENCES_MAX, ..good };
    container_table::encode(&most, &mut page);
    let told: Vec<_> = container_table::references(&page, ContainerId::new(256)).collect();
    assert_eq!(told, [(ContainerId::new(256 + 77), u32::MAX)]);
    assert_eq!(container_table::references(&[0; 512], ContainerId::new(0)).count(), 0);
}

#[test]
fn what_is_wrong_with_a_segment_of_a_run_is_said_with_its_place() {
    let header = SegmentHeader { first: 5, last: 5, pairs: 255, ..SegmentHeader::default() };
    let bytes = header.encode(&UUID);
    let error = |bytes: &[u8]| SegmentHeader::decode(bytes, "it", &UUID).unwrap_err().to_string();
    assert_eq!(SegmentHeader::decode(&bytes, "it", &UUID).unwrap(), header, "a range of one key");
    for (bytes, said) in [
        (bytes[..4095].to_vec(), "its checksum is wrong"),
        ([&bytes[..], &[0]].concat(), "its checksum is wrong"),
        (forge(&bytes, (0, 1), 0..4092), "it is no segment of a fingerprint run"),
        (forge(&bytes, (20, 1), 0..4092), "it belongs to another pool"),
        (forge(&bytes, (40, 6), 0..4092), "its range of keys is empty"),
    ] {
        assert_eq!(error(&bytes), format!("corrupt it at byte 0: {said}"));
    }
    assert!(error(&forge(&bytes, (4, 3), 0..4092)).starts_with("it has format version 3"));
    let full = SegmentHeader { inputs: (0..INPUTS_MAX as u32).collect(), ..header.clone() };
    assert_eq!(SegmentHeader::decode(&full.encode(&UUID), "it", &UUID).unwrap(), full);
    for (pairs, blocks) in [(0, 0), (1, 1), (255, 1), (256, 2)] {
        let header = SegmentHeader { pairs, ..header.clone() };
        assert_eq!((header.blocks(), header.list_at()), (blocks, (1 + blocks) * 4096));
    }
}

#[test]
fn pairs_of_a_block_are_searched_to_both_of_its_ends() {
    let pairs: Vec<Pair> =
        [1, 3, 3, 5].iter().zip(10..).map(|(&key, rest)| Pair { key, rest }).collect();
    let mut block = Vec::new();
    run::encode_block(&pairs, 4, &mut block);
    assert_eq!(block.len(), BLOCK_BYTES);
    let whole: &[u8; BLOCK_BYTES] = block[..].try_into().unwrap();
    let misfit = "corrupt it at byte 20480: its pairs are not those that belong here";
    for (key, rests, more) in [
        (0, &[][..], false),
        (1, &[10], false),
        (2, &[], false),
        (3, &[11, 12], false),
        (5, &[13], true),
        (6, &[], true),
    ] {
        let mut found = Vec::new();
        let answer = run::search_block(whole, ("it", 4), key, &mut found).unwrap();
        let rests: Vec<Pair> = rests.iter().map(|&rest| Pair { key, rest }).collect();
        assert_eq!((found, answer), (rests.clone(), more), "{key}");
        let mut found = Vec::new();
        let is_all = run::search_pairs(&block[..run::pairs_bytes(4)], key, &mut found);
        assert_eq!(is_all, (2..=4).contains(&key), "{key}");
        assert_eq!(found, if is_all { rests } else { Vec::new() }, "{key}");
    }
    let mut none = Vec::new();
    run::encode_block(&[], 0, &mut none);
    let none: &[u8; BLOCK_BYTES] = none[..].try_into().unwrap();
    assert!(run::search_block(none, ("it", 0), 1, &mut Vec::new()).unwrap(), "go on behind it");
    let (most, too_many) = (PAIRS_PER_BLOCK as u32, PAIRS_PER_BLOCK as u32 + 1);
    for (number, count, fits) in [(4, most, true), (4, too_many, false), (3, 4, false)] {
        let forged = forge(&block, (4080, count), 0..4092);
        let mut out = Vec::new();
        let found = run::decode_block(&forged, ("it", number), &mut out);
        let searched: &[u8; BLOCK_BYTES] = forged[..].try_into().unwrap();
        let searched = run::search_block(searched, ("it", number), 1, &mut Vec::new());
        assert_eq!((found.is_ok(), searched.is_ok()), (fits, fits), "{number} {count}");
        assert_eq!(out.len(), if fits { count as usize } else { 0 });
        if let (Err(found), Err(searched)) = (found, searched) {
            let said = if number == 4 { misfit } else { &misfit.replace("20480", "16384") };
            assert_eq!(
                (found.to_string(), searched.to_string()),
                (said.to_owned(), said.to_owned())
            );
        }
    }
    let mut damaged = block.clone();
    damaged[9] ^= 1;
    let error = run::decode_block(&damaged, ("it", 4), &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "corrupt it at byte 20480: the checksum of its pairs is wrong");
    let header = SegmentHeader { pairs: 256, containers: (1, 9), ..SegmentHeader::default() };
    let error = run::decode_containers(&[1, 0, 0, 0], "it", &header).unwrap_err().to_string();
    let said = "corrupt it at byte 12288: the checksum of its list of containers is wrong";
    assert_eq!(error, said);
}

#[test]
fn a_pair_has_84_bits_of_a_fingerprint() {
    let mut bytes = [0; 32];
    bytes[..11].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0xAB, 0xCD, 0xFE]);
    let pair = Pair::new(&Fingerprint::from_bytes(bytes), ContainerId::new(1), 2);
    assert_eq!(pair.key, 0x0807_0605_0403_0201_u64.rotate_left(17));
    assert_eq!(pair.rest, 0xE_CDAB << 44 | 1 << 13 | 2);
    let other = |rest| Pair { rest, ..pair };
    assert!(pair.may_equal(other(0xE_CDAB << 44)) && !pair.may_equal(other(0xE_CDAA << 44)));
    assert!(!pair.may_equal(Pair { key: pair.key + 1, ..pair }));
}

#[test]
fn a_witness_is_damaged_if_part_of_it_is_right() {
    let bytes = witness::encode_witness(7, 12);
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    let both = |at: usize| {
        let mut bytes = with(at, 99);
        bytes[0] = 0;
        bytes
    };
    for (what, bytes, damaged) in [
        ("whole", bytes.clone(), false),
        ("another magic", with(0, 0), true),
        ("another check", with(4, bytes[4] ^ 1), true),
        ("magic and count", both(16), true),
        ("magic and epoch", both(8), false),
        ("cut before the end", bytes[..23].to_vec(), true),
        ("cut before the fields", bytes[..15].to_vec(), false),
    ] {
        assert_eq!(witness::is_damaged(&bytes, 7), damaged, "{what}");
    }
    let longer = [&bytes[..], &[3]].concat();
    assert_eq!(witness::decode_witness(&longer, 7), Some(12));
}

fn volume(number: u32) -> VolumeRecord {
    VolumeRecord {
        number,
        name: format!("v{number}"),
        size_bytes: 512 * 4096,
        height: 0,
        root: 0,
        mapped_chunks: 0,
        deleting: false,
        kind: KIND_VOLUME,
        origin: 0,
        birth: 12,
        created_seconds: 0,
        parent: 0,
        held: false,
        dropped: 0,
        identity: 0,
        note: Vec::new(),
    }
}

fn checkpoint(volumes: Vec<VolumeRecord>) -> Superblock {
    let features = Features { must_refuse: SNAPSHOTS, ..Features::default() };
    Superblock {
        sequence: 12,
        identity: PoolIdentity { uuid: [1; 16], key: [2; 32] },
        features,
        settings: PoolSettings::default(),
        next_container: 9,
        next_volume: 4,
        volumes,
        table: 1,
        slots: 2,
        slot_pages: 77,
        unseen: 3,
    }
}

#[test]
fn volumes_of_a_checkpoint_are_what_volumes_can_be() {
    let said = |pool: &Superblock| {
        Superblock::decode("it", &pool.encode()).map(|found| assert_eq!(&found, pool)).err()
    };
    let senseless = "a field makes no sense here";
    let stray = "'v3' is made from a snapshot that cannot be";
    let snapshot = VolumeRecord { kind: KIND_SNAPSHOT, birth: 9, ..volume(2) };
    let good = volume(3);
    for (what, record, problem) in [
        ("as it is", good.clone(), None),
        ("a leaf and a block", VolumeRecord { size_bytes: 513 * 4096, ..good.clone() }, {
            Some(senseless)
        }),
        ("a leaf and a byte", VolumeRecord { size_bytes: 512 * 4096 + 1, ..good.clone() }, {
            Some(senseless)
        }),
        ("higher than need be", VolumeRecord { height: 5, ..good.clone() }, None),
        ("too high", VolumeRecord { height: 6, ..good.clone() }, Some(senseless)),
        ("the last number", VolumeRecord { number: VOLUME_NUMBER_MAX, ..good.clone() }, None),
        ("and one more", VolumeRecord { number: u32::MAX, ..good.clone() }, Some(senseless)),
        ("deleted", VolumeRecord { deleting: true, ..good.clone() }, None),
        ("held", VolumeRecord { held: true, ..good.clone() }, None),
        ("with an identity", VolumeRecord { identity: 1, ..good.clone() }, Some(senseless)),
        ("younger than it is", VolumeRecord { birth: 13, ..good.clone() }, Some(stray)),
        ("a child", VolumeRecord { parent: 2, ..good.clone() }, None),
        ("a child born before", VolumeRecord { parent: 2, birth: 9, ..good.clone() }, None),
        ("of what is none", VolumeRecord { parent: 4, ..good.clone() }, Some(stray)),
        (
            "a later snapshot",
            { VolumeRecord { parent: 2, kind: KIND_SNAPSHOT, birth: 10, ..good.clone() } },
            None,
        ),
        (
            "one of then",
            { VolumeRecord { parent: 2, kind: KIND_SNAPSHOT, birth: 9, ..good.clone() } },
            Some(stray),
        ),
        ("with an origin", VolumeRecord { origin: 1, ..good.clone() }, None),
    ] {
        let error = said(&checkpoint(vec![snapshot.clone(), record])).map(|e| e.to_string());
        assert_eq!(error.is_some(), problem.is_some(), "{what}: {error:?}");
        if let (Some(error), Some(problem)) = (error, problem) {
            assert!(error.contains(problem), "{what}: {error}");
        }
    }
    for (what, record) in [
        ("a snapshot", VolumeRecord { kind: KIND_SNAPSHOT, ..good.clone() }),
        ("a clone", VolumeRecord { origin: 2, ..good.clone() }),
    ] {
        let mut pool = checkpoint(vec![record]);
        assert!(said(&pool).is_none(), "{what}");
        pool.features.must_refuse = 0;
        assert!(said(&pool).is_some_and(|e| e.to_string().contains(stray)), "{what}");
    }
    let mut pool = checkpoint(vec![good.clone()]);
    pool.slot_pages = BITMAP_PAGES_MAX;
    assert!(said(&pool).is_none());
    pool.slot_pages += 1;
    assert!(said(&pool).is_some());
    // Notes, up to the longest, of whoever is there.
    let noted = |note: Vec<u8>| {
        let mut pool = checkpoint(vec![volume(1), VolumeRecord { note, ..good.clone() }]);
        pool.features.must_refuse = NOTES;
        pool
    };
    assert!(said(&noted(Vec::new())).is_none());
    assert!(said(&noted(vec![1; NOTE_BYTES_MAX])).is_none());
    assert!(said(&noted(vec![1; NOTE_BYTES_MAX + 1])).is_some());
}

/// A CRC-32 as a checkpoint has it.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let check = crc32fast::hash(&[&bytes[8..12], &bytes[16..]].concat());
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
    bytes
}

#[test]
fn what_is_wrong_with_a_checkpoint_is_said_with_its_place() {
    let bytes = checkpoint(vec![volume(3)]).encode();
    let len = bytes.len();
    let error = |bytes: &[u8]| Superblock::decode("it", bytes).unwrap_err().to_string();
    let with = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let check = Superblock::checksum_in(&bytes);
    let found = Superblock::checksum_in(&sealed(with(len - 1, &[1])));
    let mut more = bytes.clone();
    more.extend_from_slice(&[0; 4]);
    more[24..32].copy_from_slice(&(len as u64 - 36).to_le_bytes());
    let none = [&bytes[..24], &0_u64.to_le_bytes(), &bytes[32..40]].concat();
    for (bytes, said) in [
        (bytes[..39].to_vec(), "39: the file ends inside of its header".to_owned()),
        (with(0, b"x"), "0: not a onefold checkpoint: the magic does not match".to_owned()),
        (with(24, &(PAYLOAD_BYTES_MAX + 1).to_le_bytes()), {
            "24: the length is larger than any checkpoint's".to_owned()
        }),
        (with(24, &PAYLOAD_BYTES_MAX.to_le_bytes()), {
            format!("{len}: the file ends inside of its payload")
        }),
        (bytes[..len - 1].to_vec(), format!("{}: the file ends inside of its payload", len - 1)),
        (with(len - 1, &[1]), format!("12: checksum is {found:08x}, but {check:08x} was expected")),
        (sealed(none), "40: the payload has no features".to_owned()),
        (sealed(more), format!("{len}: a field makes no sense here")),
        (sealed(with(len - 20, &[2])), format!("{len}: a field makes no sense here")),
    ] {
        assert_eq!(error(&bytes), format!("corrupt it at byte {said}"));
    }
}

#[test]
fn of_a_checkpoints_file_no_more_is_read_than_it_says() {
    let folder = SimFolder::new();
    let file = folder.create("it").unwrap();
    let read = |bytes: &[u8]| {
        file.set_len(0).unwrap();
        file.write(0, bytes).unwrap();
        Superblock::read(&*file, "it")
    };
    let (good, bytes) = (checkpoint(Vec::new()), checkpoint(Vec::new()).encode());
    assert_eq!(read(&[]).unwrap(), None);
    assert_eq!(read(&bytes).unwrap(), Some(good.clone()));
    assert_eq!(read(&[&bytes[..], &[5; 5000]].concat()).unwrap(), Some(good.clone()));
    assert_eq!(good.len_bytes(), bytes.len());
    for len in [1, 31, 32, 39, 40, bytes.len() - 1] {
        let error = read(&bytes[..len]).unwrap_err().to_string();
        assert!(error.contains(&format!("corrupt it at byte {len}: the file ends")), "{error}");
    }
}
