//! Recordings of a door: every request as it came, with the identities of what was written.
//! Room: onefold-workload.   In: requests, from a server.   Out: a file in frames, and back.
//!
//! ```text
//! file    "ONEFREC1", unit u32 (bytes that an identity stands for), CRC-32 of both
//! frame   "FRAM" u32, payload length u32, CRC-32 of what follows, base time ns u64, payload
//! record  tag u8, then variable-length numbers: time since the base, stream, offset, length;
//!         behind a write with contents, 16 bytes for each piece cut at multiples of the unit
//! tag     0 to 3: read, write, TRIM, flush; 4: the name of a stream; 5: the host's hint that it is
//!         idle; and 8 if contents follow, 16 if the host says whether it is to be deduplicated, 32
//!         more if it is
//! ```
//!
//! Numbers of fixed length are little-endian. A frame is written with one call, so that a process
//! that is killed leaves whole frames and perhaps a torn one at the end, which is left out.
//! Invariants: (1) what is recorded comes back equal, frame by frame  (2) a damaged frame that is
//! not the last is an error  (3) no input panics or makes a reader hold more than a frame.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read as _, Write};

use crate::import::{ImportReport, SkipReason, TraceError};
use crate::request::{Identity, Op, Request};

/// The first bytes of a recording.
pub const RECORDING_MAGIC: &[u8; 8] = b"ONEFREC1";
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"FRAM");
/// A frame is closed once its payload has so many bytes.
pub const FRAME_BYTES: usize = 64 << 10;
/// Longest payload: a frame that was nearly full, and the longest request with all its pieces.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// Units that identities may stand for, in bytes.
pub const UNIT_BYTES: std::ops::RangeInclusive<u32> = 512..=4096;

const TAG_NAME: u8 = 4;
const TAG_IDLE: u8 = 5;
const TAG_CONTENT: u8 = 8;
const TAG_SAID: u8 = 16;
const TAG_DEDUPLICATE: u8 = 32;

/// The tag of an operation, without what is added to it.
const fn tag_of(op: Op) -> u8 {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Trim => 2,
        Op::Flush => 3,
        Op::Idle => TAG_IDLE,
    }
}

/// One request of a recording, before it is cut into pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// When it came, in nanoseconds of the recorder's clock.
    pub time_ns: u64,
    /// What it did.
    pub op: Op,
    /// Which of the devices.
    pub stream: u32,
    /// First byte; 0 for a flush or a hint.
    pub offset: u64,
    /// Number of bytes; 0 for a flush or a hint.
    pub length: u64,
    /// What a write wrote: one identity for each piece cut at multiples of the unit, or none.
    pub content: &'a [u128],
    /// Whether it is to be deduplicated or to keep its redundancy, where the host says.
    pub deduplicate: Option<bool>,
}

/// Frames in the making.
#[derive(Debug)]
pub struct RecordingEncoder {
    unit: u32,
    base_ns: Option<u64>,
    payload: Vec<u8>,
}

impl RecordingEncoder {
    /// An encoder for identities of so many bytes, a power of two in [`UNIT_BYTES`].
    pub fn new(unit: u32) -> Option<Self> {
        let fits = unit.is_power_of_two() && UNIT_BYTES.contains(&unit);
        fits.then(|| Self { unit, base_ns: None, payload: Vec::new() })
    }

    /// The beginning of the file.
    pub fn header(&self) -> Vec<u8> {
        let mut header = RECORDING_MAGIC.to_vec();
        header.extend(self.unit.to_le_bytes());
        header.extend(crc32fast::hash(&header).to_le_bytes());
        header
    }

    /// Names a device.
    pub fn name(&mut self, stream: u32, name: &str) {
        self.payload.push(TAG_NAME);
        put(&mut self.payload, u64::from(stream));
        put(&mut self.payload, name.len() as u64);
        self.payload.extend(name.as_bytes());
    }

    /// Adds a request. Contents that do not belong to its range are left out.
    pub fn push(&mut self, request: &Recorded<'_>) {
        let Recorded { time_ns, op, stream, offset, length, content, deduplicate } = *request;
        let base = *self.base_ns.get_or_insert(time_ns);
        let known =
            !content.is_empty() && content.len() as u64 == pieces(offset, length, self.unit);
        let word = match deduplicate {
            None => 0,
            Some(false) => TAG_SAID,
            Some(true) => TAG_SAID | TAG_DEDUPLICATE,
        };
        self.payload.push(tag_of(op) | word | if known { TAG_CONTENT } else { 0 });
        // Requests of several threads may come a little out of order.
        put(&mut self.payload, zigzag(time_ns.wrapping_sub(base).cast_signed()));
        for number in [u64::from(stream), offset, length] {
            put(&mut self.payload, number);
        }
        if known {
            self.payload.extend(content.iter().flat_map(|piece| piece.to_be_bytes()));
        }
    }

