//! Frames off a reader, each verified before it is given.
//! Room: onefold-pool.
//! Invariants: (1) what is given was written as that stream, in that order, with nothing left out;
//! (2) nothing is given after an error; (3) memory stays within that of one frame, whatever
//! lengths are claimed.

use std::io::Read;

use super::error::StreamError;
use super::frame::{BODY_BYTES_MAX, CHECK_BYTES, Frame, HEAD_BYTES, Header, Kind, MAGIC, body_len};

/// A stream that is being read.
pub struct StreamReader<R> {
    input: R,
    header: Header,
    /// Bytes of the stream that were read.
    at: u64,
    /// The byte of the volume that comes next.
    next: u64,
    /// No frame of data was given yet: a sender may begin before `next`.
    fresh: bool,
    ended: bool,
    bytes: Vec<u8>,
}

/// Fill `buf`, or less where the input ends.
fn fill(input: &mut impl Read, buf: &mut Vec<u8>, len: usize) -> Result<usize, StreamError> {
    let before = buf.len();
    // It grows with what comes, not with what is claimed.
    input.take(len as u64).read_to_end(buf)?;
    Ok(buf.len() - before)
}

impl<R: Read> StreamReader<R> {
    /// Begin to read: what the stream says of itself.
    pub fn open(mut input: R) -> Result<Self, StreamError> {
        let mut bytes = Vec::new();
        fill(&mut input, &mut bytes, MAGIC.len())?;
        if bytes != MAGIC {
            return Err(StreamError::NoStream);
        }
        let mut at = bytes.len() as u64;
        let frame = read_frame(&mut input, &mut at, &mut bytes)?;
        let damaged = |problem: &str| StreamError::Damaged {
            at: MAGIC.len() as u64,
            problem: problem.to_owned(),
        };
        let header = frame.header().map_err(|version| match version {
            Some(version) => StreamError::Version(version),
            None => damaged("it does not say what the stream is"),
        })?;
        Ok(Self { input, header, at, next: 0, fresh: true, ended: false, bytes })
    }

    /// What the stream says of itself.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// What comes before this byte of the volume was received already: frames of that alone are
    /// passed over.
    pub fn skip_to(&mut self, upto: u64) {
        self.next = upto;
    }

    /// The byte of the volume up to which frames were given.
    pub const fn position(&self) -> u64 {
        self.next
    }

    /// The next frame of data; `None` after the last, once it is sure that it was.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, StreamError> {
        while !self.ended {
            let begun = self.at;
            let frame = read_frame(&mut self.input, &mut self.at, &mut self.bytes)?;
            if frame.names != self.header.names {
                return Err(StreamError::Foreign { at: begun });
            }
            if frame.is_end() {
                self.check_end(begun, &frame)?;
                self.ended = true;
                break;
            }
            if !frame.fits(&self.header) {
                let problem = "what it says of blocks makes no sense".to_owned();
                return Err(StreamError::Damaged { at: begun, problem });
            }
            let in_order =
                if self.fresh { frame.from <= self.next } else { frame.from == self.next };
            if !in_order {
                let (found, expected) = (frame.from, self.next);
                return Err(StreamError::Order { at: begun, found, expected });
            }
            if frame.upto <= self.next {
                // Received before. The one after it must follow it all the same.
                self.fresh = true;
                continue;
            }
            self.fresh = false;
            self.next = frame.upto;
            return Ok(Some(frame));
        }
        Ok(None)
    }

    fn check_end(&mut self, begun: u64, frame: &Frame) -> Result<(), StreamError> {
        let size = self.header.size_bytes;
        if frame.from != size || frame.upto != size || !frame.body.is_empty() {
            let problem = "it is no end of this stream".to_owned();
            return Err(StreamError::Damaged { at: begun, problem });
        }
        if self.next != size {
            return Err(StreamError::Order { at: begun, found: size, expected: self.next });
        }
        if fill(&mut self.input, &mut self.bytes, 1)? > 0 {
            return Err(StreamError::More { at: self.at });
        }
        Ok(())
    }
}

/// The next frame, whatever it is of.
pub(super) fn read_frame(
    input: &mut impl Read,
    at: &mut u64,
    bytes: &mut Vec<u8>,
) -> Result<Frame, StreamError> {
    let begun = *at;
    bytes.clear();
    let cut = |bytes: &[u8]| StreamError::Cut { at: begun + bytes.len() as u64 };
    fill(input, bytes, HEAD_BYTES)?;
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Err(cut(bytes)) };
    let len = body_len(head);
    if len > BODY_BYTES_MAX {
        let problem = format!("it claims a body of {len} bytes");
        return Err(StreamError::Damaged { at: begun, problem });
    }
    if fill(input, bytes, len + CHECK_BYTES)? < len + CHECK_BYTES {
        return Err(cut(bytes));
    }
    *at += bytes.len() as u64;
    let frame = Frame::decode(bytes);
    let frame = frame.map_err(|problem| StreamError::Damaged { at: begun, problem })?;
    if frame.kind == Kind::Header && begun > MAGIC.len() as u64 {
        let problem = "a second stream begins there".to_owned();
        return Err(StreamError::Damaged { at: begun, problem });
    }
    Ok(frame)
}
