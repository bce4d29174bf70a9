//! A stream whose receiver is asked which blocks it has, so that these are not sent.
//! Room: onefold-pool.
//! Source: docs/stream-format.md, "Without what the receiver has".
//! In, of a sender: frames. Out, of a receiver: the stream as if all of it had been sent.
//! Invariants: (1) what a receiver puts in place of a block that was not sent are bytes that it
//! read from its own pool and hashed anew, with the full fingerprint that was offered; (2) what
//! the other side says can cost bandwidth, or end the stream, and nothing else; (3) memory stays
//! within that of a frame and [`HELD_BYTES_MAX`].

use std::io::{self, Read, Write};

use onefold_block::bytes::{Reader, Writer};
use onefold_block::{ByteSize, ChunkSize};
use onefold_content::{Codec, Decompressor, Fingerprint, FingerprintKind, Fingerprinter};

use super::error::StreamError;
use super::frame::{Body, Frame, Header, Item, Kind, MAGIC, check};
use super::reader::read_frame;
use super::receiver::MARK_BYTES;

/// What a receiver begins with.
const HELLO_MAGIC: &[u8; 8] = b"ONEFHAVE";
const HELLO_VERSION: u32 = 1;
const HELLO_BYTES: usize = 68;
const FINGERPRINT_BYTES: usize = 32;
/// Blocks that a receiver holds for one frame, in bytes; it says that it lacks the others.
pub const HELD_BYTES_MAX: usize = 32 << 20;
/// Fingerprints in one offer, a multiple of eight; later blocks of the frame are sent.
const OFFERED_MAX: usize = 64 << 10;
/// A frame that is put together again is closed at so many bytes.
const BODY_BYTES: usize = 1 << 20;

/// How a pool names blocks, where equal names are equal blocks.
#[derive(Clone, PartialEq, Eq)]
pub struct Naming {
    /// A strong one.
    pub kind: FingerprintKind,
    /// What fingerprints of that kind depend on beside the block.
    pub key: [u8; 32],
    /// How long blocks are.
    pub chunk_size: ChunkSize,
}

impl Naming {
    /// What a receiver begins with; without a naming, it has nothing.
    pub fn hello(naming: Option<&Self>) -> Vec<u8> {
        let mut hello = Writer::default();
        hello.bytes(HELLO_MAGIC);
        hello.u32(HELLO_VERSION);
        hello.u8(naming.map_or(0, |naming| naming.kind.id()));
        hello.bytes(&[0; 3]);
        hello.u32(naming.map_or(0, |naming| naming.chunk_size.get()));
        hello.bytes(&naming.map_or([0; 32], |naming| naming.key));
        let check = check(&hello.0);
        hello.bytes(&check);
        hello.0
    }

    /// What a receiver said first.
    pub fn read_hello(mut from: impl Read) -> Result<Option<Self>, StreamError> {
        let mut hello = [0; HELLO_BYTES];
        from.read_exact(&mut hello).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => no_answer("it ended without an answer"),
            _ => error.into(),
        })?;
        Self::decode(&hello).map_err(|()| no_answer("it does not answer as a receiver does"))
    }

    fn decode(hello: &[u8; HELLO_BYTES]) -> Result<Option<Self>, ()> {
        let (covered, found) = hello.split_last_chunk::<16>().ok_or(())?;
        let mut reader = Reader::new(covered);
        let fields = (|| {
            let (magic, version) = (reader.array::<8>()?, reader.u32()?);
            let (kind, zero) = (reader.u8()?, reader.array::<3>()?);
            let fits = magic == *HELLO_MAGIC && version == HELLO_VERSION && zero == [0; 3];
            let (chunk, key) = (reader.u32()?, reader.array::<32>()?);
            (fits && check(covered) == *found).then_some((kind, chunk, key))
        })();
        let (kind, chunk, key) = fields.ok_or(())?;
        if kind == 0 {
            return Ok(None);
        }
        let kind = FingerprintKind::from_id(kind).filter(|kind| kind.is_strong()).ok_or(())?;
        let chunk_size = ChunkSize::new(ByteSize(u64::from(chunk))).map_err(|_| ())?;
        Ok(Some(Self { kind, key, chunk_size }))
    }
}

