//! Text of `blkparse`: `major,minor cpu sequence seconds pid action rwbs sector + sectors [name]`.
//! Room: onefold-workload.
//! Source: the manual page of blkparse, its default output format. A request shows up once for
//! each step (queued, merged, issued, completed): one chosen action counts, the rest is skipped.

use super::fields::{Fields, decimal, seconds};
use super::sink::{Found, Sink, sectors};
use super::{Parsed, Problem, SkipReason};
use crate::request::Op;

/// The step of a request at which it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlkAction {
    /// Q: handed to the block layer. What the application asked for.
    #[default]
    Queue,
    /// D: sent to the device, after merging and splitting. What the device saw.
    Issue,
    /// C: completed.
    Complete,
}

impl BlkAction {
    const fn letter(self) -> &'static [u8] {
        match self {
            Self::Queue => b"Q",
            Self::Issue => b"D",
            Self::Complete => b"C",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Blkparse {
    action: BlkAction,
    /// Whether the totals have begun.
    summary: bool,
}

impl Blkparse {
    pub const fn new(action: BlkAction) -> Self {
        Self { action, summary: false }
    }

    pub fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Parsed {
        if line.starts_with(b"CPU") || line.starts_with(b"Total") {
            self.summary = true;
        }
        if self.summary {
            return Ok(Some(SkipReason::Summary));
        }
        let mut fields = Fields::blank(line);
        let device = fields.take("device")?;
        if !is_device(device) {
            return Err(Problem::value("device", device, "major,minor"));
        }
        fields.number("CPU")?;
        fields.number("sequence number")?;
        let time_ns = seconds("time", fields.take("time")?)?;
        let pid = fields.number32("process")?;
        let action = fields.take("action")?;
        if action != self.action.letter() {
            let known = matches!(action, [letter] if b"ABCDFGIMPQRSTUWXm".contains(letter));
            if known || action == b"UT" {
                return Ok(Some(SkipReason::OtherAction));
            }
            return Err(Problem::value("action", action, "a letter that blkparse documents"));
        }
        let stream = Some(sink.stream(device)?);
        let kind = fields.take("RWBS")?;
        let (offset, length) = range(&mut fields)?;
        let found = Found { time_ns, op: Op::Flush, offset, length, stream, pid: Some(pid) };
        push(kind, found, sink)
    }
}

/// Whether this is `major,minor`.
fn is_device(text: &[u8]) -> bool {
    let mut parts = text.split(|&byte| byte == b',');
    let mut number = || parts.next().is_some_and(|part| decimal("device", part).is_ok());
    number() && number() && parts.next().is_none()
}

/// Bytes of `sector + sectors`; nothing for requests without data.
fn range(fields: &mut Fields<'_>) -> Result<(u64, u64), Problem> {
    let Some(first) = fields.next().filter(|field| field.first() != Some(&b'[')) else {
        return Ok((0, 0));
    };
    let offset = sectors("sector", decimal("sector", first)?)?;
    match fields.next() {
        Some(b"+") => {}
        // A completed flush: the sector, then the error code.
        None => return Ok((offset, 0)),
        Some(code) if code.first() == Some(&b'[') => return Ok((offset, 0)),
        Some(other) => return Err(Problem::value("separator", other, "a plus sign")),
    }
    Ok((offset, sectors("sectors", fields.number("sectors")?)?))
}

/// Takes the request that the letters describe: F in front is a flush before, behind is FUA.
fn push(kind: &[u8], found: Found, sink: &mut Sink) -> Parsed {
    if let Some(&other) = kind.iter().find(|letter| !b"FDWRNSMABEZUV".contains(letter)) {
        return Err(Problem::value("RWBS", &[other], "the letters that blkparse documents"));
    }
    let preflush = kind.first() == Some(&b'F');
    let op = if kind.contains(&b'D') {
        Op::Trim
    } else if kind.contains(&b'W') {
        Op::Write
    } else if kind.contains(&b'R') {
        Op::Read
    } else if preflush {
        return sink.push(found);
    } else {
        return Ok(Some(SkipReason::OtherOperation));
    };
    if preflush {
        sink.push(found)?;
        if found.length == 0 {
            return Ok(None);
        }
    }
    sink.push(Found { op, ..found })
}
