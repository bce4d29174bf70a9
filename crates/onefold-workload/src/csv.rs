//! Our own trace format as CSV with one header line.
//! Room: onefold-workload.   In: [`Request`]s.   Out: text.
//! Columns: `time_ns,op,offset,length,identity,stream,pid,deduplicate`; nanoseconds and bytes as
//! whole numbers, `op` one of read, write, trim, flush and idle, `identity` 32 hex digits,
//! `deduplicate` yes or no; the last four may be empty, and the last one may be missing
//! in the whole file.
//! Invariant: what is written and read again is equal.

use std::io::{self, Write};

use crate::request::Request;

/// The first line.
pub const HEADER: &str = "time_ns,op,offset,length,identity,stream,pid,deduplicate";
/// The first line of a file in which no request says whether it is to be deduplicated.
pub const SHORT_HEADER: &str = "time_ns,op,offset,length,identity,stream,pid";

/// The word of [`Request::deduplicate`].
pub(crate) const fn word(deduplicate: bool) -> &'static str {
    if deduplicate { "yes" } else { "no" }
}

/// Writes requests as CSV.
#[derive(Debug)]
pub struct CsvWriter<W> {
    to: W,
    line: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// A writer that has written the header. Wrap slow outputs in a buffer.
    pub fn new(mut to: W) -> io::Result<Self> {
        writeln!(to, "{HEADER}")?;
        Ok(Self { to, line: Vec::with_capacity(160) })
    }

    /// Writes one request.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        let Request { time_ns, op, offset, length, identity, stream, pid, deduplicate } = request;
        let line = &mut self.line;
        line.clear();
        decimal(line, *time_ns);
        line.push(b',');
        line.extend_from_slice(op.name().as_bytes());
        for value in [offset, length] {
            line.push(b',');
            decimal(line, *value);
        }
        line.push(b',');
        if let Some(identity) = identity {
            hex(line, identity.as_bytes());
        }
        for value in [stream, pid] {
            line.push(b',');
            if let Some(value) = value {
                decimal(line, u64::from(*value));
            }
        }
        line.push(b',');
        line.extend_from_slice(deduplicate.map_or("", word).as_bytes());
        line.push(b'\n');
        self.to.write_all(line)
    }

    /// Flushes and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Appends a number; the library's formatting takes three times as long.
fn decimal(line: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at..]);
}

/// Appends bytes as hex digits.
fn hex(line: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        line.push(DIGITS[usize::from(byte >> 4)]);
        line.push(DIGITS[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_library() {
        for value in [0, 7, 10, 99, 100, 4096, u64::from(u32::MAX), u64::MAX] {
            let mut line = Vec::new();
            decimal(&mut line, value);
            assert_eq!(line, value.to_string().as_bytes());
        }
        let identity = crate::request::Identity::of_number(3, 4);
        let mut line = Vec::new();
        hex(&mut line, identity.as_bytes());
        assert_eq!(line, identity.to_string().as_bytes());
    }
}
