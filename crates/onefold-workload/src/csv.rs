//! Our own trace format as CSV with one header line.
//! Room: onefold-workload.   In: [`Request`]s.   Out: text.
//! Columns: `time_ns,op,offset,length,identity,stream,pid`; nanoseconds and bytes as whole
//! numbers, `op` one of read, write, trim and flush, `identity` 32 hex digits; the last three may
//! be empty.
//! Invariant: what is written and read again is equal.

use std::io::{self, Write};

use crate::request::Request;

/// The first line.
pub const HEADER: &str = "time_ns,op,offset,length,identity,stream,pid";

/// Writes requests as CSV.
#[derive(Debug)]
pub struct CsvWriter<W> {
    to: W,
}

impl<W: Write> CsvWriter<W> {
    /// A writer that has written the header. Wrap slow outputs in a buffer.
    pub fn new(mut to: W) -> io::Result<Self> {
        writeln!(to, "{HEADER}")?;
        Ok(Self { to })
    }

    /// Writes one request.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        let Request { time_ns, op, offset, length, identity, stream, pid } = request;
        write!(self.to, "{time_ns},{},{offset},{length},", op.name())?;
        if let Some(identity) = identity {
            write!(self.to, "{identity}")?;
        }
        self.to.write_all(b",")?;
        if let Some(stream) = stream {
            write!(self.to, "{stream}")?;
        }
        self.to.write_all(b",")?;
        if let Some(pid) = pid {
            write!(self.to, "{pid}")?;
        }
        self.to.write_all(b"\n")
    }

    /// Flushes and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}
