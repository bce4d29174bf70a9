//! The report of `onefold ssd run` for people.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_flash::run::{IntervalReport, LatencyReport, Report};

use crate::output::Printer;
use crate::table::{Align, Table, count, percent};

/// Nanoseconds in a unit that fits.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A figure, or a dash where there is none.
pub(super) fn figure(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.decimals$}"))
}

fn rate(per_s: Option<f64>) -> String {
    per_s.map_or_else(|| "-".to_owned(), |rate| count((rate + 0.5) as u64))
}

fn megabytes(bytes_per_s: Option<f64>) -> String {
    bytes_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} MB/s", rate / 1e6))
}

/// A point of a sweep by its keys.
pub fn named(point: &[(String, String)]) -> String {
    point.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// One run.
pub fn text(report: &Report, printer: &Printer) -> String {
    let mut text = String::new();
    let mut section = |heading: &str, lines: Vec<String>| {
        text.push_str(&printer.heading(heading));
        text.push('\n');
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
        text.push('\n');
    };
    section(&format!("{}, seed {}", report.drive, report.seed), summary(report));
    section("Latency", latencies(report));
    section("Where the time of a request went, on average", breakdown(report));
    section("Flash operations", operations(report));
    section("Utilisation", utilisation(report));
    section("Wear", wear(report));
    section("Controller memory", memory(report));
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn pairs<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Vec<String> {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    table.lines(2)
}

fn summary(report: &Report) -> Vec<String> {
    let (requests, waf, dedup) = (&report.requests, &report.waf, &report.dedup);
    let answered = format!(
        "{} of {} answered in {}",
        count(requests.completed),
        count(requests.generated),
        time(report.elapsed_ns as f64)
    );
    let missed = dedup
        .missed_pages
        .map_or_else(String::new, |pages| format!(", {} still stored twice", count(pages)));
    let mut rows = vec![
        ("requests", answered),
        ("rate", format!("{} IOPS", rate(report.iops))),
        (
            "throughput",
            format!(
                "{} read, {} written",
                megabytes(report.read_bytes_per_s),
                megabytes(report.write_bytes_per_s)
            ),
        ),
        (
            "write amplification",
            format!(
                "{} = host {} + gc {} + wear {} + map {}",
                figure(waf.total, 3),
                figure(waf.host, 3),
                figure(waf.gc, 3),
                figure(waf.wear, 3),
                figure(waf.map, 3)
            ),
        ),
        ("settled", settled(report)),
        ("effective alpha", format!("{:.4} pages per logical page", report.effective_alpha)),
        (
            "deduplication",
            format!(
                "{}: {} pages inline, {} offline{missed}",
                dedup.policy,
                count(dedup.inline_pages),
                count(dedup.offline_pages)
            ),
        ),
    ];
    if let Some(compression) = &report.compression {
        rows.push((
            "compression",
            format!(
                "{} pages shorter, packed into {} that are {} % full; stored at {} % of their \
                 size, alpha {} of what is stored",
                count(compression.compressed_pages),
                count(compression.packed_pages),
                figure(compression.filled_share.map(|share| 100.0 * share), 1),
                figure(compression.stored_share.map(|share| 100.0 * share), 1),
                figure(compression.alpha_of_stored, 3)
            ),
        ));
    }
    rows.push(("result hash", report.result_hash.clone()));
    pairs(rows)
}

/// Whether endless writes would measure the same, and within what.
fn settled(report: &Report) -> String {
    let settled = &report.settled;
    let interval =
        |of: &IntervalReport| format!("{:.4} ({:.4} to {:.4})", of.mean, of.low, of.high);
    let (Some(share), Some(waf)) = (&settled.programmed_share, &settled.write_amplification) else {
        return format!("no: too few writes{}", more_requests(report));
    };
    let (share, waf) = (interval(share), interval(waf));
    let figures = format!("{share} of written pages programmed, write amplification {waf}");
    match settled.lacks {
        None => format!("yes: {figures}"),
        Some(lacks) => {
            let why = match lacks {
                "collection" => "planes have blocks that were never needed",
                "drift" => "the later half differs from the earlier one",
                _ => "too few writes for so wild a write amplification",
            };
            format!("no: {why}; {figures}{}", more_requests(report))
        }
    }
}

fn more_requests(report: &Report) -> String {
    let needed = report.settled.requests_needed;
    needed.map_or_else(String::new, |more| format!("; about {} more requests needed", count(more)))
}

fn latencies(report: &Report) -> Vec<String> {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    table.row(["", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    for (name, latency) in &report.latency_ns {
        let Some(LatencyReport { mean, p50, p90, p99, p999, max }) = latency else { continue };
        let mut row = vec![(*name).to_owned(), time(*mean)];
        row.extend([p50, p90, p99, p999, max].map(|ns| time(*ns as f64)));
        table.row(row);
    }
    table.lines(2)
}

fn breakdown(report: &Report) -> Vec<String> {
    let shares = ["queue", "gc_interference", "host", "link", "engine", "bus", "array"];
    let mut table = Table::new(&[Align::Left; 8].map(|_| Align::Right));
    table.row(["", "queue", "behind gc", "host", "link", "engine", "bus", "array"]);
    for (name, parts) in &report.latency_breakdown_ns {
        let mut row = vec![(*name).to_owned()];
        row.extend(shares.map(|share| time(parts.get(share).copied().unwrap_or(0.0))));
        table.row(row);
    }
    table.lines(2)
}

fn operations(report: &Report) -> Vec<String> {
    let mut table = Table::new(&[Align::Left; 6].map(|_| Align::Right));
    table.row(["", "host", "gc", "wear", "map", "dedup"]);
    for (name, ops) in &report.flash_operations {
        let mut row = vec![(*name).to_owned()];
        row.extend([ops.host, ops.gc, ops.wear, ops.map, ops.dedup].map(count));
        table.row(row);
    }
    let mut lines = table.lines(2);
    lines.push(format!("  energy  {:.3} J", report.energy_nj as f64 / 1e9));
    lines
}

fn utilisation(report: &Report) -> Vec<String> {
    let usage = &report.utilisation;
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["", "count", "busy", ""]);
    let kinds = format!(
        "reading {}, programming {}, erasing {}; {} to {}",
        percent(usage.units_reading),
        percent(usage.units_programming),
        percent(usage.units_erasing),
        percent(usage.units_min),
        percent(usage.units_max)
    );
    let units = [format!("{}s", usage.unit), usage.units.to_string(), percent(usage.units_mean)];
    table.row(units.into_iter().chain([kinds]));
    for (name, server) in &usage.servers {
        let wait = match server.jobs {
            0 => "nothing to do".to_owned(),
            _ => format!("a job waits {}", time(server.wait_ns_mean)),
        };
        let server = [(*name).to_owned(), server.count.to_string(), percent(server.mean)];
        table.row(server.into_iter().chain([wait]));
    }
    table.lines(2)
}

/// Four digits of a number, so that the ends of an interval differ.
fn terabytes(number: f64) -> String {
    let before = number.abs().max(1e-3).log10().floor();
    let decimals = (3.0 - before).clamp(0.0, 6.0) as usize;
    format!("{number:.decimals$}")
}

fn wear(report: &Report) -> Vec<String> {
    let (erases, life) = (&report.erases, &report.lifetime);
    let at = format!("at {} erases a block", count(life.rated_pe_cycles));
    let (low, high) = (life.terabytes_written_low, life.terabytes_written_high);
    let end = |end: Option<f64>| end.map_or_else(|| "-".to_owned(), terabytes);
    let (lifetime, daily) = match life.terabytes_written {
        None if report.settled.settled => ("- (nothing programmed)".to_owned(), "-".to_owned()),
        None => ("- (not settled)".to_owned(), "-".to_owned()),
        Some(written) => (
            format!("{} TB written ({} to {}) {at}", terabytes(written), end(low), end(high)),
            format!("{} drive writes a day", figure(life.drive_writes_per_day_5_years, 3)),
        ),
    };
    pairs([
        (
            "erases of a block",
            format!("{} to {}, {:.2} on average", erases.min, erases.max, erases.mean),
        ),
        ("lifetime", lifetime),
        ("for five years", daily),
    ])
}

fn memory(report: &Report) -> Vec<String> {
    let dram = &report.dram;
    let mut table = Table::new(&[Align::Left, Align::Right]);
    for item in &dram.items {
        table.row([item.name.replace('_', " "), ByteSize(item.bytes).to_string()]);
    }
    let of = format!("{} of {}", ByteSize(dram.used_bytes), ByteSize(dram.budget_bytes));
    table.row(["in all".to_owned(), of]);
    table.lines(2)
}

/// A sweep: one row a run.
pub fn sweep(points: &[Vec<(String, String)>], reports: &[Report], printer: &Printer) -> String {
    let keys: Vec<String> =
        points.first().map_or_else(Vec::new, |p| p.iter().map(|(key, _)| key.clone()).collect());
    let aligns = vec![Align::Right; keys.len() + 8];
    let mut table = Table::new(&aligns);
    let figures =
        ["IOPS", "WAF", "read mean", "read p99", "write mean", "write p99", "dedup", "hash"];
    table.row(keys.into_iter().chain(figures.map(str::to_owned)));
    for (point, report) in points.iter().zip(reports) {
        let latency = |kind: &str| {
            let dash = || ("-".to_owned(), "-".to_owned());
            let of = report.latency_ns.get(kind).and_then(Option::as_ref);
            of.map_or_else(dash, |of| (time(of.mean), time(of.p99 as f64)))
        };
        let ((read, read99), (write, write99)) = (latency("read"), latency("write"));
        let found = report.dedup.inline_pages + report.dedup.offline_pages;
        let figures = [
            rate(report.iops),
            figure(report.waf.total, 3),
            read,
            read99,
            write,
            write99,
            count(found),
            report.result_hash[..8].to_owned(),
        ];
        table.row(point.iter().map(|(_, value)| value.clone()).chain(figures));
    }
    let mut lines = table.lines(0);
    if let Some(head) = lines.first_mut() {
        *head = printer.heading(head);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let units = [999.0, 1e3, 1e6 - 1.0, 1e6, 1e9 - 1e6, 1e9].map(time);
        assert_eq!(units, ["999 ns", "1.0 us", "1000.0 us", "1.00 ms", "999.00 ms", "1.00 s"]);
        assert_eq!([rate(None), rate(Some(1.5)), rate(Some(1.4))], ["-", "2", "1"]);
        let ends = [1234.5, 12.345, 0.012_345, 0.0].map(terabytes);
        assert_eq!(ends, ["1234", "12.35", "0.01235", "0.000000"]);
    }
}
