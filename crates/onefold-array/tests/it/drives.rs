//! Data drives that are simulated whole.

use crate::{run as simulated, spec};
use onefold_array::run::DrivesReport;
use onefold_array::{Report, RunError, RunOptions, ServerSpec, run};
use onefold_flash::DriveSpec;
use onefold_flash::run as flash;
use onefold_flash::spec::SpecBuilder as DriveBuilder;
use onefold_workload::{Op, Request, TraceRequests};

/// A small drive: pages of 8 KiB.
fn drive(more: &str) -> DriveSpec {
    before("steady", more)
}

/// The same in another state.
pub fn before(state: &str, more: &str) -> DriveSpec {
    let text = format!(
        "precondition = '{state}'
        geometry.blocks_per_plane = 24
        geometry.pages_per_block = 32
        ftl.over_provisioning = 0.3
        {more}"
    );
    let builder = DriveBuilder::preset("ses-slc").and_then(|builder| builder.file("drive", &text));
    builder.and_then(DriveBuilder::build).unwrap()
}

fn with_drives(server: &ServerSpec, drive: DriveSpec) -> Report {
    let options = RunOptions { drive: Some(drive), ..RunOptions::default() };
    run(server, options).unwrap_or_else(|error| panic!("{}: {error}", server.name)).report
}

const SMALL: [&str; 7] = [
    "ssd.model=small.toml",
    "ssd.count=3",
    "workload.requests=2500",
    "workload.warm_requests=300",
    "workload.outstanding=200",
    "workload.addresses=4000",
    "workload.read_share=0.3",
];

#[test]
fn what_a_server_stores_arrives_at_its_drives_to_the_byte() {
    for preset in ["software", "cidr", "cidr+", "fidr"] {
        let server = spec(preset, &SMALL);
        let report = with_drives(&server, drive(""));
        let bytes = report.bytes_of_all;
        assert_eq!(bytes.client_in, bytes.duplicate + bytes.compressed_away + bytes.stored);
        let drives: DrivesReport = report.drives.clone().unwrap();
        let arrived = drives.pages_written * drives.page_bytes + drives.unfinished_bytes;
        assert_eq!(arrived, bytes.stored, "{preset}: {drives:?}");
        assert!(drives.unfinished_bytes < 3 * drives.page_bytes, "{drives:?}");
        assert!(drives.pages_read > 0 && drives.write_ns.is_some() && drives.read_ns.is_some());
        // A drive that was full of older writes makes room for new ones.
        let amplified = drives.write_amplification.unwrap();
        assert!(amplified > if preset == "software" { 1.0 } else { 0.999 }, "{drives:?}");
        let row = report.resources.iter().find(|row| row.name == "data drives").unwrap();
        assert!(row.utilisation > 0.0 && row.utilisation <= 1.0, "{row:?}");
        // What is stored does not depend on what drives are made of.
        let plain = spec(preset, &[&SMALL[1..]].concat());
        assert_eq!(with_rates(&plain).stored_digest, report.stored_digest, "{preset}");
    }
}

fn with_rates(server: &ServerSpec) -> Report {
    run(server, RunOptions::default()).unwrap().report
}

#[test]
fn alone_in_the_server_a_write_takes_the_sum_of_its_steps_and_of_its_drive() {
    let alone = [
        "workload.outstanding=1",
        "workload.requests=50",
        "workload.warm_requests=0",
        "workload.compressed_share=0.5",
        "workload.compressed_spread=0",
        "workload.duplicate_share=0",
    ];
    // Chunks of 32 KiB leave two pages each. Requests come far enough apart for the drive to be
    // idle again, as in a run of the drive alone.
    let empty = || before("none", "");
    let request = |number: u64| Request {
        time_ns: number * 1_000_000_000,
        op: Op::Write,
        offset: number * 16_384,
        length: 16_384,
        identity: None,
        stream: None,
        pid: None,
        deduplicate: None,
    };
    let trace: TraceRequests = Box::new((0..50).map(request).map(Ok));
    let options = flash::RunOptions { trace: Some(trace), ..flash::RunOptions::default() };
    let alone_in_drive =
        flash::run(&empty(), options).unwrap().report.latency_ns["write"].as_ref().unwrap().mean;
    let mean = |report: &Report| report.latencies[0].mean_ns;
    let model = [&alone[..], &["ssd.model=empty.toml", "ssd.count=1"]].concat();
    let whole = mean(&with_drives(&spec("software", &model), empty()));
    let free = ["ssd.latency_ns=0", "ssd.write_gb_per_s=1000"];
    let plain = simulated("software", &[&alone[..], &free].concat());
    // A drive of 1000 GB/s takes 17 ns for 16 KiB, beside the core and the memory that store.
    let others = mean(&plain) - store_ns(&plain);
    let beside = store_ns(&plain).max(alone_in_drive);
    assert!((whole - others - beside).abs() < 1.0, "{whole}: {others} and {alone_in_drive}");
    assert!(alone_in_drive > 100_000.0, "{alone_in_drive}");
}

