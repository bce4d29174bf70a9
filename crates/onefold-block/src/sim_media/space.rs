//! Which pages of a simulated file take space: a set of page numbers kept as ranges.
//! Room: onefold-block.
//! Invariants: ranges are not empty, do not overlap and do not touch; `count` is their total.

use std::collections::BTreeMap;
use std::ops::Range;

/// The unit in which simulated space is given out, in bytes.
pub(super) const PAGE_BYTES: u64 = 4096;

/// A set of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PageSet {
    /// First page to one past the last page.
    ranges: BTreeMap<u64, u64>,
    count: u64,
}

/// The pages that a byte range touches.
pub(super) fn touched_pages(bytes: Range<u64>) -> Range<u64> {
    if bytes.is_empty() {
        return 0..0;
    }
    bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES)
}

impl PageSet {
    /// Number of pages in the set.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.ranges.range(..=page).next_back().is_some_and(|(_, &end)| page < end)
    }

    /// How many pages of a range are not in the set.
    pub(super) fn missing(&self, pages: Range<u64>) -> u64 {
        let mut missing = pages.end.saturating_sub(pages.start);
        for (&start, &end) in self.ranges.range(..pages.end).rev() {
            let inside = end.min(pages.end).saturating_sub(start.max(pages.start));
            if inside == 0 {
                break;
            }
            missing -= inside;
        }
        missing
    }

    pub(super) fn insert(&mut self, pages: Range<u64>) {
        if pages.is_empty() {
            return;
        }
        let Range { mut start, mut end } = pages;
        while let Some((&first, &last)) = self.ranges.range(..=end).next_back() {
            if last < start {
                break;
            }
            self.ranges.remove(&first);
            self.count -= last - first;
            start = start.min(first);
            end = end.max(last);
        }
        self.ranges.insert(start, end);
        self.count += end - start;
    }

    pub(super) fn remove(&mut self, pages: Range<u64>) {
        while let Some((&first, &last)) = self.ranges.range(..pages.end).next_back() {
            if last <= pages.start || pages.is_empty() {
                break;
            }
            self.ranges.remove(&first);
            self.count -= last - first;
            for rest in [first..pages.start.max(first), pages.end.min(last)..last] {
                if !rest.is_empty() {
                    self.ranges.insert(rest.start, rest.end);
                    self.count += rest.end - rest.start;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::seeded::SplitMix64;

    #[test]
    fn page_sets_agree_with_plain_sets() {
        let mut random = SplitMix64::new(7);
        let (mut set, mut plain) = (PageSet::default(), BTreeSet::new());
        for step in 0..5000 {
            let start = random.below(40);
            let range = start..start + random.below(12);
            if random.chance(1, 2) {
                set.insert(range.clone());
                plain.extend(range.clone());
            } else {
                set.remove(range.clone());
                plain.retain(|page| !range.contains(page));
            }
            assert_eq!(set.count(), plain.len() as u64, "step {step}");
            assert!((0..60).all(|page| set.contains(page) == plain.contains(&page)));
            let probe = random.below(50)..random.below(50);
            let missing = probe.clone().filter(|page| !plain.contains(page)).count();
            assert_eq!(set.missing(probe), missing as u64, "step {step}");
            let ranges: Vec<_> = set.ranges.iter().map(|(&a, &b)| (a, b)).collect();
            assert!(ranges.windows(2).all(|w| w[0].1 < w[1].0), "touching: {ranges:?}");
        }
    }

    #[test]
    fn byte_ranges_touch_every_page_they_reach_into() {
        assert_eq!(touched_pages(0..0), 0..0);
        assert_eq!(touched_pages(4095..4096), 0..1);
        assert_eq!(touched_pages(4095..4097), 0..2);
        assert_eq!(touched_pages(8192..8193), 2..3);
    }
}
