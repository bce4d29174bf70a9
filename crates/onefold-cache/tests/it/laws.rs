//! Laws that hold for every policy, whatever is asked for.

use onefold_cache::registry::Setting;
use onefold_cache::simulate::{SlotWrite, sampled_curves, slot_writes};
use onefold_cache::trace::Future;
use onefold_cache::workload::WorkloadSpec;
use onefold_cache::{Access, Capacity, Choice, Outcome, POLICIES, Policy, Spec, simulate};
use proptest::prelude::*;

use crate::twins;

fn make(text: &str, capacity: Capacity, requests: &[Access]) -> Box<dyn Policy> {
    let choice = Choice::parse(text).unwrap();
    let future = Future::of(requests);
    choice.make(Setting { capacity, seed: 5, future: Some(&future) }).unwrap()
}

fn hits(text: &str, objects: usize, requests: &[Access]) -> u64 {
    let mut policy = make(text, Capacity::of_equal(objects, 1), requests);
    policy.access_batch(requests, &mut Vec::new());
    policy.counters().hits
}

fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|entry| entry.name)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_beats_belady(
        keys in prop::collection::vec((0_u64..40, 0_u64..40), 1..600),
        objects in 2_usize..25,
    ) {
        // The smaller of two numbers: some keys are more popular than others.
        let requests: Vec<Access> =
            keys.iter().map(|&(a, b)| Access { key: a.min(b), size: 1 }).collect();
        let bound = hits("belady", objects, &requests);
        for name in names() {
            let got = hits(name, objects, &requests);
            prop_assert!(got <= bound, "{name}: {got} hits, Belady {bound}");
        }
        // Without the right to refuse, the slow twin's choice is the bound.
        let keys: Vec<u64> = requests.iter().map(|access| access.key).collect();
        let twin = (keys.len() - twins::belady(&keys, objects)) as u64;
        prop_assert_eq!(hits("belady:bypass=0", objects, &requests), twin);
        prop_assert!(twin <= bound);
    }

    #[test]
    fn a_larger_lru_holds_what_a_smaller_one_holds(
        keys in prop::collection::vec(0_u64..60, 1..500),
        small in 1_usize..20,
        more in 1_usize..20,
    ) {
        let requests: Vec<Access> = keys.iter().map(|&key| Access { key, size: 1 }).collect();
        let mut smaller = make("lru", Capacity::of_equal(small, 1), &requests);
        let mut larger = make("lru", Capacity::of_equal(small + more, 1), &requests);
        for access in &requests {
            smaller.access(access.key, 1);
            larger.access(access.key, 1);
            for key in smaller.dump().concat() {
                prop_assert!(larger.contains(key));
            }
        }
    }

    #[test]
    fn capacity_is_never_exceeded_and_batches_change_nothing(
        keys in prop::collection::vec((0_u64..70, 0_u64..70), 1..500),
        bytes in 8_u64..60,
        removed in prop::collection::vec(0_u64..70, 0..6),
    ) {
        let requests: Vec<Access> = keys
            .iter()
            .map(|&(a, b)| a.min(b))
            .map(|key| Access { key, size: 1 + key as u32 % 5 })
            .collect();
        let capacity = Capacity { bytes, objects: bytes as usize / 3 + 1 };
        for name in names() {
            let mut one = make(name, capacity, &requests);
            let mut all = make(name, capacity, &requests);
            let mut outcomes = Vec::new();
            for (half, batch) in requests.chunks(requests.len().div_ceil(2)).enumerate() {
                if half == 1 {
                    for &key in &removed {
                        prop_assert_eq!(one.contains(key), one.remove(key), "{}", name);
                        all.remove(key);
                        prop_assert!(!one.contains(key), "{}", name);
                    }
                }
                all.access_batch(batch, &mut outcomes);
                for (access, outcome) in batch.iter().zip(&outcomes) {
                    let was = one.contains(access.key);
                    let decision = one.access(access.key, access.size);
                    prop_assert_eq!(decision.hit, was, "{}", name);
                    prop_assert_eq!(decision.hit, *outcome == Outcome::HIT, "{}", name);
                    let written = decision.admit || !decision.promoted.is_empty();
                    prop_assert_eq!(written, outcome.slot().is_some(), "{}", name);
                    let evicted = decision.evicted.to_vec();
                    prop_assert!(evicted.iter().all(|&key| !one.contains(key)), "{}", name);
                    prop_assert!(one.bytes() <= bytes, "{}: {}", name, one.bytes());
                }
            }
            prop_assert_eq!(one.dump(), all.dump(), "{}", name);
            prop_assert_eq!(one.counters(), all.counters(), "{}", name);
            let listed: usize = one.dump().iter().map(Vec::len).sum();
            prop_assert_eq!(listed, one.len(), "{}", name);
        }
    }
}

