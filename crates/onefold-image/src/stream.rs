//! The bytes inside compressed streams.
//! Room: onefold-image.
//! Invariants: (1) an end that is cut off, and anything behind a gzip stream that is neither zero
//! nor another one, is an error  (2) memory is bounded: Zstandard windows past 128 MiB are refused.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

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
        Format::Gzip => Ok(Box::new(Named { format, inner: MultiGzDecoder::new(input) })),
        Format::Zstd => {
            let mut inner = zstd::Decoder::new(input)?;
            inner.window_log_max(WINDOW_LOG_MAX)?;
            Ok(Box::new(Named { format, inner }))
        }
        Format::Raw => Ok(input),
        other => Err(ImageError::NotRead(other)),
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
