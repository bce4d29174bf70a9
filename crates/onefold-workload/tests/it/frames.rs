//! Frames of recordings made by hand: what each field may hold, and what is refused.
//! Room: onefold-workload.

use std::io::Cursor;

use onefold_workload::import::SkipReason;
use onefold_workload::{Op, Recorded, RecordingEncoder, RecordingReader, Request};

fn frame(base: u64, payload: &[u8]) -> Vec<u8> {
    let body = [&base.to_le_bytes()[..], payload].concat();
    let mut frame = b"FRAM".to_vec();
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(crc32fast::hash(&body).to_le_bytes());
    frame.extend(body);
    frame
}

fn header(unit: u32) -> Vec<u8> {
    let mut header = b"ONEFREC1".to_vec();
    header.extend(unit.to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header
}

type Found = (Result<Vec<Request>, String>, RecordingReader<Cursor<Vec<u8>>>);

fn read(file: Vec<u8>) -> Found {
    let mut reader = RecordingReader::new(Cursor::new(file));
    let found = reader.by_ref().map(|request| request.map_err(|error| error.to_string())).collect();
    (found, reader)
}

fn framed(base: u64, payload: &[u8]) -> Result<Vec<Request>, String> {
    read([header(512), frame(base, payload)].concat()).0
}

/// Tag, then time, stream, offset and length, each of one byte.
const READ: [u8; 5] = [0, 0, 0, 0, 1];

#[test]
fn numbers_have_seven_bits_a_byte_and_fit_64() {
    let offset = |bytes: &[u8]| {
        let payload = [&[0, 0, 0][..], bytes, &[0]].concat();
        framed(5, &payload).map(|all| all[0].offset)
    };
    for (bytes, value) in [
        (&[0x7f][..], 127),
        (&[0x80, 0x01], 128),
        (&[0xff, 0x7f], 16_383),
        (&[0x80, 0x80, 0x01], 16_384),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], u64::MAX),
        (&[0x80, 0x00], 0),
    ] {
        assert_eq!(offset(bytes), Ok(value), "{bytes:x?}");
    }
    let last = [0x80; 9];
    for too_much in [&[0x02][..], &[0x7f], &[0x81, 0x00]] {
        let error = offset(&[&last[..], too_much].concat()).unwrap_err();
        assert_eq!(error, "frame 1 of the recording: a request that makes no sense");
    }
}

#[test]
fn times_go_both_ways_from_the_base_and_begin_with_the_first() {
    // Zigzag: 0, -1, 1, -2, 2.
    let payload: Vec<u8> =
        [4, 1, 0, 3, 2].into_iter().flat_map(|time| [0, time, 0, 0, 1]).collect();
    let (found, reader) = read([header(512), frame(100, &payload)].concat());
    let times: Vec<u64> = found.unwrap().iter().map(|request| request.time_ns).collect();
    // From 102 on; what came before it has its time.
    assert_eq!(times, [0; 5]);
    assert_eq!((reader.report().before_first, reader.report().lines), (4, 5));
    let payload: Vec<u8> = [1, 4, 0].into_iter().flat_map(|time| [0, time, 0, 0, 1]).collect();
    let (found, reader) = read([header(512), frame(100, &payload)].concat());
    let times: Vec<u64> = found.unwrap().iter().map(|request| request.time_ns).collect();
    assert_eq!((times, reader.report().before_first), (vec![0, 3, 1], 0));
    assert_eq!((reader.report().out_of_order, reader.report().requests), (1, 3));
    assert!(framed(0, &[0, 1, 0, 0, 1]).is_err(), "before all time");
    assert!(framed(u64::MAX, &[0, 2, 0, 0, 1]).is_err(), "after it");
}

#[test]
fn tags_say_what_it_is_and_no_others_are_taken() {
    let mut known = Vec::new();
    for tag in 0..=255u8 {
        // Behind the numbers the content of one unit, which is nonsense where none is announced.
        let content: &[u8] = if tag & 8 == 0 { &[] } else { &[7; 16] };
        let payload = [&[tag, 0, 0, 0, 1][..], content].concat();
        if tag == 4 {
            continue;
        }
        if let Ok(all) = framed(5, &payload) {
            let request = all[0];
            assert_eq!(request.identity.is_some(), tag & 8 != 0);
            known.push((tag, request.op, request.deduplicate));
        }
    }
    let mut wanted = Vec::new();
    for said in [(0, None), (16, Some(false)), (48, Some(true))] {
        for content in [0, 8] {
            for (tag, op) in
                [(0, Op::Read), (1, Op::Write), (2, Op::Trim), (3, Op::Flush), (5, Op::Idle)]
            {
                wanted.push((tag | content | said.0, op, said.1));
            }
        }
    }
    assert_eq!(known, wanted);
}

