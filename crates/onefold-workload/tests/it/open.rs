//! Traces opened by what they show: files, streams, compressed ones, and what is refused.
//! Room: onefold-workload.

use std::fs;
use std::io::Cursor;

use onefold_workload::trace::OpenError;
use onefold_workload::{
    Format, Identity, Op, RecordingEncoder, Request, RequestLog, Trace, TraceFormat, TraceWriter,
};

const CSV: &str =
    "time_ns,op,offset,length,identity,stream,pid\n5,write,0,4096,,1,2\n9,read,512,512,,,\n";

/// Bytes as gzip that does not compress: one block with its length.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01".to_vec();
    let len = u16::try_from(bytes.len()).expect("a short text");
    file.extend(len.to_le_bytes());
    file.extend((!len).to_le_bytes());
    file.extend(bytes);
    let crc = bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
        })
    });
    file.extend((!crc).to_le_bytes());
    file.extend(u32::from(len).to_le_bytes());
    file
}

fn read(bytes: &[u8], format: Option<TraceFormat>) -> Result<Trace, OpenError> {
    Trace::read(Box::new(Cursor::new(bytes.to_vec())), format)
}

fn times(trace: Trace) -> Vec<u64> {
    trace.map(|request| request.unwrap().time_ns).collect()
}

#[test]
fn a_file_and_a_stream_are_read_in_the_format_that_they_show() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    // Also one that is longer than what is looked at.
    let long = CSV.to_owned() + &"11,flush,0,0,,,\n".repeat(6000);
    for text in [CSV.as_bytes().to_vec(), gzip(CSV.as_bytes()), long.into_bytes()] {
        fs::write(&path, &text).unwrap();
        let count = if text.len() > 1000 { 6002 } else { 2 };
        for format in [None, Some(TraceFormat::Text(Format::Csv))] {
            for mut trace in [Trace::open(&path, format).unwrap(), read(&text, format).unwrap()] {
                assert_eq!(trace.format(), TraceFormat::Text(Format::Csv));
                assert_eq!(trace.by_ref().map(Result::unwrap).count(), count);
                assert_eq!(
                    (trace.report().requests, trace.report().lines),
                    (count as u64, count as u64 + 1)
                );
            }
        }
    }
    // Whoever says what it is, is believed.
    fs::write(&path, CSV).unwrap();
    let wrong = Trace::open(&path, Some(TraceFormat::Text(Format::Alibaba))).unwrap();
    let error = wrong.into_requests("mine").find_map(Result::err).unwrap();
    assert!(error.starts_with("trace 'mine': line 1 is no line of the format alibaba"), "{error}");
    let names = b"1,hm,0,Read,0,512,1\n2,hm,1,Read,0,512,1\n";
    let mut trace = read(names, None).unwrap();
    assert_eq!(trace.by_ref().count(), 2);
    assert_eq!(trace.stream_names(), ["hm.0", "hm.1"]);
    assert_eq!(format!("{trace:?}"), "Trace { format: Text(Msr), .. }");
}

#[test]
fn requests_of_a_trace_name_it_when_they_fail_and_say_why() {
    let text = format!("{CSV}x,read,0,512,,,\n");
    let all: Vec<_> = read(text.as_bytes(), None)
        .unwrap_or_else(|_| read(text.as_bytes(), Some(TraceFormat::Text(Format::Csv))).unwrap())
        .into_requests("t")
        .collect();
    assert_eq!((all.len(), all[..2].iter().all(Result::is_ok)), (3, true));
    let told = "trace 't': line 4 is no line of the format csv: time_ns `x`: expected a whole \
                number below 2^64";
    assert_eq!(all[2].as_ref().unwrap_err(), told);
    // A stream that breaks off says so behind the line that was being read.
    let mut cut = gzip(CSV.as_bytes());
    cut.truncate(cut.len() - 20);
    let trace = read(&cut, Some(TraceFormat::Text(Format::Csv))).unwrap();
    let error = trace.into_requests("cut").find_map(Result::err).unwrap();
    assert!(
        error.starts_with("trace 'cut': reading line ") && error.matches(": ").count() > 1,
        "{error}"
    );
}

