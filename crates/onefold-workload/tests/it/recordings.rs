//! Recordings come back as they were made, and whatever is cut off or damaged is named.
//! Room: onefold-workload.

use std::io::Cursor;

use onefold_workload::import::SkipReason;
use onefold_workload::{
    Identity, Op, Recorded, RecordingEncoder, RecordingReader, Request, Trace, TraceFormat,
};
use proptest::prelude::*;

const UNIT: u32 = 512;

fn encoded<'a>(requests: impl IntoIterator<Item = Recorded<'a>>) -> Vec<u8> {
    let mut file = Vec::new();
    RecordingEncoder::new(UNIT).unwrap().write_all(requests, &mut file).unwrap();
    file
}

fn read(file: &[u8]) -> (Vec<Request>, Option<String>, u64) {
    let mut reader = RecordingReader::new(Cursor::new(file));
    let (mut requests, mut error) = (Vec::new(), None);
    for request in reader.by_ref() {
        match request {
            Ok(request) => requests.push(request),
            Err(problem) => error = Some(problem.to_string()),
        }
    }
    (requests, error, reader.report().skipped(SkipReason::TornEnd))
}

/// Writes of one unit with their number as content.
fn numbered(count: u128) -> Vec<(u64, [u128; 1])> {
    (0..count).map(|number| (number as u64, [number])).collect()
}

fn writes(numbers: &[(u64, [u128; 1])]) -> impl Iterator<Item = Recorded<'_>> {
    numbers.iter().map(|(at, content)| Recorded {
        time_ns: at * 1000,
        op: Op::Write,
        stream: 1,
        offset: at * 512,
        length: 512,
        content,
        deduplicate: None,
    })
}

#[test]
fn a_write_is_cut_at_multiples_of_the_unit() {
    let write = Recorded {
        time_ns: 5_000,
        op: Op::Write,
        stream: 3,
        offset: 500,
        length: 600,
        content: &[1, 2, 3],
        deduplicate: Some(false),
    };
    let flush = Recorded {
        time_ns: 4_000,
        op: Op::Flush,
        offset: 0,
        length: 0,
        content: &[],
        deduplicate: None,
        ..write
    };
    let (requests, error, torn) = read(&encoded([write, flush]));
    assert_eq!((error, torn), (None, 0));
    let words: Vec<_> = requests.iter().map(|r| r.deduplicate).collect();
    assert_eq!(words, [Some(false), Some(false), Some(false), None]);
    let places: Vec<(u64, u64)> = requests.iter().map(|r| (r.offset, r.length)).collect();
    assert_eq!(places, [(500, 12), (512, 512), (1024, 76), (0, 0)]);
    let identity = |number: u128| Some(Identity::from_bytes(number.to_be_bytes()));
    let identities: Vec<_> = requests.iter().map(|r| r.identity).collect();
    assert_eq!(identities, [identity(1), identity(2), identity(3), None]);
    assert!(requests.iter().all(|r| r.stream == Some(3) && r.time_ns == 0));
}

#[test]
fn writes_that_become_several_requests_are_counted() {
    for (length, pieces) in [(512, 1), (1024, 2), (1536, 3)] {
        let contents: Vec<u128> = (0..pieces).collect();
        let write = Recorded {
            time_ns: 0,
            op: Op::Write,
            stream: 1,
            offset: 0,
            length,
            content: &contents,
            deduplicate: None,
        };
        let file = encoded([write.clone(), write]);
        let mut reader = RecordingReader::new(Cursor::new(&file));
        assert_eq!(reader.by_ref().count(), 2 * pieces as usize);
        assert_eq!(reader.report().expanded, if pieces > 1 { 2 } else { 0 }, "{pieces} pieces");
    }
}

#[test]
fn a_recording_that_is_cut_off_anywhere_ends_with_its_last_whole_frame() {
    let numbers = numbered(8_000);
    let file = encoded(writes(&numbers));
    let (all, ..) = read(&file);
    assert_eq!(all.len(), 8_000);
    let mut seen = 0;
    for cut in (16..file.len()).rev().step_by(997) {
        let (requests, error, torn) = read(&file[..cut]);
        assert_eq!(error, None, "cut at {cut}");
        assert_eq!(requests, all[..requests.len()], "cut at {cut}");
        assert!(torn == 1 || requests.is_empty() || cut == file.len(), "cut at {cut}");
        seen = seen.max(requests.len());
    }
    assert!(seen > 4_000, "whole frames are read: {seen}");
}

