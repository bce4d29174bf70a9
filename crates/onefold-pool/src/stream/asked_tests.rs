//! A receiver that is asked, and what the two sides may be told by each other.
//! Room: onefold-pool.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use onefold_block::{BlockDevice as _, ByteSize, SimFolder};

use super::frame::{Frame, Kind};
use super::reader::StreamReader;
use super::{Answering, Asker, Naming};
use crate::{OpenOptions, Pool, PoolIdentity, PoolSettings};

const CHUNK: usize = 4096;
const BLOCKS: usize = 24;

fn block(seed: u64) -> Vec<u8> {
    onefold_block::SplitMix64::new(seed).bytes(CHUNK)
}

fn new_pool(key: u8) -> Pool {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [key; 16], key: [key; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
    Pool::open(&folder, &OpenOptions::default()).unwrap()
}

/// A pool with these blocks in a volume, and a snapshot of it.
fn pool_of(key: u8, seeds: impl Iterator<Item = u64>) -> Pool {
    let pool = new_pool(key);
    let volume = pool.create_volume("v", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    for (at, seed) in seeds.enumerate() {
        volume.write_at((at * CHUNK) as u64, &block(seed), false).unwrap();
    }
    pool.snapshot("v@s", 0, false).unwrap();
    pool
}

/// Written to by one side and remembered.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

struct Tee<W>(W, Kept);

impl<W: Write> Write for Tee<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = self.0.write(buf)?;
        self.1.0.lock().unwrap().extend_from_slice(&buf[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn answering<R: Read, W: Write>(pool: &Pool, from: R, to: W) -> Answering<R, W> {
    let of_find = pool.clone();
    let find = move |wanted: &[_], found: &mut dyn FnMut(usize, &[u8])| {
        of_find.stored_blocks(wanted, found);
        Ok(())
    };
    Answering::new(from, to, pool.naming(), Box::new(find))
}

/// Bytes of the volume, from a stream that covers all of it.
fn contents(input: impl Read) -> Result<Vec<u8>, String> {
    let mut reader = StreamReader::open(input).map_err(|e| e.to_string())?;
    let device = onefold_block::MemDevice::new(reader.header().size_bytes + 2 * CHUNK as u64);
    let mut receiver = super::Receiver::new(reader.header().clone(), &device);
    while let Some(frame) = reader.next_frame().map_err(|e| e.to_string())? {
        receiver.store(&frame).map_err(|e| e.to_string())?;
    }
    let mut bytes = vec![0; reader.header().size_bytes as usize];
    device.read_at(0, &mut bytes).unwrap();
    Ok(bytes)
}

/// All that a sender says to this receiver, what of it was left out, and what came out there.
fn sent(from: &Pool, to: &Pool) -> (Vec<u8>, u64, Vec<u8>) {
    let (data_out, data_in) = io::pipe().map(|(r, w)| (w, r)).unwrap();
    let (answers_out, answers_in) = io::pipe().map(|(r, w)| (w, r)).unwrap();
    let receiver = answering(to, data_in, answers_out);
    let receiver = std::thread::spawn(move || contents(receiver));
    let kept = Kept::default();
    let mut head = Vec::new();
    let header = from.stream_header("v@s", None, &mut head).unwrap();
    let to = Tee(data_out, kept.clone());
    let mut asker = Asker::begin(answers_in, to, &head, header).unwrap();
    let mut at = Some(0);
    while let Some(from_byte) = at {
        let mut bytes = Vec::new();
        at = from.stream_frame("v@s", None, from_byte, &mut bytes).unwrap();
        asker.send(&Frame::decode(&bytes).unwrap(), &bytes).unwrap();
    }
    let left_out = asker.left_out_bytes();
    drop(asker.finish());
    let got = receiver.join().unwrap().unwrap();
    let said = kept.0.lock().unwrap().clone();
    (said, left_out, got)
}

fn whole(pool: &Pool) -> Vec<u8> {
    let mut bytes = vec![0; BLOCKS * CHUNK];
    pool.volume("v").unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_the_receiver_has_is_not_sent_and_all_arrives() {
    let from = pool_of(1, 0..BLOCKS as u64);
    let (none, half) = (new_pool(2), pool_of(3, (0..BLOCKS as u64).step_by(2)));
    for (to, missing) in [(&none, BLOCKS), (&half, BLOCKS / 2), (&from, 0)] {
        let (said, left_out, got) = sent(&from, to);
        assert!(got == whole(&from));
        assert_eq!(left_out, ((BLOCKS - missing) * CHUNK) as u64);
        let most = missing * CHUNK + BLOCKS * 48 + 600;
        assert!((missing * CHUNK..most).contains(&said.len()), "{} of {missing}", said.len());
    }
    // Weak fingerprints are equal for other blocks: nothing is asked, and all is sent.
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [9; 16], key: [9; 32] };
    let fingerprint = onefold_content::FingerprintKind::Crc32;
    let settings = PoolSettings { fingerprint, ..PoolSettings::default() };
    Pool::create(&folder, &settings, identity).unwrap();
    let weak = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let copy = weak.create_volume("v", ByteSize((BLOCKS * CHUNK) as u64)).unwrap();
    copy.write_at(0, &whole(&from), false).unwrap();
    assert!(weak.naming().is_none());
    let (_, left_out, got) = sent(&from, &weak);
    assert!((left_out, got) == (0, whole(&from)));
}

#[test]
fn a_stream_goes_on_at_its_blocks_and_its_end_and_nowhere_else() {
    let pool = new_pool(1);
    let size = (3 * CHUNK + 512) as u64;
    pool.create_volume("v", ByteSize(size)).unwrap();
    pool.snapshot("v@s", 0, false).unwrap();
    let frame = |from: u64| pool.stream_frame("v@s", None, from, &mut Vec::new());
    for from in [1, 512, size - 1, size + 1, 4 * CHUNK as u64, 5 * CHUNK as u64] {
        let error = frame(from).unwrap_err().to_string();
        let said = "can go on at multiples of 4096 bytes up to 12800, not at ";
        assert!(error.contains(&format!("{said}{from}")), "{from}: {error}");
    }
    for from in [0, CHUNK as u64, 3 * CHUNK as u64] {
        assert_eq!(frame(from).unwrap(), Some(size), "{from}");
    }
    assert_eq!(frame(size).unwrap(), None);
}

#[test]
fn what_a_sender_counts_on_is_marked_whenever_the_receiver_dies() {
    let pool = new_pool(1);
    let mib = 1 << 20;
    let volume = pool.create_volume("v", ByteSize(130 * mib)).unwrap();
    // Frames are as long as what is stored in them.
    let piece: Vec<u8> = (0..256).flat_map(block).collect();
    for at in 0..130 {
        volume.write_at(at * mib, &piece, false).unwrap();
    }
    pool.snapshot("v@s", 0, false).unwrap();
    let (data_out, data_in) = io::pipe().map(|(r, w)| (w, r)).unwrap();
    let (answers_out, answers_in) = io::pipe().map(|(r, w)| (w, r)).unwrap();
    let to = new_pool(2);
    let answering = answering(&to, data_in, answers_out);
    let device = Arc::new(onefold_block::MemDevice::new(130 * mib + 2 * CHUNK as u64));
    let of_receiver = Arc::clone(&device);
    let receiver = std::thread::spawn(move || {
        let mut reader = StreamReader::open(answering).unwrap();
        let mut receiver = super::Receiver::new(reader.header().clone(), &*of_receiver);
        receiver.mark(0).unwrap();
        while let Some(frame) = reader.next_frame().unwrap() {
            receiver.store(&frame).unwrap();
        }
    });
    let mut head = Vec::new();
    let header = pool.stream_header("v@s", None, &mut head).unwrap();
    let mut asker = Asker::begin(answers_in, data_out, &head, header.clone()).unwrap();
    let (mut at, mut counted_on) = (Some(0), Vec::new());
    while let Some(from_byte) = at {
        let mut bytes = Vec::new();
        at = pool.stream_frame("v@s", None, from_byte, &mut bytes).unwrap();
        asker.send(&Frame::decode(&bytes).unwrap(), &bytes).unwrap();
        // Here the receiver may die: this is what is there of it.
        let marked = super::Receiver::new(header.clone(), &*device).marked().unwrap().unwrap();
        assert!(asker.marked_bytes() <= marked, "{} of {marked}", asker.marked_bytes());
        assert!(asker.stored_bytes() - asker.marked_bytes() < super::MARK_BYTES);
        counted_on.push(asker.marked_bytes());
    }
    counted_on.dedup();
    assert_eq!(counted_on, [0, 64 * mib, 128 * mib]);
    drop(asker.finish());
    receiver.join().unwrap();
}

#[test]
fn a_block_is_found_by_all_of_its_fingerprint_and_by_no_less() {
    let pool = pool_of(1, 0..BLOCKS as u64);
    let naming = pool.naming().unwrap();
    let named = onefold_content::Fingerprinter::with_key(naming.kind, naming.key).hash(&block(5));
    let found = |bytes: [u8; 32]| {
        let mut numbers = Vec::new();
        let wanted = [onefold_content::Fingerprint::from_bytes(bytes)];
        pool.stored_blocks(&wanted, &mut |number, found| {
            assert!(found == block(5));
            numbers.push(number);
        });
        numbers
    };
    assert_eq!(found(*named.as_bytes()), [0]);
    for at in 0..32 {
        let mut bytes = *named.as_bytes();
        bytes[at] ^= 1;
        assert!(found(bytes).is_empty(), "byte {at} of it is another");
    }
}

#[test]
fn a_forged_answer_ends_the_stream_and_a_forged_stream_brings_no_other_block() {
    let from = pool_of(1, 0..BLOCKS as u64);
    let half = pool_of(3, (0..BLOCKS as u64).step_by(2));
    let (said, ..) = sent(&from, &half);
    // The same said to who has nothing, as if somebody had answered for it.
    let error = contents(answering(&new_pool(2), &*said, io::sink())).unwrap_err();
    assert!(error.contains("left out that is not here"), "{error}");
    // A finder that hands out other blocks than were asked for would be found out by the pool's
    // own hash; one that hands out blocks of another length is not listened to.
    let find = Box::new(|_: &[_], found: &mut dyn FnMut(usize, &[u8])| {
        found(0, &[0; 512]);
        found(usize::MAX, &[0; CHUNK]);
        Ok(())
    });
    let forged = Answering::new(&*said, io::sink(), half.naming(), find);
    assert!(contents(forged).unwrap_err().contains("left out"));
    // Every byte flipped, every place cut off: an error, or what was sent.
    let expected = whole(&from);
    for at in (0..said.len()).step_by(7) {
        let mut bytes = said.clone();
        bytes[at] ^= 1;
        let got = contents(answering(&half, &*bytes, io::sink()));
        assert!(got.is_err(), "byte {at} flipped");
        let got = contents(answering(&half, &said[..at], io::sink()));
        assert!(got.is_err(), "cut at byte {at}");
    }
    assert!(contents(answering(&half, &*said, io::sink())).unwrap() == expected);
    // Who asks for nothing has nothing read or answered for it, which might wait for the sender.
    let (mut rest, answers) = (&*said, Kept::default());
    let mut idle = answering(&half, &mut rest, Tee(io::sink(), answers.clone()));
    assert_eq!(idle.read(&mut []).unwrap(), 0);
    drop(idle);
    assert!(rest.len() == said.len() && answers.0.lock().unwrap().is_empty());
    let more = [&*said, &[0]].concat();
    assert!(contents(answering(&half, &*more, io::sink())).is_err(), "more behind the end");
}

#[test]
fn offers_that_cannot_be_and_frames_out_of_place_are_refused() {
    let from = pool_of(1, 0..BLOCKS as u64);
    let mut head = Vec::new();
    let header = from.stream_header("v@s", None, &mut head).unwrap();
    let frame = |kind, upto: u64, body: Vec<u8>| {
        let mut bytes = Vec::new();
        Frame { kind, names: header.names, from: 0, upto, body }.encode(&mut bytes);
        bytes
    };
    let size = header.size_bytes;
    for (frames, why) in [
        (frame(Kind::Offer, size, vec![0; 31]), "offers what cannot be"),
        (frame(Kind::Offer, size, Vec::new()), "offers what cannot be"),
        (frame(Kind::Offer, size, vec![0; 32 * (BLOCKS + 1)]), "offers what cannot be"),
        (frame(Kind::Answer, size, vec![0]), "means nothing"),
        (frame(Kind::Rest, size, Vec::new()), "nothing was offered"),
        (
            [frame(Kind::Offer, 4096, vec![0; 32]), frame(Kind::Rest, 8192, vec![])].concat(),
            "nothing was offered",
        ),
        (
            [frame(Kind::Offer, 4096, vec![0; 32]), frame(Kind::End, size, vec![])].concat(),
            "means nothing",
        ),
    ] {
        let bytes = [&*head, &frames].concat();
        let error = contents(answering(&from, &*bytes, io::sink())).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
        // Nobody who is not asked takes any of it.
        assert!(contents(&*bytes).is_err());
    }
    let hello = Naming::hello(from.naming().as_ref());
    assert!(Naming::read_hello(&*hello).unwrap() == from.naming());
    for at in 0..hello.len() {
        let mut bytes = hello.clone();
        bytes[at] ^= 1;
        assert!(Naming::read_hello(&*bytes).is_err(), "byte {at}");
    }
    assert!(Naming::read_hello(&hello[..60]).is_err());
}
