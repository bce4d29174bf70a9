//! A device that tells a sink what goes through it, as records that can be written and replayed.
//! Room: onefold-block.
//!
//! A record as a line, fields parted by one space:
//! `TIME VERB OFFSET LEN FLAGS RESULT [HASH,HASH,...]`, times in nanoseconds and ranges in bytes;
//! FLAGS are letters of `f` (force unit access), `n` (no hole) and `q` (fast only) or `-`; RESULT
//! is `ok` or `err`; HASH is a content hash in 32 hexadecimal digits, one for each piece of what
//! was read or written, cut at multiples of the hash's block size.
//! Invariants: one record per request, when it ends; a read that failed has no hashes.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use super::{Clock, Verb};
use crate::device::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};

/// One request that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it came, in nanoseconds of the recorder's clock.
    pub time_ns: u64,
    /// What was asked.
    pub verb: Verb,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The flags of a change; all false for other verbs.
    pub options: ZeroOptions,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Content hashes of the pieces read or written, if they were asked for.
    pub content: Vec<u128>,
}

/// Takes records, from many threads at once.
pub trait TraceSink: Send + Sync {
    /// Take one record.
    fn record(&self, record: TraceRecord);
}

/// How contents are identified.
#[derive(Clone, Copy, Debug)]
pub struct ContentHash {
    /// Pieces are cut at multiples of this many bytes; not zero.
    pub block_bytes: u32,
    /// Whether what is read is hashed, and not only what is written.
    pub reads: bool,
    /// What the hash depends on beside the content.
    pub key: u64,
    /// The hash of a piece, under the key.
    pub hash: fn(u64, &[u8]) -> u128,
}

impl ContentHash {
    fn pieces(&self, offset: u64, data: &[u8]) -> Vec<u128> {
        let block = u64::from(self.block_bytes);
        let first = (block - offset % block).min(data.len() as u64) as usize;
        let (head, rest) = data.split_at(first);
        let pieces = rest.chunks(self.block_bytes as usize);
        let pieces = std::iter::once(head).filter(|p| !p.is_empty()).chain(pieces);
        pieces.map(|piece| (self.hash)(self.key, piece)).collect()
    }
}

/// A device that records before another device.
pub struct RecordDevice<D> {
    inner: D,
    sink: Arc<dyn TraceSink>,
    clock: Arc<dyn Clock>,
    hash: Option<ContentHash>,
}

