//! `onefold pool check --repair`: a damaged pool becomes sound, with all that can be had.
//! Room: onefold.

use std::io::IsTerminal as _;

use onefold_block::ByteSize;
use onefold_pool::{Blocks as PoolBlocks, Pool, RepairReport};
use serde::Serialize;

use super::volume_delete::confirmed;
use crate::args::PoolCheckArgs;
use crate::failure::{Failure, Result};
use crate::make_pool;
use crate::open_pool;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::scrub_state::{self, Blocks};
use crate::table::plural;

#[derive(Serialize)]
struct RepairJson<'a> {
    schema_version: u32,
    pool: String,
    repaired: bool,
    lossless: bool,
    findings_total: u64,
    findings: &'a [String],
    notes: &'a [String],
    plan: &'a [String],
    bytes_to_write: u64,
    uncertain: &'a [String],
    lost_blocks: u64,
    lost: Vec<Blocks>,
    restored_blocks: u64,
    restored: Vec<Blocks>,
    lost_and_found: Option<LostAndFoundJson>,
}

#[derive(Serialize)]
struct LostAndFoundJson {
    volume: String,
    blocks: u64,
}

/// Say what is wrong and what will be done, and do it.
pub fn run(args: &PoolCheckArgs, printer: &Printer) -> Result<()> {
    open_pool::must_exist_to_repair(&args.pool)?;
    let failed = |error| Failure::pool(&args.pool, error);
    let fresh = make_pool::random_identity()?;
    let planned = {
        let bar = progress::bytes(printer, "checking", None);
        let mut show = |done, total| bar.show(done, total);
        Pool::repair_at(&args.pool, args.repair.dry_run, fresh, &mut show).map_err(failed)?
    };
    let report = planned.report().clone();
    if !args.json {
        printer.data(&text(&report))?;
        for note in &report.notes {
            printer.note(&format!("note: {note}"));
        }
    }
    if report.is_nothing_to_do() {
        print_json(args, &report, false, printer)?;
        return nothing_to_do(args, &report, printer);
    }
    if args.repair.dry_run {
        print_json(args, &report, false, printer)?;
        let problems = plural(report.findings_total, "problem", "problems");
        let at = args.pool.display();
        return Err(Failure::bad(format!("pool '{at}' has {problems}; nothing was changed"))
            .hint(format!("to do all that: onefold pool check {at} --repair")));
    }
    let asks = !args.repair.yes && std::io::stdin().is_terminal();
    if asks && !confirmed("Do this? [y/N] ") {
        return Err(Failure::nothing_done("nothing was changed"));
    }
    planned.apply().map_err(failed)?;
    // What the last scrub found is of the pool as it was; a note that cannot go is only a note.
    let _ = std::fs::remove_file(args.pool.join(scrub_state::FILE));
    print_json(args, &report, true, printer)?;
    repaired(args, &report, printer)
}

fn nothing_to_do(args: &PoolCheckArgs, report: &RepairReport, printer: &Printer) -> Result<()> {
    let at = args.pool.display();
    if report.lost.is_empty() {
        printer.note(&format!("pool '{at}' is sound: there is nothing to repair"));
        return Ok(());
    }
    let lost = plural(report.lost.total, "block", "blocks");
    Err(Failure::bad(format!("pool '{at}' is sound, but {lost} were lost in an earlier repair"))
        .hint("they are errors to read until they are written again, trimmed or deleted"))
}

fn repaired(args: &PoolCheckArgs, report: &RepairReport, printer: &Printer) -> Result<()> {
    let at = args.pool.display();
    if report.finishes {
        printer.note(&format!(
            "pool '{at}': the repair that was interrupted is in place; what it could not have \
             again is listed by: onefold pool check {at}"
        ));
        return Ok(());
    }
    if !report.is_lossy() {
        printer.note(&format!("pool '{at}' was repaired, and nothing is lost"));
        return Ok(());
    }
    let loss = loss(report);
    Err(Failure::bad(format!("pool '{at}' was repaired and can be used, but {loss}"))
        .hint("check what is in its volumes, as after a broken disk: fsck, or a backup")
        .hint("docs/rescue.md says what each of these lists means"))
}

/// What a repair could not have again.
fn loss(report: &RepairReport) -> String {
    let mut what = Vec::new();
    if !report.lost.is_empty() {
        what.push(format!("{} lost", plural(report.lost.total, "block is", "blocks are")));
    }
    if !report.restored.is_empty() {
        let restored = plural(report.restored.total, "block", "blocks");
        what.push(format!("{restored} may be older than they were"));
    }
    if !report.uncertain.is_empty() {
        what.push("more may be missing".to_owned());
    }
    what.join(", ")
}

