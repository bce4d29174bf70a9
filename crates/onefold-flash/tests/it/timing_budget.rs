//! Work that does not fit: fingerprints that come too late, idle moments that collect ahead, and
//! drives filled before the first request.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_flash::run::{Report, RunOptions, run};
use onefold_workload::{Op, Request};

use crate::support;

/// Eight packages that program in 262.6 us, and one engine that needs 226.5 us a page.
const DRIVE: &str = "
preset = 'ses-slc'
precondition = 'prefill'
[geometry]
planes_per_die = 1
blocks_per_plane = 24
pages_per_block = 32
[timing]
parallel_unit = 'package'
[ftl]
over_provisioning = 0.5
gc_reserve_blocks = 4
[controller]
parity_correction_ns = 226500
[workload]
pattern = 'sequential'
requests = 4000
queue_depth = 6
think_time = 'exponential'
think_time_ns = 180000
content = 'profile'
duplicate_ratio = 0.3
";

fn report(text: &str, assignments: &[&str]) -> Report {
    let spec = support::drive(text, assignments);
    run(&spec, RunOptions::default()).unwrap_or_else(|error| panic!("{error}")).report
}

fn write_us(report: &Report) -> f64 {
    report.latency_ns["write"].as_ref().expect("there were writes").mean / 1000.0
}

#[test]
fn late_fingerprints_are_left_to_the_offline_pass_and_nothing_is_lost() {
    for (policy, background) in [("ses-device", ""), ("caftl-online", "dedup.background=true")] {
        let name = format!("dedup.policy={policy}");
        let with = |budget: &str| {
            let budget = format!("dedup.budget_us={budget}");
            let mut all = vec![name.as_str(), budget.as_str()];
            all.extend(Some(background).filter(|text| !text.is_empty()));
            report(DRIVE, &all)
        };
        let late = |report: &Report| report.dedup.policy_counts["late_fingerprints"];
        let (none, two, one) = (with("0"), with("453"), with("227"));
        assert_eq!(late(&none), 0, "{policy}: no limit");
        assert!(0 < late(&two) && late(&two) < late(&one), "{policy}: {one:?}");
        assert!(late(&one) < 4000, "{policy}: a page that finds the engine idle is in time");
        // Who waits at most for one other page is sooner than who waits for all of them.
        assert!(write_us(&one) < write_us(&two) && write_us(&two) < write_us(&none), "{policy}");
        let found = |report: &Report| report.dedup.inline_pages + report.dedup.offline_pages;
        for report in [&none, &two, &one] {
            assert_eq!(found(report), 1200, "{policy}: {:?}", report.dedup);
            assert_eq!(report.dedup.missed_pages, Some(0), "{policy}");
        }
        assert!(one.dedup.inline_pages < none.dedup.inline_pages, "{policy}");
    }
}

/// Random writes with pauses.
const PAUSES: [&str; 7] = [
    "pattern=uniform",
    "content=unique",
    "think_time_ns=20000000",
    "queue_depth=1",
    "requests=20000",
    "idle_after_ns=1000000",
    "finish_offline=false",
];

/// A block row of random writes at a time, and long pauses.
fn bursts() -> Vec<Request> {
    let mut random = SplitMix64::new(7);
    let request = |number: u64| Request {
        time_ns: number * 150_000 + number / 256 * 400_000_000,
        op: Op::Write,
        offset: random.below(3000) * 8192,
        length: 8192,
        identity: None,
        stream: None,
        pid: None,
        deduplicate: None,
    };
    (0..256 * 40).map(request).collect()
}

#[test]
fn idle_moments_collect_ahead_of_the_reserve() {
    let with = |blocks: &str| {
        let all = ["precondition=prefill", "over_provisioning=1.0", blocks];
        let trace = Some(Box::new(bursts().into_iter().map(Ok)) as _);
        run(&support::drive(DRIVE, &all), RunOptions { trace, ..RunOptions::default() })
            .unwrap_or_else(|error| panic!("{error}"))
            .report
    };
    let (least, ahead) = (with("gc_idle_blocks=0"), with("gc_idle_blocks=7"));
    let waited = |report: &Report| write_us(report) - 262.6;
    assert!(waited(&least) > 10.0, "bursts use up the reserve: {}", waited(&least));
    assert!(waited(&ahead) < waited(&least) / 4.0, "{} {}", waited(&ahead), waited(&least));
}

#[test]
fn a_prefilled_drive_is_full_and_has_been_looked_at() {
    for policy in ["none", "caftl-offline", "crc-compare", "ses-host", "gleaner"] {
        let name = format!("dedup.policy={policy}");
        let mut all = PAUSES.to_vec();
        all.extend(["precondition=prefill", "requests=50", "footprint_share=0.9", &name]);
        let report = report(DRIVE, &all);
        assert_eq!(report.requests.pages_written, 50, "{policy}: the filling does not count");
        assert_eq!(report.flash_operations["program"].host, 50, "{policy}");
        // Only new pages are hashed or compared when idle; rounds over fingerprints begin anew.
        let reads = report.flash_operations["read"].dedup;
        let rounds = ["ses-host", "gleaner"].contains(&policy);
        assert!(reads <= 50 || rounds, "{policy}: {reads}");
        assert_eq!(report.dedup.inline_pages + report.dedup.offline_pages, 0, "{policy}");
    }
    let all = |precondition| [&PAUSES[..], &[precondition, "requests=4000"]].concat();
    let copies = |precondition| report(DRIVE, &all(precondition)).flash_operations["program"].gc;
    assert_eq!(copies("precondition=none"), 0, "an empty drive has room");
    assert!(copies("precondition=prefill") > 0, "a full one has none");
}
