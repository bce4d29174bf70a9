//! Streams of snapshots, read and received, also by a receiver that is asked what it has.
//! Room: onefold-fuzz.

use std::io::{self, Read, Write};
use std::sync::{Arc, LazyLock, Mutex};

use onefold_block::{BlockDevice as _, ByteSize, MemDevice, SimFolder};
use onefold_content::{Fingerprint, FingerprintKind, Fingerprinter};
use onefold_pool::stream::{
    Answering, Asker, Find, Frame, MAGIC, Naming, Receiver, StreamReader, receiving_bytes,
};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings};

/// Largest volume that is received into.
const SIZE_MAX: u64 = 256 << 10;
/// Bytes of a frame besides its body, and of its check.
const FRAME: (usize, usize) = (56, 16);

/// Any bytes as a stream, once as they are and once with every frame's check made right.
pub fn stream(data: &[u8]) {
    receive(data);
    receive(with_checks(data).as_slice());
}

fn with_checks(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let mut at = MAGIC.len();
    while let Some(len) = bytes.get(at..at + 4) {
        let body = u32::from_le_bytes(len.try_into().expect("four")) as usize;
        let end = at.saturating_add(body).saturating_add(FRAME.0);
        let Some(frame) = bytes.get_mut(at..end) else { break };
        let (covered, check) = frame.split_at_mut(body + FRAME.0 - FRAME.1);
        let digest = Fingerprinter::new(FingerprintKind::Blake3).hash(covered);
        check.copy_from_slice(&digest.as_bytes()[..FRAME.1]);
        at = end;
    }
    bytes
}

/// Any bytes as what a sender says to a receiver that is asked, once as they are and once with
/// every frame's check made right.
pub fn asked(data: &[u8]) {
    answer(data);
    answer(&with_checks(data));
}

/// The pool that has some of what is offered.
static ASKED: LazyLock<Pool> = LazyLock::new(|| {
    let pool = new_pool([7; 16]);
    let volume = pool.create_volume("other", ByteSize(20 * 4096)).expect("nothing fails here");
    volume.write_at(8192, &[7; 4096], false).expect("nothing fails here");
    volume.write_at(4 * 4096, &[3; 4096], false).expect("nothing fails here");
    drop(volume);
    pool
});

fn find() -> Find {
    Box::new(|wanted: &[Fingerprint], found: &mut dyn FnMut(usize, &[u8])| {
        ASKED.stored_blocks(wanted, found);
        Ok(())
    })
}

fn answer(data: &[u8]) {
    let mut said = Vec::new();
    receive(Answering::new(data, &mut said, ASKED.naming(), find()));
    let Some(mut rest) = said.get(Naming::hello(None).len()..) else {
        assert!(said.is_empty(), "a part of a hello");
        return;
    };
    assert!(Naming::read_hello(&*said).is_ok_and(|naming| naming == ASKED.naming()));
    // Answers are frames, one after the other, and no longer than what was asked.
    assert!(rest.len() <= data.len(), "{} said to {}", rest.len(), data.len());
    while let Some(len) = rest.first_chunk() {
        let (frame, more) = rest.split_at(u32::from_le_bytes(*len) as usize + FRAME.0);
        let frame = Frame::decode(frame).expect("what is answered is a frame");
        assert!(!frame.is_end() && frame.from <= frame.upto);
        rest = more;
    }
    assert!(rest.is_empty());
}

fn receive(data: impl Read) {
    let Ok(mut reader) = StreamReader::open(data) else { return };
    let header = reader.header().clone();
    let size = header.size_bytes;
    let device = MemDevice::new(receiving_bytes(size.min(SIZE_MAX), 4096).unwrap_or(0));
    let mut receiver = Receiver::new(header, &device);
    let mut upto = 0;
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.upto > upto && frame.from <= upto && frame.upto <= size, "in order");
        upto = frame.upto;
        assert!(frame.items().next().is_some());
        if size <= SIZE_MAX {
            let _ = receiver.store(&frame);
        }
    }
    if size <= SIZE_MAX {
        let _ = receiver.mark(upto);
        let marked = receiver.marked().expect("memory does not fail");
        assert_eq!(marked, Some(upto), "nothing was written past the end");
    }
}

fn new_pool(uuid: [u8; 16]) -> Pool {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid, key: [2; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).expect("nothing fails here");
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets });
    pool.expect("nothing fails here")
}

/// A small pool with two snapshots.
fn small_pool() -> Pool {
    let pool = new_pool([1; 16]);
    let volume = pool.create_volume("main", ByteSize(20 * 4096 + 512)).expect("nothing fails here");
    volume.write_at(4096, &[7; 9000], false).expect("nothing fails here");
    pool.snapshot("main@a", 0, false).expect("nothing fails here");
    volume.write_at(0, &[9; 4096], false).expect("nothing fails here");
    pool.snapshot("main@b", 0, false).expect("nothing fails here");
    drop(volume);
    pool
}

/// What was written to it is kept.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

struct Tee<W>(W, Kept);

impl<W: Write> Write for Tee<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = self.0.write(buf)?;
        self.1.0.lock().expect("nobody panics with it").extend_from_slice(&buf[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What a sender says to the receiver above.
pub fn offers() -> Vec<Vec<u8>> {
    let pool = small_pool();
    let said = |name: &str, base: Option<&str>| {
        let (data_in, data_out) = io::pipe().expect("a pipe");
        let (answers_in, answers_out) = io::pipe().expect("a pipe");
        let answering = Answering::new(data_in, answers_out, ASKED.naming(), find());
        let receiver = std::thread::spawn(move || receive(answering));
        let (mut head, kept) = (Vec::new(), Kept::default());
        let header = pool.stream_header(name, base, &mut head).expect("nothing fails here");
        let to = Tee(data_out, kept.clone());
        let mut asker = Asker::begin(answers_in, to, &head, header).expect("it answers");
        let mut next = Some(0);
        while let Some(from) = next {
            let mut bytes = Vec::new();
            next = pool.stream_frame(name, base, from, &mut bytes).expect("nothing fails here");
            let frame = Frame::decode(&bytes).expect("a frame");
            asker.send(&frame, &bytes).expect("it answers");
        }
        assert_eq!(asker.left_out_bytes() > 0, base.is_none(), "of the first it has some");
        drop(asker.finish());
        receiver.join().expect("it receives all of it");
        kept.0.lock().expect("nobody panics with it").clone()
    };
    vec![said("main@a", None), said("main@b", Some("main@a"))]
}

/// Streams of a small pool.
pub fn streams() -> Vec<Vec<u8>> {
    let pool = small_pool();
    let stream = |name, base| {
        let mut bytes = Vec::new();
        pool.stream_header(name, base, &mut bytes).expect("nothing fails here");
        let mut next = Some(0);
        while let Some(from) = next {
            next = pool.stream_frame(name, base, from, &mut bytes).expect("nothing fails here");
        }
        bytes
    };
    vec![stream("main@a", None), stream("main@b", Some("main@a"))]
}
