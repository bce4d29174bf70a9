//! Time against arithmetic: latencies of single requests, saturated rates, priorities, stalls.
//! Room: onefold-flash.   Source: docs/ssd-validation.md, V6 and V10; defects of other simulators.

use onefold_flash::DriveSpec;
use onefold_flash::controller::Share;
use onefold_flash::dedup::POLICIES;
use onefold_flash::run::{Completion, Report, RunError, RunOptions, run, sweep};
use onefold_sim::SimTime;
use onefold_workload::{Op, Request};

use crate::support;

/// 2 channels x 2 packages x 2 planes of 32 blocks x 32 pages of 4 KiB.
const SMALL: &str = "\
precondition = \"none\"
[geometry]
channels = 2
packages = 4
dies_per_package = 1
planes_per_die = 2
blocks_per_plane = 32
pages_per_block = 32
page_bytes = 4096
oob_bytes = 0
[timing]
read_latency_ns = 25_000
program_latency_ns = 200_000
erase_latency_ns = 1_500_000
[ftl]
over_provisioning = 0.5
gc_reserve_blocks = 2
[controller]
idle_after_ns = 0
";

/// Bytes of its pages.
const PAGE: u64 = 4096;

fn small(assignments: &[&str]) -> DriveSpec {
    support::drive(SMALL, assignments)
}

fn report(assignments: &[&str]) -> Report {
    run(&small(assignments), RunOptions::default()).unwrap_or_else(|error| panic!("{error}")).report
}

fn replay(spec: &DriveSpec, requests: Vec<Request>) -> (Report, Vec<Completion>) {
    support::replay(spec, requests)
}

fn at(time_ns: u64, op: Op, page: u64) -> Request {
    let (offset, length) = (page * 4096, 4096);
    Request {
        time_ns,
        op,
        offset,
        length,
        identity: None,
        stream: None,
        pid: None,
        deduplicate: None,
    }
}

fn latencies(log: &[Completion]) -> Vec<(Op, u64)> {
    log.iter().map(|done| (done.request.op, done.answered_ns - done.request.arrival_ns)).collect()
}

fn close(got: f64, want: f64, share: f64) {
    assert!((got / want - 1.0).abs() <= share, "{got} is not within {share} of {want}");
}

#[test]
fn a_read_alone_takes_array_and_transfer_and_host_time_exactly() {
    let spec = small(&[
        "bus_mb_per_s=400",
        "command_overhead_ns=300",
        "link_mb_per_s=2000",
        "link_latency_ns=1500",
        "request_ns=700",
        "lookup_ns=90",
        "ecc_decode_ns=1100",
    ]);
    let second = 1_000_000_000;
    let (report, log) = replay(
        &spec,
        vec![
            at(0, Op::Write, 7),
            at(second, Op::Read, 7),
            at(2 * second, Op::Read, 8),
            at(3 * second, Op::Trim, 7),
        ],
    );
    // 4096 B over 400 MB/s: 10,240 ns; over 2 GB/s: 2,048 ns.
    let around = 1_500 + 700 + 90;
    assert_eq!(
        latencies(&log),
        [
            (Op::Write, around + 2_048 + 300 + 10_240 + 200_000),
            (Op::Read, around + 300 + 25_000 + 10_240 + 1_100 + 2_048),
            // Nothing was ever written there: no flash is asked.
            (Op::Read, around + 2_048),
            (Op::Trim, around),
        ]
    );
    for done in &log {
        let sum: u64 = done.breakdown.iter().sum();
        assert_eq!(sum, done.answered_ns - done.request.arrival_ns, "{done:?}");
    }
    assert_eq!((report.requests.generated, report.requests.completed), (4, 4));
    assert_eq!(report.energy_nj, u128::from(spec.energy.read_nj + spec.energy.program_nj));
}

