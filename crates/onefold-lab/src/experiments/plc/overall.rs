//! PLC-Cache Fig. 6 to 8: latency, bytes written and hit rate at a cache of 20 %.
//! Room: onefold-lab.
//! Source: [plc-cache] sec. V.B.

use onefold_cache::simulate::Run;

use super::{
    Done, FAMILIES, Family, Job, Sheet, VOLUMES, Volume, printed_last, run_all, written_gb,
};
use crate::error::Result;
use crate::plot::{Chart, Series};
use crate::registry::Drawing;
use crate::row::{Kind, Row};
use crate::settings::Settings;

const POLICIES: [&str; 5] = ["fifo", "lru", "lfu", "plc", "plc:rules=literal"];
const NAMES: [&str; 5] = ["FIFO", "LRU", "LFU", "PLC", "PLC literal"];
/// Where PLC is among the policies.
const PLC: usize = 3;

/// All families, both volumes; printed numbers beside the calibrated family and 128 GB.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let size = settings.real("cache_percent")? / 100.0;
    let mut jobs = Vec::new();
    for family in FAMILIES.into_iter().rev() {
        for volume in VOLUMES {
            jobs.push(Job::new(settings, family, volume, &POLICIES, &[size])?);
        }
    }
    let mut sheet = Sheet::new(settings);
    let calibrated = Family::Calibrated.name();
    for (job, done) in jobs.iter().zip(run_all(settings, &jobs)?) {
        let from = sheet.rows.len();
        let printed = job.label == format!("{calibrated}, {}", Volume::Implied.name());
        if job.label.starts_with(calibrated) {
            each(&mut sheet, &job.label, &done, printed)?;
        }
        means(&mut sheet, &job.label, &done.runs, printed)?;
        against_lru(&mut sheet, &job.label, &done.runs);
        sheet.note_from(from, &done.regime());
    }
    Ok(sheet.rows)
}

/// How much faster PLC reads a file, in percent.
fn faster(plc: &Run, than_ms: f64) -> f64 {
    (1.0 - plc.latency.file_ms / than_ms) * 100.0
}

/// Every policy.
fn each(sheet: &mut Sheet<'_>, label: &str, done: &Done, printed: bool) -> Result<()> {
    let plc = &done.runs[PLC];
    let hdd_ms = plc.latency.hdd_only_ms;
    let row = format!("HDD-only; {label}");
    sheet.add("Fig 6", &row, "latency", hdd_ms, "ms");
    if printed {
        let value = faster(plc, hdd_ms);
        sheet.beside("HDD-only", "plc_latency_improvement", &row, value)?;
    }
    for (run, name) in done.runs.iter().zip(NAMES) {
        let row = format!("{name}; {label}");
        let (written, hits) = (written_gb(sheet.settings, run)?, run.hit_rate * 100.0);
        sheet.add("Fig 6", &row, "latency", run.latency.file_ms, "ms");
        if printed && name != "PLC literal" {
            if name != "PLC" {
                let value = faster(plc, run.latency.file_ms);
                sheet.beside(name, "plc_latency_improvement", &row, value)?;
            }
            sheet.beside(name, "ssd_written", &row, written)?;
            let hit_row = sheet.beside(name, "hit_rate", &row, hits)?;
            if name == "LRU" {
                hit_row.kind = Kind::Calibrated;
            } else if name == "PLC" {
                hit_row.note = format!("{}; Fig. 21 prints 62.3 for this setting", done.regime());
            }
        } else {
            sheet.add("Fig 7", &row, "ssd_written", written, "GB");
            sheet.add("Fig 8", &row, "hit_rate", hits, "%");
        }
    }
    Ok(())
}

/// Means over the three classical policies.
fn means(sheet: &mut Sheet<'_>, label: &str, runs: &[Run], printed: bool) -> Result<()> {
    let (classical, plc) = (&runs[..PLC], &runs[PLC]);
    let mean = |of: &dyn Fn(&Run) -> f64| classical.iter().map(of).sum::<f64>() / PLC as f64;
    let latency = mean(&|run| faster(plc, run.latency.file_ms));
    let writes = mean(&|run| run.written_bytes as f64 / plc.written_bytes.max(1) as f64);
    let hits = mean(&|run| (plc.hit_rate / run.hit_rate - 1.0) * 100.0);
    let row = format!("mean of FIFO, LRU, LFU; {label}");
    if printed {
        sheet.beside("mean classical", "plc_latency_improvement", &row, latency)?;
        sheet.beside("mean", "write_reduction", &row, writes)?;
        sheet.beside("mean", "hit_improvement_relative", &row, hits)?;
    } else {
        sheet.add("Fig 6", &row, "plc_latency_improvement", latency, "%");
        sheet.add("", &row, "write_reduction", writes, "x");
        sheet.add("Fig 8", &row, "hit_improvement_relative", hits, "%");
    }
    Ok(())
}

/// PLC and the literal pseudo code against LRU: writes saved, hits gained.
fn against_lru(sheet: &mut Sheet<'_>, label: &str, runs: &[Run]) {
    let lru = &runs[1];
    for (run, name) in runs[PLC..].iter().zip(&NAMES[PLC..]) {
        let row = format!("{name} against LRU; {label}");
        let factor = lru.written_bytes as f64 / run.written_bytes.max(1) as f64;
        sheet.add("", &row, "fewer writes", factor, "x");
        sheet.add("", &row, "more hits", (run.hit_rate - lru.hit_rate) * 100.0, "% of reads");
    }
}

/// Three figures, a group of bars per policy.
pub const CHARTS: &[Drawing] = &[
    ("plc-cache-fig-6", |rows| bars(rows, "Fig 6: time to read a file", "latency", "ms")),
    ("plc-cache-fig-7", |rows| bars(rows, "Fig 7: bytes written", "ssd_written", "GB")),
    ("plc-cache-fig-8", |rows| bars(rows, "Fig 8: hit rate", "hit_rate", "%")),
];

fn bars(rows: &[Row], title: &str, column: &str, unit: &str) -> Chart {
    let mut chart = Chart::bars(title, "policy, cache of 20 %", &format!("{column} ({unit})"));
    chart.groups = ["HDD-only"].iter().chain(&NAMES).map(|&name| name.to_owned()).collect();
    for row in rows.iter().filter(|row| row.column == column) {
        let Some((name, label)) = row.row.split_once("; ") else { continue };
        let group = chart.groups.iter().position(|group| group == name);
        if let (Some(group), Some(value)) = (group, row.measured) {
            Series::of(&mut chart, label).points.push((group as f64, value));
            if let Some(published) = row.published {
                Series::of(&mut chart, "printed").points.push((group as f64, published));
            }
        }
    }
    printed_last(&mut chart);
    chart
}