#[test]
fn a_flipped_bit_is_named_unless_it_is_in_the_last_frame() {
    let numbers = numbered(8_000);
    let file = encoded(writes(&numbers));
    let (all, ..) = read(&file);
    for at in (0..file.len()).step_by(1009) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let (requests, error, torn) = read(&damaged);
        assert!(error.is_some() || torn == 1, "byte {at} was flipped unseen");
        assert_eq!(requests, all[..requests.len()], "byte {at}");
    }
}

#[test]
fn recordings_are_known_by_their_first_bytes_and_carry_names() {
    let mut encoder = RecordingEncoder::new(4096).unwrap();
    let mut file = encoder.header();
    encoder.name(0, "main");
    encoder.name(1, "other");
    let read = Recorded {
        time_ns: 1,
        op: Op::Read,
        stream: 1,
        offset: 0,
        length: 7,
        content: &[],
        deduplicate: None,
    };
    encoder.push(&read);
    file.extend(encoder.take().unwrap());
    assert_eq!(encoder.take(), None);
    for format in [None, Some(TraceFormat::Recording)] {
        let mut trace = Trace::read(Box::new(Cursor::new(file.clone())), format).unwrap();
        assert_eq!(trace.format(), TraceFormat::Recording);
        assert_eq!(trace.by_ref().map(Result::unwrap).count(), 1);
        assert_eq!(trace.stream_names(), ["main", "other"]);
    }
    for unit in [0, 256, 1000, 8192] {
        assert!(RecordingEncoder::new(unit).is_none());
    }
    assert_eq!("recording".parse(), Ok(TraceFormat::Recording));
}

/// Time, operation, stream, offset and length.
fn any_request() -> impl Strategy<Value = (u32, usize, u32, u32, u64)> {
    (any::<u32>(), 0_usize..Op::ALL.len(), 0_u32..3, any::<u32>(), 1_u64..5000)
}

proptest! {
    #[test]
    fn what_is_recorded_comes_back(all in prop::collection::vec(any_request(), 1..60)) {
        let first = u64::from(all[0].0);
        let contents: Vec<Vec<u128>> = all.iter().map(|&(.., offset, length)| {
            let offset = u64::from(offset);
            let pieces = (offset + length - 1) / 512 - offset / 512 + 1;
            (0..pieces).map(|piece| u128::from(offset) << 32 | u128::from(piece)).collect()
        }).collect();
        let both = all.iter().zip(&contents);
        let requests: Vec<Recorded<'_>> = both.map(|(&(time, op, stream, offset, length), all)| {
            let op = Op::ALL[op];
            let content: &[u128] = if op == Op::Write { all } else { &[] };
            let deduplicate = [None, Some(true), Some(false)][stream as usize];
            let (time_ns, offset) = (time.into(), offset.into());
            Recorded { time_ns, op, stream, offset, length, content, deduplicate }
        }).collect();
        let (found, error, torn) = read(&encoded(requests.iter().cloned()));
        prop_assert_eq!((error, torn), (None, 0));
        let mut found = found.into_iter();
        for request in &requests {
            let mut at = request.offset;
            for (number, one) in found.by_ref().take(request.content.len().max(1)).enumerate() {
                prop_assert_eq!(one.time_ns, request.time_ns.saturating_sub(first));
                prop_assert_eq!((one.op, one.stream), (request.op, Some(request.stream)));
                prop_assert_eq!((one.offset, one.deduplicate), (at, request.deduplicate));
                let wanted = request.content.get(number);
                let wanted = wanted.map(|content| Identity::from_bytes(content.to_be_bytes()));
                prop_assert_eq!(one.identity, wanted);
                at += one.length;
            }
            prop_assert_eq!(at, request.offset + request.length);
        }
        prop_assert_eq!(found.next(), None);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        whole in any::<bool>(),
    ) {
        let mut file = RecordingEncoder::new(512).unwrap().header();
        if whole {
            // A sound frame around nonsense, so that what is inside is looked at.
            let body = [&[0; 8], bytes.as_slice()].concat();
            file.extend(b"FRAM");
            file.extend((body.len() as u32).to_le_bytes());
            file.extend(crc32fast::hash(&body).to_le_bytes());
            file.extend(body);
        } else {
            file.extend(bytes);
        }
        read(&file);
    }
}