/// Two packages with a plane each, so that pages of a request wait for each other.
#[test]
fn parts_of_a_latency_add_up_to_it_whatever_is_waited_for() {
    let lines = [
        "channels=1",
        "packages=2",
        "planes_per_die=1",
        "blocks_per_plane=128",
        "bus_mb_per_s=400",
        "command_overhead_ns=300",
        "request_ns=700",
        "read_priority=false",
        "write_buffer=back",
        "write_buffer_pages=2",
    ];
    let of = |time_ns, op, page, pages| Request { length: pages * PAGE, ..at(time_ns, op, page) };
    let second = 1_000_000_000;
    let flush = |time_ns| Request { offset: 0, ..of(time_ns, Op::Flush, 0, 0) };
    let (report, log) = replay(
        &small(&lines),
        vec![
            // The buffer has room for the first two; a TRIM waits behind the third.
            at(0, Op::Write, 1),
            at(10, Op::Write, 2),
            at(20, Op::Write, 3),
            at(30, Op::Trim, 2),
            flush(40),
            // Four pages in two planes, and one of the next request behind them.
            of(second, Op::Write, 4, 4),
            of(2 * second, Op::Read, 4, 4),
            at(2 * second + 50, Op::Read, 3),
            flush(3 * second),
            of(4 * second, Op::Trim, 3, 5),
        ],
    );
    for done in &log {
        let sum: u64 = done.breakdown.iter().sum();
        assert_eq!(sum, done.answered_ns - done.request.arrival_ns, "{done:?}");
    }
    let queued = |number: usize| {
        let done = log.iter().find(|done| done.request.number == number as u64);
        done.expect("it was answered").breakdown[Share::Queue as usize]
    };
    // A page takes 300 + 10,240 ns on the channel, and 200,000 in the array; then there is room.
    let programmed = 700 + 10_540 + 200_000;
    assert_eq!([0, 1].map(queued), [0, 0]);
    assert_eq!([2, 3].map(queued), [programmed - 700 * 3, programmed - 700 * 4]);
    // What is left of the latency is the core, which takes one after the other.
    assert!(queued(4) > 2 * 200_000 && queued(8) == 0, "{log:?}");
    let parts = &report.latency_breakdown_ns;
    for (name, latency) in &report.latency_ns {
        let mean = latency.as_ref().expect("all kinds occurred").mean;
        close(parts[name].values().sum::<f64>(), mean, 1e-9);
    }
}

/// Worn and old flash, read with the code that corrects 18 bits in 1,024 bytes.
const WORN: [&str; 6] = [
    "wear=tlc",
    "rated_pe_cycles=1500",
    "worn_cycles=1500",
    "data_age_s=31557600",
    "media.code=bch",
    "read_retries=true",
];

#[test]
fn a_read_alone_takes_every_retry_s_command_array_transfer_and_decoding() {
    let timing = ["bus_mb_per_s=400", "command_overhead_ns=300", "ecc_decode_ns=1100"];
    let spec = small(&[&timing[..], &WORN, &["precondition=steady"]].concat());
    let second = 1_000_000_000;
    let reads = (0..200).map(|page| at(page * second, Op::Read, page)).collect();
    let (report, log) = replay(&spec, reads);
    let retries = report.read_retries.expect("they are modelled");
    assert_eq!((retries.pages_read, retries.uncorrectable_pages), (200, 0), "{retries:?}");
    assert!(retries.retried_pages > 50, "{retries:?}");
    let once = 300 + 25_000 + 10_240 + 1_100;
    let rest = latencies(&log).iter().map(|(_, ns)| ns % once).min().expect("200 reads");
    let readings: u64 = latencies(&log)
        .iter()
        .map(|(_, ns)| {
            assert_eq!((ns - rest) % once, 0, "{ns}: whole readings");
            (ns - rest) / once
        })
        .sum();
    assert_eq!(readings, 200 + retries.retries);
    for done in &log {
        let sum: u64 = done.breakdown.iter().sum();
        assert_eq!(sum, done.answered_ns - done.request.arrival_ns, "{done:?}");
    }
    let energy = u128::from(spec.energy.read_nj + spec.energy.transfer_nj);
    assert_eq!(report.energy_nj, energy * u128::from(readings));
}

