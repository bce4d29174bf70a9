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
    let software = run("software", &[&SMALL[..], &["workload.outstanding=500"]].concat());
    digests.push((software.stored_digest, software.bytes_of_all.stored));
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:x?}");
    let other = run("cidr", &[&SMALL[..], &["seed=2", "workload.outstanding=500"]].concat());
    assert_ne!(other.stored_digest, digests[0].0);
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
