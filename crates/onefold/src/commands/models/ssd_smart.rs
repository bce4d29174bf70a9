//! `onefold ssd smart`: the health of an emulated drive.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;

use onefold_block::{ByteSize, FileFolder};
use onefold_flash::drive::{self, DriveError, Pending, SmartLog, SmartReport};
use serde::Serialize;

use super::ssd_report::figure;
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
    let mut rows = vec![("total", figure(waf.total, 3))];
    rows.extend(waf.by_cause.iter().map(|(cause, share)| (*cause, figure(*share, 3))));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onefold_flash::drive::{Bar, Counted, Deduplication, NandReport, Protection};

    use super::*;
    use crate::output::Heard;

    fn report() -> SmartReport {
        SmartReport {
            model_name: "small".to_owned(),
            capacity_bytes: 1 << 20,
            logical_block_size: 4096,
            passed: true,
            log: SmartLog {
                critical_warning: 4,
                available_spare: 100,
                available_spare_threshold: 10,
                percentage_used: 1,
                data_units_read: 2,
                data_units_written: 3,
                host_reads: 4,
                host_writes: 5,
                power_cycles: 6,
                power_on_hours: 7,
                unsafe_shutdowns: 8,
                media_errors: 9,
                num_err_log_entries: 10,
            },
            write_amplification: drive::WriteAmplification {
                total: Some(1.5),
                by_cause: BTreeMap::from([("gc", Some(0.5)), ("host", Some(1.0))]),
            },
            deduplication: Deduplication {
                inline_pages: 1,
                offline_pages: 2,
                mapped_pages: 6,
                data_pages: 4,
                shared_pages: 3,
                ratio: 1.5,
            },
            nand: NandReport {
                bytes_programmed: 0,
                pages_programmed: 1,
                pages_read: 2,
                blocks_erased: 3,
                corrected_pages: 4,
                corrected_bits: 5,
                read_retries: 6,
                raw_bit_error_rate: 0.001,
                uncorrectable_pages: 0,
                bad_blocks: 8,
                factory_bad_blocks: 7,
                failures: 0,
                erases_min: 0,
                erases_mean: 1.0,
                erases_max: 3,
                file_bytes: 1 << 20,
            },
            erase_histogram: vec![
                Bar { from: 0, to: 0, blocks: 80 },
                Bar { from: 1, to: 3, blocks: 1 },
                Bar { from: 4, to: 4, blocks: 0 },
            ],
            closed: true,
            counters: Counted { readable: true, since_unix_s: None },
            power_loss_protection: Protection { specified: false, emulated: false },
        }
    }

    #[test]
    fn the_health_of_a_drive_is_told_in_sections() {
        let printer = Printer::heard(&Heard::default());
        let lines = text(Path::new("d"), &report(), ", generation 3", &printer);
        let expected = format!(
            "small 'd', 1 MiB, generation 3: passed\n\n\
            Health (NVMe log page 2)\n\
            \x20 critical warning      0x04\n\
            \x20 available spare      100 %\n\
            \x20 percentage used        1 %\n\
            \x20 data units read          2\n\
            \x20 data units written       3\n\
            \x20 host read commands       4\n\
            \x20 host write commands      5\n\
            \x20 power cycles             6\n\
            \x20 power-on hours           7\n\
            \x20 unsafe shutdowns         8\n\
            \x20 media errors             9\n\
            \x20 error log entries       10\n\n\
            Write amplification (pages programmed by pages written)\n\
            \x20 total  1.500\n\
            \x20 gc     0.500\n\
            \x20 host   1.000\n\n\
            Deduplication\n\
            \x20 logical pages with data        6\n\
            \x20 physical pages for them        4\n\
            \x20 ratio                      1.500\n\
            \x20 shared pages                   3\n\
            \x20 shared when written, ever      1\n\
            \x20 merged later, ever             2\n\n\
            Flash\n\
            \x20 pages programmed                           1\n\
            \x20 pages read                                 2\n\
            \x20 blocks erased                              3\n\
            \x20 raw bit error rate                    1.0e-3\n\
            \x20 pages corrected                            4\n\
            \x20 read retries                               6\n\
            \x20 bad blocks              8 (7 from the start)\n\
            \x20 space of the NAND file                 1 MiB\n\n\
            Erases of good blocks\n\
            \x20   0  80  {}\n\
            \x20 1-3   1  #\n\
            \x20   4   0",
            "#".repeat(40)
        );
        assert_eq!(lines.join("\n"), expected);
        let failed = SmartReport { passed: false, erase_histogram: Vec::new(), ..report() };
        let lines = text(Path::new("d"), &failed, "", &printer);
        assert_eq!(lines[0], "small 'd', 1 MiB: FAILED");
    }

    #[test]
    fn what_a_reader_of_counts_has_to_know_is_said_and_only_that() {
        let said = |report: &SmartReport, pending: &Pending| {
            let lines = remarks(report, pending);
            let starts = lines.iter().map(|line| line.split(' ').take(5).collect::<Vec<_>>());
            starts.map(|words| words.join(" ")).collect::<Vec<_>>()
        };
        let none = Pending::default();
        assert!(said(&report(), &none).is_empty());
        let pending = Pending { records: 1, pages: 1, lost: Some("torn".to_owned()) };
        let expected = [
            "",
            "1 change is acknowledged and",
            "1 page is acknowledged and",
            "What is in memory alone",
        ];
        assert_eq!(said(&report(), &pending), expected);
        let since = Counted { readable: true, since_unix_s: Some(0) };
        let open = SmartReport { closed: false, counters: since, ..report() };
        let expected = ["", "Counters since 1970-01-01 00:00:00 only:", "The drive is open or"];
        assert_eq!(said(&open, &none), expected);
        let unreadable = Counted { readable: false, since_unix_s: Some(0) };
        let lost = SmartReport { closed: false, counters: unreadable, ..report() };
        assert_eq!(said(&lost, &none), ["", "The counters cannot be read"]);
        let protected = |specified, emulated| {
            let power_loss_protection = Protection { specified, emulated };
            said(&SmartReport { power_loss_protection, ..report() }, &none).len()
        };
        let told = [(true, false), (true, true), (false, true), (false, false)];
        assert_eq!(told.map(|(specified, emulated)| protected(specified, emulated)), [2, 0, 0, 0]);
    }
}