/// What the last step of a write takes, beside a drive that takes nothing: a core that submits.
fn store_ns(report: &Report) -> f64 {
    assert_eq!(report.latencies[0].name, "write");
    (16_384.0_f64 * 0.772).round().max((16_384.0_f64 / 153.6).ceil())
}

#[test]
fn drives_give_equal_runs_on_any_number_of_threads_and_none_waits_for_ever() {
    let server =
        spec("cidr+", &[&SMALL[..], &["workload.load=poisson", "workload.gb_per_s=0.02"]].concat());
    for more in ["", "dedup.policy = 'gleaner'\ncontroller.idle_after_ns = 100000"] {
        let alone = with_drives(&server, drive(more));
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| with_drives(&server, drive(more)))).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), alone);
            }
        });
    }
}

#[test]
fn a_drive_that_there_is_not_is_refused_by_name() {
    let error = |set: &str, drive: Option<DriveSpec>| {
        let options = RunOptions { drive, ..RunOptions::default() };
        run(&spec("software", &[set]), options).unwrap_err()
    };
    let unknown = error("ssd.model=no-such", None);
    assert!(matches!(unknown, RunError::Drive(..)));
    assert!(unknown.to_string().contains("`no-such` is no preset of a drive"), "{unknown}");
    let surplus = error("ssd.count=2", Some(drive(""))).to_string();
    assert!(surplus.contains("it is empty, and there is a drive"), "{surplus}");
}

#[test]
fn drives_that_deduplicate_alone_find_less_the_more_of_them_there_are() {
    let load = [
        "workload.requests=6000",
        "workload.warm_requests=0",
        "workload.request_bytes=8192",
        "chunk_bytes=8192",
        "workload.outstanding=64",
        "workload.addresses=8000",
        "workload.duplicate_share=0.6",
        "workload.clustering=0",
        "workload.locality=1.2",
        "ssd.model=small.toml",
    ];
    let of = |count: &str| {
        let server = spec("intra-ssd", &[&load[..], &[count]].concat());
        let report = with_drives(&server, before("none", "dedup.policy = 'gleaner'"));
        let (bytes, drives) = (report.bytes_of_all, report.drives.unwrap());
        assert_eq!((bytes.duplicate, bytes.compressed_away), (0, 0), "{count}");
        assert_eq!(bytes.stored, bytes.client_in, "{count}");
        assert_eq!(drives.pages_written * drives.page_bytes, bytes.stored, "{count}");
        assert_eq!(drives.unfinished_bytes, 0);
        // Every duplicate of what this run wrote, were there one drive that finds all.
        let share = drives.pages_shared as f64 / drives.pages_written as f64;
        (share, report.stored_digest)
    };
    let ((one, stored), (four, same)) = (of("ssd.count=1"), of("ssd.count=4"));
    assert_eq!(stored, same);
    assert!(one > 0.05 && four < 0.6 * one, "{one} {four}");
    let tiny = spec("intra-ssd", &[&load[..], &["workload.addresses=400000"]].concat());
    let options = RunOptions { drive: Some(before("none", "")), ..RunOptions::default() };
    let beyond = run(&tiny, options).unwrap_err().to_string();
    assert!(beyond.contains("that the drives hold in place"), "{beyond}");
}

