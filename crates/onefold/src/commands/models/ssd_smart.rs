//! `onefold ssd smart`: the health of an emulated drive.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;

use onefold_block::{ByteSize, FileFolder};
use onefold_flash::drive::{self, DriveError, Pending, SmartLog, SmartReport};
use serde::Serialize;

use super::ssd_serve::failure;
use crate::args::models::SsdSmartArgs;
use crate::failure::Result;
use crate::handover;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::status_view::{GenerationJson, generation_text};
use crate::table::{Align, Table, count, plural};
use crate::utc::utc_text;

/// The widest bar of a histogram, in characters.
const BAR: u64 = 40;

/// The object of `--json`; the names down to the log are those of `smartctl -j`.
#[derive(Serialize)]
struct SmartJson<'a> {
    schema_version: u32,
    device: Device<'a>,
    model_name: &'a str,
    nvme_total_capacity: u64,
    user_capacity: Capacity,
    logical_block_size: u32,
    smart_status: Status,
    nvme_smart_health_information_log: &'a SmartLog,
    power_cycle_count: u64,
    power_on_time: Hours,
    write_amplification: &'a drive::WriteAmplification,
    deduplication: drive::Deduplication,
    nand: drive::NandReport,
    erase_histogram: &'a [drive::Bar],
    closed: bool,
    counters: drive::Counted,
    power_loss_protection: drive::Protection,
    generation: Option<GenerationJson>,
    pending_in_memory: Pending,
}

#[derive(Serialize)]
struct Device<'a> {
    name: &'a Path,
    #[serde(rename = "type")]
    kind: &'static str,
    protocol: &'static str,
}