#[test]
fn retries_are_the_same_each_time_grow_with_wear_and_lose_no_request() {
    let load = ["precondition=steady", "requests=4000", "read_share=0.6", "queue_depth=32"];
    let run_with = |more: &[&str]| report(&[&load[..], more].concat());
    let fresh = run_with(&[]);
    assert_eq!(fresh.read_retries, None);
    let new = run_with(&[&WORN[..], &["worn_cycles=0", "data_age_s=0"]].concat());
    let worn = run_with(&WORN);
    assert_eq!(worn, run_with(&WORN), "same seed, same everything");
    let counts = |report: &Report| report.read_retries.clone().expect("modelled");
    assert_eq!((counts(&new).retries, new.iops), (0, fresh.iops), "new flash takes no time");
    assert!(counts(&worn).retries > 1_000 && worn.iops < new.iops, "{:?}", counts(&worn));
    let younger = run_with(&[&WORN[..], &["worn_cycles=1000"]].concat());
    assert!(counts(&younger).retries < counts(&worn).retries);
    for report in [new, worn, younger] {
        assert_eq!((report.requests.generated, report.requests.completed), (4000, 4000));
    }
    // Without a code every page with a wrong bit is beyond correction.
    let bare = run_with(&[&WORN[..], &["media.code=none"]].concat());
    assert!(counts(&bare).uncorrectable_pages > 1_000 && bare.requests.completed == 4000);
}

#[test]
fn saturated_writes_are_units_over_program_time() {
    for (unit, units) in [("plane", 8.0), ("die", 4.0), ("package", 4.0)] {
        let unit = format!("parallel_unit={unit}");
        let got = report(&[&unit, "requests=2000", "queue_depth=64", "over_provisioning=0.5"]);
        assert_eq!(got.waf.gc, Some(0.0), "no collection yet");
        close(got.iops.expect("time passed"), units / 200e-6, 0.02);
    }
}

#[test]
fn the_bus_limits_what_the_arrays_could_do() {
    // 4096 B over 20 MB/s: 204.8 us a page and channel, four planes behind each of two.
    let transfer = 204.8e-6;
    let bus = ["requests=2000", "queue_depth=64", "bus_mb_per_s=20"];
    close(report(&bus).iops.expect("time passed"), 2.0 / transfer, 0.02);
    // One plane a channel: transfer and program follow each other, or overlap.
    let single = ["planes_per_die=1", "packages=2", "requests=600", "queue_depth=64"];
    let serial = [&single[..], &["bus_mb_per_s=20"]].concat();
    close(report(&serial).iops.expect("time passed"), 2.0 / (transfer + 200e-6), 0.02);
    let pipelined = [&serial[..], &["cache_program=true"]].concat();
    close(report(&pipelined).iops.expect("time passed"), 2.0 / transfer, 0.02);
    let fast = [&single[..], &["bus_mb_per_s=40", "cache_program=true"]].concat();
    close(report(&fast).iops.expect("time passed"), 2.0 / 200e-6, 0.02);
}

#[test]
fn collection_costs_what_its_operations_cost() {
    for pacing in ["pacing=incremental", "pacing=whole-block"] {
        let got = report(&[
            pacing,
            "over_provisioning=0.4",
            "requests=60000",
            "queue_depth=1024",
            // Large planes: in small ones the live pages of a plane vary, and the worst one rules.
            "blocks_per_plane=512",
            "precondition=steady",
        ]);
        let (waf, ops) = (got.waf.total.expect("writes"), &got.flash_operations);
        assert!(waf > 1.3, "{waf}");
        let per_write = |count: u64| count as f64 / got.requests.pages_written as f64;
        let busy_ns =
            200e3 * waf + 25e3 * per_write(ops["read"].gc) + 1.5e6 * per_write(ops["erase"].gc);
        close(got.iops.expect("time passed"), 8.0 / (busy_ns * 1e-9), 0.05);
    }
}