fn no_answer(why: &str) -> StreamError {
    StreamError::Io(io::Error::other(why.to_owned()))
}

fn nonsense(at: u64, problem: &str) -> StreamError {
    StreamError::Damaged { at, problem: problem.to_owned() }
}

/// Sends frames without the blocks that the receiver has.
pub struct Asker<R, W> {
    from: R,
    to: W,
    /// Nothing is offered to a receiver whose blocks are others.
    fingerprinter: Option<Fingerprinter>,
    header: Header,
    decompressor: Decompressor,
    answered: u64,
    /// The byte of the volume that the last frame begins with that was answered.
    stored: u64,
    left_out: u64,
}

impl<R: Read, W: Write> Asker<R, W> {
    /// Send what the stream begins with, and hear what the receiver begins with.
    pub fn begin(mut from: R, mut to: W, head: &[u8], header: Header) -> Result<Self, StreamError> {
        to.write_all(head)?;
        to.flush()?;
        let naming = Naming::read_hello(&mut from)?;
        let naming = naming.filter(|naming| naming.chunk_size == header.chunk_size);
        let fingerprinter = naming.map(|n| Fingerprinter::with_key(n.kind, n.key));
        let decompressor = Decompressor::new();
        let (answered, stored, left_out) = (0, 0, 0);
        Ok(Self { from, to, fingerprinter, header, decompressor, answered, stored, left_out })
    }

    /// The receiver has stored what comes before this byte of the volume: it answered for what
    /// follows. 0 as long as it was not asked.
    pub const fn stored_bytes(&self) -> u64 {
        self.stored
    }

    /// A receiver that dies now goes on with what comes before this byte, or more.
    pub const fn marked_bytes(&self) -> u64 {
        self.stored - self.stored % MARK_BYTES
    }

    /// Blocks that were not sent, in bytes.
    pub const fn left_out_bytes(&self) -> u64 {
        self.left_out * self.header.chunk_size.bytes64()
    }

    /// Send a frame, the bytes of which are `bytes`.
    pub fn send(&mut self, frame: &Frame, bytes: &[u8]) -> Result<(), StreamError> {
        let offer = self.offer(frame)?;
        if offer.is_empty() {
            self.to.write_all(bytes)?;
            return Ok(self.to.flush()?);
        }
        let offered = offer.len() / FINGERPRINT_BYTES;
        let mut out = Vec::new();
        Frame { kind: Kind::Offer, body: offer, ..frame.clone() }.encode(&mut out);
        self.to.write_all(&out)?;
        self.to.flush()?;
        let at = self.answered;
        let answer = read_frame(&mut self.from, &mut self.answered, &mut out)?;
        let fits = answer.kind == Kind::Answer
            && (answer.names, answer.from, answer.upto) == (frame.names, frame.from, frame.upto)
            && answer.body.len() == offered.div_ceil(8);
        if !fits {
            return Err(nonsense(at, "it is no answer to what was asked"));
        }
        self.stored = frame.from;
        let has = |number: usize| {
            answer.body.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1)
        };
        let (mut body, mut number) = (Body::default(), 0);
        for item in frame.items() {
            let Item::Block(..) = item else {
                body.push(item);
                continue;
            };
            let left_out = has(number);
            self.left_out += u64::from(left_out);
            body.push(if left_out { Item::Block(Codec::Raw, &[]) } else { item });
            number += 1;
        }
        out.clear();
        Frame { kind: Kind::Rest, body: body.finish(), ..frame.clone() }.encode(&mut out);
        self.to.write_all(&out)?;
        Ok(self.to.flush()?)
    }

    /// The fingerprints of a frame's blocks.
    fn offer(&mut self, frame: &Frame) -> Result<Vec<u8>, StreamError> {
        let mut offer = Vec::new();
        let Some(fingerprinter) = &self.fingerprinter else { return Ok(offer) };
        let mut block = vec![0; self.header.chunk_size.bytes()];
        for item in frame.items() {
            let Item::Block(codec, stored) = item else { continue };
            if offer.len() == OFFERED_MAX * FINGERPRINT_BYTES {
                break;
            }
            let decoded = self.decompressor.decompress_into(codec, stored, &mut block);
            decoded.map_err(|error| nonsense(0, &error.to_string()))?;
            offer.extend_from_slice(fingerprinter.hash(&block).as_bytes());
        }
        Ok(offer)
    }

    /// Nothing more is sent.
    pub fn finish(self) -> W {
        self.to
    }
}

