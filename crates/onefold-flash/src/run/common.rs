//! Codewords that many pages have in common: headers, short files, contents shifted in a page.
//! Room: onefold-flash.
//! Invariants: the same content always has the same codewords; a page that has some in common with
//! others is still like none of them as a whole.

use onefold_block::seeded::mix64;

use crate::spec::DriveSpec;

/// Common codewords are numbered from here, far from what runs and preconditioning make up.
const COMMON: u128 = 1 << 121;

/// Which codewords are common ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// So many of a hundred.
    percent: u64,
    /// Different ones.
    values: u64,
}

impl Common {
    /// Those of a drive's workload: none where pages are mapped as a whole, as no two of these are
    /// equal by it.
    pub(crate) fn of(spec: &DriveSpec) -> Self {
        let percent = match spec.codewords() {
            1 => 0,
            _ => spec.workload.common_codewords_percent.into(),
        };
        Self { percent, values: spec.workload.common_codewords }
    }

    /// What the codeword with this key holds: itself, or what is common.
    #[inline]
    pub(crate) fn content(self, key: u128) -> u128 {
        if self.percent == 0 {
            return key;
        }
        let drawn = mix64(key as u64 ^ mix64((key >> 64) as u64));
        if drawn % 100 < self.percent {
            COMMON + u128::from(mix64(drawn) % self.values)
        } else {
            key
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn so_many_of_a_hundred_are_common_and_always_the_same() {
        let expected = [(0, 0, 0), (1, 70, 130), (25, 2_300, 2_700), (100, 10_000, 10_000)];
        for (percent, least, most) in expected {
            let common = Common { percent, values: 50 };
            let all: Vec<u128> = (1..=10_000).map(|key| common.content(key << 60)).collect();
            let again = (1..=10_000).map(|key| common.content(key << 60));
            assert!(again.eq(all.iter().copied()), "{percent} %");
            let drawn = all.iter().filter(|&&key| key >= COMMON);
            let number = drawn.clone().count();
            assert!((least..=most).contains(&number), "{percent} %: {number}");
            let different = drawn.collect::<BTreeSet<_>>().len();
            assert!(
                (number / 3).min(50) <= different && different <= number.min(50),
                "{percent} %"
            );
        }
    }
}
