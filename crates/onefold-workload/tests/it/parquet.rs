//! Parquet: what is written comes back, what other programs write is read, damage is an error.
//! Room: onefold-workload.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::sync::Arc;

use onefold_block::SplitMix64;
use onefold_workload::{Identity, Op, ParquetReader, ParquetWriter, Request, Trace};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::laws::request;

fn written(requests: &[Request]) -> File {
    let mut writer = ParquetWriter::new(tempfile::tempfile().unwrap()).unwrap();
    for request in requests {
        writer.write(request).unwrap();
    }
    writer.finish().unwrap()
}

fn sample(count: u64) -> Vec<Request> {
    let request = |n: u64| {
        let op = Op::ALL[n as usize % 5];
        Request {
            time_ns: n * 1000,
            op,
            offset: if op.has_range() { n * 4096 } else { 0 },
            length: if op.has_range() { 4096 } else { 0 },
            identity: (!n.is_multiple_of(3)).then(|| Identity::of_number(1, n % 97)),
            stream: (!n.is_multiple_of(5)).then_some(n as u32 % 7),
            pid: (!n.is_multiple_of(2)).then_some(n as u32),
            deduplicate: [None, Some(true), Some(false)][n as usize % 3],
        }
    };
    (0..count).map(request).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_written_comes_back(requests in vec(request(), 0..40)) {
        let mut reader = ParquetReader::new(written(&requests)).unwrap();
        let back = reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
        prop_assert_eq!(reader.report().requests, requests.len() as u64);
        prop_assert_eq!(back, requests);
    }
}

/// 128 Ki rows make a row group, and one more begins another.
#[test]
fn a_row_group_has_128_ki_rows() {
    use parquet::file::metadata::RowGroupMetaData;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let groups = |count: u64| {
        let flush = Request { op: Op::Flush, offset: 0, length: 0, ..sample(1)[0] };
        let mut writer = ParquetWriter::new(tempfile::tempfile().unwrap()).unwrap();
        for _ in 0..count {
            writer.write(&flush).unwrap();
        }
        let reader = SerializedFileReader::new(writer.finish().unwrap()).unwrap();
        let groups = reader.metadata().row_groups().iter();
        groups.map(RowGroupMetaData::num_rows).collect::<Vec<_>>()
    };
    assert_eq!(groups(0), [0; 0]);
    assert_eq!(groups(131_072), [131_072]);
    assert_eq!(groups(131_073), [131_072, 1]);
}

#[test]
fn row_groups_and_batches_meet_without_a_seam() {
    let requests = sample(300_001);
    let back = ParquetReader::new(written(&requests)).unwrap().collect::<Result<Vec<_>, _>>();
    assert!(back.unwrap() == requests);
}

/// Signed numbers, no optional columns but one, another order: as data-frame libraries write.
fn foreign(schema: &str, offset: i64, pid: i32, op: &'static str) -> File {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let file = tempfile::tempfile().unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        use parquet::column::writer::ColumnWriter as W;
        let there = [1, 1];
        match column.untyped() {
            W::Int32ColumnWriter(_) => {
                column.typed::<Int32Type>().write_batch(&[pid], Some(&[0, 1]), None)
            }
            W::Int64ColumnWriter(_) => {
                let values = [4096, offset];
                column.typed::<Int64Type>().write_batch(&values, Some(&there), None)
            }
            _ => {
                let values = [ByteArray::from("read"), ByteArray::from(op)];
                column.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)
            }
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

const FOREIGN: &str = "message other { optional int32 pid; optional int64 length;
    optional int64 offset; optional binary op (string); optional int64 time_ns; }";

#[test]
fn files_of_other_programs_are_read_or_refused_by_row() {
    let reader = ParquetReader::new(foreign(FOREIGN, 8192, 7, "write")).unwrap();
    let rows: Vec<Request> = reader.map(Result::unwrap).collect();
    let shape = |r: &Request| (r.time_ns, r.op, r.offset, r.length, r.pid, r.identity);
    assert_eq!(
        rows.iter().map(shape).collect::<Vec<_>>(),
        [(4096, Op::Read, 4096, 4096, None, None), (8192, Op::Write, 8192, 8192, Some(7), None)]
    );
    let first_error = |file| ParquetReader::new(file).unwrap().find_map(Result::err).unwrap();
    let error = first_error(foreign(FOREIGN, 8192, 7, "frobnicate")).to_string();
    assert!(error.contains("row 2 is no request: op `frobnicate`"), "{error}");
    let error = first_error(foreign(FOREIGN, -1, 7, "write")).to_string();
    assert!(error.contains("-1: expected a whole number"), "{error}");
    let error = first_error(foreign(FOREIGN, 1 << 40, 7, "write")).to_string();
    assert!(error.contains("row 2") && error.contains("at most 4 GiB"), "{error}");
}

