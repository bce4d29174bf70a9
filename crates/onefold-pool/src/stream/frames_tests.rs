//! Frames made by hand: what a sender that asks says of them, what one who answers makes of that,
//! and which of them are refused.
//! Room: onefold-pool.

use std::io::{self, Read, Write};

use onefold_block::{ByteSize, ChunkSize, MemDevice, SplitMix64};
use onefold_content::{Codec, Fingerprint, FingerprintKind, Fingerprinter};

use super::frame::{
    BODY_BYTES_MAX, Body, CHECK_BYTES, Frame, HEAD_BYTES, Header, Item, Kind, Names, check,
};
use super::{Answering, Asker, Mark, Naming, Receiver, StreamReader};

const CHUNK: u64 = 4096;
const NAMES: Names = Names { base: 1, snapshot: 9 };

fn header(blocks: u64) -> Header {
    Header {
        names: NAMES,
        chunk_size: ChunkSize::new(ByteSize(CHUNK)).unwrap(),
        size_bytes: blocks * CHUNK,
        created_seconds: 5,
        name: "v@b".to_owned(),
        base_name: "v@a".to_owned(),
    }
}

fn block(seed: u64) -> Vec<u8> {
    SplitMix64::new(seed).bytes(CHUNK as usize)
}

/// What a frame says, with blocks by their seeds.
#[derive(Clone, Copy)]
enum Says {
    Same(u64),
    Hole(u64),
    Zero(u64),
    Block(u64),
    /// A block that is not sent.
    Left,
}

fn body(says: &[Says]) -> Vec<u8> {
    let mut body = Body::default();
    for &says in says {
        match says {
            Says::Same(count) => body.push(Item::Same(count)),
            Says::Hole(count) => body.push(Item::Hole(count)),
            Says::Zero(count) => body.push(Item::Zero(count)),
            Says::Block(seed) => body.push(Item::Block(Codec::Raw, &block(seed))),
            Says::Left => body.push(Item::Block(Codec::Raw, &[])),
        }
    }
    body.finish()
}

fn frame(kind: Kind, blocks: std::ops::Range<u64>, body: Vec<u8>) -> Frame {
    Frame { kind, names: NAMES, from: blocks.start * CHUNK, upto: blocks.end * CHUNK, body }
}

fn bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

fn naming() -> Naming {
    let chunk_size = ChunkSize::new(ByteSize(CHUNK)).unwrap();
    Naming { kind: FingerprintKind::Blake3, key: [7; 32], chunk_size }
}

fn named(seeds: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let naming = naming();
    let fingerprinter = Fingerprinter::with_key(naming.kind, naming.key);
    seeds.into_iter().flat_map(|seed| *fingerprinter.hash(&block(seed)).as_bytes()).collect()
}

/// Keeps what is written, and where it was flushed.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    flushed: Vec<usize>,
}

impl Write for &mut Kept {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed.push(self.bytes.len());
        Ok(())
    }
}

/// So many blocks, of which some are offered, among all else that a frame may say.
fn says(blocks: u64) -> Vec<Says> {
    let mut says = vec![Says::Same(3), Says::Hole(2)];
    says.extend((0..blocks).map(Says::Block));
    says.extend([Says::Zero(1), Says::Same(1)]);
    says
}

