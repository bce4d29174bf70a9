//! No policy passes a bound: neither that of who knows all reads, nor that of who knows their law.
//! Room: onefold-cache.

use onefold_cache::bound::{Limits, Stays};
use onefold_cache::simulate::{capacity_of, run_one};
use onefold_cache::suite::{self, Family, rivals};
use onefold_cache::trace::{Future, Trace};
use onefold_cache::{Choice, Plan};

fn run(trace: &Trace, size: f64, text: &str) -> onefold_cache::simulate::Run {
    let future = Future::of(&trace.requests);
    run_one(trace, Some(&future), &Choice::parse(text).unwrap(), size, &Plan::of_one(1)).unwrap()
}

/// Families small enough for a debug build.
fn small() -> impl Iterator<Item = Family> {
    let all = suite::tuning().into_iter().chain(suite::report());
    all.map(|family| Family { reads: 8.0, objects: 500, ..family })
}

#[test]
fn no_policy_has_more_hits_than_its_writes_allow() {
    let mut settings: Vec<String> = rivals::rivals()
        .into_iter()
        .flat_map(|contender| contender.settings.into_iter().step_by(5))
        .chain(["belady".to_owned(), "static".to_owned()])
        .collect();
    settings.extend(rivals::toll(2.0, 40.0).settings.into_iter().step_by(3));
    settings.extend(rivals::untold().settings);
    let mut nearest = 1.0_f64;
    for (number, family) in small().enumerate() {
        let trace = family.trace(number as u64);
        let stays = Stays::of_known(&trace.requests);
        let objects = capacity_of(&trace, family.size).objects as u64;
        let expected = family.most_expected(number as u64, objects);
        // Each family has its share of the settings.
        for text in settings.iter().skip(number % 3).step_by(3) {
            let run = run(&trace, family.size, text);
            let limits = Limits { objects, memory: rivals::memory_of(objects), writes: run.writes };
            let most = stays.most_hits(limits);
            let (name, hits) = (family.name, run.hits as f64);
            assert!(hits <= most, "{text} on {name}: {hits} of {most} hits");
            nearest = nearest.min(1.0 - hits / most);
            if let Some(expected) = &expected
                && !["belady", "static"].contains(&text.as_str())
            {
                let most = expected.within(limits);
                let luck = 4.0 * expected.deviation;
                assert!(hits <= most + luck, "{text} on {name}: {hits} of {most} and {luck}");
            }
        }
    }
    assert!(nearest < 0.02, "nobody comes near: {nearest}");
}

#[test]
fn the_bound_falls_with_every_limit() {
    for family in small().take(6) {
        let trace = family.trace(9);
        let stays = Stays::of_known(&trace.requests);
        let hits = |objects, memory, writes| stays.most_hits(Limits { objects, memory, writes });
        let slack = 2e-4 * trace.requests.len() as f64;
        let all = hits(100, 10, 1_000);
        for less in [hits(50, 10, 1_000), hits(100, 0, 1_000), hits(100, 10, 100)] {
            assert!(less <= all + slack, "{less} {all}");
        }
        assert!(hits(100, 10, 100) < 0.99 * all, "{}", family.name);
    }
}
