//! `onefold pool check`: every checksum and every reference, nothing changed.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_pool::{CheckReport, Pool};
use serde::Serialize;

use super::pool_repair;
use crate::args::PoolCheckArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::scrub_state::Blocks;
use crate::table::plural;

#[derive(Serialize)]
struct CheckJson<'a> {
    schema_version: u32,
    pool: String,
    sound: bool,
    findings_total: u64,
    findings: Vec<&'a str>,
    notes: &'a [String],
    containers: u64,
    chunks: u64,
    bytes: u64,
    references: u64,
    lost_blocks: u64,
    lost: Vec<Blocks>,
}

/// Check the pool and say what is wrong.
pub fn run(args: &PoolCheckArgs, printer: &Printer) -> Result<()> {
    if args.repair.repair {
        return pool_repair::run(args, printer);
    }
    open_pool::must_exist(&args.pool)?;
    let bar = progress::bytes(printer, "checking", Some(0));
    let report = Pool::check_at(&args.pool, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| Failure::pool(&args.pool, error))?;
    if args.json {
        printer.json(&json(args, &report))?;
    } else {
        for finding in &report.findings {
            printer.data(&format!("{}\n", finding.problem))?;
        }
        let unnamed = report.findings_total - report.findings.len() as u64;
        if unnamed > 0 {
            printer.data(&format!("and {} more\n", plural(unnamed, "problem", "problems")))?;
        }
        for line in pool_repair::lines(&report.lost, "lost in an earlier repair") {
            printer.data(&line)?;
        }
        for note in &report.notes {
            printer.note(&format!("note: {note}"));
        }
    }
    verdict(args, &report, printer)
}

fn verdict(args: &PoolCheckArgs, report: &CheckReport, printer: &Printer) -> Result<()> {
    let at = args.pool.display();
    let read = format!(
        "{} in {} ({}), {}",
        plural(report.chunks, "chunk", "chunks"),
        plural(report.containers, "container", "containers"),
        ByteSize(report.bytes),
        plural(report.references, "reference", "references")
    );
    if report.is_sound() && !report.lost.is_empty() {
        let lost = plural(report.lost.total, "block", "blocks");
        let said =
            format!("pool '{at}' is sound, but {lost} were lost in an earlier repair: {read}");
        return Err(Failure::bad(said)
            .hint("they are errors to read until they are written again, trimmed or deleted"));
    }
    if report.is_sound() {
        printer.note(&format!("pool '{at}' is sound: {read}"));
        return Ok(());
    }
    let problems = plural(report.findings_total, "problem", "problems");
    let failure = Failure::bad(format!("pool '{at}' has {problems}; checked {read}"));
    Err(if report.containers == 0 {
        failure
            .hint("nothing was changed; the rest cannot be checked before this is mended")
            .hint(format!("what is left can be read: onefold volume list {at} --rescue"))
    } else {
        failure.hint("nothing was changed; what is intact can be read: onefold serve --read-only")
    }
    .hint(format!("what a repair would do: onefold pool check {at} --repair --dry-run")))
}

fn json<'a>(args: &PoolCheckArgs, report: &'a CheckReport) -> CheckJson<'a> {
    CheckJson {
        schema_version: JSON_SCHEMA_VERSION,
        pool: args.pool.display().to_string(),
        sound: report.is_sound(),
        findings_total: report.findings_total,
        findings: report.findings.iter().map(|finding| finding.problem.as_str()).collect(),
        notes: &report.notes,
        containers: report.containers,
        chunks: report.chunks,
        bytes: report.bytes,
        references: report.references,
        lost_blocks: report.lost.total,
        lost: pool_repair::ranges(&report.lost),
    }
}
