//! A run is the same on any number of threads: report, answers, errors.
//! Room: onefold-flash.

use std::panic::{AssertUnwindSafe, catch_unwind};

use onefold_block::SplitMix64;
use onefold_flash::DriveSpec;
use onefold_flash::dedup::POLICIES;
use onefold_flash::run::{Completion, Report, RunError, RunOptions, TraceRequests, run};
use onefold_workload::{Identity, Op, Request};

use crate::support;

const DRIVE: &str = "
[geometry]
channels = 2
packages = 2
planes_per_die = 2
blocks_per_plane = 32
pages_per_block = 16
page_bytes = 4096
[ftl]
over_provisioning = 0.4
gc_reserve_blocks = 3
[controller]
dram_bytes = 1000000000
[workload]
requests = 1500
content = \"uniform\"
content_values = 600
";

/// Report and answers of a run on so many threads.
fn on(
    threads: usize,
    spec: &DriveSpec,
    trace: Option<TraceRequests>,
) -> Result<(Report, Vec<Completion>), RunError> {
    let mut answers = Vec::new();
    let mut keep = |answer: &Completion| {
        answers.push(*answer);
        Ok(())
    };
    let options = RunOptions { trace, observer: Some(&mut keep), threads, ..RunOptions::default() };
    let report = run(spec, options)?.report;
    Ok((report, answers))
}

