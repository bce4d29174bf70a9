//! Data drives that are simulated whole.

use crate::{run as simulated, spec};
use onefold_array::run::DrivesReport;
use onefold_array::{Report, RunError, RunOptions, ServerSpec, run};
use onefold_flash::DriveSpec;
use onefold_flash::run as flash;
use onefold_flash::spec::SpecBuilder as DriveBuilder;
use onefold_workload::{Op, Request};

/// A small drive: pages of 8 KiB.
fn drive(more: &str) -> DriveSpec {
    before("steady", more)
}

/// The same in another state.
fn before(state: &str, more: &str) -> DriveSpec {
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
    let trace: flash::TraceRequests = Box::new((0..50).map(request).map(Ok));
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
    assert!(matches!(unknown, RunError::Drive(_)));
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