#[test]
fn a_sender_leaves_out_exactly_what_the_receiver_says_it_has() {
    for blocks in [1, 7, 8, 9, 16, 17, 65] {
        let data = frame(Kind::Data, 2..9 + blocks, body(&says(blocks)));
        let mut random = SplitMix64::new(blocks);
        let mut bits = vec![0u8; blocks.div_ceil(8) as usize];
        let has: Vec<bool> = (0..blocks).map(|_| random.chance(1, 2)).collect();
        for (number, _) in has.iter().enumerate().filter(|(_, has)| **has) {
            bits[number / 8] |= 1 << (number % 8);
        }
        let answer = frame(Kind::Answer, 2..9 + blocks, bits);
        let answers = [Naming::hello(Some(&naming())), bytes(&answer)].concat();
        let mut kept = Kept::default();
        let mut asker = Asker::begin(&*answers, &mut kept, b"head", header(100)).unwrap();
        assert_eq!((asker.stored_bytes(), asker.marked_bytes()), (0, 0));
        asker.send(&data, &bytes(&data)).unwrap();
        let left_out = has.iter().filter(|has| **has).count() as u64;
        assert_eq!(asker.left_out_bytes(), left_out * CHUNK);
        assert_eq!(asker.stored_bytes(), 2 * CHUNK);
        let mut sent = says(blocks);
        for (number, _) in has.iter().enumerate().filter(|(_, has)| **has) {
            sent[number + 2] = Says::Left;
        }
        let offer = bytes(&frame(Kind::Offer, 2..9 + blocks, named(0..blocks)));
        let rest = bytes(&frame(Kind::Rest, 2..9 + blocks, body(&sent)));
        let ends = [4, 4 + offer.len(), 4 + offer.len() + rest.len()];
        assert!(kept.bytes == [b"head", &*offer, &*rest].concat(), "{blocks} blocks");
        assert_eq!(kept.flushed, ends, "each side waits for the other");
    }
    // Without blocks nothing is offered, and the frame goes as it is.
    let data = frame(Kind::Data, 0..3, body(&[Says::Same(3)]));
    let answers = Naming::hello(Some(&naming()));
    let mut kept = Kept::default();
    let mut asker = Asker::begin(&*answers, &mut kept, b"", header(3)).unwrap();
    asker.send(&data, &bytes(&data)).unwrap();
    assert!(kept.bytes == bytes(&data) && kept.flushed == [0, kept.bytes.len()]);
}

#[test]
fn a_block_that_cannot_be_decoded_is_not_offered_and_ends_the_stream() {
    let mut body = Body::default();
    body.push(Item::Block(Codec::Raw, &[7; 100]));
    let data = frame(Kind::Data, 0..1, body.finish());
    let answers = Naming::hello(Some(&naming()));
    let mut kept = Kept::default();
    let mut asker = Asker::begin(&*answers, &mut kept, b"head", header(1)).unwrap();
    let error = asker.send(&data, &bytes(&data)).unwrap_err().to_string();
    assert!(error.starts_with("the stream is damaged in the frame at byte 0: "), "{error}");
    assert_eq!(kept.bytes, b"head", "nothing of it is sent");
}

#[test]
fn an_answer_to_anything_else_than_was_asked_ends_the_stream() {
    let fits = frame(Kind::Answer, 2..18, vec![0, 0]);
    let data = frame(Kind::Data, 2..18, body(&(0..16).map(Says::Block).collect::<Vec<_>>()));
    let other = Names { base: 2, ..NAMES };
    let wrong = [
        Frame { kind: Kind::Offer, ..fits.clone() },
        Frame { names: other, ..fits.clone() },
        Frame { from: CHUNK, ..fits.clone() },
        Frame { upto: 19 * CHUNK, ..fits.clone() },
        Frame { body: vec![0], ..fits.clone() },
        Frame { body: vec![0; 3], ..fits.clone() },
    ];
    for (answer, is_good) in wrong.into_iter().map(|answer| (answer, false)).chain([(fits, true)]) {
        let answers = [Naming::hello(Some(&naming())), bytes(&answer)].concat();
        let mut kept = Kept::default();
        let mut asker = Asker::begin(&*answers, &mut kept, b"", header(100)).unwrap();
        let sent = asker.send(&data, &bytes(&data)).map_err(|error| error.to_string());
        let stored = asker.stored_bytes();
        let expected = "the stream is damaged in the frame at byte 0: it is no answer to what was \
                        asked";
        assert_eq!(sent.err().as_deref(), (!is_good).then_some(expected), "{answer:?}");
        assert_eq!(stored, if is_good { 2 * CHUNK } else { 0 }, "{answer:?}");
    }
}