#[test]
fn contents_are_cut_at_units_and_must_be_there() {
    let (a, b, c) = ([1; 16], [2; 16], [3; 16]);
    // From 511 on for 514 bytes: one, 512 and one.
    let numbers = [9, 0, 0, 0xff, 0x03, 0x82, 0x04];
    let whole = [&numbers[..], &a, &b, &c].concat();
    let (found, reader) = read([header(512), frame(0, &whole)].concat());
    let found = found.unwrap();
    let shape: Vec<(u64, u64)> = found.iter().map(|r| (r.offset, r.length)).collect();
    assert_eq!(shape, [(511, 1), (512, 512), (1024, 1)]);
    let ids: Vec<u8> = found.iter().map(|r| r.identity.unwrap().as_bytes()[0]).collect();
    assert_eq!((ids, reader.report().expanded, reader.report().lines), (vec![1, 2, 3], 1, 1));
    // In units of 1,024 these are two, and the third content is the beginning of another request.
    let (found, _) = read([header(1024), frame(0, &whole[..7 + 32])].concat());
    assert_eq!(found.unwrap().len(), 2);
    assert!(framed(0, &whole[..whole.len() - 1]).is_err());
    assert!(framed(0, &[&whole[..], &[9]].concat()).is_err());
    let (found, reader) =
        read([header(512), frame(0, &[&[9, 0, 0, 0, 5][..], &a].concat())].concat());
    assert_eq!((found.unwrap()[0].length, reader.report().expanded), (5, 0), "one is not expanded");
    // The last byte there is: 2^64 less one, and not beyond.
    let end = |length: u8| {
        let offset = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        framed(0, &[&[9, 0, 0][..], &offset, &[length], &a].concat()).map(|all| all[0].length)
    };
    assert_eq!(end(1), Ok(1));
    assert!(end(2).is_err());
}

#[test]
fn names_come_in_the_order_of_their_numbers() {
    let name =
        |stream: u8, name: &str| [&[4, stream, name.len() as u8][..], name.as_bytes()].concat();
    let payload = [name(0, "a"), name(2, "c"), name(1, "b"), name(0, "x"), READ.to_vec()].concat();
    let (found, reader) = read([header(512), frame(0, &payload)].concat());
    assert_eq!(
        (found.unwrap().len(), reader.stream_names()),
        (1, &["a".to_owned(), "b".to_owned()][..])
    );
    assert_eq!(reader.report().lines, 1, "names are no requests");
    assert!(framed(0, &[4, 0, 2, b'a']).is_err(), "a name that is cut off");
    assert!(framed(0, &[0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0]).is_err(), "stream 2^32");
}

#[test]
fn a_frame_is_where_it_should_be_and_whole_unless_it_is_the_last() {
    let good = frame(0, &READ);
    let count = |more: &[u8]| {
        let (found, reader) = read([&header(512)[..], &good, more].concat());
        let torn = reader.report().skipped(SkipReason::TornEnd);
        found.map(|all| (all.len(), torn))
    };
    assert_eq!((count(&[]), count(&good)), (Ok((1, 0)), Ok((2, 0))));
    // A frame without a request is passed over, and so is the last one if it is cut or damaged.
    assert_eq!(count(&[&frame(0, &[])[..], &good].concat()), Ok((2, 0)));
    for cut in 1..good.len() {
        assert_eq!(count(&good[..cut]), Ok((1, 1)), "{cut}");
    }
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(count(&damaged), Ok((1, 1)));
    let error = count(&[&damaged[..], &good].concat()).unwrap_err();
    assert_eq!(error, "frame 2 of the recording: a wrong checksum");
    for (at, value) in [(0, b'G'), (4, 7), (7, 4)] {
        let mut wrong = good.clone();
        wrong[at] = value;
        wrong.resize(100, 0);
        let error = count(&wrong).unwrap_err();
        assert_eq!(error, "frame 2 of the recording: no frame begins where one should");
    }
    // 64 MiB are accepted as a length, and one byte more is not.
    let head = |len: u32| [&b"FRAM"[..], &len.to_le_bytes(), &[0; 8]].concat();
    assert_eq!(count(&head(64 << 20)), Ok((1, 1)));
    assert!(count(&head((64 << 20) + 1)).is_err());
    assert_eq!(count(&head(8)[..12]), Ok((1, 1)));
}

#[test]
fn of_a_frame_with_nonsense_no_request_is_given() {
    let file = [header(512), frame(0, &READ), frame(0, &[&READ[..], &[9]].concat())].concat();
    let mut reader = RecordingReader::new(Cursor::new([file, frame(0, &READ)].concat()));
    let found: Vec<bool> = reader.by_ref().map(|request| request.is_ok()).collect();
    assert_eq!(found, [true, false], "the one before it, the error, and nothing behind it");
    assert!(reader.next().is_none());
}

