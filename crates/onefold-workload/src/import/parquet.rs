//! Reading our own Parquet, and what other programs write with the same columns.
//! Room: onefold-workload.   In: a file.   Out: [`Request`]s.
//! Invariants: (1) what [`crate::ParquetWriter`] writes comes back equal  (2) a damaged file is
//! an error with the row it was found at, never a panic that gets out  (3) memory is bounded by a
//! few pages of each column.
//! `identity`, `stream`, `pid` and `deduplicate` may be missing as columns; other columns are
//! refused, so that no meaning is lost in silence.

use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use parquet::basic::{ConvertedType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::sink::{Found, Known, Sink};
use super::{ImportReport, Problem, TraceError};
use crate::request::{Identity, Op, Request};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 4096;
const NAMES: [&str; COLUMNS] =
    ["time_ns", "op", "offset", "length", "identity", "stream", "pid", "deduplicate"];
const COLUMNS: usize = 8;
/// Columns from here on may be missing.
const OPTIONAL_FROM: usize = 4;

/// A trace in a Parquet file as an iterator. It ends after the first error.
pub struct ParquetReader {
    file: SerializedFileReader<File>,
    /// Where in the file each column is.
    places: [Option<usize>; COLUMNS],
    /// Whether numbers may be negative, which they must not.
    signed: [bool; COLUMNS],
    group: usize,
    /// The readers of the current row group.
    readers: Vec<Option<ColumnReader>>,
    sink: Sink,
    report: ImportReport,
    last_ns: u64,
    /// Found after the requests in the sink, and given out after them.
    error: Option<TraceError>,
    done: bool,
}

impl std::fmt::Debug for ParquetReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetReader").field("report", &self.report).finish_non_exhaustive()
    }
}

/// The decoded part of a column.
#[derive(Debug, Default)]
enum Batch {
    /// The file does not have this column.
    #[default]
    Missing,
    Numbers(Vec<Option<u64>>),
    Bytes(Vec<Option<ByteArray>>),
}

impl ParquetReader {
    /// Opens a file and checks that its columns are those of a trace.
    pub fn new(file: File) -> Result<Self, TraceError> {
        let len = file.metadata().map(|meta| meta.len());
        let len = len.map_err(|source| TraceError::Read { line: 0, source })?;
        let file = guarded(0, || SerializedFileReader::new(file))?;
        guarded(0, || check_places(file.metadata(), len))?;
        let schema = file.metadata().file_metadata().schema_descr();
        let mut places = [None; COLUMNS];
        let mut signed = [false; COLUMNS];
        for (at, column) in schema.columns().iter().enumerate() {
            let path = column.path().string();
            let refused = |got: &str, expected| TraceError::Column {
                column: path.clone(),
                got: got.to_owned(),
                expected,
            };
            let Some(index) = NAMES.iter().position(|name| *name == path) else {
                let expected =
                    "time_ns, op, offset, length, identity, stream, pid and deduplicate only";
                return Err(refused("is unknown", expected));
            };
            if places[index].replace(at).is_some() {
                return Err(refused("occurs twice", "one column of a name"));
            }
            check(index, column).map_err(|(got, expected)| refused(&got, expected))?;
            signed[index] = !unsigned(column);
        }
        if let Some(at) = places[..OPTIONAL_FROM].iter().position(Option::is_none) {
            let (column, got) = (NAMES[at].to_owned(), "is missing".to_owned());
            let expected = "time_ns, op, offset and length";
            return Err(TraceError::Column { column, got, expected });
        }
        Ok(Self {
            file,
            places,
            signed,
            group: 0,
            readers: Vec::new(),
            sink: Sink::default(),
            report: ImportReport::default(),
            last_ns: 0,
            error: None,
            done: false,
        })
    }

    /// What was read and skipped so far; rows count as lines.
    pub const fn report(&self) -> &ImportReport {
        &self.report
    }

    /// Decodes rows until some give requests; false at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        while self.sink.requests.is_empty() {
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.readers.is_empty() && !self.next_group()? {
                return Ok(false);
            }
            let rows = self.report.lines;
            let (readers, signed) = (&mut self.readers, &self.signed);
            let batches = guarded(rows, || {
                let columns = readers.iter_mut().zip(signed).zip(NAMES);
                columns
                    .map(|((reader, &signed), name)| batch(reader, signed, name))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            match self.rows(&batches) {
                Ok(0) => self.readers.clear(),
                Ok(_) => {}
                Err(error) => self.error = Some(error),
            }
        }
        Ok(true)
    }