impl<D: BlockDevice> RecordDevice<D> {
    /// Stand before `inner` and tell `sink`; contents are hashed only if `hash` says how.
    pub fn new(
        inner: D,
        sink: Arc<dyn TraceSink>,
        clock: Arc<dyn Clock>,
        hash: Option<ContentHash>,
    ) -> Self {
        assert!(hash.is_none_or(|h| h.block_bytes > 0), "pieces must not be empty");
        Self { inner, sink, clock, hash }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Do a request without contents and record it.
    fn observe<T>(
        &self,
        verb: Verb,
        (offset, len): (u64, u64),
        options: ZeroOptions,
        request: impl FnOnce() -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        let time_ns = self.clock.now_ns();
        let result = request();
        let (succeeded, content) = (result.is_ok(), Vec::new());
        self.sink.record(TraceRecord { time_ns, verb, offset, len, options, succeeded, content });
        result
    }

    fn record_data(&self, time_ns: u64, verb: Verb, request: WriteRequest<'_>, succeeded: bool) {
        let WriteRequest { offset, data, fua } = request;
        let known = succeeded || verb == Verb::Write;
        let wanted = |hash: &ContentHash| known && (verb == Verb::Write || hash.reads);
        let content = match &self.hash {
            Some(hash) if wanted(hash) => hash.pieces(offset, data),
            _ => Vec::new(),
        };
        let options = ZeroOptions { fua, ..ZeroOptions::default() };
        let len = data.len() as u64;
        self.sink.record(TraceRecord { time_ns, verb, offset, len, options, succeeded, content });
    }
}

impl<D: BlockDevice> BlockDevice for RecordDevice<D> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.inner.preferred_block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        let time_ns = self.clock.now_ns();
        let result = self.inner.read_at(offset, buf);
        let request = WriteRequest { offset, data: buf, fua: false };
        self.record_data(time_ns, Verb::Read, request, result.is_ok());
        result
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        let time_ns = self.clock.now_ns();
        let result = self.inner.write_at(offset, data, fua);
        let request = WriteRequest { offset, data, fua };
        self.record_data(time_ns, Verb::Write, request, result.is_ok());
        result
    }

    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        let time_ns = self.clock.now_ns();
        self.inner.write_batch(reqs, results);
        for (request, result) in reqs.iter().zip(results.iter()) {
            self.record_data(time_ns, Verb::Write, *request, result.is_ok());
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.observe(Verb::WriteZeroes, (offset, len), options, || {
            self.inner.write_zeroes(offset, len, options)
        })
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        let options = ZeroOptions { fua, ..ZeroOptions::default() };
        self.observe(Verb::Trim, (offset, len), options, || self.inner.trim(offset, len, fua))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.observe(Verb::Flush, (0, 0), ZeroOptions::default(), || self.inner.flush())
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.observe(Verb::BlockStatus, (offset, len), ZeroOptions::default(), || {
            self.inner.block_status(offset, len)
        })
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.observe(Verb::Prefetch, (offset, len), ZeroOptions::default(), || {
            self.inner.prefetch(offset, len)
        })
    }
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ZeroOptions { fua, no_hole, fast_only } = self.options;
        let mut flags = String::new();
        for (set, letter) in [(fua, 'f'), (no_hole, 'n'), (fast_only, 'q')] {
            if set {
                flags.push(letter);
            }
        }
        if flags.is_empty() {
            flags.push('-');
        }
        let result = if self.succeeded { "ok" } else { "err" };
        let Self { time_ns, verb, offset, len, .. } = self;
        write!(f, "{time_ns} {verb} {offset} {len} {flags} {result}")?;
        for (index, hash) in self.content.iter().enumerate() {
            f.write_char(if index == 0 { ' ' } else { ',' })?;
            write!(f, "{hash:032x}")?;
        }
        Ok(())
    }
}

impl FromStr for TraceRecord {
    type Err = String;

    /// The error names the field that is wrong and what is accepted.
    fn from_str(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [time, verb, offset, len, flags, result, hashes @ ..] = fields.as_slice() else {
            return Err(format!("{} fields, at least 6 are needed", fields.len()));
        };
        let number = |name: &str, text: &str| -> Result<u64, String> {
            text.parse().map_err(|_| format!("{name} '{text}' is no number below 2^64"))
        };
        if hashes.len() > 1 {
            return Err(format!("{} fields, at most 7 are accepted", fields.len()));
        }
        let content = hashes.iter().flat_map(|list| list.split(',')).map(parse_hash);
        Ok(Self {
            time_ns: number("time", time)?,
            verb: verb.parse()?,
            offset: number("offset", offset)?,
            len: number("length", len)?,
            options: parse_flags(flags)?,
            succeeded: match *result {
                "ok" => true,
                "err" => false,
                _ => return Err(format!("result '{result}' is neither 'ok' nor 'err'")),
            },
            content: content.collect::<Result<_, _>>()?,
        })
    }
}

fn parse_flags(text: &str) -> Result<ZeroOptions, String> {
    let mut options = ZeroOptions::default();
    if text == "-" {
        return Ok(options);
    }
    for letter in text.chars() {
        match letter {
            'f' => options.fua = true,
            'n' => options.no_hole = true,
            'q' => options.fast_only = true,
            _ => return Err(format!("flags '{text}': accepted are '-' or letters of f, n, q")),
        }
    }
    Ok(options)
}

fn parse_hash(text: &str) -> Result<u128, String> {
    let digits = text.bytes().all(|b| b.is_ascii_hexdigit());
    match u128::from_str_radix(text, 16) {
        Ok(hash) if digits && text.len() == 32 => Ok(hash),
        _ => Err(format!("hash '{text}' is not 32 hexadecimal digits")),
    }
}
