//! Alibaba block traces: `device_id,opcode,offset,length,timestamp`.
//! Room: onefold-workload.
//! Source: the read-me of the alibaba/block-traces repository: bytes and microseconds.

use super::fields::Fields;
use super::sink::{Found, Sink};
use super::{Parsed, Problem, SkipReason};
use crate::request::Op;

/// Nanoseconds of a time unit.
const MICROSECOND_NS: u64 = 1000;

pub(super) fn parse(line: &[u8], sink: &mut Sink) -> Parsed {
    if line.starts_with(b"device_id") || line.first() == Some(&b'#') {
        return Ok(Some(SkipReason::Header));
    }
    let mut fields = Fields::comma(line);
    let device = fields.number32("device")?;
    let kind = fields.take("opcode")?;
    let op = match kind {
        b"R" => Op::Read,
        b"W" => Op::Write,
        _ => return Err(Problem::value("opcode", kind, "R or W")),
    };
    let offset = fields.number("offset")?;
    let length = fields.number("length")?;
    let time = fields.number("timestamp")?;
    fields.end()?;
    let time_ns = sink.since_first(time, MICROSECOND_NS)?;
    sink.push(Found { time_ns, op, offset, length, stream: Some(device), pid: None })
}