    /// Opens the next row group, if there is one.
    fn next_group(&mut self) -> Result<bool, TraceError> {
        if self.group == self.file.num_row_groups() {
            return Ok(false);
        }
        let (file, group, places) = (&self.file, self.group, &self.places);
        self.readers = guarded(self.report.lines, || {
            let group = file.get_row_group(group)?;
            places.iter().map(|at| at.map(|at| group.get_column_reader(at)).transpose()).collect()
        })?;
        self.group += 1;
        Ok(true)
    }

    /// Turns columns into requests; returns how many rows there were.
    fn rows(&mut self, batches: &[Batch]) -> Result<usize, TraceError> {
        let mut lengths = batches.iter().filter_map(Batch::len);
        let rows = lengths.next().unwrap_or_default();
        if lengths.any(|len| len != rows) {
            let message = "columns of different lengths".to_owned();
            return Err(TraceError::Parquet { row: self.report.lines, message });
        }
        for row in 0..rows {
            self.report.lines += 1;
            let number = self.report.lines;
            let at = |problem| TraceError::Row { row: number, problem };
            let skip = self.row(batches, row).map_err(at)?;
            if let Some(reason) = skip {
                self.report.skip(reason);
            }
        }
        Ok(rows)
    }

    fn row(&mut self, batches: &[Batch], row: usize) -> super::Parsed {
        let [time_ns, op, offset, length, identity, stream, pid, deduplicate] = batches else {
            unreachable!("there are eight columns")
        };
        let name = op.bytes(row).unwrap_or(b"null");
        let op = Op::ALL.into_iter().find(|op| op.name().as_bytes() == name);
        let op =
            op.ok_or_else(|| Problem::value("op", name, "read, write, trim, flush or idle"))?;
        let refused = |bytes: &[u8]| {
            let got = format!("{} bytes", bytes.len());
            Problem::value("identity", got.as_bytes(), "16 bytes or nothing")
        };
        let identity = identity.bytes(row).map(|bytes| {
            let bytes = bytes.try_into().map_err(|_| refused(bytes))?;
            Ok(Identity::from_bytes(bytes))
        });
        let found = Found {
            time_ns: time_ns.number("time_ns", row)?,
            op,
            offset: offset.number("offset", row)?,
            length: length.number("length", row)?,
            stream: stream.number32("stream", row)?,
            pid: pid.number32("pid", row)?,
        };
        let deduplicate = deduplicate.number_if_any(row).map(|number| number != 0);
        self.sink.push_with(found, Known { identity: identity.transpose()?, deduplicate })
    }
}

impl Batch {
    fn len(&self) -> Option<usize> {
        match self {
            Self::Missing => None,
            Self::Numbers(values) => Some(values.len()),
            Self::Bytes(values) => Some(values.len()),
        }
    }

    fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Bytes(values) => values.get(row)?.as_ref().map(ByteArray::data),
            _ => None,
        }
    }

    fn number_if_any(&self, row: usize) -> Option<u64> {
        match self {
            Self::Numbers(values) => *values.get(row)?,
            _ => None,
        }
    }

    fn number(&self, field: &'static str, row: usize) -> Result<u64, Problem> {
        let expected = "a whole number below 2^64";
        self.number_if_any(row).ok_or_else(|| Problem::value(field, b"null", expected))
    }

    fn number32(&self, field: &'static str, row: usize) -> Result<Option<u32>, Problem> {
        let Some(value) = self.number_if_any(row) else { return Ok(None) };
        let small = u32::try_from(value).map(Some);
        small.map_err(|_| {
            let got = value.to_string();
            Problem::value(field, got.as_bytes(), "a whole number below 2^32 or nothing")
        })
    }
}