/// Who answers and has blocks with these seeds; `named` tells what they are asked for.
fn answering<'a>(
    said: &'a [u8],
    answers: &'a mut Kept,
    naming: Option<Naming>,
    has: impl Fn(u64) -> bool + Send + 'static,
) -> Answering<&'a [u8], &'a mut Kept> {
    let known: Vec<_> = (0..400).map(|seed| (named([seed]), seed)).collect();
    let find = move |wanted: &[Fingerprint], found: &mut dyn FnMut(usize, &[u8])| {
        for (number, wanted) in wanted.iter().enumerate() {
            let seed = known.iter().find(|(named, _)| *named == wanted.as_bytes()).unwrap().1;
            if has(seed) {
                found(number, &block(seed));
            }
        }
        Ok(())
    };
    Answering::new(said, answers, naming, Box::new(find))
}

fn head(blocks: u64) -> Vec<u8> {
    let mut head = Vec::new();
    Frame::of_header(&header(blocks), &mut head);
    head
}

/// All that is read, in pieces of many sizes.
fn read(mut from: impl Read) -> Result<Vec<u8>, String> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 3000]);
    for len in [1, 3000, 7, 64, 3000].into_iter().cycle() {
        match from.read(&mut piece[..len]).map_err(|error| error.to_string())? {
            0 => return Ok(all),
            len => all.extend_from_slice(&piece[..len]),
        }
    }
    unreachable!("it goes on until it ends")
}

#[test]
fn who_answers_reads_the_stream_as_if_all_of_it_had_been_sent() {
    let has = |seed: u64| !seed.is_multiple_of(3);
    for blocks in [1, 8, 9, 17] {
        let size = 9 + blocks;
        let whole = frame(Kind::Data, 2..size, body(&says(blocks)));
        let mut sent = says(blocks);
        for seed in (0..blocks).filter(|seed| has(*seed)) {
            sent[seed as usize + 2] = Says::Left;
        }
        let offer = bytes(&frame(Kind::Offer, 2..size, named(0..blocks)));
        let rest = bytes(&frame(Kind::Rest, 2..size, body(&sent)));
        let before = bytes(&frame(Kind::Data, 0..2, body(&[Says::Same(2)])));
        let end = bytes(&frame(Kind::End, size..size, Vec::new()));
        let said = [&*head(size), &before, &offer, &rest, &end].concat();
        let mut answers = Kept::default();
        let got = read(answering(&said, &mut answers, Some(naming()), has)).unwrap();
        assert!(got == [&*head(size), &before, &bytes(&whole), &end].concat(), "{blocks} blocks");
        let mut bits = vec![0u8; blocks.div_ceil(8) as usize];
        for seed in (0..blocks).filter(|seed| has(*seed)) {
            bits[seed as usize / 8] |= 1 << (seed % 8);
        }
        let hello = Naming::hello(Some(&naming()));
        let answer = bytes(&frame(Kind::Answer, 2..size, bits));
        assert!(answers.bytes == [&*hello, &answer].concat(), "{blocks} blocks");
        assert_eq!(answers.flushed, [hello.len(), hello.len() + answer.len()]);
        // Who names blocks otherwise is asked for nothing, and says so.
        let mut answers = Kept::default();
        let other = ChunkSize::new(ByteSize(2 * CHUNK)).unwrap();
        let other = Naming { chunk_size: other, ..naming() };
        let refused = read(answering(&said, &mut answers, Some(other), |_| panic!("asked for")));
        assert_eq!(refused.is_ok(), (0..blocks).all(|seed| !has(seed)), "{blocks} blocks");
    }
}

#[test]
fn what_is_put_together_comes_in_frames_of_a_megabyte_that_follow_each_other() {
    let blocks = 600;
    let mut all: Vec<Says> = (0..300).map(|seed| Says::Block(seed % 300)).collect();
    all.push(Says::Hole(4));
    all.extend((300..596).map(|seed| Says::Block(seed % 300)));
    let offered = (0..300).chain((300..596).map(|seed| seed % 300));
    let offer = bytes(&frame(Kind::Offer, 0..blocks, named(offered)));
    let left = all.iter().map(|says| if let Says::Block(_) = says { Says::Left } else { *says });
    let rest = bytes(&frame(Kind::Rest, 0..blocks, body(&left.collect::<Vec<_>>())));
    let end = bytes(&frame(Kind::End, blocks..blocks, Vec::new()));
    let said = [&*head(blocks), &offer, &rest, &end].concat();
    let mut answers = Kept::default();
    let got = read(answering(&said, &mut answers, Some(naming()), |_| true)).unwrap();
    // A frame is closed with the block that fills it: 256 of them have 1 MiB and 1 KiB.
    let parts = [(0..256, 0..256), (256..516, 256..513), (516..600, 513..597)];
    let mut expected = head(blocks);
    for (blocks, items) in parts {
        expected.extend(bytes(&frame(Kind::Data, blocks, body(&all[items]))));
    }
    expected.extend(end);
    assert!(got == expected, "{} bytes, not {}", got.len(), expected.len());
    assert!(StreamReader::open(&*got).unwrap().next_frame().unwrap().is_some());
}

