//! The report of `onefold array run` for people.
//! Room: onefold.

use onefold_array::Report;
use onefold_array::run::{DrivesReport, ShareRow, TraceReport};

use super::array_size::dollars;
use super::ssd_report::time;
use crate::output::Printer;
use crate::table::{Align, Table, count, percent};

/// Bytes as GB, 10^9 bytes.
fn gigabytes(bytes: u64) -> String {
    format!("{:.3} GB", bytes as f64 / 1e9)
}

/// A share that may not be there.
fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

/// One run.
pub fn text(report: &Report, assumed: usize, printer: &Printer) -> String {
    let mut text = String::new();
    let mut section = |heading: &str, table: &Table| {
        text.push_str(&printer.heading(heading));
        text.push('\n');
        for line in table.lines(2) {
            text.push_str(&line);
            text.push('\n');
        }
        text.push('\n');
    };
    section(&report.name, &summary(report));
    section("Resources", &resources(report));
    section("Cores by task", &parts(&report.cores_by_task, "cores"));
    section("Memory traffic by cause", &parts(&report.memory_by_cause, "bytes a client byte"));
    section("Where written bytes went", &bytes(report));
    if let Some(trace) = &report.trace {
        section("The trace", &replayed(trace));
    }
    section("Latency", &latencies(report));
    if let Some(drives) = &report.drives {
        section("Data drives", &simulated(drives));
    }
    if let Some(drives) = &report.table_drives {
        section("Table drives", &simulated(drives));
    }
    let note = format!(
        "{assumed} keys behind these figures are assumptions; onefold array spec names them.\n"
    );
    text + &note
}

fn summary(report: &Report) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    table.row(["throughput".to_owned(), format!("{:.2} GB/s of client data", report.gb_per_s)]);
    if let Some(stop) = &report.bottleneck {
        let next = match (stop.next, stop.factor_to_next) {
            (Some(next), Some(factor)) => {
                format!("; without it {next}, at {factor:.2} times the throughput")
            }
            _ => String::new(),
        };
        let value = format!("{}, {} busy{next}", stop.name, percent(stop.utilisation));
        table.row(["stopped by".to_owned(), value]);
    }
    table.row(["cores in use".to_owned(), format!("{:.1}", report.cores)]);
    table.row(["duplicates".to_owned(), share(report.duplicate_share)]);
    if report.missed_share.is_some_and(|missed| missed > 0.0) {
        table.row(["of them stored again".to_owned(), share(report.missed_share)]);
    }
    table.row(["table hits".to_owned(), share(report.table_hit_share)]);
    let (reads, writes) = (report.table_reads_a_look_up, report.table_writes_a_look_up);
    let pages = format!("{reads:.3} read and {writes:.3} written for each look-up");
    table.row(["table pages".to_owned(), pages]);
    table.row(["guessed right".to_owned(), share(report.predictor.right_share())]);
    let slots = percent(report.batches_in_flight_share);
    let batch = format!(
        "{:.1} chunks on average, {slots} of as many as may be on their way",
        report.batch_chunks_mean
    );
    table.row(["batches".to_owned(), batch]);
    table.row(["held back".to_owned(), percent(report.held_back_share)]);
    let energy = format!("{:.2} J a client GB", report.joules_per_gb);
    table.row(["energy".to_owned(), energy]);
    let cost = &report.cost;
    let server = [cost.cpu_usd, cost.dram_usd, cost.boards_usd, cost.server_usd];
    let [cores, memory, boards, all] = server.map(dollars);
    let parts = format!("${all}: cores ${cores}, memory ${memory}, boards ${boards}");
    table.row(["cost".to_owned(), parts]);
    if let Some(usd) = cost.flash_usd_per_client_tb {
        table.row(["of flash".to_owned(), format!("${} a client TB", dollars(usd))]);
    }
    table.row(["event hash".to_owned(), format!("{:016x}", report.event_hash)]);
    table
}

fn resources(report: &Report) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["", "busy", "waiting", "wait"]);
    for row in &report.resources {
        table.row([
            row.name.to_owned(),
            percent(row.utilisation),
            format!("{:.1}", row.waiting_mean),
            time(row.wait_ns_mean),
        ]);
    }
    table
}

fn parts(rows: &[ShareRow], unit: &str) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right]);
    table.row(["", unit, "share"]);
    for row in rows {
        table.row([row.name.to_owned(), format!("{:.2}", row.amount), percent(row.share)]);
    }
    table
}

