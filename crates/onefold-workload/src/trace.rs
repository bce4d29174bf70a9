//! Any trace, opened; our own, written.
//! Room: onefold-workload.   In: a path or a stream.   Out: [`Request`]s; and back.
//! Invariant: what is written in either of our formats comes back equal.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, Write};
use std::path::Path;
use std::str::FromStr;

use onefold_image::{Format as Compression, ImageError, decoder};

use crate::csv::CsvWriter;
#[cfg(feature = "parquet")]
use crate::import::ParquetReader;
use crate::import::{DETECT_BYTES, DetectError, Format, ImportReport, TraceError, TraceReader};
#[cfg(feature = "parquet")]
use crate::parquet::ParquetWriter;
use crate::recording::{RECORDING_MAGIC, RecordingReader};
use crate::request::Request;

/// Bytes from the start that tell whether a trace is compressed.
const MAGIC_BYTES: usize = 16;
/// The first and the last four bytes of every Parquet file.
const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// Lines or tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// Lines of text.
    Text(Format),
    /// Our own columns in a Parquet file.
    Parquet,
    /// What a server recorded.
    Recording,
}

impl TraceFormat {
    /// Every one of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Format::ALL.into_iter().map(Self::Text).chain([Self::Parquet, Self::Recording])
    }

    /// The name that people choose it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text(format) => format.name(),
            Self::Parquet => "parquet",
            Self::Recording => "recording",
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = crate::import::ParseFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "parquet" => Ok(Self::Parquet),
            "recording" => Ok(Self::Recording),
            text => text.parse().map(Self::Text),
        }
    }
}

/// Why a trace cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nobody said in which format it is, and it does not show.
    #[error("{0}; name the format")]
    Detect(#[from] DetectError),
    /// A Parquet file that is none, or none of a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Compressed in a way that is not read.
    #[error("it is {}: decompress it first, with: {} -d", .0.article(), .0.name())]
    Compressed(Compression),
    /// Parquet needs a file to seek in.
    #[error("Parquet can only be read from a file")]
    Stream,
    /// This build leaves Parquet out.
    #[error(
        "Parquet is not part of this build; one that has it: `cargo install --path \
         crates/onefold --features parquet`"
    )]
    NoParquet,
}

/// Requests of a trace for whoever replays them; errors are sentences that name the trace.
pub type TraceRequests = Box<dyn Iterator<Item = Result<Request, String>> + Send>;

/// A trace as an iterator over its requests. It ends after the first error.
pub struct Trace {
    format: TraceFormat,
    reader: Reader,
}

enum Reader {
    Text(Box<TraceReader<Box<dyn BufRead + Send>>>),
    Recording(Box<RecordingReader<Box<dyn BufRead + Send>>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetReader>),
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Trace {
    /// Opens a file, in the format that it shows if none is given.
    pub fn open(path: &Path, format: Option<TraceFormat>) -> Result<Self, OpenError> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        let mut magic = Vec::new();
        (&file).take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
        if format == Some(TraceFormat::Parquet) || magic.starts_with(PARQUET_MAGIC) {
            return Self::parquet(file);
        }
        // A pipe cannot be rewound: what was looked at is put in front again.
        if !magic.is_empty() && file.rewind().is_err() {
            return Self::read(
                Box::new(BufReader::new(io::Cursor::new(magic).chain(file))),
                format,
            );
        }
        Self::read(Box::new(BufReader::with_capacity(1 << 18, file)), format)
    }

    /// Reads a stream of text, in the format that it shows if none is given; also one that is
    /// compressed with gzip or Zstandard.
    pub fn read(
        input: Box<dyn BufRead + Send>,
        format: Option<TraceFormat>,
    ) -> Result<Self, OpenError> {
        let (mut input, mut magic) = (input, Vec::new());
        input.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
        let compression = Compression::detect(&magic);
        let input = io::Cursor::new(magic).chain(input);
        if !compression.is_compressed_stream() {
            return Self::read_text(Box::new(input), format);
        }
        let inside = decoder(compression, input).map_err(|error| match error {
            ImageError::Io(error) => OpenError::Io(error),
            _ => OpenError::Compressed(compression),
        })?;
        Self::read_text(Box::new(BufReader::with_capacity(1 << 18, inside)), format)
    }

