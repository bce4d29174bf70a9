//! Requests per second and bytes per cached object of every policy, beside a hash-map lookup loop.
//! Room: onefold-cache.
//! `cargo run --release -p onefold-cache --example policy_speed [objects] [requests] [policies]`:
//! one core, best of three rounds, keys drawn by Zipf(0.9) from ten times the objects that fit, in
//! random order. Time is that of the processor. Memory is that of the policy, without what grows
//! with all containers.
//! The loop looks the same keys up in a `HashMap` of the objects, without any policy.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use onefold_cache::registry::Setting;
use onefold_cache::{Access, Capacity, Choice, Outcome};
use onefold_sim::{RandomStreams, Ratio, Zipf};

const ROUNDS: usize = 3;
const POLICIES: [&str; 16] = [
    "fifo",
    "clock",
    "sieve",
    "lru",
    "s3-fifo",
    "plc",
    "larc",
    "lfu",
    "2q",
    "arc",
    "lirs",
    "w-tinylfu",
    "reject-first",
    "dynamic-random",
    "lazy-lfu",
    "toll",
];

fn requests(objects: u64, count: usize) -> Vec<Access> {
    let zipf = Zipf::new(objects * 10, Ratio::permille(900)).expect("a distribution");
    let mut random = RandomStreams::new(1).stream("speed");
    let mut names: Vec<u64> = (0..objects * 10).collect();
    random.shuffle(&mut names);
    let mut key = || names[zipf.sample(&mut random) as usize];
    (0..count).map(|_| Access { key: key(), size: 4096 }).collect()
}

/// Seconds that this thread has computed, so that a busy machine counts less; else those passed.
fn seconds(start: Instant) -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    spent.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Million calls per second, the best of the rounds.
fn rate(requests: &[Access], mut round: impl FnMut(&[Access])) -> f64 {
    let start = Instant::now();
    let spent = (0..ROUNDS).map(|_| {
        let before = seconds(start);
        round(requests);
        seconds(start) - before
    });
    requests.len() as f64 / spent.fold(f64::MAX, f64::min) / 1e6
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let (objects, count) = (args.next().unwrap_or(1_000_000), args.next().unwrap_or(20_000_000));
    let requests = requests(objects as u64, count);
    let map: HashMap<u64, u32> = requests.iter().take(objects * 2).map(|a| (a.key, 1)).collect();
    let lookups = rate(&requests, |requests| {
        let found = requests.iter().filter(|access| map.contains_key(&access.key)).count();
        black_box(found);
    });
    println!(
        "{objects} objects of {count} requests; a hash map of {}: {lookups:.1} M/s",
        map.len()
    );
    println!("{:16} {:>8} {:>6} {:>6} {:>7}", "policy", "M req/s", "ratio", "miss", "B/obj");
    let chosen: Vec<String> = std::env::args().skip(3).collect();
    for policy in POLICIES.iter().filter(|p| chosen.is_empty() || chosen.iter().any(|c| c == *p)) {
        let capacity = Capacity::of_equal(objects, 4096);
        let choice = Choice::parse(policy).expect("a policy of the table");
        let setting = Setting { capacity, seed: 1, future: None };
        let mut made = choice.make(setting).expect("an online policy");
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut misses = 0;
        let speed = rate(&requests, |requests| {
            misses = 0;
            for batch in requests.chunks(4096) {
                made.access_batch(batch, &mut outcomes);
                misses += outcomes.iter().filter(|outcome| !outcome.is_hit()).count();
            }
        });
        let (ratio, miss) = (speed / lookups, misses as f64 / count as f64);
        let bytes = made.memory_bytes() as f64 / objects as f64;
        println!("{policy:16} {speed:8.1} {ratio:6.2} {miss:6.3} {bytes:7.1}");
    }
}
