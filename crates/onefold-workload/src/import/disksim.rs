//! `DiskSim` ASCII with integer nanoseconds: `time_ns device start_sector sectors 0=write|1=read`.
//! Room: onefold-workload.
//! Source: the traces that `MQSim` reads. The original `DiskSim` writes milliseconds with
//! decimals; those are refused, not guessed at.

use super::fields::Fields;
use super::sink::{Found, Sink, sectors};
use super::{Parsed, Problem, SkipReason};
use crate::request::Op;

pub(super) fn parse(line: &[u8], sink: &mut Sink) -> Parsed {
    if line.first() == Some(&b'#') {
        return Ok(Some(SkipReason::Header));
    }
    let mut fields = Fields::blank(line);
    let time = fields.take("time")?;
    if time.contains(&b'.') {
        let expected = "whole nanoseconds (DiskSim's own milliseconds must be converted)";
        return Err(Problem::value("time", time, expected));
    }
    let time = super::fields::decimal("time", time)?;
    let device = fields.number32("device")?;
    let offset = sectors("start sector", fields.number("start sector")?)?;
    let length = sectors("sectors", fields.number("sectors")?)?;
    let kind = fields.take("type")?;
    let op = match kind {
        b"0" => Op::Write,
        b"1" => Op::Read,
        _ => return Err(Problem::value("type", kind, "0 for a write or 1 for a read")),
    };
    fields.end()?;
    let time_ns = sink.since_first(time, 1)?;
    sink.push(Found { time_ns, op, offset, length, stream: Some(device), pid: None })
}
