//! Importers: the traces that others publish, read line by line as they stream past.
//! Room: onefold-workload.   In: text.   Out: [`Request`]s, and a report of what was skipped.
//! Invariants: (1) nonsense is refused with its line number, never guessed at  (2) every line is
//! a request, a skip with a reason, or an error  (3) no input panics, no line is held twice.
//! Cost: one copy of each line; see `benches/importers.rs`.

mod alibaba;
mod blkparse;
mod cachesim;
mod detect;
mod disksim;
mod error;
mod fields;
mod fio;
mod fiu;
mod lines;
mod msr;
mod ours;
#[cfg(feature = "parquet")]
mod parquet;
mod report;
mod sink;

use std::collections::VecDeque;
use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

pub use blkparse::BlkAction;
pub use detect::{DETECT_BYTES, DetectError};
pub use error::{Problem, TraceError};
pub use lines::LINE_BYTES_MAX;
#[cfg(feature = "parquet")]
pub use parquet::ParquetReader;
pub use report::{ImportReport, SkipReason};
pub use sink::STREAMS_MAX;

use crate::request::Request;
use lines::LineReader;
use sink::Sink;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Our own CSV.
    Csv,
    /// MSR Cambridge: `Timestamp(100 ns),Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
    Msr,
    /// Text of `blkparse` in its default format, one action per request.
    Blkparse(BlkAction),
    /// fio's I/O log, version 2 or 3; the first line says which.
    FioIolog,
    /// `DiskSim` ASCII with integer nanoseconds:
    /// `time_ns device start_sector sectors 0=write|1=read`.
    DiskSim,
    /// `CloudPhysics` traces as libCacheSim's CSV: `version,time_us,op(hex SCSI),size,lbn`.
    CacheSim,
    /// Alibaba block traces: `device_id,R|W,offset,length,timestamp_us`.
    Alibaba,
    /// FIU `IODedup`: `timestamp_ns pid process lba size R|W major minor digests`.
    Fiu,
}

/// A name that is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown trace format `{0}`: expected csv, msr, blkparse, blkparse-issue, \
     blkparse-complete, fio, disksim, cachesim, alibaba or fiu"
)]
pub struct ParseFormatError(pub String);

impl Format {
    /// Every format.
    pub const ALL: [Self; 10] = [
        Self::Csv,
        Self::Msr,
        Self::Blkparse(BlkAction::Queue),
        Self::Blkparse(BlkAction::Issue),
        Self::Blkparse(BlkAction::Complete),
        Self::FioIolog,
        Self::DiskSim,
        Self::CacheSim,
        Self::Alibaba,
        Self::Fiu,
    ];

    /// The name that people choose it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Msr => "msr",
            Self::Blkparse(BlkAction::Queue) => "blkparse",
            Self::Blkparse(BlkAction::Issue) => "blkparse-issue",
            Self::Blkparse(BlkAction::Complete) => "blkparse-complete",
            Self::FioIolog => "fio",
            Self::DiskSim => "disksim",
            Self::CacheSim => "cachesim",
            Self::Alibaba => "alibaba",
            Self::Fiu => "fiu",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, ParseFormatError> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| ParseFormatError(text.to_owned()))
    }
}

/// What a parser makes of a line: requests in the sink, or a reason to skip it.
type Parsed = Result<Option<SkipReason>, Problem>;

/// The state between two lines of each format.
#[derive(Clone, Debug)]
enum Parser {
    Csv(ours::Ours),
    Msr,
    Blkparse(blkparse::Blkparse),
    Fio(fio::Fio),
    DiskSim,
    CacheSim,
    Alibaba,
    Fiu(fiu::Fiu),
}

impl Parser {
    fn new(format: Format) -> Self {
        match format {
            Format::Csv => Self::Csv(ours::Ours::default()),
            Format::Msr => Self::Msr,
            Format::Blkparse(action) => Self::Blkparse(blkparse::Blkparse::new(action)),
            Format::FioIolog => Self::Fio(fio::Fio::default()),
            Format::DiskSim => Self::DiskSim,
            Format::CacheSim => Self::CacheSim,
            Format::Alibaba => Self::Alibaba,
            Format::Fiu => Self::Fiu(fiu::Fiu::default()),
        }
    }

    fn parse(&mut self, line: &[u8], sink: &mut Sink) -> Parsed {
        match self {
            Self::Csv(state) => state.parse(line, sink),
            Self::Msr => msr::parse(line, sink),
            Self::Blkparse(state) => state.parse(line, sink),
            Self::Fio(state) => state.parse(line, sink),
            Self::DiskSim => disksim::parse(line, sink),
            Self::CacheSim => cachesim::parse(line, sink),
            Self::Alibaba => alibaba::parse(line, sink),
            Self::Fiu(state) => state.parse(line, sink),
        }
    }
}

/// A trace as an iterator. It ends after the first error.
#[derive(Debug)]
pub struct TraceReader<R> {
    format: Format,
    lines: LineReader<R>,
    parser: Parser,
    sink: Sink,
    report: ImportReport,
    last_ns: u64,
    done: bool,
}

impl<R: BufRead> TraceReader<R> {
    /// A reader of `input`, which is written in `format`.
    pub fn new(format: Format, input: R) -> Self {
        Self {
            format,
            lines: LineReader::new(input),
            parser: Parser::new(format),
            sink: Sink::default(),
            report: ImportReport::default(),
            last_ns: 0,
            done: false,
        }
    }

    /// What was read and skipped so far.
    pub fn report(&self) -> ImportReport {
        let mut report = self.report.clone();
        report.before_first = self.sink.before_first;
        report
    }

    /// The names behind [`Request::stream`], where the format has names.
    pub fn stream_names(&self) -> &[String] {
        self.sink.stream_names()
    }

    /// Reads lines until one gives a request; `None` at the end.
    fn advance(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            if let Some(request) = self.sink.requests.pop_front() {
                self.report.count(&request, &mut self.last_ns);
                return Ok(Some(request));
            }
            let Some((number, line)) = self.lines.next_line(self.format)? else {
                return Ok(None);
            };
            self.report.lines = number;
            let at = |problem| TraceError::Line { line: number, format: self.format, problem };
            let blank = line.iter().all(u8::is_ascii_whitespace);
            let skip = if blank {
                Some(SkipReason::Blank)
            } else {
                self.parser.parse(line, &mut self.sink).map_err(at)?
            };
            if let Some(reason) = skip {
                self.report.skip(reason);
            }
            self.report.expanded += u64::from(self.sink.requests.len() > 1);
        }
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.advance().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Requests of one line, in order.
type Requests = VecDeque<Request>;
