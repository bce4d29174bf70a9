//! The bytes inside compressed streams.
//! Room: onefold-image.
//! Invariants: (1) an end that is cut off, and anything behind a gzip stream that is neither zero
//! nor another one, is an error  (2) memory is bounded: Zstandard windows past 128 MiB are refused.

use std::io::{self, BufRead as _, BufReader, Read};

use flate2::bufread::GzDecoder;

use crate::detect::Format;
use crate::error::ImageError;

/// Longest window of a Zstandard stream, as a power of two in bytes.
const WINDOW_LOG_MAX: u32 = 27;

/// A reader of what is inside a gzip or Zstandard stream.
pub fn decoder(
    format: Format,
    input: impl Read + Send + 'static,
) -> Result<Box<dyn Read + Send>, ImageError> {
    let input: Box<dyn Read + Send> = Box::new(input);
    match format {
        Format::Gzip => Ok(Box::new(Named { format, inner: Members::new(input) })),
        Format::Zstd => {
            let mut inner = zstd::Decoder::new(input)?;
            inner.window_log_max(WINDOW_LOG_MAX)?;
            Ok(Box::new(Named { format, inner }))
        }
        Format::Raw => Ok(input),
        other => Err(ImageError::NotRead(other)),
    }
}

/// Gzip streams one after another, and zeros behind the last one, which tapes leave.
struct Members<R> {
    /// None at the end.
    stream: Option<GzDecoder<BufReader<R>>>,
}

impl<R: Read> Members<R> {
    fn new(input: R) -> Self {
        Self { stream: Some(GzDecoder::new(BufReader::new(input))) }
    }

    /// A stream is at its end: the next one, if there is one.
    fn next(mut input: BufReader<R>) -> io::Result<Option<GzDecoder<BufReader<R>>>> {
        let mut zeros = false;
        loop {
            let buffered = match input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffered => buffered?,
            };
            match buffered.first() {
                None => return Ok(None),
                Some(&GZIP) if !zeros => return Ok(Some(GzDecoder::new(input))),
                Some(0) if buffered.iter().all(|byte| *byte == 0) => {
                    zeros = true;
                    let all = buffered.len();
                    input.consume(all);
                }
                Some(_) => {
                    let message = "what follows its end is neither another one nor zeros alone";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
            }
        }
    }
}

/// The first byte of a gzip stream.
const GZIP: u8 = 0x1f;

impl<R: Read> Read for Members<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(stream) = &mut self.stream {
            let read = stream.read(buf)?;
            if read > 0 || buf.is_empty() {
                return Ok(read);
            }
            let input = self.stream.take().map(GzDecoder::into_inner);
            self.stream = input.map(Self::next).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// Says of errors in which stream they are.
struct Named<R> {
    format: Format,
    inner: R,
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            io::ErrorKind::UnexpectedEof => {
                let message = format!("the {} stream is cut off", self.format);
                io::Error::new(error.kind(), message)
            }
            kind => io::Error::new(kind, format!("in the {} stream: {error}", self.format)),
        })
    }
}
