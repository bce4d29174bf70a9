//! Speed of every importer in lines/s, with the ratio to plainly counting lines in the same run.
//! Room: onefold-workload.
//! Run: `cargo bench -p onefold-workload`; `-- --quick` for a look that it still works.
//! Text in memory, one thread, median of five rounds in which all formats take turns; then our own
//! formats written and read through a file, and what `onefold trace info` counts
//! (`--features parquet` for all of it).

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::BufRead as _;
use std::time::Instant;

use onefold_workload::{BlkAction, Format, Request, Trace, TraceReader, TraceSummary, TraceWriter};

const ROUNDS: usize = 5;

/// A trace of `lines` lines with numbers of the usual length.
fn trace(format: Format, lines: u64) -> String {
    let mut text = String::new();
    match format {
        Format::Csv => text.push_str("time_ns,op,offset,length,identity,stream,pid\n"),
        Format::FioIolog => text.push_str("fio version 3 iolog\n"),
        _ => {}
    }
    for n in 0..lines {
        let (time, page) = (n * 137_000, n.wrapping_mul(2_654_435_761) % 100_000_000);
        let (offset, sector) = (page * 4096, page * 8);
        let line = match format {
            Format::Csv => format!("{time},write,{offset},4096,{page:032x},1,4892"),
            Format::Msr => {
                format!("{},hm,0,Write,{offset},4096,413", 128_166_372_003_061_629 + time / 100)
            }
            Format::Blkparse(_) => format!(
                "  8,0    3 {n:8} {:5}.{:09}   697  Q   W {sector} + 8 [kjournald]",
                time / 1_000_000_000,
                time % 1_000_000_000
            ),
            Format::FioIolog => format!("{} /dev/nvme0n1 write {offset} 4096", time / 1000),
            Format::DiskSim => format!("{time} 0 {sector} 8 0"),
            Format::CacheSim => format!("1,{},2a,4096,{sector}", time / 1000),
            Format::Alibaba => {
                format!("419,W,{offset},4096,{}", 1_577_808_144_360_767 + time / 1000)
            }
            Format::Fiu => format!("{time} 4892 syslogd {sector} 8 W 6 0 {page:032x}"),
        };
        writeln!(text, "{line}").expect("strings take all text");
    }
    text
}

/// Lines per second of one pass.
fn speed(lines: u64, pass: impl FnOnce() -> u64) -> f64 {
    let start = Instant::now();
    let requests = black_box(pass());
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(requests, lines, "every line is a request");
    lines as f64 / seconds
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Requests per second of writing `requests` and of reading them again, and the bytes of each.
fn round_trip<W, F>(requests: &[Request], name: &str, writer: W)
where
    W: Fn(std::fs::File) -> TraceWriter<F>,
    F: std::io::Write + Send,
{
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let path = folder.path().join(name);
    let (mut writing, mut reading) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let file = std::fs::File::create(&path).expect("the folder is ours");
        writing.push(speed(requests.len() as u64, || {
            let mut writer = writer(file);
            for request in requests {
                writer.write(request).expect("there is room");
            }
            drop(writer.finish().expect("there is room"));
            requests.len() as u64
        }));
        reading.push(speed(requests.len() as u64, || {
            let trace = Trace::open(&path, None).expect("it was just written");
            trace.filter(|request| black_box(request).is_ok()).count() as u64
        }));
    }
    let bytes = std::fs::metadata(&path).expect("it was just written").len();
    println!(
        "{name:<16} {:>12.2} {:>12.2} {:>12.1}",
        median(writing) / 1e6,
        median(reading) / 1e6,
        bytes as f64 / requests.len() as f64
    );
}

fn ours(lines: u64) {
    let text = trace(Format::Fiu, lines);
    let requests: Vec<Request> = TraceReader::new(Format::Fiu, text.as_bytes())
        .map(|request| request.expect("the trace is ours"))
        .collect();
    println!("\n{:<16} {:>12} {:>12} {:>12}", "file", "M written/s", "M read/s", "B/request");
    let csv = |file| TraceWriter::csv(std::io::BufWriter::new(file)).expect("there is room");
    round_trip(&requests, "csv", csv);
    #[cfg(feature = "parquet")]
    round_trip(&requests, "parquet", |file| TraceWriter::parquet(file).expect("there is room"));
    let rates = (0..ROUNDS).map(|_| {
        speed(lines, || {
            let mut summary = TraceSummary::default();
            for request in &requests {
                summary.add(request);
            }
            black_box(summary.footprint_bytes());
            summary.requests_total()
        })
    });
    println!("counted (info): {:.2} M requests/s", median(rates.collect()) / 1e6);
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let lines = if quick { 1_000 } else { 300_000 };
    let formats: Vec<Format> = Format::ALL
        .into_iter()
        .filter(|format| {
            !matches!(format, Format::Blkparse(BlkAction::Issue | BlkAction::Complete))
        })
        .collect();
    let traces: Vec<String> = formats.iter().map(|&format| trace(format, lines)).collect();
    let mut figures = vec![(Vec::new(), Vec::new()); formats.len()];
    for _ in 0..ROUNDS {
        for ((&format, text), (ours, plain)) in formats.iter().zip(&traces).zip(&mut figures) {
            ours.push(speed(lines, || {
                let reader = TraceReader::new(format, text.as_bytes());
                reader.filter(|request| black_box(request).is_ok()).count() as u64
            }));
            let header = u64::from(matches!(format, Format::Csv | Format::FioIolog));
            plain.push(speed(lines, || {
                let mut buffer = Vec::new();
                let (mut input, mut count) = (text.as_bytes(), 0);
                while input.read_until(b'\n', &mut buffer).expect("memory is readable") > 0 {
                    count += 1;
                    black_box(&buffer);
                    buffer.clear();
                }
                count - header
            }));
        }
    }
    println!("{:<16} {:>12} {:>22}", "format", "M lines/s", "of counting lines");
    for (format, (ours, plain)) in formats.iter().zip(figures) {
        let (ours, plain) = (median(ours), median(plain));
        println!("{:<16} {:>12.2} {:>22.3}", format.name(), ours / 1e6, ours / plain);
    }
    ours(lines);
}