#[test]
fn reads_wait_behind_writes_unless_they_go_first_or_interrupt() {
    // One unit; three writes queued, then a read of a page written long before.
    let requests = || {
        let second = 1_000_000_000;
        let mut list = vec![at(0, Op::Write, 5)];
        list.extend((0..3).map(|page| at(second, Op::Write, page)));
        list.push(at(second + 1_000, Op::Read, 5));
        list
    };
    let one = ["channels=1", "packages=1", "planes_per_die=1", "blocks_per_plane=64"];
    let read_ns = |more: &[&str]| {
        let (_, log) = replay(&small(&[&one[..], more].concat()), requests());
        let read = log.iter().find(|done| done.request.op == Op::Read).expect("one read");
        read.answered_ns - read.request.arrival_ns
    };
    assert_eq!(read_ns(&["read_priority=false"]), 600_000 - 1_000 + 25_000);
    assert_eq!(read_ns(&["read_priority=true"]), 200_000 - 1_000 + 25_000);
    let interrupt = ["suspend=erase-and-program", "suspend_latency_ns=5000"];
    assert_eq!(read_ns(&interrupt), 5_000 + 25_000);
    assert_eq!(read_ns(&["suspend=erase"]), 200_000 - 1_000 + 25_000);
}

#[test]
fn an_interrupted_program_still_takes_its_time() {
    let one = [
        "channels=1",
        "packages=1",
        "planes_per_die=1",
        "blocks_per_plane=64",
        "suspend=erase-and-program",
        "suspend_latency_ns=5000",
    ];
    let second = 1_000_000_000;
    let (report, log) = replay(
        &small(&one),
        vec![
            at(0, Op::Write, 5),
            at(second, Op::Write, 6),
            at(second + 50_000, Op::Read, 5),
            at(second + 60_000, Op::Read, 5),
        ],
    );
    let got = latencies(&log);
    assert_eq!(got[1], (Op::Read, 5_000 + 25_000));
    assert_eq!(got[2], (Op::Read, 20_000 + 25_000));
    assert_eq!(got[3], (Op::Write, 200_000 + 5_000 + 2 * 25_000));
    assert_eq!(report.utilisation.suspends, 1);
    let write = log[3];
    assert_eq!(write.breakdown.iter().sum::<u64>(), 255_000, "{write:?}");
}

#[test]
fn a_page_that_is_not_programmed_yet_is_read_from_memory() {
    let (report, log) = replay(
        &small(&[]),
        vec![at(0, Op::Write, 5), at(1_000, Op::Read, 5), at(300_000, Op::Read, 5)],
    );
    assert_eq!(latencies(&log), [(Op::Read, 0), (Op::Write, 200_000), (Op::Read, 25_000)]);
    assert_eq!(report.requests.buffer_hits, 1);
    assert_eq!(report.flash_operations["read"].host, 1, "the flash saw only the second one");
}

#[test]
fn nothing_is_busy_for_more_than_the_time_that_it_is_measured_in() {
    let duplicates = ["requests=400", "content=uniform", "content_values=40"];
    for policy in POLICIES {
        for more in [&["hash_ns=900000", "finish_offline=true"][..], &["write_buffer=back"]] {
            let name = support::of_pages(policy.name, PAGE as u32);
            let name: Vec<&str> = name.iter().map(String::as_str).collect();
            let report = report(&[&duplicates[..], &name, more].concat());
            let busy = &report.utilisation;
            assert!(busy.units_max <= 1.0, "{}: units {}", policy.name, busy.units_max);
            for (server, of) in &busy.servers {
                assert!(of.mean <= 1.0, "{}: {server} {}", policy.name, of.mean);
            }
            let by_kind = busy.units_reading + busy.units_programming + busy.units_erasing;
            assert!((by_kind - busy.units_mean).abs() < 1e-9, "{}", policy.name);
            assert!(busy.units_programming > 0.0, "{}: {busy:?}", policy.name);
        }
    }
}

