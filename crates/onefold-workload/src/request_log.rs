//! The log of what became of each request in a model or a device, as CSV or Parquet.
//! Room: onefold-workload.   In: [`LoggedRequest`]s.   Out: a table, one row each.
//! Columns: `seq,submit_ns,complete_ns,op,lpn,pages,queue_wait_ns,service_ns,verdict`.

use std::io::{self, Write};

use crate::request::Op;
#[cfg(feature = "parquet")]
use crate::table::{Column, Table};

/// The first line of the CSV.
pub const LOG_HEADER: &str =
    "seq,submit_ns,complete_ns,op,lpn,pages,queue_wait_ns,service_ns,verdict";

/// The columns, in the words of Parquet.
#[cfg(feature = "parquet")]
const SCHEMA: &str = "message request_log {
    required int64 seq (integer(64, false));
    required int64 submit_ns (integer(64, false));
    required int64 complete_ns (integer(64, false));
    required binary op (string);
    required int64 lpn (integer(64, false));
    required int64 pages (integer(64, false));
    required int64 queue_wait_ns (integer(64, false));
    required int64 service_ns (integer(64, false));
    required binary verdict (string);
}";

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Number of the request, in order of submission.
    pub seq: u64,
    /// When it was submitted, in ns of virtual time.
    pub submit_ns: u64,
    /// When it was complete, in ns of virtual time.
    pub complete_ns: u64,
    /// What it did.
    pub op: Op,
    /// First logical page.
    pub lpn: u64,
    /// Number of logical pages.
    pub pages: u64,
    /// Time it waited for resources, summed over its pages, in ns.
    pub queue_wait_ns: u64,
    /// Time it was served, summed over its pages, in ns.
    pub service_ns: u64,
    /// What was decided: a word of the model, without commas; empty where there was no choice.
    pub verdict: &'static str,
}

/// A log in the making.
#[derive(Debug)]
pub struct RequestLog<W: Write + Send> {
    to: Target<W>,
}

#[derive(Debug)]
enum Target<W: Write + Send> {
    Csv(W),
    #[cfg(feature = "parquet")]
    Parquet(Box<Table<W>>),
}

impl<W: Write + Send> RequestLog<W> {
    /// A log as CSV, with its header written. Wrap slow outputs in a buffer.
    pub fn csv(mut to: W) -> io::Result<Self> {
        writeln!(to, "{LOG_HEADER}")?;
        Ok(Self { to: Target::Csv(to) })
    }

    /// A log as Parquet; in a build without it, an error that says so.
    #[cfg(not(feature = "parquet"))]
    pub fn parquet(_: W) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, crate::trace::OpenError::NoParquet))
    }

    /// A log as Parquet; in a build without it, an error that says so.
    #[cfg(feature = "parquet")]
    pub fn parquet(to: W) -> io::Result<Self> {
        let column = |name| match name {
            "op" | "verdict" => Column::Name(Vec::new(), Vec::new()),
            _ => Column::U64(Vec::new()),
        };
        let columns = LOG_HEADER.split(',').map(column).collect();
        let table = Table::new(to, SCHEMA, columns, &["seq", "submit_ns", "complete_ns"])?;
        Ok(Self { to: Target::Parquet(Box::new(table)) })
    }

    /// Writes one row.
    pub fn write(&mut self, row: &LoggedRequest) -> io::Result<()> {
        let &LoggedRequest { seq, submit_ns, complete_ns, op, lpn, pages, .. } = row;
        let &LoggedRequest { queue_wait_ns, service_ns, verdict, .. } = row;
        match &mut self.to {
            Target::Csv(to) => writeln!(
                to,
                "{seq},{submit_ns},{complete_ns},{},{lpn},{pages},{queue_wait_ns},{service_ns},\
                 {verdict}",
                op.name()
            ),
            #[cfg(feature = "parquet")]
            Target::Parquet(table) => {
                let [c0, c1, c2, c3, c4, c5, c6, c7, c8] = table.columns.as_mut_slice() else {
                    unreachable!("there are nine columns")
                };
                c0.push_u64(seq);
                c1.push_u64(submit_ns);
                c2.push_u64(complete_ns);
                c3.push_name(op.name());
                c4.push_u64(lpn);
                c5.push_u64(pages);
                c6.push_u64(queue_wait_ns);
                c7.push_u64(service_ns);
                c8.push_name(verdict);
                table.end_row()
            }
        }
    }

    /// Writes the rest and gives the output back.
    pub fn finish(self) -> io::Result<W> {
        match self.to {
            Target::Csv(mut to) => {
                to.flush()?;
                Ok(to)
            }
            #[cfg(feature = "parquet")]
            Target::Parquet(table) => table.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row whose every field is different.
    pub fn row(seq: u64) -> LoggedRequest {
        LoggedRequest {
            seq,
            submit_ns: 10 + seq,
            complete_ns: 300_000 + seq,
            op: Op::Write,
            lpn: 77,
            pages: 2,
            queue_wait_ns: 5,
            service_ns: 299_985,
            verdict: "share",
        }
    }

    #[test]
    fn a_row_of_csv_has_the_columns_of_the_header() {
        let mut log = RequestLog::csv(Vec::new()).unwrap();
        log.write(&row(3)).unwrap();
        let text = String::from_utf8(log.finish().unwrap()).unwrap();
        assert_eq!(text, format!("{LOG_HEADER}\n3,13,300003,write,77,2,5,299985,share\n"));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_has_the_same_columns_and_values() {
        use parquet::file::reader::{FileReader as _, SerializedFileReader};
        let mut log = RequestLog::parquet(tempfile::tempfile().unwrap()).unwrap();
        (0..3).for_each(|seq| log.write(&row(seq)).unwrap());
        let reader = SerializedFileReader::new(log.finish().unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string());
        let wanted = |seq: u64| {
            let (submit, complete) = (10 + seq, 300_000 + seq);
            format!(
                "{{seq: {seq}, submit_ns: {submit}, complete_ns: {complete}, op: \"write\", \
                 lpn: 77, pages: 2, queue_wait_ns: 5, service_ns: 299985, verdict: \"share\"}}"
            )
        };
        assert_eq!(rows.collect::<Vec<_>>(), (0..3).map(wanted).collect::<Vec<_>>());
    }
}
