//! What a data set's duplicates look like, in the three numbers of its profile.
//! Room: onefold-workload.
//! Cost: one map entry per distinct identity.

use std::collections::HashMap;

use crate::request::Identity;

/// Counts of a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// All pages.
    pub pages: u64,
    /// Distinct contents.
    pub distinct: u64,
    /// Contents that occur at least twice.
    pub duplicated: u64,
    /// Contents that occur more than twice.
    pub hot: u64,
    /// Pages beyond the first of each hot content.
    pub hot_redundant: u64,
}

impl Measured {
    /// Counts a data set.
    pub fn of(content: impl IntoIterator<Item = Identity>) -> Self {
        let mut counts: HashMap<Identity, u64> = HashMap::new();
        for identity in content {
            *counts.entry(identity).or_default() += 1;
        }
        let mut measured = Self { distinct: counts.len() as u64, ..Self::default() };
        // Sums only: the order in which the map gives its values does not show.
        for &count in counts.values() {
            measured.pages += count;
            measured.duplicated += u64::from(count > 1);
            if count > 2 {
                measured.hot += 1;
                measured.hot_redundant += count - 1;
            }
        }
        measured
    }

    /// Pages that deduplication saves, of all pages.
    pub fn duplicate_ratio(&self) -> f64 {
        ratio(self.pages - self.distinct, self.pages)
    }

    /// Contents that occur more than twice, of those that occur more than once.
    pub fn hot_fingerprint_ratio(&self) -> f64 {
        ratio(self.hot, self.duplicated)
    }

    /// Saved pages that hot contents account for, of all saved pages.
    pub fn hot_share(&self) -> f64 {
        ratio(self.hot_redundant, self.pages - self.distinct)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