#[test]
fn partial_pages_are_read_first_and_trims_forget_whole_pages() {
    let spec = small(&[]);
    let second = 1_000_000_000;
    let request = |time_ns, op, offset, length| Request { offset, length, ..at(time_ns, op, 0) };
    let (report, log) = replay(
        &spec,
        vec![
            request(0, Op::Write, 0, 3 * 4096),
            request(second, Op::Write, 100, 2 * 4096),
            request(2 * second, Op::Trim, 4095, 2 * 4096),
            request(3 * second, Op::Read, 0, 3 * 4096),
            request(4 * second, Op::Flush, 0, 0),
        ],
    );
    assert_eq!(report.requests.partial_pages, 2);
    assert_eq!((report.requests.pages_written, report.requests.pages_read), (6, 3));
    // Head and tail are read, then programmed; the page between is programmed at once.
    assert_eq!(latencies(&log)[1], (Op::Write, 225_000));
    // Page 1 was trimmed as a whole; 0 and 2 are left.
    assert_eq!(report.flash_operations["read"].host, 2 + 2);
    assert_eq!(latencies(&log)[4], (Op::Flush, 0));
}

#[test]
fn a_write_back_buffer_answers_at_once_until_it_is_full() {
    let spec =
        small(&["write_buffer=back", "write_buffer_pages=8", "queue_depth=1", "requests=100"]);
    let got = run(&spec, RunOptions::default()).expect("runs").report;
    let writes = got.latency_ns["write"].clone().expect("writes");
    // Eight pages fit; then one write waits for the array, and seven more find room.
    assert_eq!((writes.p50, writes.max), (0, 200_000));
    assert_eq!(got.elapsed_ns, 99 / 8 * 200_000);
    assert_eq!(got.requests.completed, 100);
    let second = 1_000_000_000;
    let flush = |protected: &str| {
        let spec = small(&["write_buffer=back", protected]);
        let flush = Request { length: 0, ..at(second + 1_000, Op::Flush, 0) };
        let (_, log) = replay(&spec, vec![at(second, Op::Write, 1), flush]);
        latencies(&log)
    };
    let (done, waits) = ((Op::Write, 0), (Op::Flush, 199_000));
    assert_eq!(flush("power_loss_protection=false"), [done, waits]);
    assert_eq!(flush("power_loss_protection=true"), [done, (Op::Flush, 0)]);
}

#[test]
fn open_loops_keep_their_times_and_rates_are_exact() {
    // 20,000 requests in 1.09 s are not 20,000 a second.
    let got =
        report(&["arrivals=constant", "interarrival_ns=54500", "requests=20000", "read_share=1"]);
    assert_eq!(got.elapsed_ns, 19_999 * 54_500);
    close(got.iops.expect("time passed"), 20_000.0 / (19_999.0 * 54.5e-6), 1e-12);
    let quick = report(&["requests=1", "read_share=0"]);
    assert_eq!(quick.iops, Some(5_000.0), "one write in 200 us");
    assert_eq!(report(&["requests=1", "read_share=1"]).iops, None, "nothing took any time");
}

/// It is drawn when the one before it comes; the drive has long been done with that one.
#[test]
fn the_last_request_by_the_clock_counts_however_late_it_comes() {
    let spec_of = |arrivals: &str| {
        let arrivals = format!("arrivals={arrivals}");
        small(&[&arrivals, "interarrival_ns=50_000_000", "requests=20", "request_pages=3"])
    };
    let counted = |spec: &DriveSpec, options: RunOptions<'_>| {
        let report = run(spec, options).unwrap_or_else(|error| panic!("{error}")).report;
        let busy = &report.utilisation;
        assert_eq!(report.waf.total, Some(1.0));
        let busy_ns = busy.units_programming * f64::from(busy.units) * report.elapsed_ns as f64;
        (report.requests.pages_written, report.flash_operations["program"].host, busy_ns)
    };
    for arrivals in ["constant", "poisson"] {
        let (written, programmed, busy_ns) = counted(&spec_of(arrivals), RunOptions::default());
        assert_eq!((written, programmed), (60, 60), "{arrivals}");
        close(busy_ns, 60.0 * 200_000.0, 1e-9);
    }
    // Of a trace, the last one that is wanted.
    let writes = (0..9).map(|number| Ok(at(number * 50_000_000, Op::Write, number)));
    let options =
        RunOptions { trace: Some(Box::new(writes)), requests: Some(4), ..RunOptions::default() };
    assert_eq!(counted(&spec_of("constant"), options).1, 4);
}

