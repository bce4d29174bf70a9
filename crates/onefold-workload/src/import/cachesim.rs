//! `CloudPhysics` traces as libCacheSim's CSV: `version,time,op,size,lbn`.
//! Room: onefold-workload.
//! Time is in microseconds, the operation a SCSI code in hex, the size in bytes, the address in
//! 512-byte blocks. UNMAP carries its ranges in data that the trace does not keep: skipped.

use super::fields::Fields;
use super::sink::{Found, Sink, sectors};
use super::{Parsed, Problem, SkipReason, fields};
use crate::request::Op;

/// Nanoseconds of a time unit.
const MICROSECOND_NS: u64 = 1000;

pub(super) fn parse(line: &[u8], sink: &mut Sink) -> Parsed {
    let mut fields = Fields::comma(line);
    let version = fields.take("version")?;
    match version {
        b"1" | b"2" => {}
        [b'#', ..] | b"version" => return Ok(Some(SkipReason::Header)),
        _ => return Err(Problem::value("version", version, "1 or 2")),
    }
    let time = fields.number("time")?;
    let code = scsi_code(fields.take("operation")?)?;
    let length = fields.number("size")?;
    let offset = sectors("block number", fields.number("block number")?)?;
    fields.end()?;
    let time_ns = sink.since_first(time, MICROSECOND_NS)?;
    let Some(op) = operation(code) else { return Ok(Some(SkipReason::OtherOperation)) };
    sink.push(Found { time_ns, op, offset, length, stream: None, pid: None })
}

fn scsi_code(text: &[u8]) -> Result<u8, Problem> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    let value = match *digits {
        [low] => fields::hex_digit(low),
        [high, low] => fields::hex_digit(high)
            .and_then(|high| fields::hex_digit(low).map(|low| high << 4 | low)),
        _ => None,
    };
    value.ok_or_else(|| Problem::value("operation", text, "a SCSI operation code in hex, 0 to ff"))
}

/// SCSI Block Commands: the codes that move data at an address, or flush.
const fn operation(code: u8) -> Option<Op> {
    match code {
        // READ (6), (10), (12), (16).
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        // WRITE (6), (10), (12), (16), WRITE AND VERIFY (10), (12), (16), WRITE SAME (10), (16).
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => Some(Op::Write),
        // SYNCHRONIZE CACHE (10), (16).
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}
