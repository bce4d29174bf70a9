//! Reading our own CSV; see [`crate::csv`] for the columns.
//! Room: onefold-workload.
//! Invariant: what [`crate::CsvWriter`] writes comes back equal.

use super::error::shown;
use super::fields::{Fields, hex};
use super::sink::{Found, Known, Sink};
use super::{Parsed, Problem, SkipReason, fields};
use crate::csv::{HEADER, SHORT_HEADER, word};
use crate::request::{Identity, Op};

#[derive(Clone, Debug, Default)]
pub(super) struct Ours {
    begun: bool,
    /// Whether lines end with the process.
    short: bool,
}

impl Ours {
    pub fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Parsed {
        if !self.begun {
            self.short = line == SHORT_HEADER.as_bytes();
            if line != HEADER.as_bytes() && !self.short {
                return Err(Problem::Header { got: shown(line), expected: HEADER });
            }
            self.begun = true;
            return Ok(Some(SkipReason::Header));
        }
        let mut fields = Fields::comma(line);
        let time_ns = fields.number("time_ns")?;
        let name = fields.take("op")?;
        let op = Op::ALL.into_iter().find(|op| op.name().as_bytes() == name);
        let op =
            op.ok_or_else(|| Problem::value("op", name, "read, write, trim, flush or idle"))?;
        let offset = fields.number("offset")?;
        let length = fields.number("length")?;
        let identity = identity(fields.take("identity")?)?;
        let stream = optional("stream", fields.take("stream")?)?;
        let pid = optional("pid", fields.take("pid")?)?;
        let last = if self.short { &b""[..] } else { fields.take("deduplicate")? };
        let deduplicate = yes_or_no(last)?;
        fields.end()?;
        let known = Known { identity, deduplicate };
        sink.push_with(Found { time_ns, op, offset, length, stream, pid }, known)
    }
}

fn identity(text: &[u8]) -> Result<Option<Identity>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut bytes = [0; Identity::LEN];
    let parsed = hex(text, &mut bytes).map(|()| Some(Identity::from_bytes(bytes)));
    parsed.ok_or_else(|| Problem::value("identity", text, "32 hex digits or nothing"))
}

fn yes_or_no(text: &[u8]) -> Result<Option<bool>, Problem> {
    let said = [true, false].into_iter().find(|&said| word(said).as_bytes() == text);
    if said.is_none() && !text.is_empty() {
        return Err(Problem::value("deduplicate", text, "yes, no or nothing"));
    }
    Ok(said)
}

fn optional(field: &'static str, text: &[u8]) -> Result<Option<u32>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = |_| Problem::value(field, text, "a whole number below 2^32 or nothing");
    u32::try_from(fields::decimal(field, text)?).map(Some).map_err(refused)
}