#[test]
fn every_request_is_answered_under_collection_at_any_depth() {
    for depth in ["1", "7", "64", "1024"] {
        for (rule, share) in [("through", "0"), ("back", "0.5")] {
            let got = report(&[
                &format!("queue_depth={depth}"),
                &format!("write_buffer={rule}"),
                &format!("read_share={share}"),
                "over_provisioning=0.25",
                "requests=20000",
                "request_pages=3",
                "bus_mb_per_s=200",
                "hash_ns=0",
                "lookup_ns=150",
                "suspend=erase",
                "suspend_latency_ns=1000",
                "cache_program=true",
                "queue_entries=100",
            ]);
            assert_eq!((got.requests.generated, got.requests.completed), (20_000, 20_000));
            assert!(got.waf.gc.expect("writes") > 0.5);
        }
    }
}

#[test]
fn same_seed_same_hash() {
    let of = |seed: &str| {
        report(&[
            seed,
            "requests=5000",
            "read_share=0.3",
            "think_time=exponential",
            "over_provisioning=0.2",
            "allocation=idle-first",
            "parallel_unit=package",
            "idle_after_ns=50000",
        ])
    };
    let (one, again, other) = (of("seed=1"), of("seed=1"), of("seed=2"));
    assert_eq!(one, again);
    assert_ne!(one.result_hash, other.result_hash);
}

#[test]
fn what_does_not_fit_is_refused() {
    let spec = small(&["dram_bytes=1000"]);
    let error = run(&spec, RunOptions::default()).expect_err("no room for the mapping");
    assert!(matches!(error, RunError::Dram { budget: 1000, .. }), "{error}");
    let trace = vec![Ok(at(0, Op::Write, 1 << 20))];
    let replay = |spec: &DriveSpec, trace: Vec<Result<Request, String>>| {
        let trace = Some(Box::new(trace.into_iter()) as _);
        run(spec, RunOptions { trace, ..RunOptions::default() }).map(|outcome| outcome.report)
    };
    let error = replay(&small(&[]), trace.clone()).expect_err("beyond the drive");
    assert!(matches!(error, RunError::BeyondDrive { number: 0, .. }), "{error}");
    let RunError::BeyondDrive { blocks, .. } = error else { unreachable!() };
    let larger = format!("blocks_per_plane={blocks}");
    for way in ["wrap_addresses=true", larger.as_str()] {
        assert_eq!(replay(&small(&[way]), trace.clone()).expect(way).requests.completed, 1);
    }
    let drive = u64::from(small(&[]).logical_pages());
    let long = vec![Ok(Request { length: (drive + 1) * PAGE, ..at(0, Op::Read, 0) })];
    for way in ["wrap_addresses=false", "wrap_addresses=true"] {
        let error = replay(&small(&[way]), long.clone()).expect_err("longer than the drive");
        let wraps = way.ends_with("true");
        assert_eq!(matches!(error, RunError::TooLong { .. }), wraps, "{error}");
        assert_eq!(matches!(error, RunError::BeyondDrive { .. }), !wraps, "{error}");
    }
    let last = SimTime::LAST_ARRIVAL.ns();
    for (time, comes) in [(last, true), (last + 1, false), (u64::MAX, false)] {
        let late = vec![Ok(at(0, Op::Write, 0)), Ok(at(time, Op::Write, 1))];
        let timed = replay(&small(&[]), late.clone());
        match timed {
            Err(error) => assert!(!comes && matches!(error, RunError::TooLate { number: 1, .. })),
            Ok(report) => assert!(comes && report.elapsed_ns > last, "{time}"),
        }
        let closed = replay(&small(&["trace_timing=closed"]), late).expect("by no clock");
        assert_eq!(closed.requests.completed, 2);
    }
    let pauses = ["think_time=constant", "think_time_ns=1000000000000", "requests=9300000"];
    let slow = small(&[&pauses[..], &["queue_depth=1", "read_share=1"]].concat());
    let error = run(&slow, RunOptions::default()).expect_err("292 years");
    assert!(matches!(error, RunError::TooLate { number: 9_223_372.., .. }), "{error}");
    let broken = vec![Err("line 3: nonsense".to_owned())];
    let error = replay(&small(&[]), broken).expect_err("a broken trace");
    assert_eq!(error.to_string(), "line 3: nonsense");
}