#[test]
fn what_cannot_be_opened_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let said = |trace: Result<Trace, OpenError>| trace.unwrap_err().to_string();
    let missing = said(Trace::open(&folder.path().join("none"), None));
    assert!(missing.contains("No such file"), "{missing}");
    assert!(said(Trace::open(folder.path(), None)).contains("directory"));
    let path = folder.path().join("trace");
    for (bytes, told) in [
        (&b""[..], "it is empty; name the format"),
        (
            b"BZh91AY&SY1234567890",
            "it is compressed with bzip2: decompress it first, with: bzip2 -d",
        ),
        (b"nonsense\n", "its first lines fit no known format"),
    ] {
        fs::write(&path, bytes).unwrap();
        for error in [said(Trace::open(&path, None)), said(read(bytes, None))] {
            assert!(error.starts_with(told), "{error}");
        }
    }
    let needs = "Parquet can only be read from a file";
    assert_eq!(said(read(b"PAR1 and more", None)), needs);
    assert_eq!(said(read(CSV.as_bytes(), Some(TraceFormat::Parquet))), needs);
    // A file is taken for Parquet if it begins so, or if somebody says so.
    fs::write(&path, b"PAR1 and more").unwrap();
    assert!(said(Trace::open(&path, None)).contains("Parquet"));
    fs::write(&path, CSV).unwrap();
    assert!(said(Trace::open(&path, Some(TraceFormat::Parquet))).contains("Parquet"));
}

#[test]
fn formats_have_names_that_read_back_and_ours_is_written() {
    let names: Vec<String> = TraceFormat::all().map(|format| format.to_string()).collect();
    assert_eq!(names.len(), Format::ALL.len() + 2);
    for format in TraceFormat::all() {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert!("tape".parse::<TraceFormat>().is_err());
    let mut writer = TraceWriter::csv(Vec::new()).unwrap();
    let request = Request {
        time_ns: 7,
        op: Op::Trim,
        offset: 512,
        length: 1024,
        identity: Some(Identity::from_bytes([0xa5; 16])),
        stream: Some(0),
        pid: None,
        deduplicate: Some(false),
    };
    writer.write(&request).unwrap();
    writer
        .write(&Request { time_ns: 10, identity: None, stream: None, pid: Some(3), ..request })
        .unwrap();
    let text = writer.finish().unwrap();
    let wanted = "time_ns,op,offset,length,identity,stream,pid,deduplicate\n\
        7,trim,512,1024,a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5,0,,no\n\
        10,trim,512,1024,,,3,no\n";
    assert_eq!(String::from_utf8(text.clone()).unwrap(), wanted);
    assert_eq!(times(read(&text, None).unwrap()), [7, 10]);
}

/// An output that says how often it was flushed.
#[derive(Debug, Default)]
struct Flushed(u32);

impl std::io::Write for Flushed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn what_is_finished_is_flushed() {
    assert_eq!(TraceWriter::csv(Flushed::default()).unwrap().finish().unwrap().0, 1);
    assert_eq!(RequestLog::csv(Flushed::default()).unwrap().finish().unwrap().0, 1);
    let mut flushed = Flushed::default();
    RecordingEncoder::new(512).unwrap().write_all([], &mut flushed).unwrap();
    assert_eq!(flushed.0, 1);
}

#[cfg(feature = "parquet")]
#[test]
fn a_trace_in_parquet_comes_back_with_what_was_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let requests: Vec<Request> = read(CSV.as_bytes(), None).unwrap().map(Result::unwrap).collect();
    let mut writer = TraceWriter::parquet(fs::File::create(&path).unwrap()).unwrap();
    for request in &requests {
        writer.write(request).unwrap();
    }
    // A read of no bytes is none.
    writer.write(&Request { length: 0, ..requests[1] }).unwrap();
    writer.write(&Request { time_ns: 3, ..requests[1] }).unwrap();
    writer.finish().unwrap();
    for format in [None, Some(TraceFormat::Parquet)] {
        let mut trace = Trace::open(&path, format).unwrap();
        let back: Vec<Request> = trace.by_ref().map(Result::unwrap).collect();
        assert_eq!((back[..2] == requests[..], back.len()), (true, 3));
        let report = trace.report();
        assert_eq!((report.lines, report.requests, report.skipped_total()), (4, 3, 1));
        assert_eq!((report.out_of_order, trace.format()), (1, TraceFormat::Parquet));
        assert!(trace.stream_names().is_empty() && trace.next().is_none());
    }
}
