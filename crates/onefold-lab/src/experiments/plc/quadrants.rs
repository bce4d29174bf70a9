//! PLC-Cache Fig. 3 and 9: how popular is what a policy writes, and how often it writes it.
//! Room: onefold-lab.
//! Source: [plc-cache] sec. III and V.B; Table 2, whose traces are not public.

use onefold_cache::simulate::Run;

use super::{FAMILIES, Family, Job, Sheet, VOLUMES, Volume, run_all, written_gb};
use crate::error::Result;
use crate::plot::{Chart, Series};
use crate::row::Row;
use crate::settings::Settings;

const COLUMNS: [&str; 3] = ["QA", "QB", "QC+QD"];

/// Shares of A, of B, and of C and D, in percent.
fn shares(run: &Run) -> [f64; 3] {
    let [a, b, c, d] = run.quadrants.shares().map(|share| share * 100.0);
    [a, b, c + d]
}

/// FIFO, LRU and LFU with a small cache.
pub fn fig_3(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let size = settings.real("cache_percent")? / 100.0;
    let policies = ["fifo", "lru", "lfu"];
    let jobs: Result<Vec<Job>> = FAMILIES
        .iter()
        .map(|&family| Job::new(settings, family, Volume::Stated, &policies, &[size]))
        .collect();
    let jobs = jobs?;
    let mut sheet = Sheet::new(settings);
    for ((job, done), family) in jobs.iter().zip(run_all(settings, &jobs)?).zip(FAMILIES) {
        let from = sheet.rows.len();
        for (run, policy) in done.runs.iter().zip(["FIFO", "LRU", "LFU"]) {
            for (column, share) in COLUMNS.iter().zip(shares(run)) {
                sheet.add("Fig 3", &format!("{policy}; {}", job.label), column, share, "%");
            }
        }
        let most = done.runs.iter().map(|run| shares(run)[0]).fold(0.0, f64::max);
        let label = format!("FIFO/LRU/LFU; {}", job.label);
        if family == Family::Calibrated {
            sheet.beside("FIFO/LRU/LFU", "qa_share_max", &label, most)?;
        } else {
            sheet.add("", &label, "qa_share_max", most, "%");
        }
        sheet.note_from(from, &done.regime());
    }
    for trace in ["buildserver", "cctvvod", "hive-select"] {
        let why = "the trace is not public";
        sheet.rows.push(settings.published.not_reproducible(trace, "requests", why)?);
    }
    Ok(sheet.rows)
}

/// LRU and PLC, in all families and both volumes.
pub fn fig_9(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let size = settings.real("cache_percent")? / 100.0;
    let policies = ["lru", "plc", "plc:rules=literal"];
    let mut jobs = Vec::new();
    for family in FAMILIES {
        for volume in VOLUMES {
            jobs.push((
                family == Family::Calibrated && volume == Volume::Stated,
                Job::new(settings, family, volume, &policies, &[size])?,
            ));
        }
    }
    let (printed, jobs): (Vec<bool>, Vec<Job>) = jobs.into_iter().unzip();
    let mut sheet = Sheet::new(settings);
    for ((job, done), printed) in jobs.iter().zip(run_all(settings, &jobs)?).zip(printed) {
        let from = sheet.rows.len();
        for (run, name) in done.runs.iter().zip(["LRU", "PLC", "PLC literal"]) {
            let label = format!("{name}; {}", job.label);
            let beside = printed && name != "PLC literal";
            let written = written_gb(settings, run)?;
            let values = [written].into_iter().chain(shares(run));
            for (column, value) in ["written"].iter().chain(&COLUMNS).zip(values) {
                if beside {
                    sheet.beside(name, column, &label, value)?;
                } else {
                    let unit = if *column == "written" { "GB" } else { "%" };
                    sheet.add("Fig 9", &label, column, value, unit);
                }
            }
        }
        for (run, name) in done.runs[1..].iter().zip(["PLC vs LRU", "PLC literal vs LRU"]) {
            let factor = done.runs[0].written_bytes as f64 / run.written_bytes.max(1) as f64;
            let (label, saved) = (format!("{name}; {}", job.label), (1.0 - 1.0 / factor) * 100.0);
            if printed && name == "PLC vs LRU" {
                sheet.beside(name, "reduction", &label, saved)?;
                sheet.beside(name, "factor", &label, factor)?.note = format!(
                    "{}; printed is what only a frozen cache comes near to, see above",
                    done.regime()
                );
            } else {
                sheet.add("Fig 9", &label, "factor", factor, "x");
            }
        }
        sheet.note_from(from, &done.regime());
    }
    Ok(sheet.rows)
}

/// A group of bars per quadrant; rows by `wanted` family and volume.
fn bars(rows: &[Row], place: &str, title: &str, wanted: &str) -> Chart {
    let mut chart = Chart::bars(title, "quadrants of the bytes written", "share (%)");
    chart.groups = COLUMNS.map(str::to_owned).to_vec();
    for row in rows.iter().filter(|row| row.place == place) {
        let group = COLUMNS.iter().position(|column| *column == row.column);
        let name = row.row.split_once("; ").filter(|(_, label)| *label == wanted);
        if let (Some(group), Some((name, _)), Some(share)) = (group, name, row.measured) {
            Series::of(&mut chart, name).points.push((group as f64, share));
            if let Some(published) = row.published {
                let series = Series::of(&mut chart, &format!("{name}, printed"));
                series.points.push((group as f64, published));
            }
        }
    }
    chart
}

/// The calibrated family.
pub fn chart_3(rows: &[Row]) -> Chart {
    bars(rows, "Fig 3", "Fig 3: quadrants at 5 %", "calibrated, 520 GB")
}

/// The calibrated family at the printed volume.
pub fn chart_9(rows: &[Row]) -> Chart {
    bars(rows, "Fig 9", "Fig 9: quadrants at 10 %", "calibrated, 520 GB")
}