#[test]
fn a_trim_of_more_than_the_drive_forgets_what_there_is() {
    let drive = u64::from(small(&[]).logical_pages());
    for (offset, length, left) in [
        (0, u64::MAX, 0),
        (0, drive * PAGE * 3, 0),
        (2 * PAGE, drive * PAGE, 2),
        (2 * PAGE - 1, (drive - 2) * PAGE + 2, 2),
        (drive * PAGE, PAGE, 4),
        (u64::MAX - PAGE, PAGE, 4),
    ] {
        for wrap in [false, true] {
            let mut trace: Vec<_> = (0..4).map(|page| Ok(at(0, Op::Write, page))).collect();
            trace.push(Ok(Request { offset, length, ..at(1_000_000, Op::Trim, 0) }));
            trace.extend((0..4).map(|page| Ok(at(2_000_000, Op::Read, page))));
            let spec = small(&[&format!("wrap_addresses={wrap}")]);
            let trace = Some(Box::new(trace.into_iter()) as _);
            let report = run(&spec, RunOptions { trace, ..RunOptions::default() })
                .unwrap_or_else(|error| panic!("{offset} {length}: {error}"))
                .report;
            assert_eq!(report.requests.completed, 9);
            if wrap {
                let too_long = length / PAGE > drive;
                assert_eq!(report.requests.clipped_trims, u64::from(too_long));
            } else {
                let ends = offset.saturating_add(length) / PAGE;
                assert_eq!(report.requests.clipped_trims, u64::from(ends > drive));
                assert_eq!(report.flash_operations["read"].host, left, "{offset} {length}");
            }
        }
    }
}

#[test]
fn sweeps_do_not_depend_on_the_number_of_threads() {
    let specs: Vec<DriveSpec> = ["1", "4", "16"]
        .iter()
        .flat_map(|depth| ["0", "0.5"].map(|share| (depth, share)))
        .map(|(depth, share)| {
            let (depth, share) = (format!("queue_depth={depth}"), format!("read_share={share}"));
            small(&[&depth, &share, "requests=2000", "precondition=steady"])
        })
        .collect();
    let all = |threads| -> Vec<Report> {
        let results = sweep(&specs, None, threads, &|| Ok(None), &[], &|| {});
        results.into_iter().map(|result| result.expect("runs")).collect()
    };
    let one = all(1);
    assert_eq!(one, all(3));
    assert!(one.windows(2).all(|pair| pair[0].result_hash != pair[1].result_hash));
}

