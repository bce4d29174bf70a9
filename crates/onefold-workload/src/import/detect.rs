//! Which format a trace is written in, by its first lines.
//! Room: onefold-workload.
//! A format fits if it makes requests of these lines and refuses none; exactly one must. A header
//! of ours with nothing below it is a trace without requests.

use super::{BlkAction, Format, TraceError, TraceReader};
use crate::csv::{HEADER, SHORT_HEADER};

/// Bytes that [`Format::detect`] looks at.
pub const DETECT_BYTES: usize = 64 << 10;
/// Lines that it looks at.
const LINES_MAX: usize = 200;

/// A trace whose first lines fit no format, or several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// None fits.
    #[error("its first lines fit no known format; the nearest is {nearest}, but {problem}")]
    None {
        /// The format that could read most lines.
        nearest: Format,
        /// Why it stopped.
        problem: String,
    },
    /// Several fit.
    #[error("its first lines fit several formats ({})", names(formats))]
    Several {
        /// Those that fit.
        formats: Vec<Format>,
    },
    /// There is nothing to look at.
    #[error("it is empty")]
    Empty,
}

fn names(formats: &[Format]) -> String {
    formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

impl Format {
    /// The format of a text that begins with `head`, which may end within a line.
    pub fn detect(head: &[u8]) -> Result<Self, DetectError> {
        let whole = match head.iter().rposition(|&byte| byte == b'\n') {
            Some(end) => head.get(..=end).unwrap_or(head),
            None => head,
        };
        let lines: usize =
            whole.split_inclusive(|&byte| byte == b'\n').take(LINES_MAX).map(<[u8]>::len).sum();
        let text = whole.get(..lines).unwrap_or(whole);
        if text.trim_ascii().is_empty() {
            return Err(DetectError::Empty);
        }
        if [HEADER, SHORT_HEADER].map(str::as_bytes).contains(&text.trim_ascii()) {
            return Ok(Self::Csv);
        }
        let mut fitting = Vec::new();
        let mut nearest: Option<(u64, Self, TraceError)> = None;
        for format in Self::ALL.into_iter().filter(|format| !format.is_a_variant()) {
            let mut reader = TraceReader::new(format, text);
            let error = reader.by_ref().find_map(Result::err);
            let report = reader.report();
            match error {
                None if report.requests > 0 => fitting.push(format),
                Some(error)
                    if nearest
                        .as_ref()
                        .is_none_or(|(requests, ..)| *requests < report.requests) =>
                {
                    nearest = Some((report.requests, format, error));
                }
                _ => {}
            }
        }
        match (fitting.as_slice(), nearest) {
            (&[format], _) => Ok(format),
            ([], Some((_, nearest, error))) => {
                Err(DetectError::None { nearest, problem: error.to_string() })
            }
            ([], None) => Err(DetectError::Empty),
            _ => Err(DetectError::Several { formats: fitting }),
        }
    }

    /// Whether the format is another view of a trace that one format already fits.
    const fn is_a_variant(self) -> bool {
        matches!(self, Self::Blkparse(BlkAction::Issue | BlkAction::Complete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_known_by_one_line() {
        for (format, text) in [
            (Format::Csv, "time_ns,op,offset,length,identity,stream,pid\n5,write,0,4096,,1,2\n"),
            (
                Format::Csv,
                "time_ns,op,offset,length,identity,stream,pid,deduplicate\n5,trim,0,512,,,,no\n",
            ),
            (Format::Msr, "128166372003061629,hm,0,Read,383496192,32768,413\r\n"),
            (
                Format::Blkparse(BlkAction::Queue),
                "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n",
            ),
            (Format::FioIolog, "fio version 3 iolog\n878 Nvme1n1 write 16384 16384\n"),
            (Format::DiskSim, "1000 0 64 16 0\n2000 0 64"),
            (Format::CacheSim, "1,5633898,2a,512,42932745\n"),
            (Format::Alibaba, "419,W,8792731648,16384,1577808144360767\n"),
            (Format::Fiu, "10 4892 syslogd 904265560 8 W 6 0 531e779d56e0b7eb5e3d1d2f1e4c9a3b\n"),
        ] {
            assert_eq!(Format::detect(text.as_bytes()), Ok(format), "{text}");
        }
    }

    #[test]
    fn a_header_of_ours_is_a_trace_without_requests() {
        let short = "time_ns,op,offset,length,identity,stream,pid";
        for header in [short.to_owned(), format!("{short},deduplicate")] {
            for text in [header.clone(), format!("{header}\n"), format!("{header}\r\n")] {
                assert_eq!(Format::detect(text.as_bytes()), Ok(Format::Csv), "{text:?}");
            }
        }
    }

    #[test]
    fn what_fits_nothing_is_told_why() {
        assert_eq!(Format::detect(b"\n \n"), Err(DetectError::Empty));
        let error = Format::detect(b"419,W,8792731648,16384,1\n419,X,0,1,2\n").unwrap_err();
        let told = "the nearest is alibaba, but line 2 is no line of the format alibaba";
        assert!(error.to_string().contains(told), "{error}");
    }
}
