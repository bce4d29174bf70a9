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

#[cfg(test)]
mod tests {
    use onefold_array::decide::predictor::Score;
    use onefold_array::run::{Bottleneck, Bytes, CostReport};

    use super::*;
    use crate::output::Heard;

    fn drives() -> DrivesReport {
        DrivesReport {
            model: "flash".to_owned(),
            count: 2,
            page_bytes: 4096,
            pages_written: 1000,
            pages_read: 3,
            pages_trimmed: 0,
            flushes: 0,
            unfinished_bytes: 0,
            pages_shared: 0,
            pages_programmed: 1500,
            write_amplification: None,
            erases: 1,
            write_ns: None,
            read_ns: None,
        }
    }

    fn report() -> Report {
        Report {
            name: "one".to_owned(),
            gb_per_s: 1.5,
            seconds: 1.0,
            bottleneck: None,
            resources: Vec::new(),
            cores: 2.0,
            cores_by_task: Vec::new(),
            memory_bytes_per_client_byte: 3.0,
            memory_by_cause: Vec::new(),
            bytes: Bytes::default(),
            bytes_of_all: Bytes::default(),
            table_hit_share: None,
            table_reads_a_look_up: 0.5,
            table_writes_a_look_up: 0.25,
            missed_share: None,
            duplicate_share: Some(0.5),
            predictor: Score::default(),
            latencies: Vec::new(),
            drive_bytes_per_client_byte: 0.0,
            held_back_share: 0.0,
            client_buffer_peak: 0,
            delayed_buffer_peak: 0,
            batches_in_flight_share: 0.0,
            batch_chunks_mean: 0.0,
            reconfigurations: 0,
            joules_per_gb: 0.0,
            cost: CostReport {
                cpu_usd: 0.0,
                dram_usd: 0.0,
                boards_usd: 0.0,
                server_usd: 0.0,
                flash_usd_per_client_tb: None,
            },
            trace: None,
            drives: None,
            table_drives: None,
            stored_digest: 0,
            events: 0,
            event_hash: 0,
        }
    }

    #[test]
    fn a_sweep_is_a_line_for_each_run() {
        let stop = Bottleneck { name: "cores", utilisation: 1.0, next: None, factor_to_next: None };
        let second = Report { bottleneck: Some(stop), table_hit_share: Some(0.5), ..report() };
        let names = ["a=1".to_owned(), "a=22".to_owned()];
        let printer = Printer::heard(&Heard::default());
        let expected = "one\n\
            \x20       GB/s  cores  memory B/B  table hits  stopped by\n\
            \x20 a=1   1.50    2.0        3.00           -\n\
            \x20 a=22  1.50    2.0        3.00      50.0 %  cores, 100.0 % busy\n";
        assert_eq!(sweep(&names, &[report(), second], &printer), expected);
        assert_eq!(sweep(&[], &[], &printer).lines().next(), Some(""));
    }

    #[test]
    fn drives_tell_what_they_did_and_nothing_of_what_they_did_not() {
        let text = |drives: &DrivesReport| simulated(drives).lines(0).join("\n");
        let few = "drives               2 of flash, pages of 4096 B\n\
                   pages                1,000 written, 3 read\n\
                   write amplification  -";
        assert_eq!(text(&drives()), few);
        let all = DrivesReport {
            pages_trimmed: 1,
            flushes: 1,
            unfinished_bytes: 1,
            pages_shared: 1,
            write_amplification: Some(1.5),
            write_ns: Some((2000.0, 3000)),
            read_ns: Some((1000.0, 1500)),
            ..drives()
        };
        let many = "drives                   2 of flash, pages of 4096 B\n\
                    pages                    1,000 written, 3 read\n\
                    pages given up           1\n\
                    flushes                  1\n\
                    pages that drives share  1\n\
                    not full pages           1 B, in memory that outlives the server\n\
                    write amplification      1.500\n\
                    a write takes            2.0 us, p99 3.0 us\n\
                    a read takes             1.0 us, p99 1.5 us";
        assert_eq!(text(&all), many);
    }

    #[test]
    fn bytes_are_shares_of_what_was_written_and_what_completes_it() {
        let lines = |all: Bytes| bytes(&Report { bytes_of_all: all, ..report() }).lines(0);
        let none = lines(Bytes::default());
        assert_eq!(none.len(), 4, "{none:?}");
        assert!(none.iter().all(|line| line.ends_with(" 0.0 %")), "{none:?}");
        let all =
            Bytes { client_in: 3_000_000, completed: 1_000_000, stored: 1, ..Bytes::default() };
        let expected = [
            "from clients                    0.003 GB  75.0 %",
            "what completes parts of chunks  0.001 GB  25.0 %",
            "duplicates                      0.000 GB   0.0 %",
            "compressed away                 0.000 GB   0.0 %",
            "stored                          0.000 GB   0.0 %",
        ];
        assert_eq!(lines(all), expected);
        assert_eq!(lines(Bytes { completed: 1, ..Bytes::default() }).len(), 5);
    }

    #[test]
    fn a_replay_and_all_drives_have_sections_of_their_own() {
        let trace = TraceReport {
            reads: 1,
            writes: 2,
            trims: 3,
            flushes: 4,
            idle_hints: 5,
            chunks_known: 6,
            chunks_drawn: 7,
            chunks_partial: 8,
            chunks_trimmed: 9,
            addresses: 10,
        };
        let rows = "reads                 1\n\
            writes                2\n\
            TRIMs                 3\n\
            flushes               4\n\
            hints of idleness     5  of no use to a server\n\
            chunks with contents  6  of the trace\n\
            others                7  drawn, with workload.duplicate_share and its like\n\
            written in part       8\n\
            given up              9  by TRIMs of whole chunks\n\
            compressed sizes         drawn: no trace knows them";
        assert_eq!(replayed(&trace).lines(0).join("\n"), rows);
        let printer = Printer::heard(&Heard::default());
        let whole = Report {
            trace: Some(trace),
            drives: Some(drives()),
            table_drives: Some(drives()),
            missed_share: Some(0.1),
            ..report()
        };
        let told = text(&whole, 3, &printer);
        for part in [
            "\n\nThe trace\n  reads ",
            "\n\nData drives\n  drives ",
            "\n\nTable drives\n  drives ",
            "\n  of them stored again  10.0 %\n",
            "\n\n3 keys behind these figures are assumptions; onefold array spec names them.\n",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let few = text(&Report { missed_share: Some(0.0), ..report() }, 0, &printer);
        for part in ["The trace", "drives\n", "stored again", "of flash", "stopped by"] {
            assert!(!few.contains(part), "{part}: {few}");
        }
    }
}