#[test]
fn the_steady_state_is_the_one_that_endless_writes_lead_to() {
    // V8: within 1 %. One plane of many blocks, so that little is left to chance.
    let one = [
        "channels=1",
        "packages=1",
        "planes_per_die=1",
        "blocks_per_plane=512",
        "pages_per_block=64",
        "queue_depth=1",
    ];
    // A footprint of less than the drive is filled by writing.
    for (victim, over, footprint) in [
        ("greedy", "0.28", "1"),
        ("fifo", "0.28", "1"),
        ("greedy", "0.15", "1"),
        ("greedy", "0.2", "0.99999"),
        ("fifo", "0.28", "0.99999"),
    ] {
        let footprint = format!("footprint_share={footprint}");
        let (victim, over) = (format!("victim={victim}"), format!("over_provisioning={over}"));
        let waf = |more: &[&str]| {
            let all =
                [&one[..], &[victim.as_str(), over.as_str(), footprint.as_str()], more].concat();
            report(&all).waf.total.expect("writes")
        };
        let steady = waf(&["precondition=steady", "requests=60000"]);
        // Written from empty for six times the drive, then as long again.
        let (whole, start) = (waf(&["requests=360000"]), waf(&["requests=180000"]));
        close(steady, 2.0 * whole - start, 0.01);
    }
}

#[test]
fn every_policy_runs_and_finds_what_there_is() {
    let content = [
        "content=desktop4",
        "requests=2000",
        "queue_depth=6",
        "allocation=idle-first",
        "parallel_unit=package",
        "think_time=exponential",
        "idle_after_ns=1000000",
        "hash_ns=20000",
        "light_hash_ns=1300",
        "parity_correction_ns=1400",
        "compare_ns=1000",
    ];
    for policy in POLICIES {
        let name = support::of_pages(policy.name, PAGE as u32);
        let name: Vec<&str> = name.iter().map(String::as_str).collect();
        let got = report(&[&content[..], &name].concat());
        let found = got.dedup.inline_pages + got.dedup.offline_pages;
        assert_eq!((got.requests.generated, got.requests.completed), (2000, 2000));
        assert_eq!(
            got.requests.pages_written,
            got.flash_operations["program"].host + got.dedup.inline_pages,
            "{}",
            policy.name
        );
        if policy.name == "none" {
            assert_eq!(found, 0);
            assert!(got.dedup.missed_pages.expect("content is modelled") > 200);
        } else {
            assert!(found > 200, "{}: {:?}", policy.name, got.dedup);
        }
    }
    let error = run(&small(&["dedup.policy=ses-devise"]), RunOptions::default());
    let message = error.expect_err("no such policy").to_string();
    assert!(message.contains("ses-device"), "{message}");
}

#[test]
fn a_drive_that_keeps_its_own_pages_in_flash_counts_them() {
    let got = report(&[
        "model_metadata=true",
        "gc_reserve_blocks=4",
        "requests=8000",
        "checkpoint_pages=1000",
        "blocks_per_plane=64",
        "over_provisioning=0.6",
    ]);
    assert!(got.waf.map.expect("writes") > 0.0);
    assert_eq!((got.requests.generated, got.requests.completed), (8000, 8000));
    let parts = [got.waf.host, got.waf.gc, got.waf.wear, got.waf.map].map(Option::unwrap);
    close(parts.iter().sum(), got.waf.total.expect("writes"), 1e-9);
}

#[test]
fn blocks_of_one_page_and_drives_that_are_too_tight() {
    let one = report(&["pages_per_block=1", "precondition=steady", "over_provisioning=0.8"]);
    assert_eq!(one.requests.generated, one.requests.completed);
    // Two planes fill a block more each for what is kept apart: it has to come from somewhere.
    let tight = [
        "planes_per_die=2",
        "blocks_per_plane=16",
        "pages_per_block=4",
        "workload.content=profile",
        "requests=3840",
    ];
    for info in POLICIES {
        let policy = support::of_pages(info.name, PAGE as u32);
        let policy: Vec<&str> = policy.iter().map(String::as_str).collect();
        let spec = small(&[&tight[..], &policy].concat());
        match run(&spec, RunOptions::default()) {
            Ok(done) => assert_eq!(done.report.requests.completed, 3840, "{}", info.name),
            Err(error) => {
                assert!(info.apart && error.to_string().contains("do not fit"), "{error}");
            }
        }
    }
}
