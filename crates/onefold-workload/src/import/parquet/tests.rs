//! Where the columns of a file may lie.
//! Room: onefold-workload.

use parquet::file::metadata::ColumnChunkMetaData;

use super::*;
use crate::ParquetWriter;

/// A column's place: data from 100 on, a dictionary from 60 on, 50 bytes in all.
type Place = fn(
    parquet::file::metadata::ColumnChunkMetaDataBuilder,
) -> parquet::file::metadata::ColumnChunkMetaDataBuilder;

#[test]
fn columns_lie_inside_of_their_file() {
    let request = Request {
        time_ns: 0,
        op: Op::Flush,
        offset: 0,
        length: 0,
        identity: None,
        stream: None,
        pid: None,
        deduplicate: None,
    };
    let mut writer = ParquetWriter::new(tempfile::tempfile().unwrap()).unwrap();
    writer.write(&request).unwrap();
    let reader = SerializedFileReader::new(writer.finish().unwrap()).unwrap();
    let metadata = reader.metadata();
    let with = |place: Place, file_len: u64| {
        let group = metadata.row_group(0).clone();
        let mut columns: Vec<ColumnChunkMetaData> = group.columns().to_vec();
        let sound = |column: ColumnChunkMetaData| {
            let builder = column.into_builder().set_data_page_offset(100);
            builder.set_dictionary_page_offset(Some(60)).set_total_compressed_size(50)
        };
        let last = columns.pop().unwrap();
        let mut all: Vec<_> =
            columns.into_iter().map(|column| sound(column).build().unwrap()).collect();
        all.push(place(sound(last)).build().unwrap());
        let group = group.into_builder().set_column_metadata(all).build().unwrap();
        let file = metadata.file_metadata().clone();
        check_places(&ParquetMetaData::new(file, vec![group]), file_len)
    };
    assert!(with(|column| column, 110).is_ok(), "from 60 to 110");
    let error = with(|column| column, 109).unwrap_err().to_string();
    assert!(error.contains("column time_ns lies outside the file"), "{error}");
    let wrong: [Place; 5] = [
        |column| column.set_total_compressed_size(51),
        |column| column.set_total_compressed_size(-1),
        |column| column.set_num_values(-1),
        |column| column.set_dictionary_page_offset(Some(-1)),
        |column| column.set_total_compressed_size(i64::MAX),
    ];
    for (at, place) in wrong.into_iter().enumerate() {
        let error = with(place, 110).unwrap_err().to_string();
        assert!(error.contains("column deduplicate lies outside the file"), "{at}: {error}");
    }
    let right: [Place; 3] = [
        |column| column.set_dictionary_page_offset(Some(0)),
        |column| column.set_num_values(0),
        |column| column.set_total_compressed_size(0),
    ];
    assert!(right.into_iter().all(|place| with(place, 110).is_ok()));
    let none = with(|column| column.set_dictionary_page_offset(None), 149);
    assert!(none.is_err(), "without a dictionary from 100 to 150");
}
