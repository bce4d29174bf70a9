//! `onefold pool check`: every checksum and every reference, nothing changed.
//! Room: onefold.

use std::path::Path;

use onefold_block::ByteSize;
use onefold_control::{Report, Unit};
use onefold_pool::{CheckReport, Pool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_reclaim::interrupted;
use super::pool_repair;
use crate::args::PoolCheckArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::operate::door::{self, Place};
use crate::operate::{Context, table};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::scrub_state::Blocks;
use crate::table::plural;

/// There is nothing to choose.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {}

/// What was read and found.
#[derive(Serialize, JsonSchema)]
pub struct CheckJson {
    schema_version: u32,
    pool: String,
    sound: bool,
    findings_total: u64,
    findings: Vec<String>,
    notes: Vec<String>,
    containers: u64,
    chunks: u64,
    bytes: u64,
    references: u64,
    lost_blocks: u64,
    lost: Vec<Blocks>,
}

/// Check a pool that is served, as it is at this moment.
pub fn operate(context: &Context<'_>, _: &Request) -> Result<Report> {
    let job = context.job;
    let checked = context.pool.check_beside(&mut |done, total| {
        job.tell("checking", Unit::Bytes, done, Some(total));
        !job.is_cancelled()
    });
    let checked = checked.map_err(|error| context.failed(error))?;
    Ok(checked.map_or_else(|| interrupted("nothing is known"), |found| told(context.at, found)))
}

/// Check the pool and say what is wrong.
pub fn run(args: &PoolCheckArgs, printer: &Printer) -> Result<()> {
    if args.repair.repair {
        return pool_repair::run(args, printer);
    }
    open_pool::must_exist(&args.pool)?;
    let here = || {
        let bar = progress::bytes(printer, "checking", None);
        let report = Pool::check_at(&args.pool, &mut |done, total| bar.show(done, total));
        report.map_err(|error| open_pool::refused(&args.pool, error))
    };
    let report = match door::served_or(&args.pool, here)? {
        Place::Here(found) => told(&args.pool, found),
        Place::Server(server) => server.call(&table::POOL_CHECK, &Request {}, printer)?,
    };
    printer.report(report, args.json)
}

/// A report in words and for programs.
fn told(at: &Path, found: CheckReport) -> Report {
    let mut lines: Vec<String> =
        found.findings.iter().map(|finding| format!("{}\n", finding.problem)).collect();
    let unnamed = found.findings_total - found.findings.len() as u64;
    if unnamed > 0 {
        lines.push(format!("and {} more\n", plural(unnamed, "problem", "problems")));
    }
    lines.extend(pool_repair::lines(&found.lost, "lost in an earlier repair"));
    let asides = found.notes.iter().map(|note| format!("note: {note}")).collect();
    let mut report = Report { asides, ..Report::default() };
    match verdict(at, &found) {
        Ok(said) => report.notes.push(said),
        Err(failure) => report.fault = Some(failure.into_fault()),
    }
    report.with_text(&lines.concat()).with_result(&json(at, found))
}

/// That it is sound, or what is wrong.
fn verdict(at: &Path, report: &CheckReport) -> Result<String> {
    let at = at.display();
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
        return Ok(format!("pool '{at}' is sound: {read}"));
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

fn json(at: &Path, report: CheckReport) -> CheckJson {
    CheckJson {
        schema_version: JSON_SCHEMA_VERSION,
        pool: at.display().to_string(),
        sound: report.is_sound(),
        findings_total: report.findings_total,
        findings: report.findings.into_iter().map(|finding| finding.problem).collect(),
        notes: report.notes,
        containers: report.containers,
        chunks: report.chunks,
        bytes: report.bytes,
        references: report.references,
        lost_blocks: report.lost.total,
        lost: pool_repair::ranges(&report.lost),
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::Lba;
    use onefold_pool::{Blocks, DamagedBlocks, Finding};

    use super::*;

    #[test]
    fn what_is_wrong_is_named_and_counted_and_what_is_sound_is_no_fault() {
        let sound = CheckReport { chunks: 1, containers: 2, ..CheckReport::default() };
        let report = told(Path::new("p"), sound.clone());
        let read = "1 chunk in 2 containers (0 B), 0 references";
        assert_eq!(report.notes, [format!("pool 'p' is sound: {read}")]);
        assert!(report.fault.is_none() && report.text.is_empty());

        let range =
            |first, count| DamagedBlocks { volume: "v".to_owned(), first: Lba::new(first), count };
        let blocks = Blocks { ranges: vec![range(7, 1), range(9, 2)], ranges_total: 4, total: 5 };
        let lost = CheckReport { lost: blocks.clone(), ..sound.clone() };
        let fault = told(Path::new("p"), lost.clone()).fault.unwrap();
        let said = "pool 'p' is sound, but 5 blocks were lost in an earlier repair: ";
        assert_eq!(fault.message, [said, read].concat());

        let findings = vec![Finding { problem: "bad record".to_owned() }];
        let damaged = CheckReport { findings, findings_total: 3, ..lost };
        let report = told(Path::new("p"), damaged);
        let fault = report.fault.unwrap();
        assert_eq!(fault.message, format!("pool 'p' has 3 problems; checked {read}"));
        let expected = "bad record\nand 2 problems more\n\
                        v: block 7: lost in an earlier repair\n\
                        v: blocks 9 to 10: lost in an earlier repair\n\
                        and 2 ranges more: lost in an earlier repair\n";
        assert_eq!(report.text, expected);
        let all = Blocks { ranges_total: 2, ..blocks };
        assert_eq!(pool_repair::lines(&all, "lost").len(), 2);
    }

    #[test]
    fn a_pool_without_containers_can_only_be_rescued() {
        let findings = vec![Finding { problem: "bad".to_owned() }];
        let none = CheckReport { findings, findings_total: 1, ..CheckReport::default() };
        let some = CheckReport { containers: 1, ..none.clone() };
        let hints = |report| told(Path::new("p"), report).fault.unwrap().hints;
        assert_eq!(hints(none)[1], "what is left can be read: onefold volume list p --rescue");
        let intact = "nothing was changed; what is intact can be read: onefold serve --read-only";
        let repair = "what a repair would do: onefold pool check p --repair --dry-run";
        assert_eq!(hints(some), [intact, repair]);
    }

    #[test]
    fn a_check_says_what_it_read_whoever_does_it() {
        use crate::commands::heard::{self, Folder};
        use crate::test_pool;

        let here = Folder::new();
        here.ok("pool create ./p");
        let said = here.ok("pool check ./p");
        let sound = "is sound: 0 chunks in 0 containers (0 B), 0 references";
        assert_eq!((&*said.out, &*said.err), ("", &*format!("pool './p' {sound}\n")));
        assert_eq!(here.ok("pool check ./p --json").json()["sound"], true);
        let none = here.refused("pool check ./none", 2);
        let hint = "hint: make one with: onefold pool create ./none\n";
        assert_eq!(none, format!("error: there is no pool at './none'\n{hint}"));
        let report = heard::operate(&test_pool::pool(), &table::POOL_CHECK, &Request {}).unwrap();
        assert_eq!(report.notes, [format!("pool 'p' {sound}")]);
    }
}
