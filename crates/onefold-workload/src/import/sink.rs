//! Where parsers put requests: times from the first one on, checked addresses, named streams.
//! Room: onefold-workload.
//! Invariants: (1) a request given out ends below 2^64  (2) at most [`STREAMS_MAX`] names.

use std::collections::HashMap;

use super::{Parsed, Problem, Requests, SkipReason};
use crate::request::{Identity, Op, Request};

/// Most devices or files with a name: a million would be a malformed column.
pub const STREAMS_MAX: usize = 1 << 16;

/// Bytes of a sector in all traces that count in sectors.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Longest read or write, 4 GiB; what block layers issue is a thousandth of it.
const TRANSFER_BYTES_MAX: u64 = 1 << 32;

#[derive(Debug, Default)]
pub(super) struct Sink {
    pub requests: Requests,
    /// Requests earlier than the first.
    pub before_first: u64,
    first_time: Option<u64>,
    names: Vec<String>,
    numbers: HashMap<Vec<u8>, u32>,
    /// The name of the last line and its number: most lines repeat it.
    last: Option<(Vec<u8>, u32)>,
}

/// A request as a parser finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub time_ns: u64,
    pub op: Op,
    pub offset: u64,
    pub length: u64,
    pub stream: Option<u32>,
    pub pid: Option<u32>,
}

/// What only our own formats know of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub identity: Option<Identity>,
    pub deduplicate: Option<bool>,
}

impl Sink {
    /// Nanoseconds since the first time of the trace, both in units of `unit_ns`.
    pub fn since_first(&mut self, time: u64, unit_ns: u64) -> Result<u64, Problem> {
        let first = *self.first_time.get_or_insert(time);
        self.before_first += u64::from(time < first);
        time.saturating_sub(first).checked_mul(unit_ns).ok_or_else(|| {
            let got = time.to_string();
            Problem::value("time", got.as_bytes(), "a time within 584 years of the first")
        })
    }

    /// Takes a request without known content.
    pub fn push(&mut self, found: Found) -> Parsed {
        self.push_with(found, Known::default())
    }

    /// Takes a request, or says why there is none.
    pub fn push_with(&mut self, found: Found, known: Known) -> Parsed {
        let Found { time_ns, op, mut offset, mut length, stream, pid } = found;
        let Known { identity, deduplicate } = known;
        if !op.has_range() {
            (offset, length) = (0, 0);
        } else if length == 0 {
            return Ok(Some(SkipReason::ZeroLength));
        }
        if length > TRANSFER_BYTES_MAX && op != Op::Trim {
            return Err(too_large("length", length, "at most 4 GiB for a read or write"));
        }
        if offset.checked_add(length).is_none() {
            return Err(too_large("offset", offset, "an end below 2^64 bytes"));
        }
        self.requests.push_back(Request {
            time_ns,
            op,
            offset,
            length,
            identity,
            stream,
            pid,
            deduplicate,
        });
        Ok(None)
    }

    /// The number of a device or file by its name, in order of appearance.
    pub fn stream(&mut self, name: &[u8]) -> Result<u32, Problem> {
        if let Some((last, number)) = &self.last
            && last == name
        {
            return Ok(*number);
        }
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None if self.names.len() == STREAMS_MAX => {
                return Err(Problem::Streams { limit: STREAMS_MAX });
            }
            None => {
                let number = self.names.len() as u32;
                self.names.push(String::from_utf8_lossy(name).into_owned());
                self.numbers.insert(name.to_vec(), number);
                number
            }
        };
        self.last = Some((name.to_vec(), number));
        Ok(number)
    }

    pub fn stream_names(&self) -> &[String] {
        &self.names
    }
}

/// Sectors as bytes.
pub(super) fn sectors(field: &'static str, count: u64) -> Result<u64, Problem> {
    count
        .checked_mul(SECTOR_BYTES)
        .ok_or_else(|| too_large(field, count, "a number of 512-byte sectors below 2^64 bytes"))
}

fn too_large(field: &'static str, got: u64, expected: &'static str) -> Problem {
    Problem::value(field, got.to_string().as_bytes(), expected)
}
