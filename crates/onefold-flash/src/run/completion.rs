//! Answered requests.
//! Room: onefold-flash.

use crate::controller::Breakdown;
use crate::ftl::Written;
use crate::run::error::RunError;
use crate::run::request::HostRequest;

/// One answered request, for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What was asked.
    pub request: HostRequest,
    /// When it was answered.
    pub answered_ns: u64,
    /// Where its time went: the shares add up to its latency. Pages are worked on at the same
    /// time, so of its pages it is that of the one that was done last.
    pub breakdown: Breakdown,
    /// What became of what it wrote.
    pub verdict: Verdict,
}

/// What became of the pages of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Pages programmed.
    pub programmed: u32,
    /// Pages shared with stored ones.
    pub shared: u32,
}

impl Verdict {
    /// One more page.
    #[inline]
    pub(crate) const fn add(&mut self, written: Written) {
        if written.is_shared() {
            self.shared += 1;
        } else {
            self.programmed += 1;
        }
    }

    /// One word for logs; empty where nothing was written.
    pub const fn name(self) -> &'static str {
        match (self.programmed, self.shared) {
            (0, 0) => "",
            (_, 0) => "program",
            (0, _) => "share",
            _ => "mixed",
        }
    }
}

/// Told about every answered request.
pub type Observer<'a> = dyn FnMut(&Completion) -> Result<(), RunError> + Send + 'a;

/// An answer of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of the request.
    pub number: u64,
    /// When it was answered, in ns.
    pub at_ns: u64,
}
