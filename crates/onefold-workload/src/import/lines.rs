//! Lines of a text, numbered and bounded.
//! Room: onefold-workload.
//! Invariant: memory is bounded by [`LINE_BYTES_MAX`], whatever the input.

use std::io::{BufRead, Read as _};

use super::{Format, Problem, TraceError};

/// Longest accepted line, 1 MiB: a merged FIU request with 512-byte digests of 8 MiB.
pub const LINE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct LineReader<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> LineReader<R> {
    pub const fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), number: 0 }
    }

    /// The next line with its number, from 1, without its end; `None` at the end of the input.
    pub fn next_line(&mut self, format: Format) -> Result<Option<(u64, &[u8])>, TraceError> {
        self.buffer.clear();
        let line = self.number + 1;
        let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX as u64 + 2);
        let read = bounded.read_until(b'\n', &mut self.buffer);
        if read.map_err(|source| TraceError::Read { line, source })? == 0 {
            return Ok(None);
        }
        self.number = line;
        let mut text = self.buffer.as_slice();
        text = text.strip_suffix(b"\n").unwrap_or(text);
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if line == 1 {
            // The byte order mark that some spreadsheets write.
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        if text.len() > LINE_BYTES_MAX {
            let problem = Problem::TooLong { limit: LINE_BYTES_MAX };
            return Err(TraceError::Line { line, format, problem });
        }
        Ok(Some((line, text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_lines_and_marks_are_not_part_of_them() {
        let mut lines = LineReader::new(&b"\xef\xbb\xbfone\r\n\ntwo"[..]);
        let mut next = || lines.next_line(Format::Csv).unwrap().map(|(n, l)| (n, l.to_vec()));
        assert_eq!(next(), Some((1, b"one".to_vec())));
        assert_eq!(next(), Some((2, Vec::new())));
        assert_eq!(next(), Some((3, b"two".to_vec())));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let exactly = vec![b'x'; LINE_BYTES_MAX];
        assert!(LineReader::new(&exactly[..]).next_line(Format::Csv).is_ok());
        let endless = vec![b'x'; LINE_BYTES_MAX * 3];
        let error = LineReader::new(&endless[..]).next_line(Format::Csv).unwrap_err();
        assert!(error.to_string().contains("longer than 1048576 bytes"), "{error}");
    }
}