    /// Whether the frame is long enough to be written.
    pub fn is_full(&self) -> bool {
        self.payload.len() >= FRAME_BYTES
    }

    /// The frame, whole; nothing if nothing was added.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.payload.is_empty() {
            return None;
        }
        let mut body = self.base_ns.take().unwrap_or(0).to_le_bytes().to_vec();
        body.append(&mut self.payload);
        let mut frame = Vec::with_capacity(body.len() + 12);
        frame.extend(FRAME_MAGIC.to_le_bytes());
        frame.extend((body.len() as u32).to_le_bytes());
        frame.extend(crc32fast::hash(&body).to_le_bytes());
        frame.append(&mut body);
        Some(frame)
    }

    /// Writes header and frames of requests that are there already.
    pub fn write_all<'a>(
        mut self,
        requests: impl IntoIterator<Item = Recorded<'a>>,
        mut to: impl Write,
    ) -> io::Result<()> {
        to.write_all(&self.header())?;
        for request in requests {
            self.push(&request);
            if self.is_full() {
                to.write_all(&self.take().unwrap_or_default())?;
            }
        }
        to.write_all(&self.take().unwrap_or_default())?;
        to.flush()
    }
}

/// Pieces of a range that is cut at multiples of the unit.
const fn pieces(offset: u64, length: u64, unit: u32) -> u64 {
    let unit = unit as u64;
    if length == 0 {
        return 0;
    }
    (offset.saturating_add(length) - 1) / unit - offset / unit + 1
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Seven bits a byte, the lowest first, the highest bit set but on the last.
fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads a recording. A write with contents comes out as one request for each piece.
#[derive(Debug)]
pub struct RecordingReader<R> {
    input: R,
    unit: Option<u32>,
    frames: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    ready: VecDeque<Request>,
    names: Vec<String>,
    report: ImportReport,
    ended: bool,
}

/// A frame, or why there is none.
enum Frame {
    Body(Vec<u8>),
    End,
    Torn,
}

impl<R: BufRead> RecordingReader<R> {
    /// A reader of what begins with a recording's header.
    pub fn new(input: R) -> Self {
        Self {
            input,
            unit: None,
            frames: 0,
            first_ns: None,
            last_ns: 0,
            ready: VecDeque::new(),
            names: Vec::new(),
            report: ImportReport::default(),
            ended: false,
        }
    }

    /// What was read and left out so far; a line is a recorded request.
    pub const fn report(&self) -> &ImportReport {
        &self.report
    }

    /// The names of the devices that were named so far.
    pub fn stream_names(&self) -> &[String] {
        &self.names
    }

    fn wrong(&self, problem: &'static str) -> TraceError {
        TraceError::Frame { frame: self.frames, problem }
    }

    /// Fills `buf`; how many bytes there were.
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize, TraceError> {
        let (mut got, frame) = (0, self.frames);
        while got < buf.len() {
            match self.input.read(&mut buf[got..]) {
                Ok(0) => break,
                Ok(bytes) => got += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Read { line: frame, source }),
            }
        }
        Ok(got)
    }

    fn header(&mut self) -> Result<u32, TraceError> {
        if let Some(unit) = self.unit {
            return Ok(unit);
        }
        let mut header = [0; 16];
        let got = self.fill(&mut header)?;
        let [magic @ .., _, _, _, _, _, _, _, _] = &header;
        let field = |at: usize| header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let (unit, crc) = (field(8).map(u32::from_le_bytes), field(12).map(u32::from_le_bytes));
        let sound = got == header.len() && crc == Some(crc32fast::hash(&header[..12]));
        if magic != RECORDING_MAGIC || !sound {
            return Err(self.wrong("the header of the file is none of a recording, or damaged"));
        }
        let unit = unit.filter(|unit| unit.is_power_of_two() && UNIT_BYTES.contains(unit));
        let unit = unit.ok_or_else(|| self.wrong("an unknown unit of identities"))?;
        self.unit = Some(unit);
        Ok(unit)
    }

    fn frame(&mut self) -> Result<Frame, TraceError> {
        let mut head = [0; 12];
        let got = self.fill(&mut head)?;
        if got < head.len() {
            return Ok(if got == 0 { Frame::End } else { Frame::Torn });
        }
        let [m0, m1, m2, m3, l0, l1, l2, l3, c0, c1, c2, c3] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if u32::from_le_bytes([m0, m1, m2, m3]) != FRAME_MAGIC
            || !(8..=PAYLOAD_BYTES_MAX).contains(&length)
        {
            return Err(self.wrong("no frame begins where one should"));
        }
        let mut body = Vec::new();
        let frame = self.frames;
        let read = self.input.by_ref().take(length as u64).read_to_end(&mut body);
        read.map_err(|source| TraceError::Read { line: frame, source })?;
        if body.len() < length {
            return Ok(Frame::Torn);
        }
        if crc32fast::hash(&body) == u32::from_le_bytes([c0, c1, c2, c3]) {
            return Ok(Frame::Body(body));
        }
        // The last frame may have been cut off by a loss of power in any way.
        let rest = self.input.fill_buf();
        let rest = rest.map_err(|source| TraceError::Read { line: frame, source })?;
        if rest.is_empty() { Ok(Frame::Torn) } else { Err(self.wrong("a wrong checksum")) }
    }

    /// Reads the next frame with a request in it; whether there is one.
    fn more(&mut self) -> Result<bool, TraceError> {
        let unit = self.header()?;
        while self.ready.is_empty() {
            self.frames += 1;
            match self.frame()? {
                Frame::End => return Ok(false),
                Frame::Torn => {
                    self.report.skip(SkipReason::TornEnd);
                    return Ok(false);
                }
                Frame::Body(body) => self
                    .decode(&body, unit)
                    .ok_or_else(|| self.wrong("a request that makes no sense"))?,
            }
        }
        Ok(true)
    }

    fn decode(&mut self, body: &[u8], unit: u32) -> Option<()> {
        let (base, mut from) = body.split_first_chunk::<8>()?;
        let base = u64::from_le_bytes(*base);
        while let Some((&tag, rest)) = from.split_first() {
            from = rest;
            if tag == TAG_NAME {
                let stream = number(&mut from)?;
                let length = usize::try_from(number(&mut from)?).ok()?;
                let (name, rest) = from.split_at_checked(length)?;
                from = rest;
                // Names come in the order of their numbers.
                if stream == self.names.len() as u64 {
                    self.names.push(String::from_utf8_lossy(name).into_owned());
                }
                continue;
            }
            let deduplicate = match tag & (TAG_SAID | TAG_DEDUPLICATE) {
                0 => None,
                TAG_DEDUPLICATE => return None,
                word => Some(word & TAG_DEDUPLICATE != 0),
            };
            let op = tag & !(TAG_CONTENT | TAG_SAID | TAG_DEDUPLICATE);
            let op = Op::ALL.into_iter().find(|known| tag_of(*known) == op)?;
            let time = base.checked_add_signed(unzigzag(number(&mut from)?))?;
            let stream = u32::try_from(number(&mut from)?).ok()?;
            let (offset, length) = (number(&mut from)?, number(&mut from)?);
            offset.checked_add(length)?;
            self.report.lines += 1;
            let first = *self.first_ns.get_or_insert(time);
            self.report.before_first += u64::from(time < first);
            let time_ns = time.saturating_sub(first);
            let whole = Request {
                time_ns,
                op,
                offset,
                length,
                identity: None,
                stream: Some(stream),
                pid: None,
                deduplicate,
            };
            if tag & TAG_CONTENT == 0 {
                self.ready.push_back(whole);
                continue;
            }
            let count = usize::try_from(pieces(offset, length, unit)).ok()?;
            let (identities, rest) = from.split_at_checked(count.checked_mul(Identity::LEN)?)?;
            from = rest;
            self.report.expanded += u64::from(count > 1);
            let mut at = offset;
            for identity in identities.chunks_exact(Identity::LEN) {
                let end =
                    (at / u64::from(unit) + 1).saturating_mul(unit.into()).min(offset + length);
                let identity = Some(Identity::from_bytes(identity.try_into().ok()?));
                self.ready.push_back(Request { offset: at, length: end - at, identity, ..whole });
                at = end;
            }
        }
        Some(())
    }
}

impl<R: BufRead> Iterator for RecordingReader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() && !self.ended {
            match self.more() {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    self.ready.clear();
                    return Some(Err(error));
                }
            }
        }
        let request = self.ready.pop_front()?;
        self.report.count(&request, &mut self.last_ns);
        Some(Ok(request))
    }
}