    fn read_text(
        input: Box<dyn BufRead + Send>,
        format: Option<TraceFormat>,
    ) -> Result<Self, OpenError> {
        let (format, input): (_, Box<dyn BufRead + Send>) = match format {
            Some(TraceFormat::Parquet) => return Err(OpenError::Stream),
            Some(TraceFormat::Recording) => return Ok(Self::recording(input)),
            Some(TraceFormat::Text(format)) => (format, input),
            None => {
                let (mut input, mut head) = (input, Vec::new());
                input.by_ref().take(DETECT_BYTES as u64).read_to_end(&mut head)?;
                if head.starts_with(PARQUET_MAGIC) {
                    return Err(OpenError::Stream);
                }
                if head.starts_with(RECORDING_MAGIC) {
                    return Ok(Self::recording(Box::new(io::Cursor::new(head).chain(input))));
                }
                (Format::detect(&head)?, Box::new(io::Cursor::new(head).chain(input)))
            }
        };
        let reader = Reader::Text(Box::new(TraceReader::new(format, input)));
        Ok(Self { format: TraceFormat::Text(format), reader })
    }

    fn recording(input: Box<dyn BufRead + Send>) -> Self {
        let reader = Reader::Recording(Box::new(RecordingReader::new(input)));
        Self { format: TraceFormat::Recording, reader }
    }

    #[cfg(feature = "parquet")]
    fn parquet(file: File) -> Result<Self, OpenError> {
        let reader = Reader::Parquet(Box::new(ParquetReader::new(file)?));
        Ok(Self { format: TraceFormat::Parquet, reader })
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(_: File) -> Result<Self, OpenError> {
        Err(OpenError::NoParquet)
    }

    /// Its requests for a model that replays them; errors are sentences that call it `name`.
    pub fn into_requests(self, name: &str) -> TraceRequests {
        let name = name.to_owned();
        Box::new(self.map(move |request| {
            request.map_err(|error| {
                let source = std::error::Error::source(&error);
                let why = source.map(|why| format!(": {why}")).unwrap_or_default();
                format!("trace '{name}': {error}{why}")
            })
        }))
    }

    /// The format it is in.
    pub const fn format(&self) -> TraceFormat {
        self.format
    }

    /// What was read and skipped so far.
    pub fn report(&self) -> ImportReport {
        match &self.reader {
            Reader::Text(reader) => reader.report(),
            Reader::Recording(reader) => reader.report().clone(),
            #[cfg(feature = "parquet")]
            Reader::Parquet(reader) => reader.report().clone(),
        }
    }

    /// The names behind [`Request::stream`], where the format has names.
    pub fn stream_names(&self) -> &[String] {
        match &self.reader {
            Reader::Text(reader) => reader.stream_names(),
            Reader::Recording(reader) => reader.stream_names(),
            #[cfg(feature = "parquet")]
            Reader::Parquet(_) => &[],
        }
    }
}

impl Iterator for Trace {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.reader {
            Reader::Text(reader) => reader.next(),
            Reader::Recording(reader) => reader.next(),
            #[cfg(feature = "parquet")]
            Reader::Parquet(reader) => reader.next(),
        }
    }
}

/// Writes our own format, in either way.
#[derive(Debug)]
pub enum TraceWriter<W: Write + Send> {
    /// As CSV.
    Csv(CsvWriter<W>),
    /// As Parquet.
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetWriter<W>>),
}

impl<W: Write + Send> TraceWriter<W> {
    /// A writer of CSV, with its header written.
    pub fn csv(to: W) -> io::Result<Self> {
        CsvWriter::new(to).map(Self::Csv)
    }

    /// A writer of Parquet; in a build without it, an error that says so.
    #[cfg(feature = "parquet")]
    pub fn parquet(to: W) -> io::Result<Self> {
        ParquetWriter::new(to).map(|writer| Self::Parquet(Box::new(writer)))
    }

    /// A writer of Parquet; in a build without it, an error that says so.
    #[cfg(not(feature = "parquet"))]
    pub fn parquet(_: W) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, OpenError::NoParquet))
    }

    /// Writes one request.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        match self {
            Self::Csv(writer) => writer.write(request),
            #[cfg(feature = "parquet")]
            Self::Parquet(writer) => writer.write(request),
        }
    }

    /// Writes the rest and gives the output back.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Csv(writer) => writer.finish(),
            #[cfg(feature = "parquet")]
            Self::Parquet(writer) => writer.finish(),
        }
    }
}
