//! What is stored, and where bytes go, whoever does the work.

use crate::{run, spec};
use onefold_array::spec::PRESETS;

const SMALL: [&str; 2] = ["workload.requests=3000", "workload.warm_requests=100"];

#[test]
fn every_byte_that_comes_in_is_stored_or_named_as_saved() {
    for preset in PRESETS {
        for load in ["workload.read_share=0", "workload.read_share=0.5"] {
            let report = run(preset.name, &[&SMALL[..], &[load]].concat());
            let bytes = report.bytes_of_all;
            let named = bytes.duplicate + bytes.compressed_away + bytes.stored;
            assert_eq!(bytes.client_in, named, "{} {load}", preset.name);
            let used = &report.resources;
            assert!(used.iter().all(|row| row.utilisation <= 1.0 + 1e-9), "{used:?}");
            let there = f64::from(spec(preset.name, &[]).cores());
            let by_task: f64 = report.cores_by_task.iter().map(|row| row.amount).sum();
            assert!(report.cores <= there + 1e-9, "{} of {there} cores", report.cores);
            assert!((by_task - report.cores).abs() < 1e-9, "{by_task} of {}", report.cores);
        }
    }
}

#[test]
fn what_is_stored_does_not_depend_on_who_predicts_schedules_or_batches() {
    let mut digests = Vec::new();
    for predictor in ["none", "all-unique", "recent", "oracle"] {
        for (short, long) in [("off", "off"), ("on", "on")] {
            for chunks in [1, 7, 64] {
                let settings = [
                    format!("predictor.kind={predictor}"),
                    format!("schedule.short_term={short}"),
                    format!("schedule.long_term={long}"),
                    format!("batch.chunks={chunks}"),
                    "schedule.window_ns=200000".into(),
                    "schedule.downtime_ns=100000".into(),
                    "engine.count=2".into(),
                    "workload.outstanding=500".into(),
                ];
                let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
                let report = run("cidr", &[&SMALL[..], &settings].concat());
                digests.push((report.stored_digest, report.bytes_of_all.stored));
            }
        }
    }
    // Boards with other mixes of units, and of fewer.
    for [hash, compress, decompress] in [[1, 37, 11], [53, 1, 11], [53, 37, 1], [2, 2, 2]] {
        let settings = [
            format!("engine.hash_units={hash}"),
            format!("engine.compress_units={compress}"),
            format!("engine.decompress_units={decompress}"),
            "workload.outstanding=500".into(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let report = run("cidr", &[&SMALL[..], &settings].concat());
        digests.push((report.stored_digest, report.bytes_of_all.stored));
    }
    let software = run("software", &[&SMALL[..], &["workload.outstanding=500"]].concat());
    digests.push((software.stored_digest, software.bytes_of_all.stored));
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:x?}");
    let other = run("cidr", &[&SMALL[..], &["seed=2", "workload.outstanding=500"]].concat());
    assert_ne!(other.stored_digest, digests[0].0);
}

#[test]
fn writes_together_are_those_of_new_chunks_and_of_duplicates() {
    let load = [&SMALL[..], &["workload.preset=mixed"]].concat();
    let report = run("cidr", &load);
    let row = |name: &str| report.latencies.iter().find(|row| row.name == name).unwrap();
    let [write, unique, duplicate] = ["write", "unique", "duplicate"].map(row);
    assert_eq!(write.count, unique.count + duplicate.count);
    assert_eq!(write.count + row("read").count, 3000);
    let sum = |row: &onefold_array::run::LatencyRow| row.mean_ns * row.count as f64;
    let parts = sum(unique) + sum(duplicate);
    assert!((sum(write) / parts - 1.0).abs() < 1e-9, "{:?}", report.latencies);
    let between = |of: fn(&onefold_array::run::LatencyRow) -> u64| {
        let (a, b) = (of(unique), of(duplicate));
        (a.min(b)..=a.max(b)).contains(&of(write))
    };
    assert!(between(|row| row.p50_ns) && between(|row| row.p99_ns), "{:?}", report.latencies);
    // Answered once they are in the buffer, they are of one kind.
    let early = run("cidr", &[&load[..], &["acknowledge=buffered"]].concat());
    let names: Vec<&str> = early.latencies.iter().map(|row| row.name).collect();
    assert_eq!(names, ["read", "write"]);
}

#[test]
fn a_server_costs_its_parts_and_flash_what_it_stores() {
    let prices = [
        "price.core_usd=1",
        "price.dram_usd_per_gb=1000",
        "price.engine_usd=7",
        "price.ssd_usd_per_tb=100",
        "buffer.client_bytes=300000000",
        "buffer.delayed_bytes=100000000",
        "table.cache_bytes=200000000",
        "engine.count=2",
    ];
    // A table that is smaller than its cache takes no more memory than it has bytes.
    for (entries, cached) in [("table.entries=10700", 409_600.0), ("table.entries=9000000", 2e8)] {
        let settings = [&SMALL[..], &prices, &[entries]].concat();
        let report = run("cidr", &settings);
        let (cost, bytes) = (&report.cost, report.bytes_of_all);
        assert_eq!((cost.cpu_usd, cost.boards_usd), (24.0, 14.0));
        assert!((cost.dram_usd - (4e8 + cached) / 1e6).abs() < 1e-6, "{cost:?}");
        assert!((cost.server_usd - cost.dram_usd - 38.0).abs() < 1e-9, "{cost:?}");
        let share = bytes.stored as f64 / bytes.client_in as f64;
        assert_eq!(cost.flash_usd_per_client_tb, Some(share * 100.0));
    }
    let reads = run("cidr", &[&SMALL[..], &["workload.read_share=1"]].concat());
    assert_eq!(reads.cost.flash_usd_per_client_tb, None);
}

#[test]
fn a_wrong_guess_costs_one_compression_or_one_more_trip() {
    let of = |kind: &str| run("cidr", &[&SMALL[..], &[&format!("predictor.kind={kind}")]].concat());
    let (none, all, oracle) = (of("none"), of("all-unique"), of("oracle"));
    assert_eq!(none.bytes_of_all.compressed_in_vain, 0);
    assert!(all.bytes_of_all.compressed_in_vain > 0);
    assert_eq!(all.predictor.duplicate_wrong, 0);
    let engine_bytes = |report: &onefold_array::Report| {
        report.memory_by_cause.iter().find(|row| row.name == "engine").unwrap().amount
    };
    // What is not guessed makes a second trip.
    assert!(engine_bytes(&none) > engine_bytes(&oracle) * 1.1);
    // Two copies in flight may be looked up in another order than they were guessed in.
    assert!(oracle.predictor.right_share().unwrap() > 0.98, "{:?}", oracle.predictor);
}

#[test]
fn a_partial_write_moves_what_it_does_not_cover() {
    // Unique, incompressible, isolated writes of 4 KiB to chunks of 32 KiB: 32 read, 32 written.
    let report = run(
        "software",
        &[
            "workload.requests=2000",
            "workload.request_bytes=4096",
            "workload.duplicate_share=0",
            "workload.compressed_share=1",
            "workload.compressed_spread=0",
            "workload.warm_requests=0",
            "workload.outstanding=1",
        ],
    );
    assert!((report.drive_bytes_per_client_byte - 16.0).abs() < 1e-9, "{report:?}");
}
