//! FIU `IODedup`: `timestamp_ns pid process lba size R|W major minor digests`.
//! Room: onefold-workload.
//! Source: Koller and Rangaswami, FAST 2010, and the traces' own traps: lba and size count
//! 512-byte sectors; a digest stands for 4096 bytes or for 512 (*homes*), is 32 hex digits or 8,
//! and merged requests carry several, written as one. Process names may contain blanks.
//! A request comes out as one per 4096 bytes, each with its identity. Digests of 512 bytes are
//! put together: two pages are the same if all their sectors are.

use onefold_content::{FingerprintKind, Fingerprinter};

use super::fields::{Fields, hex};
use super::sink::{Found, Known, Sink, sectors};
use super::{Parsed, Problem, SkipReason};
use crate::request::{Identity, Op};

/// Bytes that one request out of this importer covers at most.
const PAGE_BYTES: u64 = 4096;

/// How digests are written in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Bytes that a digest stands for.
    unit_bytes: u64,
    /// Its length in hex digits.
    hex_len: usize,
}

const LAYOUTS: [Layout; 4] = [
    Layout { unit_bytes: 4096, hex_len: 32 },
    Layout { unit_bytes: 512, hex_len: 32 },
    Layout { unit_bytes: 4096, hex_len: 8 },
    Layout { unit_bytes: 512, hex_len: 8 },
];

impl Layout {
    /// Hex digits of a request of so many bytes.
    fn hex_total(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.unit_bytes) * self.hex_len as u64
    }
}

#[derive(Clone, Debug)]
pub(super) struct Fiu {
    /// The layout that the last unambiguous line had.
    layout: Option<Layout>,
    fingerprinter: Fingerprinter,
}

impl Default for Fiu {
    fn default() -> Self {
        Self { layout: None, fingerprinter: Fingerprinter::new(FingerprintKind::Blake3) }
    }
}

impl Fiu {
    pub fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Parsed {
        if line.first() == Some(&b'#') {
            return Ok(Some(SkipReason::Header));
        }
        let mut fields = Fields::blank(line);
        let time = fields.number("timestamp")?;
        let pid = fields.number32("pid")?;
        // From the right, since blanks in the process name shift everything else.
        let mut right = RightFields(line);
        let digests = right.take("digest")?;
        let minor = right.take("minor device number")?;
        let major = right.take("major device number")?;
        let kind = right.take("operation")?;
        let size = right.take("size")?;
        let lba = right.take("lba")?;
        if right.count() < 3 {
            return Err(Problem::Missing { field: "digest" });
        }
        let op = match kind {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return Err(Problem::value("operation", kind, "R or W")),
        };
        let number = super::fields::decimal;
        let offset = sectors("lba", number("lba", lba)?)?;
        let length = sectors("size", number("size", size)?)?;
        let major = number("major device number", major)?;
        let minor = number("minor device number", minor)?;
        let stream = Some(sink.stream(format!("{major},{minor}").as_bytes())?);
        let time_ns = sink.since_first(time, 1)?;
        let found = Found { time_ns, op, offset, length, stream, pid: Some(pid) };
        if length == 0 {
            return Ok(Some(SkipReason::ZeroLength));
        }
        self.expand(found, digests, sink)
    }

    /// One request for every 4096 bytes, with its identity.
    fn expand(&mut self, whole: Found, digests: &[u8], sink: &mut Sink) -> Parsed {
        let layout = self.layout_of(digests.len(), whole.length)?;
        if whole.offset.checked_add(whole.length).is_none() {
            return sink.push(whole);
        }
        let digits_per_page = (PAGE_BYTES / layout.unit_bytes) as usize * layout.hex_len;
        let mut done = 0;
        for page in digests.chunks(digits_per_page) {
            let identity = self.identity(page, layout)?;
            let length = PAGE_BYTES.min(whole.length - done);
            let part = Found { offset: whole.offset + done, length, ..whole };
            let known = Known { identity: Some(identity), deduplicate: None };
            sink.push_with(part, known)?;
            done += length;
        }
        Ok(None)
    }

    /// The layout under which these digests add up to this length.
    fn layout_of(&mut self, hex: usize, bytes: u64) -> Result<Layout, Problem> {
        let fits = |layout: &Layout| layout.hex_total(bytes) == hex as u64;
        let mut fitting = LAYOUTS.into_iter().filter(fits);
        let Some(first) = fitting.next() else { return Err(Problem::Digests { hex, bytes }) };
        if fitting.next().is_none() {
            self.layout = Some(first);
            return Ok(first);
        }
        // A short request may fit two layouts: then the one that the trace had so far.
        Ok(self.layout.filter(fits).unwrap_or(first))
    }

    fn identity(&self, digits: &[u8], layout: Layout) -> Result<Identity, Problem> {
        let refused = || Problem::value("digest", digits, "hex digits");
        let mut bytes = [0; 128];
        let digest = bytes.get_mut(..digits.len() / 2).ok_or_else(refused)?;
        hex(digits, digest).ok_or_else(refused)?;
        if layout.unit_bytes < PAGE_BYTES {
            return Ok(Identity::of_fingerprint(&self.fingerprinter.hash(digest)));
        }
        let mut identity = [0; Identity::LEN];
        for (to, from) in identity.iter_mut().zip(digest) {
            *to = *from;
        }
        Ok(Identity::from_bytes(identity))
    }
}

/// Fields between blanks, the last first.
struct RightFields<'a>(&'a [u8]);

impl<'a> RightFields<'a> {
    fn take(&mut self, field: &'static str) -> Result<&'a [u8], Problem> {
        let rest = self.0.trim_ascii_end();
        if rest.is_empty() {
            return Err(Problem::Missing { field });
        }
        let start = rest.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        let (rest, found) = rest.split_at(start);
        self.0 = rest;
        Ok(found)
    }

    /// How many fields are left.
    fn count(self) -> usize {
        let mut fields = Fields::blank(self.0);
        std::iter::from_fn(|| fields.next()).take(3).count()
    }
}
