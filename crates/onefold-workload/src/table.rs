//! Columns that become row groups of a Parquet file.
//! Room: onefold-workload.   In: values, row by row.   Out: Parquet.
//! Invariant: memory is bounded by [`GROUP_ROWS`] rows.
//! Cost: one row group in memory, then one pass of Zstandard over it.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

/// Rows of a row group, 128 Ki: some MiB in memory, and few enough to read side by side.
pub const GROUP_ROWS: usize = 128 << 10;

/// The values of one column since the last row group.
#[derive(Debug)]
pub enum Column {
    /// Whole numbers below 2^64, all there.
    U64(Vec<i64>),
    /// Whole numbers below 2^32, each with 1 if it is there; only those that are have a value.
    U32(Vec<i32>, Vec<i16>),
    /// Yes or no, each with 1 if it is there.
    Bool(Vec<bool>, Vec<i16>),
    /// Short names of a few kinds, all there; and those that occurred, so that none is copied
    /// twice.
    Name(Vec<ByteArray>, Vec<(&'static str, ByteArray)>),
    /// 16 bytes, each with 1 if they are there.
    Bytes16(Vec<FixedLenByteArray>, Vec<i16>),
}

impl Column {
    /// Adds a number to a column of [`Self::U64`].
    pub fn push_u64(&mut self, value: u64) {
        let Self::U64(values) = self else { unreachable!("the schema says otherwise") };
        values.push(value as i64);
    }

    /// Adds a number, or none, to a column of [`Self::U32`].
    pub fn push_u32(&mut self, value: Option<u32>) {
        let Self::U32(values, there) = self else { unreachable!("the schema says otherwise") };
        there.push(i16::from(value.is_some()));
        values.extend(value.map(|value| value as i32));
    }

    /// Adds yes, no or nothing to a column of [`Self::Bool`].
    pub fn push_bool(&mut self, value: Option<bool>) {
        let Self::Bool(values, there) = self else { unreachable!("the schema says otherwise") };
        there.push(i16::from(value.is_some()));
        values.extend(value);
    }

    /// Adds a name to a column of [`Self::Name`].
    pub fn push_name(&mut self, name: &'static str) {
        let Self::Name(values, known) = self else { unreachable!("the schema says otherwise") };
        if let Some((_, value)) = known.iter().find(|(known, _)| *known == name) {
            values.push(value.clone());
            return;
        }
        let value = ByteArray::from(name);
        known.push((name, value.clone()));
        values.push(value);
    }

    /// Adds 16 bytes, or none, to a column of [`Self::Bytes16`].
    pub fn push_bytes(&mut self, bytes: Option<[u8; 16]>) {
        let Self::Bytes16(values, there) = self else { unreachable!("the schema says otherwise") };
        there.push(i16::from(bytes.is_some()));
        values.extend(bytes.map(|bytes| FixedLenByteArray::from(bytes.to_vec())));
    }

    /// Writes what there is and forgets it.
    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::U64(values) => {
                to.typed::<Int64Type>().write_batch(values, None, None)?;
                values.clear();
            }
            Self::U32(values, there) => {
                to.typed::<Int32Type>().write_batch(values, Some(there), None)?;
                values.clear();
                there.clear();
            }
            Self::Bool(values, there) => {
                to.typed::<BoolType>().write_batch(values, Some(there), None)?;
                values.clear();
                there.clear();
            }
            Self::Name(values, _) => {
                to.typed::<ByteArrayType>().write_batch(values, None, None)?;
                values.clear();
            }
            Self::Bytes16(values, there) => {
                to.typed::<FixedLenByteArrayType>().write_batch(values, Some(there), None)?;
                values.clear();
                there.clear();
            }
        }
        Ok(())
    }
}

/// A Parquet file in the making.
#[derive(Debug)]
pub struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// The columns in the order of the schema.
    pub columns: Vec<Column>,
    rows: usize,
}

impl<W: Write + Send> Table<W> {
    /// A table with this schema, whose columns are `columns`; those of `deltas` are stored as
    /// differences.
    pub fn new(to: W, schema: &str, columns: Vec<Column>, deltas: &[&str]) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(schema).map_err(failed)?);
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(parquet::basic::ZstdLevel::default()))
            .set_created_by(concat!("onefold ", env!("CARGO_PKG_VERSION")).to_owned());
        for name in deltas {
            let path = ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let writer = SerializedFileWriter::new(to, schema, Arc::new(properties.build()));
        Ok(Self { writer: writer.map_err(failed)?, columns, rows: 0 })
    }

    /// Says that every column has one value more.
    pub fn end_row(&mut self) -> io::Result<()> {
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.end_group().map_err(failed) } else { Ok(()) }
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let mut to = group.next_column()?.expect("the schema has as many columns");
            column.write(&mut to)?;
            to.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the rest and the footer, and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.end_group().map_err(failed)?;
        }
        self.writer.into_inner().map_err(failed)
    }
}

/// What the writer says, as an error of the output.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::RowGroupMetaData;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;

    const SCHEMA: &str = "message t {
        required int64 number (integer(64, false));
        optional int32 small (integer(32, false));
        optional boolean word;
        required binary name (string);
        optional fixed_len_byte_array(16) bytes;
    }";

    fn push(table: &mut Table<std::fs::File>, number: u64, there: bool) {
        let [numbers, small, word, name, bytes] = table.columns.as_mut_slice() else {
            unreachable!("there are five columns")
        };
        numbers.push_u64(number);
        small.push_u32(there.then_some(u32::MAX - number as u32));
        word.push_bool(there.then_some(number.is_multiple_of(2)));
        name.push_name(if there { "one" } else { "other" });
        bytes.push_bytes(there.then_some([number as u8; 16]));
        table.end_row().unwrap();
    }

    #[test]
    fn a_group_has_its_own_rows_and_forgets_those_before() {
        let columns = vec![
            Column::U64(Vec::new()),
            Column::U32(Vec::new(), Vec::new()),
            Column::Bool(Vec::new(), Vec::new()),
            Column::Name(Vec::new(), Vec::new()),
            Column::Bytes16(Vec::new(), Vec::new()),
        ];
        let file = tempfile::tempfile().unwrap();
        let mut table = Table::new(file, SCHEMA, columns, &["number"]).unwrap();
        for (number, there) in [(7, true), (u64::MAX, false)] {
            push(&mut table, number, there);
        }
        table.end_group().unwrap();
        assert_eq!(table.rows, 0);
        for (number, there) in [(1, false), (2, true), (3, true)] {
            push(&mut table, number, there);
        }
        assert_eq!(table.rows, 3);
        let Column::Name(_, known) = &table.columns[3] else { unreachable!("names") };
        assert_eq!(known.len(), 2, "each name once");
        let reader = SerializedFileReader::new(table.finish().unwrap()).unwrap();
        let groups = reader.metadata().row_groups().iter();
        assert_eq!(groups.map(RowGroupMetaData::num_rows).collect::<Vec<_>>(), [2, 3]);
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        let bytes = |number: u8| format!("{:?}", vec![number; 16]);
        let there = |number: u8, small: u32, word: bool| {
            format!(
                "{{number: {number}, small: {small}, word: {word}, name: \"one\", bytes: {}}}",
                bytes(number)
            )
        };
        let not = |number: u64| {
            format!("{{number: {number}, small: null, word: null, name: \"other\", bytes: null}}")
        };
        let wanted = [
            there(7, u32::MAX - 7, false),
            not(u64::MAX),
            not(1),
            there(2, u32::MAX - 2, true),
            there(3, u32::MAX - 3, false),
        ];
        assert_eq!(rows, wanted);
    }
}
