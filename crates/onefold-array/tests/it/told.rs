//! Whole reports of small servers, number for number: use and waits of resources; shares; bytes;
//! mean, median, 99 and 99.9 of 100 of latencies; hashes of what is stored and of all events.
//! `ONEFOLD_UPDATE=1` writes their texts anew; a change of one is a change of what servers come to.
//! Laws elsewhere say what is right; this says that it is still the same.

use std::fmt::Write as _;
use std::path::Path;

use onefold_array::run::ShareRow;
use onefold_array::size::Sized;
use onefold_array::{Report, RunOptions, run};
use onefold_block::kept_text::assert_text;
use onefold_flash::DriveSpec;
use onefold_workload::{Request, TraceRequests};

use crate::spec;

/// All of a report, in as few lines as can be read.
fn told(report: &Report) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| writeln!(out, "{name}: {text}").unwrap();
    line("GB/s", format!("{:.6} in {:.9} s", report.gb_per_s, report.seconds));
    if let Some(stop) = &report.bottleneck {
        let (next, factor) = (stop.next, stop.factor_to_next);
        line("stops", format!("{} {:.6} {next:?} {factor:.6?}", stop.name, stop.utilisation));
    }
    for row in &report.resources {
        let (waits, wait_ns) = (row.waiting_mean, row.wait_ns_mean);
        line(row.name, format!("{:.6} waiting {waits:.6} {wait_ns:.3} ns", row.utilisation));
    }
    let shares = |rows: &[ShareRow]| {
        let row = |row: &ShareRow| format!("{} {:.6} {:.4}", row.name, row.amount, row.share);
        rows.iter().map(row).collect::<Vec<_>>().join(", ")
    };
    line("cores", format!("{:.6}: {}", report.cores, shares(&report.cores_by_task)));
    let memory = report.memory_bytes_per_client_byte;
    line("memory", format!("{memory:.6}: {}", shares(&report.memory_by_cause)));
    line("measured", format!("{:?}", report.bytes));
    line("all", format!("{:?}", report.bytes_of_all));
    let table = [report.table_reads_a_look_up, report.table_writes_a_look_up];
    line("table", format!("{:.6?} {table:.6?}", report.table_hit_share));
    line("found", format!("{:.6?} {:.6?}", report.missed_share, report.duplicate_share));
    line("predictor", format!("{:?}", report.predictor));
    for row in &report.latencies {
        let quantiles = [row.p50_ns, row.p99_ns, row.p999_ns];
        line(row.name, format!("{} {:.3} ns {quantiles:?}", row.count, row.mean_ns));
    }
    let (drives, held) = (report.drive_bytes_per_client_byte, report.held_back_share);
    let peaks = [report.client_buffer_peak, report.delayed_buffer_peak];
    line("drives", format!("{drives:.6}, held back {held:.6}, peaks {peaks:?}"));
    let (flight, chunks) = (report.batches_in_flight_share, report.batch_chunks_mean);
    line("batches", format!("{flight:.6} {chunks:.6} {}", report.reconfigurations));
    line("costs", format!("{:.6} J/GB {:.3?}", report.joules_per_gb, report.cost));
    line("trace", format!("{:?}", report.trace));
    line("whole", format!("{:.6?}", report.drives));
    line("whole table", format!("{:.6?}", report.table_drives));
    let digests = [report.stored_digest, report.event_hash];
    line("events", format!("{} {digests:016x?}", report.events));
    out
}

/// A server with settings apart by blanks, told.
fn server(preset: &str, settings: &str, options: RunOptions) -> String {
    let settings: Vec<&str> = settings.split_whitespace().collect();
    let report = run(&spec(preset, &settings), options);
    let report = report.unwrap_or_else(|error| panic!("{preset}: {error}")).report;
    format!("\n{preset} {}\n{}", settings.join(" "), told(&report))
}

fn drive() -> DriveSpec {
    crate::drives::before("steady", "")
}

fn trace() -> RunOptions {
    let requests: Vec<Request> = crate::traces::mixed(5, 300, true);
    let requests: TraceRequests = Box::new(requests.into_iter().map(Ok));
    RunOptions { requests: Some(requests), ..RunOptions::default() }
}

/// Hold servers to the text that is kept under this name.
fn assert_told(name: &str, servers: impl IntoIterator<Item = String>) {
    let told: String = servers.into_iter().collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/told/{name}.txt"));
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}

const SMALL: &str = "workload.requests=900 workload.warm_requests=100 workload.outstanding=150";
const TABLE: &str = "table.entries=40000 table.cache_bytes=400000 workload.addresses=30000";

/// Servers whose drives are rates: presets, each with settings.
fn assert_plain(name: &str, servers: &[(&str, &str)]) {
    assert_told(
        name,
        servers.iter().map(|(preset, settings)| {
            let settings = format!("{SMALL} {TABLE} {settings}");
            server(preset, &settings, RunOptions::default())
        }),
    );
}