fn small() -> Spec {
    let mut spec = Spec::new();
    spec.policies = names().map(ToOwned::to_owned).collect();
    spec.workload = WorkloadSpec { data_mib: 256, read_gib: 8.0, ..WorkloadSpec::default() };
    spec
}

#[test]
fn results_are_the_same_on_any_number_of_threads() {
    let spec = small();
    let trace = spec.workload.trace().unwrap();
    let run = |threads| {
        let mut plan = spec.plan().unwrap();
        plan.threads = threads;
        simulate(&trace, &plan).unwrap()
    };
    let one = run(1);
    assert_eq!(one, run(3));
    assert_eq!(one.result_hash, run(16).result_hash);
    for run in &one.runs {
        assert_eq!((run.completed, run.requests), (one.requests, one.requests));
    }
    let mut other = small();
    other.workload.seed = 2;
    let trace = other.workload.trace().unwrap();
    assert_ne!(simulate(&trace, &other.plan().unwrap()).unwrap().result_hash, one.result_hash);
}

#[test]
fn toll_keeps_its_budget_where_others_have_none() {
    let mut spec = small();
    spec.workload.drift_steps = 6;
    spec.workload.read_gib = 40.0;
    let trace = spec.workload.trace().unwrap();
    let objects = 128.0 * 0.2;
    let per_object = trace.requests.len() as f64 / objects;
    for fills in [0.5, 2.0, 5.0] {
        spec.policies = vec![format!("toll:fills={fills},period={per_object}")];
        spec.sizes = vec![0.2];
        let run = &simulate(&trace, &spec.plan().unwrap()).unwrap().runs[0];
        assert!(run.fills <= fills * 1.03, "{} of {fills}", run.fills);
    }
}

/// Files that share containers by Zipf, or hardly: a container that many files use is read more.
#[test]
fn toll_takes_from_references_what_they_tell_and_nothing_where_none_are_told() {
    let run = |workload: &WorkloadSpec, told: bool| {
        let mut trace = workload.trace().unwrap();
        if !told {
            trace.references.fill(0);
        }
        let per_object = trace.requests.len() as f64 / (1024.0 * 0.1);
        let policy = format!("toll:fills=2,period={per_object}");
        let spec = Spec { policies: vec![policy], sizes: vec![0.1], ..Spec::new() };
        let result = simulate(&trace, &spec.plan().unwrap()).unwrap();
        (result.runs[0].hit_rate, result.result_hash)
    };
    let plain = WorkloadSpec { data_mib: 2048, read_gib: 24.0, ..WorkloadSpec::default() };
    let mut gained = [0.0; 2];
    for seed in 1..=4 {
        let plain = WorkloadSpec { seed, ..plain };
        let shared = WorkloadSpec { sharing: 1.0, shared_kib: 4096, ..plain };
        let shared = WorkloadSpec { sharing_exponent: 1.2, ..shared };
        for (gained, workload) in gained.iter_mut().zip([shared, plain]) {
            *gained += (run(&workload, true).0 - run(&workload, false).0) / 4.0;
        }
    }
    // Memory keeps regulars for whoever is told nothing too, so that little more is to be had.
    assert!(gained[0] > 0.005, "{gained:?}");
    assert!(gained[1] > -0.005, "{gained:?}");
}

#[test]
fn slots_are_written_as_often_as_containers_are_admitted() {
    let spec = small();
    let trace = spec.workload.trace().unwrap();
    let capacity = Capacity::of_equal(20, 2 << 20);
    let mut writes: Vec<SlotWrite> = Vec::new();
    let choice = Choice::parse("larc").unwrap();
    slot_writes(&trace, &choice, capacity, 1, |write| writes.push(write)).unwrap();
    let mut policy = choice.make(Setting { capacity, seed: 1, future: None }).unwrap();
    policy.access_batch(&trace.requests, &mut Vec::new());
    assert_eq!(writes.len() as u64, policy.counters().writes);
    assert!(writes.iter().all(|write| write.slot < 20));
}

#[test]
fn a_sample_tells_the_miss_ratio_of_the_whole() {
    let mut spec = small();
    spec.workload = WorkloadSpec { data_mib: 8_192, read_gib: 128.0, ..WorkloadSpec::default() };
    spec.workload.container_kib = 256;
    spec.policies = vec!["lru".to_owned(), "s3-fifo".to_owned()];
    let trace = spec.workload.trace().unwrap();
    let plan = spec.plan().unwrap();
    let whole = simulate(&trace, &plan).unwrap();
    let curves = sampled_curves(&trace, &plan, 10).unwrap();
    for (run, point) in whole.runs.iter().zip(&curves) {
        let (miss, guess) = (1.0 - run.hit_rate, point.miss_ratio);
        assert!((miss - guess).abs() < 0.04, "{}: {miss} and {guess}", run.policy);
    }
}
