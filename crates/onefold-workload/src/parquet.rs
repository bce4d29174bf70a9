//! Our own trace format as Parquet, with the columns of the CSV.
//! Room: onefold-workload.   In: [`Request`]s.   Out: Parquet, Zstandard inside.
//! Invariant: what is written and read again is equal.

use std::io::{self, Write};

use crate::request::Request;
use crate::table::{Column, Table};

/// The columns, in the words of Parquet.
pub const SCHEMA: &str = "message trace {
    required int64 time_ns (integer(64, false));
    required binary op (string);
    required int64 offset (integer(64, false));
    required int64 length (integer(64, false));
    optional fixed_len_byte_array(16) identity;
    optional int32 stream (integer(32, false));
    optional int32 pid (integer(32, false));
    optional boolean deduplicate;
}";

/// Writes requests as Parquet.
#[derive(Debug)]
pub struct ParquetWriter<W: Write + Send> {
    table: Table<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// A writer of a file that begins here.
    pub fn new(to: W) -> io::Result<Self> {
        let numbers = || Column::U64(Vec::new());
        let columns = vec![
            numbers(),
            Column::Name(Vec::new(), Vec::new()),
            numbers(),
            numbers(),
            Column::Bytes16(Vec::new(), Vec::new()),
            Column::U32(Vec::new(), Vec::new()),
            Column::U32(Vec::new(), Vec::new()),
            Column::Bool(Vec::new(), Vec::new()),
        ];
        Ok(Self { table: Table::new(to, SCHEMA, columns, &["time_ns", "offset"])? })
    }

    /// Writes one request.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        let Request { time_ns, op, offset, length, identity, stream, pid, deduplicate } = *request;
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.table.columns.as_mut_slice() else {
            unreachable!("there are eight columns")
        };
        c0.push_u64(time_ns);
        c1.push_name(op.name());
        c2.push_u64(offset);
        c3.push_u64(length);
        c4.push_bytes(identity.map(|identity| *identity.as_bytes()));
        c5.push_u32(stream);
        c6.push_u32(pid);
        c7.push_bool(deduplicate);
        self.table.end_row()
    }

    /// Writes the rest and the footer, and gives the output back.
    pub fn finish(self) -> io::Result<W> {
        self.table.finish()
    }
}