#[test]
fn what_servers_of_software_come_to_is_what_it_was() {
    assert_plain(
        "software",
        &[
            ("software", "workload.read_share=0.3"),
            ("software-today", "workload.request_bytes=12288 workload.read_share=0.5"),
            ("cal17-baseline", "workload.request_bytes=2048 workload.read_share=0.2"),
            ("software", "workload.load=bursts workload.gb_per_s=9 workload.burst_ns=50000"),
        ],
    );
}

#[test]
fn what_servers_with_engines_come_to_is_what_it_was() {
    assert_plain(
        "engines",
        &[
            ("cal17", "workload.load=poisson workload.gb_per_s=40 buffer.client_bytes=4000000"),
            ("cidr", "workload.read_share=0.3 engine.count=2 batch.chunks=7"),
            ("cidr", "acknowledge=buffered predictor.kind=all-unique schedule.short_term=off"),
            ("dedicated", "workload.load=bursts workload.gb_per_s=20 workload.burst_ns=50000"),
        ],
    );
}

#[test]
fn what_a_server_that_changes_its_engines_comes_to_is_what_it_was() {
    let changes = "schedule.long_term=on schedule.window_ns=100000 schedule.downtime_ns=50000 \
                   engine.count=3 workload.read_share=0.4";
    let predicts = "predictor.kind=recent predictor.entries=1024 workload.clustering=0.5";
    let both = format!("{changes} {predicts}");
    assert_plain("changes", &[("cidr+", &both), ("cidr+", predicts)]);
}

#[test]
fn what_servers_with_cards_come_to_is_what_it_was() {
    assert_plain(
        "cards",
        &[
            ("fidr-index", "workload.run_chunks=20 table.sample_one_in=4"),
            ("fidr-nic", "workload.read_share=0.6 nic.hash_units=2"),
            ("fidr-direct", "table.filter_bits=8"),
            ("fidr", "workload.preset=mixed"),
            ("fidr-hooks", "workload.run_chunks=50"),
            (
                "fidr-hooks",
                "workload.run_chunks=30 table.cache_bytes=120000 table.follow_chunks=3 \
                 workload.requests=3000 workload.locality=0.2",
            ),
            ("fidr", "nic.gb_per_s=0.5 nic.count=2 workload.read_share=0.5"),
        ],
    );
}

const WHOLE: &str =
    "ssd.model=small.toml ssd.count=3 workload.addresses=4000 workload.read_share=0.3";

fn with_drives() -> RunOptions {
    RunOptions { drive: Some(drive()), ..RunOptions::default() }
}

#[test]
fn what_logs_on_whole_drives_come_to_is_what_it_was() {
    let log = "ssd.container_bytes=100000 workload.requests=1500 workload.duplicate_share=0.1 \
               workload.compressed_share=1 workload.compressed_spread=0";
    assert_told("logs", [server("software", &format!("{SMALL} {WHOLE} {log}"), with_drives())]);
}

#[test]
fn what_whole_drives_with_chunks_in_place_come_to_is_what_it_was() {
    // Chunks of half a page, some of which are given up.
    let traced = "workload.trace=a.csv workload.trace_before=nothing ssd.model=small.toml \
                  ssd.count=2 workload.outstanding=64";
    let random = format!("{SMALL} {WHOLE} workload.addresses=3000 workload.requests=300");
    assert_told(
        "places",
        [
            server("intra-ssd", &random, with_drives()),
            server("intra-ssd", traced, RunOptions { drive: Some(drive()), ..trace() }),
        ],
    );
}

#[test]
fn what_tables_on_whole_drives_come_to_is_what_it_was() {
    let pages = "table.bucket_bytes=8192 table_ssd.model=table.toml table_ssd.count=2";
    let options = || RunOptions { table_drive: Some(drive()), ..RunOptions::default() };
    let runs = "workload.run_chunks=60 table.follow_chunks=2";
    assert_told(
        "tables",
        [
            server("cidr+", &format!("{SMALL} {TABLE} {pages}"), options()),
            server("fidr-hooks", &format!("{SMALL} {TABLE} {pages} {runs}"), options()),
        ],
    );
}

#[test]
fn what_servers_make_of_a_trace_is_what_it_was() {
    let replayed = "workload.trace=a.csv workload.outstanding=64 workload.addresses=50000";
    let timed = "workload.load=timestamps workload.speed=3 workload.trace_warm_requests=40";
    let parts = "chunk_bytes=16384 workload.trace_before=nothing workload.trace_requests=250";
    let of = |preset, more: &str| server(preset, &format!("{replayed} {more}"), trace());
    assert_told("traces", [of("cidr+", ""), of("fidr", timed), of("software", parts)]);
}

/// The least servers of one kind, number for number: `told/sized-KIND.txt` has them.
pub fn assert_sized(preset: &str, sized: &[&Sized]) {
    let told = format!("{sized:#.6?}\n");
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/told/sized-{preset}.txt"));
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}