fn bytes(report: &Report) -> Table {
    let all = report.bytes_of_all;
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right]);
    let rows = [
        ("from clients", all.client_in),
        ("what completes parts of chunks", all.completed),
        ("duplicates", all.duplicate),
        ("compressed away", all.compressed_away),
        ("stored", all.stored),
    ];
    let written = all.client_in + all.completed;
    for (name, bytes) in rows {
        if bytes == 0 && name.starts_with("what") {
            continue;
        }
        let of_all = if written > 0 { bytes as f64 / written as f64 } else { 0.0 };
        table.row([name.to_owned(), gigabytes(bytes), percent(of_all)]);
    }
    table
}

/// What was replayed, and what of its contents the trace knew.
fn replayed(trace: &TraceReport) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, number: u64, note: &str| {
        table.row([name.to_owned(), count(number), note.to_owned()]);
    };
    row("reads", trace.reads, "");
    row("writes", trace.writes, "");
    row("TRIMs", trace.trims, "");
    row("flushes", trace.flushes, "");
    row("hints of idleness", trace.idle_hints, "of no use to a server");
    row("chunks with contents", trace.chunks_known, "of the trace");
    row("others", trace.chunks_drawn, "drawn, with workload.duplicate_share and its like");
    row("written in part", trace.chunks_partial, "");
    row("given up", trace.chunks_trimmed, "by TRIMs of whole chunks");
    table.row(["compressed sizes", "", "drawn: no trace knows them"]);
    table
}

/// What drives did that are simulated whole.
fn simulated(drives: &DrivesReport) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let kinds = format!("{} of {}, pages of {} B", drives.count, drives.model, drives.page_bytes);
    table.row(["drives".to_owned(), kinds]);
    let pages =
        format!("{} written, {} read", count(drives.pages_written), count(drives.pages_read));
    table.row(["pages".to_owned(), pages]);
    if drives.pages_trimmed > 0 {
        table.row(["pages given up".to_owned(), count(drives.pages_trimmed)]);
    }
    if drives.flushes > 0 {
        table.row(["flushes".to_owned(), count(drives.flushes)]);
    }
    if drives.pages_shared > 0 {
        table.row(["pages that drives share".to_owned(), count(drives.pages_shared)]);
    }
    if drives.unfinished_bytes > 0 {
        let bytes = drives.unfinished_bytes;
        let unfinished = format!("{bytes} B, in memory that outlives the server");
        table.row(["not full pages".to_owned(), unfinished]);
    }
    let amplified = drives.write_amplification;
    let amplified = amplified.map_or_else(|| "-".to_owned(), |times| format!("{times:.3}"));
    table.row(["write amplification".to_owned(), amplified]);
    for (name, times) in [("a write takes", drives.write_ns), ("a read takes", drives.read_ns)] {
        let Some((mean, p99)) = times else { continue };
        table.row([name.to_owned(), format!("{}, p99 {}", time(mean), time(p99 as f64))]);
    }
    table
}

fn latencies(report: &Report) -> Table {
    let mut table = Table::new(&[Align::Right; 6]);
    table.row(["", "requests", "mean", "p50", "p99", "p99.9"]);
    for row in &report.latencies {
        table.row([
            row.name.to_owned(),
            count(row.count),
            time(row.mean_ns),
            time(row.p50_ns as f64),
            time(row.p99_ns as f64),
            time(row.p999_ns as f64),
        ]);
    }
    table
}

/// A sweep, a line each.
pub fn sweep(names: &[String], reports: &[Report], printer: &Printer) -> String {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    table.row(["", "GB/s", "cores", "memory B/B", "table hits", "stopped by"]);
    for (name, report) in names.iter().zip(reports) {
        let stop = report.bottleneck.as_ref();
        table.row([
            name.clone(),
            format!("{:.2}", report.gb_per_s),
            format!("{:.1}", report.cores),
            format!("{:.2}", report.memory_bytes_per_client_byte),
            share(report.table_hit_share),
            stop.map_or_else(String::new, |stop| {
                format!("{}, {} busy", stop.name, percent(stop.utilisation))
            }),
        ]);
    }
    let heading = reports.first().map_or("", |report| report.name.as_str());
    let mut text = printer.heading(heading) + "\n";
    for line in table.lines(2) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}