#[derive(Serialize)]
struct Capacity {
    blocks: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Status {
    passed: bool,
    nvme: NvmeStatus,
}

#[derive(Serialize)]
struct NvmeStatus {
    value: u64,
}

#[derive(Serialize)]
struct Hours {
    hours: u64,
}

/// Print the health.
pub fn run(args: &SsdSmartArgs, printer: &Printer) -> Result<ExitCode> {
    let failed = |error| failure(&args.folder, error);
    if !args.folder.is_dir() {
        return Err(failed(DriveError::NoDrive));
    }
    let folder = FileFolder::open(&args.folder).map_err(|error| failed(error.into()))?;
    let found = drive::inspect(&folder).map_err(failed)?;
    let report = SmartReport::of(&found);
    let memory = handover::left(&args.folder);
    let pending = memory.map(|memory| Pending::of(&found, &memory)).unwrap_or_default();
    if args.json {
        let generation = found.generation.map(GenerationJson::from);
        let json = json(&args.folder, &report);
        printer.json(&SmartJson { generation, pending_in_memory: pending, ..json })?;
    } else {
        let generation = generation_text(found.generation);
        let mut lines = text(&args.folder, &report, &generation, printer);
        lines.extend(remarks(&report, &pending));
        printer.data(&(lines.join("\n") + "\n"))?;
    }
    Ok(if report.passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn json<'a>(folder: &'a Path, report: &'a SmartReport) -> SmartJson<'a> {
    let block = u64::from(report.logical_block_size);
    SmartJson {
        schema_version: JSON_SCHEMA_VERSION,
        device: Device { name: folder, kind: "nvme", protocol: "NVMe" },
        model_name: &report.model_name,
        nvme_total_capacity: report.capacity_bytes,
        user_capacity: Capacity {
            blocks: report.capacity_bytes / block,
            bytes: report.capacity_bytes,
        },
        logical_block_size: report.logical_block_size,
        smart_status: Status {
            passed: report.passed,
            nvme: NvmeStatus { value: report.log.critical_warning },
        },
        nvme_smart_health_information_log: &report.log,
        power_cycle_count: report.log.power_cycles,
        power_on_time: Hours { hours: report.log.power_on_hours },
        write_amplification: &report.write_amplification,
        deduplication: report.deduplication,
        nand: report.nand,
        erase_histogram: &report.erase_histogram,
        closed: report.closed,
        counters: report.counters,
        power_loss_protection: report.power_loss_protection,
        generation: None,
        pending_in_memory: Pending::default(),
    }
}

fn text(folder: &Path, report: &SmartReport, generation: &str, printer: &Printer) -> Vec<String> {
    let mut lines = vec![format!(
        "{} '{}', {}{generation}: {}",
        report.model_name,
        folder.display(),
        ByteSize(report.capacity_bytes),
        if report.passed { "passed" } else { "FAILED" }
    )];
    let mut section = |title: &str, rows: Vec<(&str, String)>| {
        lines.push(String::new());
        lines.push(printer.heading(title));
        let mut table = Table::new(&[Align::Left, Align::Right]);
        for (name, value) in rows {
            table.row([name.to_owned(), value]);
        }
        lines.extend(table.lines(2));
    };
    section("Health (NVMe log page 2)", log_rows(&report.log));
    let waf = &report.write_amplification;
    let mut rows = vec![("total", format!("{:.3}", waf.total))];
    rows.extend(waf.by_cause.iter().map(|(cause, share)| (*cause, format!("{share:.3}"))));
    section("Write amplification (pages programmed by pages written)", rows);
    let dedup = &report.deduplication;
    section(
        "Deduplication",
        vec![
            ("logical pages with data", count(dedup.mapped_pages)),
            ("physical pages for them", count(dedup.data_pages)),
            ("ratio", format!("{:.3}", dedup.ratio)),
            ("shared pages", count(dedup.shared_pages)),
            ("shared when written, ever", count(dedup.inline_pages)),
            ("merged later, ever", count(dedup.offline_pages)),
        ],
    );
    section("Flash", nand_rows(&report.nand));
    lines.push(String::new());
    lines.push(printer.heading("Erases of good blocks"));
    lines.extend(bars(report));
    lines
}

/// What a reader of the counts has to know.
fn remarks(report: &SmartReport, pending: &Pending) -> Vec<String> {
    let mut lines = Vec::new();
    if pending.records > 0 {
        lines.push(format!(
            "{} acknowledged and in memory alone, in no page of the journal yet: a flush or the \
             next start stores what was trimmed or shared, a power cut takes it.",
            plural(pending.records, "change is", "changes are")
        ));
    }
    if pending.pages > 0 {
        lines.push(format!(
            "{} acknowledged and in memory alone, to be packed with others: a flush or the next \
             start stores what was written, a power cut takes it.",
            plural(pending.pages, "page is", "pages are")
        ));
    }
    if let Some(why) = &pending.lost {
        lines.push(format!("What is in memory alone cannot all be read: {why}."));
    }
    if !report.counters.readable {
        lines.push(
            "The counters cannot be read and are shown as 0; they begin anew when the \
                    drive is served."
                .to_owned(),
        );
    } else if let Some(since) = report.counters.since_unix_s {
        lines.push(format!(
            "Counters since {} only: earlier ones could not be read. Erase counts are whole.",
            utc_text(i64::try_from(since).unwrap_or(i64::MAX))
        ));
    }
    if report.counters.readable && !report.closed {
        lines.push("The drive is open or was not closed: counts are as last saved.".to_owned());
    }
    if report.power_loss_protection.specified && !report.power_loss_protection.emulated {
        lines.push(
            "Power-loss protection is modelled by `ssd run` only; served, the drive keeps \
                    what was flushed."
                .to_owned(),
        );
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

fn log_rows(log: &SmartLog) -> Vec<(&'static str, String)> {
    vec![
        ("critical warning", format!("{:#04x}", log.critical_warning)),
        ("available spare", format!("{} %", log.available_spare)),
        ("percentage used", format!("{} %", log.percentage_used)),
        ("data units read", count(log.data_units_read)),
        ("data units written", count(log.data_units_written)),
        ("host read commands", count(log.host_reads)),
        ("host write commands", count(log.host_writes)),
        ("power cycles", count(log.power_cycles)),
        ("power-on hours", count(log.power_on_hours)),
        ("unsafe shutdowns", count(log.unsafe_shutdowns)),
        ("media errors", count(log.media_errors)),
        ("error log entries", count(log.num_err_log_entries)),
    ]
}

fn nand_rows(nand: &drive::NandReport) -> Vec<(&'static str, String)> {
    vec![
        ("pages programmed", count(nand.pages_programmed)),
        ("pages read", count(nand.pages_read)),
        ("blocks erased", count(nand.blocks_erased)),
        ("raw bit error rate", format!("{:.1e}", nand.raw_bit_error_rate)),
        ("pages corrected", count(nand.corrected_pages)),
        ("read retries", count(nand.read_retries)),
        ("bad blocks", format!("{} ({} from the start)", nand.bad_blocks, nand.factory_bad_blocks)),
        ("space of the NAND file", ByteSize(nand.file_bytes).to_string()),
    ]
}

fn bars(report: &SmartReport) -> Vec<String> {
    let most = report.erase_histogram.iter().map(|bar| bar.blocks).max().unwrap_or(1).max(1);
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
    for bar in &report.erase_histogram {
        let range = if bar.from == bar.to {
            bar.from.to_string()
        } else {
            format!("{}-{}", bar.from, bar.to)
        };
        let width = (bar.blocks * BAR).div_ceil(most);
        table.row([range, count(bar.blocks), "#".repeat(width as usize)]);
    }
    table.lines(2)
}
