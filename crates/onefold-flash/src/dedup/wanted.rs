//! What the host of a drive wants deduplicated.
//! Room: onefold-flash.

use crate::dedup::options::Options;

/// Pages that the host wants, in ranges and by request.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// First and last pages; none for all.
    ranges: Vec<(u32, u32)>,
}

impl Wanted {
    pub(crate) fn new(options: &Options) -> Self {
        Self { ranges: options.ranges("lba_ranges") }
    }

    /// Whether a page is to be deduplicated; without a word on it that goes by address.
    pub fn has(&self, lpn: u32, request: Option<bool>) -> bool {
        let in_range = || {
            self.ranges.is_empty()
                || self.ranges.iter().any(|&(first, last)| (first..=last).contains(&lpn))
        };
        request.unwrap_or_else(in_range)
    }
}