/// A table that is larger than its cache, of pages like those of its drives.
const TABLE: [&str; 7] = [
    "table.bucket_bytes=8192",
    "table.entries=40000",
    "table.cache_bytes=400000",
    "table_ssd.model=table.toml",
    "table_ssd.count=2",
    "workload.warm_requests=0",
    "workload.requests=3000",
];

fn with_table(server: &ServerSpec) -> Report {
    let table_drive = Some(drive(""));
    run(server, RunOptions { table_drive, ..RunOptions::default() }).unwrap().report
}

#[test]
fn pages_of_the_table_arrive_at_its_drives_and_change_nothing_of_what_is_stored() {
    for preset in ["cidr+", "fidr", "fidr-hooks"] {
        let settings = [&SMALL[4..6], &TABLE].concat();
        let server = spec(preset, &settings);
        let report = with_table(&server);
        let plain: Vec<&str> =
            settings.iter().copied().filter(|set| !set.contains("table_ssd")).collect();
        let plain = with_rates(&spec(preset, &plain));
        assert_eq!(report.stored_digest, plain.stored_digest, "{preset}");
        let row = report.resources.iter().find(|row| row.name == "table drives").unwrap();
        assert!(row.utilisation > 0.0 && row.utilisation <= 1.0, "{row:?}");
        let drives = report.table_drives.clone().unwrap();
        let look_ups = report.bytes_of_all.client_in as f64 / 4096.0;
        for (named, moved) in [
            (report.table_reads_a_look_up, drives.pages_read),
            (report.table_writes_a_look_up, drives.pages_written),
        ] {
            let expected = named * look_ups;
            assert!((moved as f64 - expected).abs() < 0.5, "{preset}: {moved} {expected}");
        }
        assert_eq!((drives.unfinished_bytes, drives.flushes, drives.pages_trimmed), (0, 0, 0));
        assert!(drives.pages_written > 0, "{preset}: {drives:?}");
        assert!(preset == "fidr-hooks" || drives.read_ns.is_some(), "{preset}: {drives:?}");
        assert_eq!(with_table(&server), report, "{preset}");
    }
    let beyond = spec("cidr+", &[&SMALL[4..6], &TABLE, &["table.entries=40000000"]].concat());
    let options = RunOptions { table_drive: Some(drive("")), ..RunOptions::default() };
    let error = run(&beyond, options).unwrap_err().to_string();
    assert!(error.starts_with("table_ssd.model: workload: page "), "{error}");
    assert!(error.contains("of the table is beyond the "), "{error}");
}

#[test]
fn a_look_up_waits_for_its_read_and_not_for_what_is_written_back() {
    // One chunk at a time: new ones at first, whose buckets are read and written back.
    let alone = ["workload.outstanding=1", "workload.duplicate_share=0", "workload.requests=400"];
    let report = with_table(&spec("cidr+", &[&TABLE[..], &alone].concat()));
    let plain = [&TABLE[..3], &TABLE[5..6], &alone, &["table_ssd.latency_ns=0"]].concat();
    let free = ["table_ssd.reads_per_s=1000000000"];
    let plain = with_rates(&spec("cidr+", &[&plain[..], &free].concat()));
    let mean = |report: &Report| report.latencies[0].mean_ns;
    let drives = report.table_drives.clone().unwrap();
    let waited = mean(&report) - mean(&plain);
    let expected = drives.read_ns.unwrap().0 * report.table_reads_a_look_up;
    assert!((waited / expected - 1.0).abs() < 0.01, "{waited} of {expected}");
    assert!(report.table_writes_a_look_up > 0.5, "{}", report.table_writes_a_look_up);
}

