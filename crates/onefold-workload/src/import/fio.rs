//! fio's I/O log, versions 2 and 3.
//! Room: onefold-workload.
//! Source: fio's manual page, "Trace file format v2" and "v3". Version 2 has no times but `wait`
//! lines (microseconds, one after the other); version 3 begins each line with microseconds since
//! the start of the job. Lines that fio writes: `FILE add|open|close` and
//! `FILE read|write|trim|sync|datasync OFFSET LENGTH`.

use super::error::shown;
use super::fields::Fields;
use super::sink::{Found, Sink};
use super::{Parsed, Problem, SkipReason};
use crate::request::Op;

const MICROSECOND_NS: u64 = 1000;

#[derive(Clone, Debug, Default)]
pub(super) struct Fio {
    version: Option<Version>,
    /// Sum of the waits so far (version 2).
    waited_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl Fio {
    pub fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Parsed {
        let Some(version) = self.version else {
            self.version = Some(match line.trim_ascii() {
                b"fio version 2 iolog" => Version::Two,
                b"fio version 3 iolog" => Version::Three,
                other => {
                    let expected = "fio version 2 iolog` or `fio version 3 iolog";
                    return Err(Problem::Header { got: shown(other), expected });
                }
            });
            return Ok(Some(SkipReason::Header));
        };
        let mut fields = Fields::blank(line);
        let time_us = match version {
            Version::Two => self.waited_us,
            Version::Three => fields.number("timestamp")?,
        };
        let file = fields.take("file name")?;
        let action = fields.take("action")?;
        let op = match action {
            b"add" | b"open" | b"close" => {
                fields.end()?;
                return Ok(Some(SkipReason::FileAction));
            }
            b"wait" if version == Version::Two => return self.wait(&mut fields),
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Flush,
            other => {
                let expected = match version {
                    Version::Two => "add, open, close, wait, read, write, trim, sync or datasync",
                    Version::Three => "add, open, close, read, write, trim, sync or datasync",
                };
                return Err(Problem::value("action", other, expected));
            }
        };
        let (offset, length) = if op == Op::Flush && fields.clone().next().is_none() {
            (0, 0)
        } else {
            (fields.number("offset")?, fields.number("length")?)
        };
        fields.end()?;
        let stream = Some(sink.stream(file)?);
        sink.push(Found { time_ns: Self::ns(time_us)?, op, offset, length, stream, pid: None })
    }

    /// A wait moves the clock by its offset field.
    fn wait(&mut self, fields: &mut Fields<'_>) -> Parsed {
        let us = fields.number("wait")?;
        if fields.next().is_some() {
            fields.end()?;
        }
        Self::ns(self.waited_us.saturating_add(us))?;
        self.waited_us += us;
        Ok(Some(SkipReason::FileAction))
    }

    fn ns(time_us: u64) -> Result<u64, Problem> {
        time_us.checked_mul(MICROSECOND_NS).ok_or_else(|| {
            let got = time_us.to_string();
            Problem::value("timestamp", got.as_bytes(), "microseconds below 584 years")
        })
    }
}