impl Iterator for ParquetReader {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.sink.requests.is_empty() && !self.done {
            match self.fill() {
                Ok(more) => self.done = !more,
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        let request = self.sink.requests.pop_front()?;
        self.report.count(&request, &mut self.last_ns);
        Some(Ok(request))
    }
}

/// Whether a column's numbers are to be read as unsigned ones.
fn unsigned(column: &ColumnDescriptor) -> bool {
    use ConvertedType::{UINT_8, UINT_16, UINT_32, UINT_64};
    matches!(column.converted_type(), UINT_8 | UINT_16 | UINT_32 | UINT_64)
}

/// Refuses a column that cannot hold its field.
fn check(index: usize, column: &ColumnDescriptor) -> Result<(), (String, &'static str)> {
    let physical = column.physical_type();
    if column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return Err(("is nested".to_owned(), "plain columns"));
    }
    let got = || format!("has type {physical}");
    match (NAMES[index], physical) {
        ("op", Physical::BYTE_ARRAY)
        | ("identity", Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY)
        | ("deduplicate", Physical::BOOLEAN) => Ok(()),
        ("op", _) => Err((got(), "a text")),
        ("identity", _) => Err((got(), "16 bytes")),
        ("deduplicate", _) => Err((got(), "BOOLEAN")),
        (_, Physical::INT32 | Physical::INT64) => Ok(()),
        _ => Err((got(), "INT32 or INT64")),
    }
}

/// Refuses columns that lie outside the file; the decoder takes their places on trust.
fn check_places(metadata: &ParquetMetaData, file_len: u64) -> Result<(), ParquetError> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    for column in columns {
        let starts = [Some(column.data_page_offset()), column.dictionary_page_offset()];
        let start = starts.into_iter().flatten().min().unwrap_or(0);
        let negative = starts.into_iter().flatten().any(|start| start < 0)
            || column.compressed_size() < 0
            || column.num_values() < 0;
        let end = start.checked_add(column.compressed_size());
        if negative || end.is_none_or(|end| end as u64 > file_len) {
            let name = column.column_path().string();
            return Err(ParquetError::General(format!("column {name} lies outside the file")));
        }
    }
    Ok(())
}

/// Up to [`BATCH_ROWS`] values of a column.
fn batch(
    reader: &mut Option<ColumnReader>,
    signed: bool,
    name: &'static str,
) -> Result<Batch, ParquetError> {
    let negative = |value: i64| {
        ParquetError::General(format!("{name} {value}: expected a whole number below 2^64"))
    };
    let number = |value: i64| u64::try_from(value).map_err(|_| negative(value));
    Ok(match reader {
        None => Batch::Missing,
        Some(ColumnReader::BoolColumnReader(reader)) => {
            Batch::Numbers(decode(reader, |value| Ok(u64::from(value)))?)
        }
        Some(ColumnReader::Int64ColumnReader(reader)) => {
            Batch::Numbers(decode(
                reader,
                |value| {
                    if signed { number(value) } else { Ok(value as u64) }
                },
            )?)
        }
        Some(ColumnReader::Int32ColumnReader(reader)) => Batch::Numbers(decode(reader, |value| {
            if signed { number(value.into()) } else { Ok(u64::from(value as u32)) }
        })?),
        Some(ColumnReader::ByteArrayColumnReader(reader)) => Batch::Bytes(decode(reader, Ok)?),
        Some(ColumnReader::FixedLenByteArrayColumnReader(reader)) => {
            Batch::Bytes(decode(reader, |value: FixedLenByteArray| Ok(value.into()))?)
        }
        Some(_) => return Err(ParquetError::General(format!("{name} changed its type"))),
    })
}

/// Reads a batch and puts nulls where the file has them.
fn decode<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    value: impl Fn(T::T) -> Result<V, ParquetError>,
) -> Result<Vec<Option<V>>, ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    reader.read_records(BATCH_ROWS, Some(&mut levels), None, &mut values)?;
    let mut values = values.into_iter().map(value);
    if levels.is_empty() {
        return values.map(|value| value.map(Some)).collect();
    }
    let next = |level| match level {
        0 => Ok(None),
        _ => values.next().transpose()?.map(Some).ok_or_else(|| {
            ParquetError::General("fewer values than the levels announce".to_owned())
        }),
    };
    levels.into_iter().map(next).collect()
}

thread_local! {
    /// Whether a panic of this thread is the decoder's, and so no news.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// From now on panics of the decoder are not printed; all others are, as before.
fn keep_decoder_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !DECODING.get() {
                before(info);
            }
        }));
    });
}

/// Runs the decoder. It checks what it reads, and where it fails to and panics instead, the file
/// is at fault all the same.
fn guarded<T>(row: u64, decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceError> {
    let refused = |message| TraceError::Parquet { row, message };
    keep_decoder_quiet();
    DECODING.set(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    match decoded {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(refused(error.to_string())),
        Err(_) => Err(refused("the decoder gave up on it".to_owned())),
    }
}

#[cfg(test)]
mod tests;
