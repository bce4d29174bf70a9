//! Golden miss ratios: against slow twins on a generated trace, against libCacheSim on its sample.

use std::fs::File;
use std::io::BufReader;

use onefold_cache::registry::Setting;
use onefold_cache::trace::{Future, Trace, Units};
use onefold_cache::{Access, Capacity, Choice};
use onefold_workload::{Format, TraceReader};

use crate::twins;

/// The share of requests that miss.
pub fn miss_ratio(policy: &str, objects: usize, requests: &[Access]) -> f64 {
    let choice = Choice::parse(policy).unwrap();
    let future = choice.entry().offline.then(|| Future::of(requests));
    let capacity = Capacity::of_equal(objects, requests[0].size);
    let setting = Setting { capacity, seed: 1, future: future.as_ref() };
    let mut policy = choice.make(setting).unwrap();
    let mut outcomes = Vec::new();
    for batch in requests.chunks(1000) {
        policy.access_batch(batch, &mut outcomes);
        assert!(policy.len() <= objects && policy.bytes() <= policy.capacity());
    }
    let counters = policy.counters();
    assert_eq!(counters.requests, requests.len() as u64);
    1.0 - counters.hits as f64 / counters.requests as f64
}

#[test]
fn miss_ratios_are_those_of_slow_twins_that_were_written_apart() {
    let requests = twins::zipf_with_scans(3, 60_000);
    let keys: Vec<u64> = requests.iter().map(|access| access.key).collect();
    for objects in [20, 150, 1_000] {
        for (policy, twin) in twins::ALL {
            let expected = twin(&keys, objects) as f64 / keys.len() as f64;
            let got = miss_ratio(policy, objects, &requests);
            assert!((got - expected).abs() < 1e-4, "{policy} of {objects}: {got} for {expected}");
        }
    }
}

/// What libCacheSim (aa0fc40) says of data/cloudPhysicsIO.csv, every address an object of size 1,
/// caches of 10 % of the addresses: `cachesim cloudPhysicsIO.csv csv -t "time-col=2,obj-id-col=5"
/// ALGO 0.1 --ignore-obj-size true`.
const LIBCACHESIM: [(&str, f64); 8] = [
    ("lru", 0.8049),
    ("fifo", 0.8054),
    ("clock", 0.8044),
    ("sieve", 0.7907),
    ("arc", 0.7728),
    ("s3-fifo", 0.7525),
    ("lirs", 0.7518),
    ("belady:bypass=0", 0.6290),
];

#[test]
fn miss_ratios_are_those_of_libcachesim_on_its_sample() {
    let Some(path) = std::env::var_os("ONEFOLD_LIBCACHESIM_TRACE") else {
        println!(
            "skipped: ONEFOLD_LIBCACHESIM_TRACE does not name libCacheSim's \
            data/cloudPhysicsIO.csv"
        );
        return;
    };
    let reader = TraceReader::new(Format::CacheSim, BufReader::new(File::open(path).unwrap()));
    let trace = Trace::read(reader, Units { container_bytes: 0, writes: true }).unwrap();
    let objects = trace.containers() / 10;
    println!("{} requests, {} objects", trace.requests.len(), trace.containers());
    let mut wrong = Vec::new();
    for (policy, expected) in LIBCACHESIM {
        let got = miss_ratio(policy, objects, &trace.requests);
        println!("{policy}: {got:.5}, libCacheSim {expected}");
        // Four digits were published, which leaves half of the last one open.
        if (got - expected).abs() > 1e-4 {
            wrong.push(policy);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