fn same(what: &str, spec: &DriveSpec, trace: impl Fn() -> Option<TraceRequests>) {
    let (report, answers) = on(1, spec, trace()).unwrap_or_else(|error| panic!("{what}: {error}"));
    for threads in [2, 3] {
        let again = on(threads, spec, trace()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(again.1.len(), answers.len(), "{what}");
        let differ = again.1.iter().zip(&answers).find(|(a, b)| a != b);
        assert_eq!(differ, None, "{what}: the first answer that differs on {threads} threads");
        assert_eq!(again.0, report, "{what}, {threads} threads");
    }
}

#[test]
fn generated_requests_are_answered_alike_on_any_number_of_threads() {
    let kinds: &[&[&str]] = &[
        &[],
        &["content=unique", "queue_depth=2000", "precondition=none", "requests=9000"],
        &["read_share=0.4", "bus_mb_per_s=400", "read_retries=true", "suspend=erase-and-program"],
        &["read_share=0.4", "write_buffer=back", "write_buffer_pages=9", "link_mb_per_s=500"],
        &["write_buffer=back", "write_buffer_pages=9", "link_mb_per_s=500", "request_ns=900"],
        &["request_pages=5", "lookup_ns=300", "compare_ns=2000", "request_ns=700"],
        &["arrivals=poisson", "interarrival_ns=70000", "idle_after_ns=0", "idle_hint=false"],
        &["arrivals=poisson", "interarrival_ns=400000", "idle_after_ns=500000"],
        &["think_time=exponential", "think_time_ns=90000", "allocation=idle-first"],
        &["page_bytes=512", "map_cache_bytes=2048", "over_provisioning=1.0"],
    ];
    for policy in POLICIES {
        let policy = support::of_pages(policy.name, 4096);
        // A policy has something of its own to show in each of these, and costs the time of one.
        for kind in if policy[0].contains("none") { kinds } else { &kinds[..3] } {
            let set: Vec<&str> =
                policy.iter().map(String::as_str).chain(kind.iter().copied()).collect();
            same(&set.join(" "), &support::drive(DRIVE, &set), || None);
        }
    }
}

/// Requests of all kinds, in the middle of which pages are written in part.
fn mixed(number: u64, partial: std::ops::Range<u64>) -> TraceRequests {
    let mut random = SplitMix64::new(5);
    Box::new((0..number).map(move |at| {
        let op = match random.below(40) {
            0 => Op::Flush,
            1 => Op::Idle,
            2..5 => Op::Trim,
            5..15 => Op::Read,
            _ => Op::Write,
        };
        let (page, pages) = (random.below(300), 1 + random.below(3));
        let part = if partial.contains(&at) { 512 * random.below(8) } else { 0 };
        let identity = (op == Op::Write).then(|| Identity::of_number(1, random.below(200)));
        Ok(Request {
            time_ns: at * 40_000,
            op,
            offset: page * 4096 + part,
            length: if op.has_range() { pages * 4096 - part } else { 0 },
            identity,
            stream: None,
            pid: None,
            deduplicate: (random.below(9) == 0).then_some(false),
        })
    }))
}

#[test]
fn traces_are_replayed_alike_on_any_number_of_threads() {
    let ways: [&[&str]; 4] = [
        &["trace_timing=closed", "think_time=none", "queue_depth=7"],
        &["trace_timing=closed", "queue_depth=30", "write_buffer=back", "link_mb_per_s=900"],
        &["trace_timing=timestamps", "idle_after_ns=0", "idle_hint=false"],
        &["trace_timing=timestamps", "idle_after_ns=3000000"],
    ];
    for policy in ["none", "crc-compare", "block-separation", "ses-device"] {
        let named = format!("dedup.policy={policy}");
        for (number, way) in ways.iter().enumerate() {
            // From the start, in the middle of a batch, at the end of one, never; and no requests.
            for (requests, partial) in
                [(900, 0..900), (1100, 300..310), (1024, 1023..1024), (700, 700..700), (0, 0..0)]
            {
                if number > 0 && partial.start == 0 && policy != "none" {
                    continue;
                }
                let spec = support::drive(DRIVE, &[&[named.as_str()], *way].concat());
                let what = format!("{policy}, {}, partial {partial:?}", way.join(" "));
                same(&what, &spec, || Some(mixed(requests, partial.clone())));
            }
        }
    }
}

#[test]
fn errors_come_in_their_turn_and_end_both_threads() {
    let spec = support::drive(DRIVE, &["trace_timing=closed", "think_time=none"]);
    for wrong in [0, 1, 1023, 1024, 1025, 3000] {
        let trace = || -> TraceRequests {
            let mut requests = mixed(5000, 0..0);
            Box::new((0..).map(move |at| match requests.next() {
                Some(request) if at != wrong => request,
                _ => Err(format!("request {at} is wrong")),
            }))
        };
        let texts = [1, 2].map(|threads| {
            let mut answers = 0;
            let mut count = |_: &Completion| {
                answers += 1;
                Ok(())
            };
            let options = RunOptions {
                trace: Some(trace()),
                observer: Some(&mut count),
                threads,
                ..RunOptions::default()
            };
            let error = run(&spec, options).expect_err("one is wrong").to_string();
            (error, answers)
        });
        assert_eq!(texts[0].0, format!("request {wrong} is wrong"));
        assert_eq!(texts[0], texts[1]);
    }
}

#[test]
fn an_observer_that_stops_the_run_stops_the_thread_ahead() {
    let spec = support::drive(DRIVE, &["requests=100000"]);
    for stop in [1, 700] {
        let mut answers = 0;
        let mut watch = |_: &Completion| {
            answers += 1;
            if answers == stop { Err(RunError::Log("enough".to_owned())) } else { Ok(()) }
        };
        let options =
            RunOptions { observer: Some(&mut watch), threads: 2, ..RunOptions::default() };
        let error = run(&spec, options).expect_err("it was stopped").to_string();
        assert!(error.contains("enough"), "{error}");
        assert_eq!(answers, stop);
    }
}

#[test]
fn a_panic_on_either_side_is_passed_on() {
    let spec = support::drive(DRIVE, &["trace_timing=closed", "think_time=none"]);
    let ahead = |request: Result<Request, String>, at: usize| {
        assert!(at != 1000, "the trace breaks");
        request
    };
    for side in ["the trace breaks", "the log breaks"] {
        let requests = mixed(5000, 0..0).enumerate();
        let trace: TraceRequests = if side == "the trace breaks" {
            Box::new(requests.map(move |(at, request)| ahead(request, at)))
        } else {
            mixed(5000, 0..0)
        };
        let mut answers = 0;
        let mut watch = |_: &Completion| {
            answers += 1;
            assert!(answers < 2000, "the log breaks");
            Ok(())
        };
        let options = RunOptions {
            trace: Some(trace),
            observer: Some(&mut watch),
            threads: 2,
            ..RunOptions::default()
        };
        let panic = catch_unwind(AssertUnwindSafe(|| run(&spec, options))).expect_err("it panics");
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        assert_eq!(text.as_deref(), Some(side));
    }
}