#[test]
fn offers_of_other_streams_and_twice_and_of_more_than_there_is_are_refused() {
    let offer = frame(Kind::Offer, 2..4, named(0..2));
    let other = Frame { names: Names { base: 2, ..NAMES }, ..offer.clone() };
    let more = frame(Kind::Offer, 2..4, named(0..3));
    let (nothing, nowhere) = ("it comes where it means nothing", "it offers what cannot be");
    for (frames, why) in [
        (bytes(&other), nothing),
        ([bytes(&offer), bytes(&offer)].concat(), nothing),
        (bytes(&more), nowhere),
        (
            [bytes(&offer), bytes(&frame(Kind::Data, 0..2, body(&[Says::Same(2)])))].concat(),
            nothing,
        ),
    ] {
        let said = [head(10), frames].concat();
        let mut answers = Kept::default();
        let error = read(answering(&said, &mut answers, Some(naming()), |_| true)).unwrap_err();
        assert!(error.ends_with(why), "{why}: {error}");
    }
}

#[test]
fn a_frame_fits_if_each_of_its_fields_and_items_does() {
    let says = [Says::Same(2), Says::Block(1), Says::Hole(1), Says::Zero(4)];
    let good = frame(Kind::Data, 2..10, body(&says));
    let base = |header: &mut Header, base| header.names.base = base;
    let mut of_ten = header(10);
    assert!(good.fits(&of_ten));
    base(&mut of_ten, 0);
    assert!(!good.fits(&of_ten), "what is the same as nothing");
    base(&mut of_ten, 1);
    let with = |change: &dyn Fn(&mut Frame)| {
        let mut frame = good.clone();
        change(&mut frame);
        frame.fits(&of_ten)
    };
    assert!(with(&|_| {}));
    for kind in [Kind::Header, Kind::End, Kind::Offer, Kind::Answer, Kind::Rest] {
        assert!(!with(&|frame| frame.kind = kind), "{kind:?}");
    }
    assert!(!with(&|frame| frame.from -= 1) && !with(&|frame| frame.from += CHUNK));
    assert!(!with(&|frame| frame.from -= CHUNK) && !with(&|frame| frame.upto += CHUNK));
    assert!(!with(&|frame| frame.upto -= CHUNK) && !with(&|frame| frame.upto -= 1));
    assert!(!with(&|frame| frame.body.push(0)) && !with(&|frame| frame.body.truncate(5)));
    assert!(!with(&|frame| frame.body.clear()));
    for nothing in [Says::Same(0), Says::Hole(0), Says::Zero(0)] {
        assert!(!with(&|frame| frame.body.extend(body(&[nothing]))));
    }
    // The last block may be cut short by the end of the volume, and no other.
    let short = Header { size_bytes: 10 * CHUNK - 100, ..header(10) };
    let cut = Frame { upto: short.size_bytes, ..good.clone() };
    assert!(cut.fits(&short) && !cut.fits(&of_ten) && !good.fits(&short));
    let none = Frame { from: CHUNK, upto: CHUNK, body: Vec::new(), ..good };
    assert!(!none.fits(&of_ten));
    let long = vec![0; CHUNK as usize + 1];
    for (len, fits) in [(CHUNK as usize, true), (CHUNK as usize + 1, false)] {
        let mut body = Body::default();
        body.push(Item::Block(Codec::Raw, &long[..len]));
        assert_eq!(frame(Kind::Data, 0..1, body.finish()).fits(&of_ten), fits, "{len} bytes");
    }
}

