//! PLC-Cache's popularity filter and in-out comparison.
//! Room: onefold-cache.
//! Source: [plc-cache] sec. IV.B.1 and IV.B.3, lines 5, 6 and 22 to 24 of the pseudo code, Table 3.
//! Differs: f(x) is not given there; see [`Popularity`]. The text says that 9 replaces at
//! 1.8 times 5 where the pseudo code says that it does not: the pseudo code is followed.
//! Cost: 8 bytes per container that was ever seen (there: 12, with the number).

use crate::counts::Counts;
use crate::policy::{Admission, Incoming, Parts};

/// f(x) of the in-out comparison: how many filter thresholds a newcomer needs, from 1 to 2, by
/// the access count x of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popularity {
    /// x / threshold, but at least 1 and at most 2.
    Clamp,
    /// Always 1.
    Const1,
    /// Always 2.
    Const2,
    /// 1 + x / (10 thresholds), at most 2.
    Linear,
    /// 1 + log2(1 + x / threshold) / 5, at most 2.
    Log,
}

impl Popularity {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("clamp", Self::Clamp),
        ("const1", Self::Const1),
        ("const2", Self::Const2),
        ("linear", Self::Linear),
        ("log", Self::Log),
    ];

    /// f(`count`) in 2^-16ths.
    fn factor(self, count: u32, threshold: u32) -> u64 {
        const ONE: u64 = 1 << 16;
        if threshold == 0 {
            return if self == Self::Const2 { 2 * ONE } else { ONE };
        }
        let ratio = u64::from(count) * ONE / u64::from(threshold);
        match self {
            Self::Clamp => ratio.clamp(ONE, 2 * ONE),
            Self::Const1 => ONE,
            Self::Const2 => 2 * ONE,
            Self::Linear => (ONE + ratio / 10).min(2 * ONE),
            Self::Log => (ONE + log2(ONE + ratio) / 5).min(2 * ONE),
        }
    }
}

/// Base-2 logarithm of `x` 2^-16ths, x >= 1, in 2^-16ths: straight lines between the powers of 2,
/// at most 0.09 too small.
fn log2(x: u64) -> u64 {
    let whole = u64::from(x.ilog2());
    let rest = if whole >= 16 { x >> (whole - 16) } else { x << (16 - whole) };
    ((whole - 16) << 16) + (rest - (1 << 16))
}

/// Which modules are on, and their numbers.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRules {
    /// Whether the popularity filter is on.
    pub filter: bool,
    /// Whether the in-out comparison is on.
    pub compare: bool,
    /// Accesses that a newcomer has to exceed.
    pub threshold: u32,
    /// f(x).
    pub popularity: Popularity,
    /// Whether more files alone let a newcomer in.
    pub references: bool,
    /// Whether the count of a container that was replaced starts again from 0.
    pub reset: bool,
}

/// Filter and comparison over the access and reference counts of all containers.
#[derive(Clone, Debug)]
pub struct PlcFilter {
    rules: FilterRules,
    /// Access count and reference count.
    counts: Counts<[u32; 2]>,
}

impl PlcFilter {
    /// Without any counts yet.
    pub fn new(rules: FilterRules) -> Self {
        Self { rules, counts: Counts::default() }
    }

    #[inline]
    fn count(&mut self, incoming: &mut Incoming) {
        let [accesses, _] = self.counts.get_mut(incoming.key);
        *accesses = accesses.saturating_add(1);
        incoming.count = *accesses;
    }
}

impl Admission for PlcFilter {
    #[inline]
    fn hit(&mut self, incoming: &mut Incoming) {
        self.count(incoming);
    }

    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        self.count(incoming);
        !self.rules.filter || incoming.count > self.rules.threshold
    }

    fn replaces(&mut self, incoming: &Incoming, victim: u64) -> bool {
        if !self.rules.compare {
            return true;
        }
        let ([_, outer_files], [accesses, files]) =
            (self.counts.get(incoming.key), self.counts.get(victim));
        let factor = self.rules.popularity.factor(accesses, self.rules.threshold);
        let needed = factor * u64::from(self.rules.threshold);
        (self.rules.references && outer_files > files) || u64::from(incoming.count) << 16 > needed
    }

    fn evicted(&mut self, key: u64, _: u32) {
        if self.rules.reset {
            self.counts.get_mut(key)[0] = 0;
        }
    }

    fn set_references(&mut self, key: u64, references: u32) {
        self.counts.get_mut(key)[1] = references;
    }

    fn forget(&mut self, key: u64) {
        if self.counts.get(key) != [0, 0] {
            *self.counts.get_mut(key) = [0, 0];
        }
    }

    #[inline]
    fn prefetch(&self, key: u64, _: u64) {
        self.counts.prefetch(key);
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { counts: vec![&mut self.counts], ..Parts::default() }
    }

    fn history_bytes(&self) -> usize {
        self.counts.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_go_from_one_to_two() {
        let at = |f: Popularity, count| f.factor(count, 5) as f64 / 65536.0;
        for (_, f) in Popularity::ALL {
            let all: Vec<f64> = (0..200).map(|count| at(f, count)).collect();
            assert!(all.is_sorted() && all.iter().all(|f| (1.0..=2.0).contains(f)), "{f:?}");
        }
        // The seed's example: a threshold of 5 and a parameter of 1.8 ask for 9.
        assert!((at(Popularity::Clamp, 9) - 1.8).abs() < 1e-4);
        let both = [at(Popularity::Linear, 25), at(Popularity::Log, 35)];
        assert!((both[0] - 1.5).abs() < 1e-4 && (both[1] - 1.6).abs() < 1e-4, "{both:?}");
    }
}