/// Finds blocks by their full fingerprints; calls back with the number and bytes of each that there
/// is, read and verified.
pub type Find =
    Box<dyn FnMut(&[Fingerprint], &mut dyn FnMut(usize, &[u8])) -> io::Result<()> + Send>;

/// A block that was offered, if it is here.
type Held = Option<Box<[u8]>>;

/// Answers a sender, and reads as the stream that it would have sent.
pub struct Answering<R, W> {
    from: R,
    to: W,
    naming: Option<Naming>,
    find: Find,
    at: u64,
    header: Option<Header>,
    /// What was offered for which frame, and what there is of it.
    held: Option<(Frame, Vec<Held>)>,
    ready: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl<R: Read, W: Write> Answering<R, W> {
    /// Answer whoever writes to `from` and reads from `to`.
    pub fn new(from: R, to: W, naming: Option<Naming>, find: Find) -> Self {
        let (header, held, ready) = (None, None, io::Cursor::default());
        let at = MAGIC.len() as u64;
        Self { from, to, naming, find, at, header, held, ready, ended: false }
    }

    fn step(&mut self) -> Result<(), StreamError> {
        let Some(header) = self.header.clone() else { return self.begin() };
        let mut bytes = Vec::new();
        if self.ended {
            // Nothing should follow; whoever reads says so if it does.
            (&mut self.from).take(1).read_to_end(&mut bytes)?;
            self.ready = io::Cursor::new(bytes);
            return Ok(());
        }
        let begun = self.at;
        let frame = read_frame(&mut self.from, &mut self.at, &mut bytes)?;
        match frame.kind {
            Kind::Offer if frame.names == header.names && self.held.is_none() => {
                self.answer(&frame, &header).map_err(|problem| nonsense(begun, problem))??;
            }
            Kind::Rest => {
                let held = self.held.take();
                let held = held.filter(|(offer, _)| {
                    (offer.names, offer.from, offer.upto) == (frame.names, frame.from, frame.upto)
                });
                let (_, held) =
                    held.ok_or_else(|| nonsense(begun, "nothing was offered for it"))?;
                let frames = put_together(&frame, &held, &header);
                self.ready = io::Cursor::new(frames.map_err(|problem| nonsense(begun, problem))?);
            }
            Kind::Data | Kind::End if self.held.is_none() => {
                self.ended = frame.is_end();
                self.ready = io::Cursor::new(bytes);
            }
            _ => return Err(nonsense(begun, "it comes where it means nothing")),
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), StreamError> {
        self.to.write_all(&Naming::hello(self.naming.as_ref()))?;
        self.to.flush()?;
        let mut bytes = Vec::new();
        (&mut self.from).take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
        if bytes != MAGIC {
            return Err(StreamError::NoStream);
        }
        let frame = read_frame(&mut self.from, &mut self.at, &mut bytes)?;
        let problem = "it does not say what the stream is";
        self.header = Some(frame.header().map_err(|version| match version {
            Some(version) => StreamError::Version(version),
            None => nonsense(MAGIC.len() as u64, problem),
        })?);
        self.ready = io::Cursor::new([&MAGIC[..], &bytes].concat());
        Ok(())
    }

    /// Look for what is offered, hold what there is, and say so.
    fn answer(
        &mut self,
        offer: &Frame,
        header: &Header,
    ) -> Result<Result<(), StreamError>, &'static str> {
        let chunk = header.chunk_size.bytes();
        let blocks = (offer.upto - offer.from).div_ceil(chunk as u64);
        let offered = offer.body.len() / FINGERPRINT_BYTES;
        let whole = offer.body.len().is_multiple_of(FINGERPRINT_BYTES);
        if !whole || offered as u64 > blocks || !(1..=OFFERED_MAX).contains(&offered) {
            return Err("it offers what cannot be");
        }
        let wanted = offer.body.as_chunks().0.iter().map(|bytes| Fingerprint::from_bytes(*bytes));
        let known = self.naming.as_ref().is_some_and(|n| n.chunk_size == header.chunk_size);
        let most = if known { HELD_BYTES_MAX / chunk } else { 0 };
        let wanted: Vec<Fingerprint> = wanted.take(most).collect();
        let mut held: Vec<Held> = vec![None; offered];
        let mut bits = vec![0; offered.div_ceil(8)];
        let found = (self.find)(&wanted, &mut |number, block| {
            if let Some(slot) = held.get_mut(number).filter(|_| block.len() == chunk) {
                *slot = Some(block.into());
                bits[number / 8] |= 1 << (number % 8);
            }
        });
        if let Err(error) = found {
            return Ok(Err(error.into()));
        }
        let mut out = Vec::new();
        let (kind, names, from, upto) = (Kind::Answer, offer.names, offer.from, offer.upto);
        Frame { kind, names, from, upto, body: bits }.encode(&mut out);
        let offer = Frame { kind: Kind::Offer, names, from, upto, body: Vec::new() };
        self.held = Some((offer, held));
        Ok(self.to.write_all(&out).and_then(|()| self.to.flush()).map_err(StreamError::from))
    }
}

/// The frames that would have been sent.
fn put_together(frame: &Frame, held: &[Held], header: &Header) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::new();
    let chunk = header.chunk_size.bytes64();
    let (mut body, mut from, mut upto) = (Body::default(), frame.from, frame.from);
    let mut number = 0;
    for item in frame.items() {
        let blocks = match item {
            Item::Same(blocks) | Item::Hole(blocks) | Item::Zero(blocks) => {
                body.push(item);
                blocks
            }
            Item::Block(codec, stored) => {
                let stored = if stored.is_empty() {
                    let block = held.get(number).and_then(Option::as_deref);
                    block.ok_or("a block is left out that is not here")?
                } else {
                    stored
                };
                number += 1;
                body.push(Item::Block(codec, stored));
                1
            }
        };
        let end = blocks.checked_mul(chunk).and_then(|len| upto.checked_add(len));
        upto = end.ok_or("what it says of blocks makes no sense")?.min(frame.upto);
        if body.len() >= BODY_BYTES && upto < frame.upto {
            let (kind, names, done) = (Kind::Data, frame.names, std::mem::take(&mut body));
            Frame { kind, names, from, upto, body: done.finish() }.encode(&mut out);
            from = upto;
        }
    }
    let (kind, names, upto) = (Kind::Data, frame.names, frame.upto);
    Frame { kind, names, from, upto, body: body.finish() }.encode(&mut out);
    Ok(out)
}