#[test]
fn a_log_that_goes_round_its_drive_gives_up_a_container_before_it_is_written_over() {
    // Four times what three drives hold.
    let load = ["workload.compressed_share=1", "workload.compressed_spread=0", "read_share=0.1"];
    let of = |state: &str, container: &str, requests: &str| {
        let set = [&SMALL[..2], &load, &["workload.duplicate_share=0", container, requests]];
        let server = spec("software", &set.concat());
        let report = with_drives(&server, before(state, ""));
        let (bytes, drives) = (report.bytes_of_all, report.drives.unwrap());
        let arrived = drives.pages_written * drives.page_bytes + drives.unfinished_bytes;
        assert_eq!(arrived, bytes.stored, "{drives:?}");
        drives
    };
    let long = "workload.requests=12000";
    let (none, whole) = ("ssd.container_bytes=0", "ssd.container_bytes=1048576");
    let (kept, trimmed) = (of("steady", none, long), of("steady", whole, long));
    assert_eq!(kept.pages_trimmed, 0);
    // All that was written over was given up first, but for containers that were just begun.
    let least = trimmed.pages_written;
    let most = least + 3 * 1_048_576 / trimmed.page_bytes;
    assert!((least..=most).contains(&trimmed.pages_trimmed), "{trimmed:?}");
    assert!(trimmed.write_amplification <= kept.write_amplification, "{trimmed:?} {kept:?}");
    // On an empty drive nothing is given up before the log comes round.
    let (first, again) = (of("none", whole, "workload.requests=1000"), of("none", whole, long));
    assert_eq!(first.pages_trimmed, 0, "{first:?}");
    assert!(again.pages_trimmed > 0 && again.pages_trimmed < again.pages_written, "{again:?}");
}

fn replayed(server: &ServerSpec, drive: DriveSpec, trace: &[Request]) -> Report {
    let all = trace.to_vec();
    let requests: TraceRequests = Box::new(all.into_iter().map(Ok));
    let options =
        RunOptions { requests: Some(requests), drive: Some(drive), ..RunOptions::default() };
    run(server, options).unwrap().report
}

fn asked(time_ns: u64, op: Op, offset: u64, length: u64) -> Request {
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

#[test]
fn a_flush_is_answered_once_the_drives_that_were_written_to_have_kept_all() {
    let settings = [
        "workload.trace=a",
        "workload.load=timestamps",
        "ssd.model=small.toml",
        "ssd.count=3",
        "workload.duplicate_share=0",
    ];
    let server = spec("software", &settings);
    // One write, and long after it two flushes; the second has nothing to keep.
    let mut trace = vec![asked(0, Op::Write, 0, 1 << 15)];
    trace.extend([1, 2].map(|number| asked(number * 10_000_000, Op::Flush, 0, 0)));
    let back = "controller.write_buffer = 'back'";
    for (more, sent) in [("", 1), (back, 1)] {
        let report = replayed(&server, before("none", more), &trace);
        let drives = report.drives.unwrap();
        assert_eq!(drives.flushes, sent, "{more}");
        let flush = report.latencies.iter().find(|row| row.name == "flush").unwrap();
        assert_eq!(flush.count, 2);
    }
    // Right behind a write that a drive has in its buffer, a flush waits for the flash.
    let soon = [asked(0, Op::Write, 0, 1 << 18), asked(1, Op::Flush, 0, 0)];
    let after = |more: &str| {
        let report = replayed(&server, before("none", more), &soon);
        let row =
            |name: &str| report.latencies.iter().find(|row| row.name == name).unwrap().mean_ns;
        (row("write"), row("flush"))
    };
    let (written, kept) = after(back);
    assert!(kept > written + 100_000.0, "{written} {kept}");
}

#[test]
fn drives_that_hold_chunks_in_place_are_told_what_is_given_up() {
    let settings = [
        "workload.trace=a",
        "workload.trace_before=nothing",
        "chunk_bytes=16384",
        "ssd.model=small.toml",
        "ssd.count=2",
    ];
    let writes = (0..40).map(|number| asked(number * 1_000_000, Op::Write, number << 14, 1 << 14));
    let mut trace: Vec<Request> = writes.collect();
    // Whole chunks 3 to 9, and again; parts of others stay.
    trace.push(asked(50_000_000, Op::Trim, (3 << 14) - 100, (7 << 14) + 200));
    trace.push(asked(60_000_000, Op::Trim, 3 << 14, 7 << 14));
    let report = replayed(&spec("intra-ssd", &settings), before("none", ""), &trace);
    let drives = report.drives.unwrap();
    assert_eq!((drives.pages_written, drives.pages_trimmed), (80, 14));
    // Behind a server that deduplicates, chunks have no place of their own to give up.
    let shared = replayed(&spec("software", &settings), before("none", ""), &trace);
    assert_eq!(shared.drives.unwrap().pages_trimmed, 0);
}