/// Findings, plan and losses, for people.
fn text(report: &RepairReport) -> String {
    let section = |title: &str, lines: &[String]| match lines {
        [] => String::new(),
        lines => format!("{title}:\n  {}\n", lines.join("\n  ")),
    };
    let mut text = vec![section("wrong", &report.findings)];
    let unnamed = report.findings_total - report.findings.len() as u64;
    if unnamed > 0 {
        text.push(format!("  and {} more\n", plural(unnamed, "problem", "problems")));
    }
    text.push(section("to be done", &report.plan));
    if report.bytes_to_write > 0 {
        let size = ByteSize(report.bytes_to_write);
        text.push(format!("  which needs about {size} of free space\n"));
    }
    text.push(section("may be missing, or older than it was", &report.uncertain));
    text.extend(lines(&report.restored, "from what containers say, may be old"));
    text.extend(lines(&report.lost, "lost, an error to read"));
    if let Some((volume, blocks)) = &report.lost_and_found {
        let blocks = plural(*blocks, "block", "blocks");
        text.push(format!(
            "in volume '{volume}': {blocks} that nothing refers to and that do not say whose they \
             were; delete it once you have looked\n"
        ));
    }
    text.concat()
}

/// A line for each range of blocks.
pub fn lines(blocks: &PoolBlocks, what: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for range in &blocks.ranges {
        let (first, count) = (range.first.get(), range.count);
        let last = first + (count - 1);
        let which =
            if count == 1 { format!("block {first}") } else { format!("blocks {first} to {last}") };
        lines.push(format!("{}: {which}: {what}\n", range.volume));
    }
    let unnamed = blocks.ranges_total - blocks.ranges.len() as u64;
    if unnamed > 0 {
        lines.push(format!("and {} more: {what}\n", plural(unnamed, "range", "ranges")));
    }
    lines
}

/// The same for programs.
pub fn ranges(blocks: &PoolBlocks) -> Vec<Blocks> {
    let of_range = |range: &onefold_pool::DamagedBlocks| Blocks {
        volume: range.volume.clone(),
        first: range.first.get(),
        count: range.count,
    };
    blocks.ranges.iter().map(of_range).collect()
}

fn print_json(
    args: &PoolCheckArgs,
    report: &RepairReport,
    repaired: bool,
    printer: &Printer,
) -> Result<()> {
    if !args.json {
        return Ok(());
    }
    let found = report.lost_and_found.as_ref();
    printer.json(&RepairJson {
        schema_version: JSON_SCHEMA_VERSION,
        pool: args.pool.display().to_string(),
        repaired,
        lossless: !report.is_lossy() && !report.finishes,
        findings_total: report.findings_total,
        findings: &report.findings,
        notes: &report.notes,
        plan: &report.plan,
        bytes_to_write: report.bytes_to_write,
        uncertain: &report.uncertain,
        lost_blocks: report.lost.total,
        lost: ranges(&report.lost),
        restored_blocks: report.restored.total,
        restored: ranges(&report.restored),
        lost_and_found: found
            .map(|(volume, blocks)| LostAndFoundJson { volume: volume.clone(), blocks: *blocks }),
    })
}

#[cfg(test)]
mod tests {
    use onefold_block::Lba;
    use onefold_pool::DamagedBlocks;

    use super::*;
    use crate::args::{Command, PoolCommand};
    use crate::commands::heard::{self, Folder};
    use crate::output::Heard;

    #[test]
    fn all_that_a_repair_could_not_have_again_is_told() {
        let blocks = |total| PoolBlocks {
            ranges: vec![DamagedBlocks {
                volume: "v".to_owned(),
                first: Lba::new(0),
                count: total,
            }],
            ranges_total: 1,
            total,
        };
        let none = RepairReport::default();
        let lost = RepairReport { lost: blocks(1), ..none.clone() };
        let restored = RepairReport { restored: blocks(2), ..none.clone() };
        let uncertain = RepairReport { uncertain: vec!["the journal".to_owned()], ..none };
        let all = RepairReport { lost: blocks(3), restored: blocks(1), ..uncertain.clone() };
        assert_eq!(loss(&lost), "1 block is lost");
        assert_eq!(loss(&restored), "2 blocks may be older than they were");
        assert_eq!(loss(&uncertain), "more may be missing");
        let expected =
            "3 blocks are lost, 1 block may be older than they were, more may be missing";
        assert_eq!(loss(&all), expected);

        assert_eq!(text(&RepairReport::default()), "");
        let told = text(&RepairReport {
            findings: vec!["bad journal".to_owned()],
            findings_total: 3,
            plan: vec!["leave it out".to_owned()],
            bytes_to_write: 4096,
            lost_and_found: Some(("found".to_owned(), 1)),
            ..all
        });
        let expected = "wrong:\n  bad journal\n  and 2 problems more\n\
            to be done:\n  leave it out\n  which needs about 4 KiB of free space\n\
            may be missing, or older than it was:\n  the journal\n\
            v: block 0: from what containers say, may be old\n\
            v: blocks 0 to 2: lost, an error to read\n\
            in volume 'found': 1 block that nothing refers to and that do not say whose they were; \
            delete it once you have looked\n";
        assert_eq!(told, expected);
    }

