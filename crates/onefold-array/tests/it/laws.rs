//! Laws over random servers.

use crate::run;
use onefold_array::{SpecBuilder, simulate};
use onefold_block::SplitMix64;

/// Random servers: a few in every run, as many as `ONEFOLD_TEST_SERVERS` says by command; two
/// numbers are the first one and the one behind the last.
fn servers() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("ONEFOLD_TEST_SERVERS") else { return 0..6 };
    let (first, end) = text.split_once("..").unwrap_or(("0", &text));
    let number = |text: &str| text.parse().expect("a number of servers");
    number(first)..number(end)
}

/// Requests of a run, and of one that decides what the first left open.
const SHORT: u64 = 60_000;
const LONG: u64 = 600_000;
/// What more of something leaves at least of the throughput.
const NEVER_SLOWER: f64 = 0.995;

/// What there can be more of.
const MORE: [&str; 10] = [
    "cpu.sockets",
    "memory.gb_per_s_per_socket",
    "nic.gb_per_s",
    "link.lanes",
    "engine.count",
    "ssd.count",
    "table_ssd.count",
    "nic.hash_units",
    "table.engine_lookups_per_s",
    "engine.queue_batches",
];

#[test]
fn more_of_anything_never_makes_it_slower() {
    let presets = ["software", "cidr", "cidr+", "fidr-index", "fidr-nic", "fidr"];
    for number in servers() {
        let mut random = SplitMix64::new(number + 1);
        let preset = presets[random.below(presets.len() as u64) as usize];
        let mut builder = SpecBuilder::preset(preset).unwrap();
        let settings = [
            format!("seed={number}"),
            format!("workload.read_share={}", random.below(10) as f64 / 10.0),
            format!("workload.duplicate_share={}", random.below(10) as f64 / 10.0),
            format!("engine.count={}", 1 + random.below(4)),
            format!("ssd.count={}", 1 + random.below(8)),
            format!("nic.count={}", 1 + random.below(3)),
            format!("table_ssd.count={}", 1 + random.below(3)),
            "schedule.long_term=off".into(),
            // What `recent` learns hangs on when it learns it, and so does the work it saves.
            format!("predictor.kind={}", ["none", "all-unique"][random.below(2) as usize]),
            "workload.outstanding=2000".into(),
        ];
        for setting in &settings {
            builder = builder.set(setting).unwrap();
        }
        // Which requests are answered first differs, and with it what the stretch that is measured
        // held. That goes away with its length: what is left of it in ten times as many is a loss.
        let gb_per_s = |builder: &SpecBuilder, requests: u64| {
            let builder = builder.clone().set(&format!("workload.requests={requests}")).unwrap();
            let warm = format!("workload.warm_requests={}", requests / 10);
            let spec = builder.set(&warm).unwrap().build().ok()?;
            Some(simulate(&spec).unwrap().gb_per_s)
        };
        let before = gb_per_s(&builder, SHORT).unwrap();
        let mut before_long = None;
        for key in MORE {
            let twice = match builder.value(key).unwrap() {
                toml::Value::Integer(number) => format!("{key}={}", number * 2),
                value => format!("{key}={}", value.as_float().unwrap() * 2.0),
            };
            let more = builder.clone().set(&twice).unwrap();
            let Some(after) = gb_per_s(&more, SHORT) else { continue };
            if after > before * NEVER_SLOWER {
                continue;
            }
            let before = *before_long.get_or_insert_with(|| gb_per_s(&builder, LONG).unwrap());
            let after = gb_per_s(&more, LONG).unwrap();
            let name = format!("{preset} {number} {twice}");
            assert!(after > before * NEVER_SLOWER, "{name}: {before} -> {after}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs_on_any_number_of_threads() {
    let settings = ["workload.requests=4000", "workload.warm_requests=400"];
    let alone = run("cidr+", &settings);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| run("cidr+", &settings))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
    let other = run("cidr+", &[&settings[..], &["seed=9"]].concat());
    assert_ne!(other.event_hash, alone.event_hash);
}
