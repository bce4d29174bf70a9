//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//! Room: onefold-workload.
//! Source: the MSRC-trace-003 read-me of the SNIA repository. Timestamps are Windows file times
//! in units of 100 ns since 1601, so only differences matter; offset and size are bytes.

use super::fields::Fields;
use super::sink::{Found, Sink};
use super::{Parsed, Problem, SkipReason};
use crate::request::Op;

/// Nanoseconds of a Windows file time unit.
const TICK_NS: u64 = 100;

pub(super) fn parse(line: &[u8], sink: &mut Sink) -> Parsed {
    let mut fields = Fields::comma(line);
    let mut first = fields.clone();
    if first.next().is_some_and(|field| field.eq_ignore_ascii_case(b"timestamp")) {
        return Ok(Some(SkipReason::Header));
    }
    let ticks = fields.number("timestamp")?;
    let host = fields.take("host name")?;
    let disk = fields.take("disk number")?;
    let kind = fields.take("type")?;
    let op = match kind {
        b"Read" | b"read" => Op::Read,
        b"Write" | b"write" => Op::Write,
        _ => return Err(Problem::value("type", kind, "Read or Write")),
    };
    let offset = fields.number("offset")?;
    let length = fields.number("size")?;
    fields.number("response time")?;
    fields.end()?;
    let mut name = [0; 64];
    let stream = match name.get_mut(..host.len() + 1 + disk.len()) {
        Some(name) => {
            name[..host.len()].copy_from_slice(host);
            name[host.len()] = b'.';
            name[host.len() + 1..].copy_from_slice(disk);
            sink.stream(name)?
        }
        None => {
            return Err(Problem::value("host name", host, "at most 60 characters with the disk"));
        }
    };
    let time_ns = sink.since_first(ticks, TICK_NS)?;
    sink.push(Found { time_ns, op, offset, length, stream: Some(stream), pid: None })
}
