//! What an import read and what it skipped, by reason.
//! Room: onefold-workload.

use std::fmt;

use crate::request::Request;

/// Why a line gave no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// Nothing on it.
    Blank,
    /// A comment or a line of column names.
    Header,
    /// A read, write or trim of no bytes.
    ZeroLength,
    /// A step of a request other than the chosen one (blkparse), so that none counts twice.
    OtherAction,
    /// An operation that neither moves data nor flushes, or that has no address of its own.
    OtherOperation,
    /// A file added, opened or closed, or a wait (fio).
    FileAction,
    /// Totals at the end (blkparse).
    Summary,
    /// The end of a recording that was cut off in the middle of a frame.
    TornEnd,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::Blank,
        Self::Header,
        Self::ZeroLength,
        Self::OtherAction,
        Self::OtherOperation,
        Self::FileAction,
        Self::Summary,
        Self::TornEnd,
    ];

    /// What was skipped, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::Header => "comments and headers",
            Self::ZeroLength => "requests of no bytes",
            Self::OtherAction => "other steps of the same requests",
            Self::OtherOperation => "operations that move no data",
            Self::FileAction => "files opened and closed, waits",
            Self::Summary => "totals at the end",
            Self::TornEnd => "a frame cut off at the end",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// What an import has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Lines read.
    pub lines: u64,
    /// Requests given out.
    pub requests: u64,
    /// Lines that gave more than one request (merged requests, preflushes).
    pub expanded: u64,
    /// Requests with an earlier time than the one before; they are given out in file order.
    pub out_of_order: u64,
    /// Requests with an earlier time than the first one; their time became 0.
    pub before_first: u64,
    skipped: [u64; SkipReason::ALL.len()],
}

impl ImportReport {
    /// Lines skipped for this reason.
    pub const fn skipped(&self, reason: SkipReason) -> u64 {
        self.skipped[reason as usize]
    }

    /// Lines skipped for any reason.
    pub fn skipped_total(&self) -> u64 {
        self.skipped.iter().sum()
    }

    /// Counts a request that is given out after one of `last_ns`.
    pub(crate) fn count(&mut self, request: &Request, last_ns: &mut u64) {
        self.requests += 1;
        self.out_of_order += u64::from(request.time_ns < *last_ns);
        *last_ns = request.time_ns;
    }

    pub(crate) const fn skip(&mut self, reason: SkipReason) {
        self.skipped[reason as usize] += 1;
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests from {} lines", self.requests, self.lines)?;
        for reason in SkipReason::ALL {
            if self.skipped(reason) > 0 {
                write!(f, "; skipped {} ({reason})", self.skipped(reason))?;
            }
        }
        for (count, what) in [
            (self.expanded, "lines with several requests"),
            (self.out_of_order, "requests out of order"),
            (self.before_first, "requests before the first, set to its time"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_a_sentence_and_counts_what_went_back_in_time() {
        let mut report = ImportReport { lines: 9, ..ImportReport::default() };
        let mut last = 0;
        let request = |time_ns| Request {
            time_ns,
            op: crate::request::Op::Flush,
            offset: 0,
            length: 0,
            identity: None,
            stream: None,
            pid: None,
            deduplicate: None,
        };
        for time_ns in [5, 5, 4, 6, 1] {
            report.count(&request(time_ns), &mut last);
        }
        assert_eq!((report.requests, report.out_of_order, last), (5, 2, 1));
        assert_eq!(report.to_string(), "5 requests from 9 lines; 2 requests out of order");
        report.skip(SkipReason::Blank);
        (report.expanded, report.before_first) = (3, 4);
        let told = "5 requests from 9 lines; skipped 1 (blank); 3 lines with several requests; \
                    2 requests out of order; 4 requests before the first, set to its time";
        assert_eq!(report.to_string(), told);
    }

    #[test]
    fn every_reason_has_its_own_count_and_words() {
        let mut report = ImportReport { requests: 3, lines: 10, ..ImportReport::default() };
        for (times, reason) in SkipReason::ALL.into_iter().enumerate() {
            for _ in 0..=times {
                report.skip(reason);
            }
            assert_eq!(report.skipped(reason), times as u64 + 1);
            assert!(report.to_string().contains(&format!("{} ({reason})", times + 1)));
        }
        assert_eq!(report.skipped_total(), 36);
    }
}
