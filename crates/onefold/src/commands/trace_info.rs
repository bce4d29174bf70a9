//! `onefold trace info`: what is in a trace.
//! Room: onefold.

use std::collections::BTreeMap;

use onefold_block::ByteSize;
use onefold_workload::import::{ImportReport, SkipReason};
use onefold_workload::{Op, TraceSummary};
use serde::Serialize;

use super::trace_open;
use crate::args::TraceInfoArgs;
use crate::failure::Result;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table, count, percent};

#[derive(Serialize)]
struct Info {
    schema_version: u32,
    format: &'static str,
    lines: u64,
    requests: u64,
    operations: BTreeMap<&'static str, Operation>,
    read_share: f64,
    footprint_bytes: u128,
    length_max: u64,
    streams: usize,
    span_ns: u64,
    writes_with_identity: u64,
    duplicate_writes: u64,
    duplicate_share: f64,
    skipped: BTreeMap<&'static str, u64>,
    lines_expanded: u64,
    requests_out_of_order: u64,
    requests_before_first: u64,
}

#[derive(Serialize)]
struct Operation {
    requests: u64,
    bytes: u128,
}

/// Read all of it, and print the counts.
pub fn run(args: &TraceInfoArgs, printer: &Printer) -> Result<()> {
    let mut trace = trace_open::open(&args.input, args.format)?;
    let mut summary = TraceSummary::default();
    trace_open::each(&mut trace, &args.input, printer, |request| {
        summary.add(request);
        Ok(())
    })?;
    let info = info(trace.format().name(), &trace.report(), &mut summary);
    if args.json { printer.json(&info) } else { printer.data(&text(&info)) }
}

fn info(format: &'static str, report: &ImportReport, summary: &mut TraceSummary) -> Info {
    let operation = |op: Op| {
        let (requests, bytes) = (summary.requests[op as usize], summary.bytes[op as usize]);
        (op.name(), Operation { requests, bytes })
    };
    let operations = Op::ALL.into_iter().map(operation).collect();
    let skipped = SkipReason::ALL
        .into_iter()
        .filter(|reason| report.skipped(*reason) > 0)
        .map(|reason| (reason.words(), report.skipped(reason)))
        .collect();
    Info {
        schema_version: JSON_SCHEMA_VERSION,
        format,
        lines: report.lines,
        requests: report.requests,
        operations,
        read_share: summary.read_share(),
        footprint_bytes: summary.footprint_bytes(),
        length_max: summary.length_max,
        streams: summary.streams(),
        span_ns: summary.span_ns(),
        writes_with_identity: summary.with_identity[Op::Write as usize],
        duplicate_writes: summary.duplicate_writes,
        duplicate_share: summary.duplicate_share(),
        skipped,
        lines_expanded: report.expanded,
        requests_out_of_order: report.out_of_order,
        requests_before_first: report.before_first,
    }
}

fn size(bytes: u128) -> String {
    ByteSize(u64::try_from(bytes).unwrap_or(u64::MAX)).to_string()
}

fn text(info: &Info) -> String {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right]);
    table.row(["format", info.format]);
    table.row(["lines", &count(info.lines)]);
    table.row(["requests", &count(info.requests)]);
    for op in Op::ALL {
        let Operation { requests, bytes } = &info.operations[op.name()];
        if *requests > 0 {
            let name = format!("  {}", op.name());
            table.row([name, count(*requests), size(*bytes)]);
        }
    }
    table.row(["read share", &percent(info.read_share)]);
    table.row(["footprint", "", &size(info.footprint_bytes)]);
    table.row(["longest request", "", &size(info.length_max.into())]);
    table.row(["streams", &count(info.streams as u64)]);
    table.row(["time span", &seconds(info.span_ns)]);
    if info.writes_with_identity > 0 {
        table.row(["writes with known content", &count(info.writes_with_identity)]);
        let share = percent(info.duplicate_share);
        table.row(["  duplicates", &count(info.duplicate_writes), &share]);
    }
    for (name, count_of) in [
        ("lines with several requests", info.lines_expanded),
        ("requests out of order", info.requests_out_of_order),
        ("requests before the first", info.requests_before_first),
    ] {
        if count_of > 0 {
            table.row([name, &count(count_of)]);
        }
    }
    for (reason, lines) in &info.skipped {
        table.row([format!("skipped: {reason}"), count(*lines)]);
    }
    table.lines(0).join("\n") + "\n"
}

/// Nanoseconds as seconds with three decimals.
fn seconds(ns: u64) -> String {
    format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_the_ordinary_is_told_if_there_is_any() {
        let mut info = info("csv", &ImportReport::default(), &mut TraceSummary::default());
        let rows = |info: &Info| {
            let text = text(info);
            let lines = text.lines().map(|line| line.split("  ").next().unwrap_or_default());
            lines.skip(8).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rows(&info), [""; 0]);
        (info.writes_with_identity, info.lines_expanded) = (1, 1);
        (info.requests_out_of_order, info.requests_before_first) = (1, 1);
        info.skipped.insert("comments and headers", 1);
        let expected = [
            "writes with known content",
            "",
            "lines with several requests",
            "requests out of order",
            "requests before the first",
            "skipped: comments and headers",
        ];
        assert_eq!(rows(&info), expected);
        assert_eq!(seconds(61_002_999_999), "61.002 s");
    }

    #[test]
    fn a_trace_is_counted_and_converted_in_the_tests_own_process() {
        use crate::commands::heard::Folder;

        let here = Folder::new();
        let csv = "time_ns,op,offset,length,identity,stream,pid,deduplicate\n\
                   0,read,0,4096,,,,\n\
                   1500000000,write,4096,8192,,,,\n";
        here.file("t.csv", csv.as_bytes());
        let told = here.ok("trace info ./t.csv").out;
        let expected = "format                  csv\n\
                        lines                     3\n\
                        requests                  2\n\
                        \x20 read                    1   4 KiB\n\
                        \x20 write                   1   8 KiB\n\
                        read share           50.0 %\n\
                        footprint                   12 KiB\n\
                        longest request              8 KiB\n\
                        streams                   1\n\
                        time span           1.500 s\n\
                        skipped: comments and headers        1\n";
        let words = |text: &str| -> Vec<String> {
            text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(words(&told), words(expected));
        assert_eq!(here.ok("trace info ./t.csv --json").json()["requests"], 2);
        let said = here.ok("trace convert ./t.csv ./u.csv");
        assert!(said.err.starts_with("csv: ") && said.out.is_empty(), "{}", said.err);
        assert_eq!(std::fs::read_to_string(here.path("u.csv")).unwrap(), csv);
        let name = here.refused("trace convert ./t.csv ./u.txt", 2);
        let why = "error: the name './u.txt' does not say in which format to write\n\
                   hint: say --to csv or --to parquet\n";
        assert_eq!(name, why);
        assert!(here.refused("trace convert ./t.csv - --to parquet", 2).contains("name a file"));
        here.file("bad.csv", b"time_ns,op,offset,length,identity,stream,pid\n0,read,x,1,,,\n");
        let bad = here.refused("trace info ./bad.csv", 2);
        assert!(bad.contains("'./bad.csv'") && bad.contains("line 2 is no line"), "{bad}");
    }
}