    #[test]
    fn what_a_repair_came_to_is_said_by_its_end() {
        let told = |report: &RepairReport| {
            let heard = Heard::default();
            let args = args(false);
            let ended = repaired(&args, report, &Printer::heard(&heard));
            let said = std::mem::take(&mut heard.lock().unwrap().1);
            (ended.err().map(|failure| failure.message), said)
        };
        let sound = RepairReport::default();
        let lossless = "pool 'p' was repaired, and nothing is lost\n";
        assert_eq!(told(&sound), (None, lossless.to_owned()));
        let finishes = RepairReport { finishes: true, ..sound.clone() };
        let (none, said) = told(&finishes);
        assert!(none.is_none() && said.starts_with("pool 'p': the repair that was interrupted is"));
        let uncertain = RepairReport { uncertain: vec!["maps".to_owned()], ..sound };
        let message = "pool 'p' was repaired and can be used, but more may be missing".to_owned();
        assert_eq!(told(&uncertain), (Some(message), String::new()));
    }

    fn args(json: bool) -> PoolCheckArgs {
        let command = heard::parsed("pool check p --repair --yes");
        let Command::Pool(PoolCommand::Check(args)) = command else { panic!("another command") };
        PoolCheckArgs { json, ..args }
    }

    #[test]
    fn programs_hear_of_a_repair_only_where_they_asked() {
        let told = |json: bool, report: &RepairReport| {
            let heard = Heard::default();
            print_json(&args(json), report, true, &Printer::heard(&heard)).unwrap();
            std::mem::take(&mut *heard.lock().unwrap()).0
        };
        let sound = RepairReport::default();
        assert_eq!(told(false, &sound), "");
        let lossless = |report: &RepairReport| {
            let json: serde_json::Value = serde_json::from_str(&told(true, report)).unwrap();
            (json["repaired"].as_bool().unwrap(), json["lossless"].as_bool().unwrap())
        };
        assert_eq!(lossless(&sound), (true, true));
        assert_eq!(lossless(&RepairReport { finishes: true, ..sound.clone() }), (true, false));
        let lossy = RepairReport { uncertain: vec!["maps".to_owned()], ..sound };
        assert_eq!(lossless(&lossy), (true, false));
    }

    #[test]
    fn a_repair_of_a_sound_pool_and_a_dry_run_change_nothing_and_say_so() {
        let here = Folder::new();
        here.ok("pool create ./p");
        let said = here.ok("pool check ./p --repair --yes");
        let sound = "pool './p' is sound: there is nothing to repair\n";
        assert_eq!((&*said.out, &*said.err), ("", sound));
        let json = here.ok("pool check ./p --repair --yes --json").json();
        assert_eq!((&json["repaired"], &json["plan"]), (&false.into(), &serde_json::json!([])));
        let map = here.path("p/map");
        let mut bytes = std::fs::read(&map).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&map, &bytes).unwrap();
        let said = here.onefold("pool check ./p --repair --dry-run");
        assert!(said.out.starts_with("wrong:\n  corrupt map"), "{}", said.out);
        let planned = "error: pool './p' has 1 problem; nothing was changed\n\
                       hint: to do all that: onefold pool check ./p --repair\n";
        assert_eq!((said.code, &*said.err), (1, planned));
        let said = here.onefold("pool check ./p --repair --dry-run --json");
        assert_eq!((said.code, &said.json()["repaired"]), (1, &false.into()));
        assert!(std::fs::read(&map).unwrap() == bytes);
        here.file("p/scrub.json", b"{}");
        let said = here.onefold("pool check ./p --repair --yes");
        assert_eq!(said.err, "pool './p' was repaired, and nothing is lost\n");
        assert!(!here.path("p/scrub.json").exists(), "it was of the pool as it was");
        assert!(here.refused("pool check ./none --repair --yes", 2).contains("is the name right"));
    }

    #[test]
    fn blocks_that_were_lost_earlier_are_a_failure_of_a_sound_pool() {
        let lost = PoolBlocks { total: 3, ..PoolBlocks::default() };
        let ranges = vec![DamagedBlocks { volume: "v".to_owned(), first: Lba::new(0), count: 3 }];
        let report = RepairReport {
            lost: PoolBlocks { ranges, ranges_total: 1, ..lost },
            ..RepairReport::default()
        };
        let printer = Printer::heard(&Heard::default());
        let failure = nothing_to_do(&args(false), &report, &printer).unwrap_err();
        let message = "pool 'p' is sound, but 3 blocks were lost in an earlier repair";
        assert_eq!(failure.message, message);
    }
}