#[test]
fn what_makes_no_sense_is_no_frame_in_spite_of_its_checksum() {
    let good = bytes(&frame(Kind::Data, 2..4, body(&[Says::Hole(2)])));
    let decoded = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let end = bytes.len() - CHECK_BYTES;
        let sum = check(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum);
        Frame::decode(&bytes)
    };
    assert!(decoded(0, good[0]).is_ok());
    // Its length, its kind, what must be zero, and a beginning past its end.
    for (at, byte) in [(0, good[0] - 1), (4, 99), (5, 1), (6, 1), (7, 1), (30, 1)] {
        assert_eq!(decoded(at, byte).unwrap_err(), "a field makes no sense", "byte {at}");
    }
}

#[test]
fn a_header_has_a_size_names_that_differ_and_a_base_or_none() {
    let is_one = |change: &dyn Fn(&mut Header)| {
        let mut header = header(10);
        change(&mut header);
        let mut bytes = Vec::new();
        Frame::of_header(&header, &mut bytes);
        let read = StreamReader::open(&*bytes).map(|reader| reader.header().clone());
        assert!(read.as_ref().is_ok_and(|read| *read == header) || read.is_err());
        read.is_ok()
    };
    assert!(is_one(&|_| {}));
    for (size, is) in [(0, false), (1, true), (2, true), (u64::MAX >> 1, true), (1 << 63, false)] {
        assert_eq!(is_one(&|header| header.size_bytes = size), is, "{size} bytes");
    }
    assert!(is_one(&|header| header.names.snapshot = 2));
    assert!(!is_one(&|header| header.names.snapshot = 1), "its own base");
    assert!(!is_one(&|header| header.names.snapshot = 0));
    assert!(!is_one(&|header| header.names.base = 0), "a name of no base");
    assert!(!is_one(&|header| header.base_name.clear()), "a base without a name");
    assert!(is_one(&|header| {
        header.names = Names { base: 0, snapshot: 1 };
        header.base_name.clear();
    }));
}

#[test]
fn a_reader_begins_at_the_beginning_and_a_mark_needs_room() {
    let said = head(10);
    assert_eq!(StreamReader::open(&*said).unwrap().position(), 0);
    // A body of the longest that is believed is waited for, and none that is longer.
    for (len, is_cut) in [(BODY_BYTES_MAX as u32, true), (BODY_BYTES_MAX as u32 + 1, false)] {
        let mut claims = vec![0; HEAD_BYTES];
        claims[..4].copy_from_slice(&len.to_le_bytes());
        let said = [&*head(10), &claims].concat();
        let error = StreamReader::open(&*said).unwrap().next_frame().unwrap_err().to_string();
        assert_eq!(error.contains("cut short"), is_cut, "{error}");
    }
    for (room, is_marked) in [(Mark::BYTES as u64, true), (Mark::BYTES as u64 - 1, false)] {
        let device = MemDevice::new(10 * CHUNK + room);
        let mut receiver = Receiver::new(header(10), &device);
        let _ = receiver.mark(3 * CHUNK);
        let marked = Receiver::new(header(10), &device).marked().unwrap();
        assert_eq!(marked, is_marked.then_some(3 * CHUNK), "{room} bytes");
    }
}

#[test]
fn an_end_is_that_of_its_stream_and_says_nothing_else() {
    let whole = bytes(&frame(Kind::Data, 0..4, body(&[Says::Same(4)])));
    let ends = |end: &Frame| {
        let said = [&*head(4), &whole, &bytes(end)].concat();
        let mut reader = StreamReader::open(&*said).unwrap();
        assert!(reader.next_frame().unwrap().is_some());
        reader.next_frame().map(|after| after.is_none()).map_err(|error| error.to_string())
    };
    assert_eq!(ends(&frame(Kind::End, 4..4, Vec::new())), Ok(true));
    for (blocks, says) in [(3..4, 0), (4..5, 0), (3..3, 0), (4..4, 1)] {
        let error = ends(&frame(Kind::End, blocks.clone(), vec![0; says])).unwrap_err();
        assert!(error.contains("it is no end of this stream"), "{blocks:?}, {says}: {error}");
    }
}