#[test]
fn columns_that_are_no_trace_are_named() {
    for (schema, told) in [
        (FOREIGN.replace(" pid", " size"), "column `size` is unknown"),
        (FOREIGN.replace("optional int64 offset;", ""), "column `offset` is missing"),
        (
            FOREIGN.replace("int64 time_ns", "binary time_ns"),
            "column `time_ns` has type BYTE_ARRAY",
        ),
        (FOREIGN.replace("binary op (string)", "int64 op"), "column `op` has type INT64"),
    ] {
        let error = ParquetReader::new(foreign(&schema, 0, 0, "read")).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn columns_of_lists_are_refused_and_a_file_without_rows_is_a_trace() {
    let opened = |schema: &str| {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let file = tempfile::tempfile().unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        ParquetReader::new(
            SerializedFileWriter::new(file, schema, properties).unwrap().into_inner().unwrap(),
        )
    };
    assert_eq!(opened(FOREIGN).unwrap().count(), 0);
    let nested = FOREIGN.replace("optional int64 offset", "repeated int64 offset");
    let error = opened(&nested).unwrap_err().to_string();
    assert_eq!(error, "column `offset` is nested: expected plain columns");
    let twice =
        FOREIGN.replace("optional int64 length;", "optional int64 length; optional int64 offset;");
    let error = opened(&twice).unwrap_err().to_string();
    assert!(error.contains("column `offset` occurs twice"), "{error}");
    for (column, kind, told) in [
        ("identity", "binary", None),
        ("identity", "fixed_len_byte_array(16)", None),
        ("identity", "int64", Some("has type INT64: expected 16 bytes")),
        ("deduplicate", "boolean", None),
        ("deduplicate", "int32", Some("has type INT32: expected BOOLEAN")),
        ("stream", "int64", None),
        ("stream", "double", Some("has type DOUBLE: expected INT32 or INT64")),
    ] {
        let schema = FOREIGN.replace("optional int32 pid;", &format!("optional {kind} {column};"));
        match (opened(&schema), told) {
            (Ok(_), None) => {}
            (Err(error), Some(told)) => {
                assert_eq!(error.to_string(), format!("column `{column}` {told}"));
            }
            (found, _) => panic!("{column} {kind}: {found:?}"),
        }
    }
}

#[test]
fn what_is_no_parquet_is_told_so() {
    for bytes in [&b""[..], b"PAR1", b"PAR1PAR1", b"time_ns,op\n", &[0xff; 4096]] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let error = ParquetReader::new(file).unwrap_err().to_string();
        assert!(error.contains("no readable Parquet"), "{error}");
    }
}

/// Flipped bits, cut ends and runs of one value: errors or other requests, never a panic that
/// gets out and never without end.
#[test]
fn damage_is_never_fatal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut writer = ParquetWriter::new(File::create(&path).unwrap()).unwrap();
    for request in sample(700) {
        writer.write(&request).unwrap();
    }
    writer.finish().unwrap();
    let good = fs::read(&path).unwrap();
    let mut random = SplitMix64::new(9);
    let mut refused = 0;
    for round in 0..600 {
        let mut bad = good.clone();
        let at = random.next_u64() as usize % bad.len();
        // The footer is where most of what can go wrong is.
        let at = if round % 2 == 0 { at } else { bad.len() - 1 - at % 1500.min(bad.len()) };
        match round % 5 {
            0..=2 => bad[at] ^= 1 << (random.next_u64() % 8),
            3 => bad[at] = [0, 0x7f, 0x80, 0xff][random.next_u64() as usize % 4],
            _ => drop(bad.drain(at..(at + 1 + random.next_u64() as usize % 9).min(good.len()))),
        }
        fs::write(&path, &bad).unwrap();
        refused += match Trace::open(&path, None) {
            Ok(trace) => u32::from(trace.take(100_000).any(|request| request.is_err())),
            Err(_) => 1,
        };
    }
    assert!(refused > 200, "{refused}");
}