impl<R: Read, W: Write> Read for Answering<R, W> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let len = self.ready.read(buf)?;
            if len > 0 || buf.is_empty() {
                return Ok(len);
            }
            self.step().map_err(|error| match error {
                StreamError::Io(error) => error,
                error => io::Error::other(error),
            })?;
            if self.ended && self.ready.get_ref().is_empty() {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_kind_is_none_however_well_it_is_summed() {
        let naming = Naming {
            kind: FingerprintKind::Blake3,
            key: [7; 32],
            chunk_size: ChunkSize::new(ByteSize(4096)).unwrap(),
        };
        for naming in [None, Some(&naming)] {
            let hello = Naming::hello(naming);
            assert!(Naming::read_hello(&hello[..]).unwrap().as_ref() == naming);
            // The magic, the version, what is kept free, and the sum itself.
            for changed in [0, 7, 8, 11, 13, 15, HELLO_BYTES - 16, HELLO_BYTES - 1] {
                let mut other = hello.clone();
                other[changed] ^= 1;
                if changed < HELLO_BYTES - 16 {
                    let sum = check(&other[..HELLO_BYTES - 16]);
                    other[HELLO_BYTES - 16..].copy_from_slice(&sum);
                }
                assert!(Naming::read_hello(&other[..]).is_err(), "byte {changed}");
            }
        }
    }
}
