//! How many hits are possible at all within a budget of writes, and how much of that was reached.
//! Room: onefold-lab.

use onefold_cache::bound::{Limits, Stays};
use onefold_cache::simulate::capacity_of;
use onefold_cache::suite::{Family, MostExpected, rivals};
use onefold_cache::trace::Trace;

/// Bounds on the hit rate, in percent, means over the seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Possible {
    /// For whoever is told by which law each read is drawn; none where there is no simple law.
    pub(super) law: Option<f64>,
    /// For whoever is told all reads.
    pub(super) reads: f64,
}

impl Possible {
    /// The lower of both.
    pub(super) fn ceiling(self) -> f64 {
        self.law.map_or(self.reads, |law| law.min(self.reads))
    }
}

/// What is known of the reads of a family, one seed after the other.
pub(super) struct Known {
    seeds: Vec<(Stays, Option<MostExpected>)>,
    objects: u64,
    /// Reads of all seeds.
    reads: f64,
}

impl Known {
    pub(super) fn of(family: &Family, seeds: &[u64], traces: &[Trace]) -> Self {
        let objects = traces.first().map_or(0, |trace| capacity_of(trace, family.size).objects);
        let objects = objects as u64;
        let known = seeds.iter().zip(traces).map(|(&seed, trace)| {
            (Stays::of_known(&trace.requests), family.most_expected(seed, objects))
        });
        let reads = traces.iter().map(|trace| trace.requests.len() as f64).sum();
        Self { seeds: known.collect(), objects, reads }
    }

    /// Within so many fills of the cache.
    pub(super) fn within(&self, fills: u64) -> Possible {
        let objects = self.objects;
        let writes = fills * objects;
        let limits = Limits { objects, memory: rivals::memory_of(objects), writes };
        let percent = |hits: f64| 100.0 * hits / self.reads;
        let law = self.seeds.iter().map(|(_, law)| Some(law.as_ref()?.within(limits)));
        let law: Option<Vec<f64>> = law.collect();
        Possible {
            law: law.map(|all| percent(all.iter().sum())),
            reads: percent(self.seeds.iter().map(|(stays, _)| stays.most_hits(limits)).sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_cache::suite::Pattern;

    use super::*;

    #[test]
    fn the_ceiling_is_the_lower_bound_and_rises_with_the_budget() {
        let both = Possible { law: Some(50.0), reads: 60.0 };
        assert!((both.ceiling() - 50.0).abs() < 1e-9);
        assert!((Possible { law: Some(70.0), ..both }.ceiling() - 60.0).abs() < 1e-9);
        assert!((Possible { law: None, ..both }.ceiling() - 60.0).abs() < 1e-9);
        for (pattern, lawful) in [(Pattern::Still(0.8), true), (Pattern::Loop(0.3), false)] {
            let family = Family { name: "", pattern, objects: 500, reads: 8.0, size: 0.2 };
            let traces = [family.trace(1), family.trace(2)];
            let known = Known::of(&family, &[1, 2], &traces);
            let (little, much) = (known.within(1), known.within(5));
            assert_eq!(little.law.is_some(), lawful, "{pattern:?}");
            assert!(0.0 < little.reads && little.reads < much.reads && much.reads < 100.0);
            assert!(little.ceiling() <= much.ceiling());
        }
    }
}