#[test]
fn a_frame_of_names_alone_begins_at_no_time() {
    let mut encoder = RecordingEncoder::new(512).unwrap();
    encoder.name(3, "x");
    assert_eq!(encoder.take(), Some(frame(0, &[4, 3, 1, b'x'])));
    assert_eq!(encoder.take(), None);
}

#[test]
fn a_frame_of_64_kib_is_full_and_one_byte_less_is_not() {
    for (letters, full) in [(65_530, false), (65_531, true)] {
        let mut encoder = RecordingEncoder::new(512).unwrap();
        // Tag, number, and a length of three bytes before it.
        encoder.name(0, &"x".repeat(letters));
        assert_eq!(encoder.is_full(), full, "{letters}");
    }
}

/// An input that is interrupted at every second read, and reads one byte at the others.
struct Interrupted(Cursor<Vec<u8>>, bool);

impl std::io::Read for Interrupted {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let len = to.len().min(1);
        self.0.read(&mut to[..len])
    }
}

#[test]
fn an_interrupted_read_is_made_again() {
    let file = [header(512), frame(0, &READ), frame(0, &READ)].concat();
    let input = std::io::BufReader::with_capacity(1, Interrupted(Cursor::new(file), false));
    let found: Vec<_> = RecordingReader::new(input).map(Result::unwrap).collect();
    assert_eq!(found.len(), 2);
}

/// An input that fails once these bytes were read.
struct Failing(Cursor<Vec<u8>>);

impl std::io::Read for Failing {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(to)? {
            0 => Err(std::io::Error::other("unplugged")),
            some => Ok(some),
        }
    }
}

#[test]
fn an_input_that_fails_is_no_torn_end() {
    let file = [header(512), frame(0, &READ)].concat();
    for cut in [0, 5, 16, 20, 30, file.len() - 1, file.len()] {
        let input =
            std::io::BufReader::with_capacity(7, Failing(Cursor::new(file[..cut].to_vec())));
        let mut reader = RecordingReader::new(input);
        let found: Vec<_> = reader.by_ref().collect();
        assert_eq!(found.len(), if cut == file.len() { 2 } else { 1 }, "{cut}");
        let error = found.last().unwrap().as_ref().unwrap_err();
        assert!(std::error::Error::source(error).unwrap().to_string().contains("unplugged"));
        assert_eq!(reader.report().skipped_total(), 0);
    }
}

#[test]
fn a_header_names_a_unit_from_512_to_4096() {
    for unit in [0, 256, 511, 513, 3072, 8192] {
        let error = read(header(unit)).0.unwrap_err();
        assert_eq!(error, "frame 0 of the recording: an unknown unit of identities", "{unit}");
    }
    for unit in [512, 1024, 2048, 4096] {
        assert_eq!(read(header(unit)).0, Ok(Vec::new()));
        assert_eq!(RecordingEncoder::new(unit).unwrap().header(), header(unit));
    }
    for at in 0..16 {
        let mut wrong = header(512);
        wrong[at] ^= 1;
        assert!(read(wrong).0.unwrap_err().contains("none of a recording, or damaged"), "{at}");
        assert!(read(header(512)[..at].to_vec()).0.is_err(), "{at} bytes");
    }
}

#[test]
fn frames_are_written_when_they_are_full_and_the_rest_at_the_end() {
    // With a thousand contents it has 16,007 bytes, of which five make a frame full.
    let content = [7; 1000];
    let request = |_| Recorded {
        time_ns: 100,
        op: Op::Write,
        stream: 0,
        offset: 0,
        length: 512_000,
        content: &content,
        deduplicate: None,
    };
    let lens = |count: u64| {
        let mut file = Vec::new();
        let encoder = RecordingEncoder::new(512).unwrap();
        encoder.write_all((0..count).map(request), &mut file).unwrap();
        let (mut rest, mut lens) = (&file[16..], Vec::new());
        while let Some((len, _)) = rest.get(4..).and_then(|rest| rest.split_first_chunk::<4>()) {
            let len = u32::from_le_bytes(*len) as usize;
            lens.push(len - 8);
            rest = &rest[12 + len..];
        }
        assert_eq!(read(file).0.unwrap().len() as u64, 1000 * count);
        lens
    };
    assert_eq!(lens(0), [0; 0]);
    assert_eq!(lens(4), [64_028]);
    assert_eq!(lens(5), [80_035]);
    assert_eq!(lens(6), [80_035, 16_007]);
}
