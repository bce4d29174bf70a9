//! PLC-Cache Fig. 10 to 24: size of the cache, popularity, size of a container, threshold, delay.
//! Room: onefold-lab.
//! Source: [plc-cache] sec. V.C and V.D.

use onefold_cache::simulate::Run;
use onefold_cache::workload::WorkloadSpec;

use super::{FAMILIES, Family, Job, Sheet, VOLUMES, Volume, lines, run_all};
use crate::error::Result;
use crate::registry::Drawing;
use crate::row::Row;
use crate::settings::Settings;

const BOTH: [&str; 2] = ["lru", "plc"];
const NAMES: [&str; 2] = ["LRU", "PLC"];
/// Containers below which Fig. 18's text gives a range of hit rates, in KiB.
const RANGE_BELOW_KIB: u64 = 4096;
/// Latencies that differ by less are the same, in percent.
const SAME_PERCENT: f64 = 1.0;

fn cache_size(settings: &Settings<'_>) -> Result<f64> {
    Ok(settings.real("cache_percent")? / 100.0)
}

/// Fig. 10 to 12.
pub fn sizes(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let percents = settings.numbers("sizes_percent")?;
    let sizes: Vec<f64> = percents.iter().map(|&percent| percent as f64 / 100.0).collect();
    let mut jobs = Vec::new();
    for family in FAMILIES {
        for volume in VOLUMES {
            jobs.push(Job::new(settings, family, volume, &BOTH, &sizes)?);
        }
    }
    let mut sheet = Sheet::new(settings);
    let (calibrated, printed) = (Family::Calibrated.name(), Volume::Stated.name());
    for (job, done) in jobs.iter().zip(run_all(settings, &jobs)?) {
        let from = sheet.rows.len();
        let (lru, plc) = done.runs.split_at(sizes.len());
        if job.label.starts_with(calibrated) {
            for (runs, name) in [(lru, NAMES[0]), (plc, NAMES[1])] {
                for (run, percent) in runs.iter().zip(&percents) {
                    let series = format!("{name}; {}", job.label);
                    let at = format!("{percent} %");
                    sheet.triple(["Fig 10", "Fig 11", "Fig 12"], &series, &at, run)?;
                }
            }
        }
        let last = crossover(lru, plc, &percents);
        let row = format!("crossover; {}", job.label);
        if job.label == format!("{calibrated}, {printed}") {
            sheet.beside("crossover", "cache_ratio", &row, last)?;
        } else {
            sheet.add("Fig 12 text", &row, "cache_ratio", last, "%");
        }
        let row = sheet.rows.last_mut().expect("one was added");
        row.note = format!(
            "{}; the largest size up to which PLC hits as often as LRU, 0 if none",
            done.regime()
        );
        sheet.note_from(from, &done.regime());
    }
    Ok(sheet.rows)
}

/// The largest size up to which PLC hits at least as often.
fn crossover(lru: &[Run], plc: &[Run], percents: &[u64]) -> f64 {
    let as_often = |(lru, plc): &(&Run, &Run)| plc.hit_rate >= lru.hit_rate;
    let count = lru.iter().zip(plc).take_while(as_often).count();
    count.checked_sub(1).map_or(0.0, |last| percents[last] as f64)
}

/// Fig. 13 to 15.
pub fn popularity(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let size = cache_size(settings)?;
    let plain = Job::new(settings, Family::Uncorrelated, Volume::Implied, &BOTH, &[size])?;
    let alphas = settings.numbers("alphas_percent")?;
    let mut jobs = Vec::new();
    for (reading, formula) in [("formula", true), ("text", false)] {
        for &alpha in &alphas {
            let alpha = alpha as f64 / 100.0;
            let zipf_exponent = if formula { 1.0 - alpha } else { alpha };
            let workload = WorkloadSpec { zipf_exponent, ..plain.workload };
            jobs.push((alpha, Job { label: reading.to_owned(), workload, ..plain.clone() }));
        }
    }
    let (alphas, jobs): (Vec<f64>, Vec<Job>) = jobs.into_iter().unzip();
    let mut sheet = Sheet::new(settings);
    for ((job, done), alpha) in jobs.iter().zip(run_all(settings, &jobs)?).zip(alphas) {
        let from = sheet.rows.len();
        for (run, name) in done.runs.iter().zip(NAMES) {
            let series = format!("{name}; {} reading", job.label);
            sheet.triple(["Fig 13", "Fig 14", "Fig 15"], &series, &alpha.to_string(), run)?;
        }
        let exponent = job.workload.zipf_exponent;
        let note = format!("{}, 128 GB, exponent {exponent:.2}", plain.label);
        sheet.note_from(from, &format!("{note}, {}", done.regime()));
    }
    Ok(sheet.rows)
}

/// Fig. 16 to 18.
pub fn containers(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let size = cache_size(settings)?;
    let plain = Job::new(settings, Family::Calibrated, Volume::Implied, &BOTH, &[size])?;
    let kib = settings.numbers("container_kib")?;
    let jobs: Vec<Job> = kib
        .iter()
        .map(|&kib| {
            let workload = WorkloadSpec { container_kib: kib as u32, ..plain.workload };
            Job { workload, ..plain.clone() }
        })
        .collect();
    let (mut least, mut most) = (100.0_f64, 0.0_f64);
    let mut sheet = Sheet::new(settings);
    for (done, kib) in run_all(settings, &jobs)?.iter().zip(kib) {
        let from = sheet.rows.len();
        for (run, name) in done.runs.iter().zip(NAMES) {
            let series = format!("{name}; {}", plain.label);
            let at = format!("{kib} KiB");
            sheet.triple(["Fig 16", "Fig 17", "Fig 18"], &series, &at, run)?;
            if kib < RANGE_BELOW_KIB {
                least = least.min(run.hit_rate * 100.0);
                most = most.max(run.hit_rate * 100.0);
            }
        }
        sheet.note_from(from, &done.regime());
    }
    for (column, value) in [("min", least), ("max", most)] {
        let row = format!("below 4 MiB; {}", plain.label);
        let row = sheet.beside("hit_rate", column, &row, value)?;
        "LRU and PLC together; Fig. 8's 66.9 is outside the printed range"
            .clone_into(&mut row.note);
    }
    Ok(sheet.rows)
}

/// PLC over a setting, in both volumes: label, values, runs and regime.
fn setting(
    settings: &Settings<'_>,
    name: &str,
    values: &[u64],
) -> Result<Vec<(String, Vec<Run>, String)>> {
    let size = cache_size(settings)?;
    let policies: Vec<String> = values.iter().map(|value| format!("plc:{name}={value}")).collect();
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let job = |volume| Job::new(settings, Family::Calibrated, volume, &policies, &[size]);
    let jobs: Vec<Job> = VOLUMES.into_iter().map(job).collect::<Result<_>>()?;
    let done = run_all(settings, &jobs)?.into_iter();
    Ok(jobs
        .into_iter()
        .zip(done)
        .map(|(job, done)| {
            let regime = done.regime();
            (job.label, done.runs, regime)
        })
        .collect())
}

/// The smallest value from which latency is what it is at the end, or is least.
fn settles(values: &[u64], runs: &[Run], at: f64) -> f64 {
    let same = |run: &&Run| (run.latency.file_ms / at - 1.0).abs() * 100.0 <= SAME_PERCENT;
    let settled = runs.iter().rev().take_while(same).count().max(1);
    values[values.len() - settled] as f64
}

/// Fig. 19 to 21.
pub fn thresholds(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let values = settings.numbers("thresholds")?;
    let mut sheet = Sheet::new(settings);
    for (label, runs, regime) in setting(settings, "threshold", &values)? {
        let from = sheet.rows.len();
        for (run, value) in runs.iter().zip(&values) {
            let (places, series) = (["Fig 19", "Fig 20", "Fig 21"], format!("PLC; {label}"));
            sheet.triple(places, &series, &value.to_string(), run)?;
        }
        let run_of = |wanted| values.iter().position(|&v| v == wanted).map(|at| &runs[at]);
        if let (Some(four), Some(fourteen)) = (run_of(4), run_of(14)) {
            let lost = (1.0 - fourteen.hit_rate / four.hit_rate) * 100.0;
            let ratio = fourteen.written_bytes as f64 / four.written_bytes.max(1) as f64;
            let flat = settles(&values, &runs, fourteen.latency.file_ms);
            let summary = [
                ("threshold 4", "hit_rate", four.hit_rate * 100.0, "%"),
                ("threshold 14", "hit_rate", fourteen.hit_rate * 100.0, "%"),
                ("threshold 4->14", "hit_reduction", lost, "%"),
                ("threshold 4->14", "write_reduction", (1.0 - ratio) * 100.0, "%"),
                ("latency flat from threshold", "value", flat, "count"),
            ];
            for (row, column, value, unit) in summary {
                let name = format!("{row}; {label}");
                if label.ends_with(Volume::Implied.name()) {
                    sheet.beside(row, column, &name, value)?;
                } else {
                    sheet.add("", &name, column, value, unit);
                }
            }
        }
        sheet.note_from(from, &regime);
    }
    Ok(sheet.rows)
}

/// Fig. 22 to 24.
pub fn delays(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let values = settings.numbers("delays")?;
    let mut sheet = Sheet::new(settings);
    for (label, runs, regime) in setting(settings, "delay", &values)? {
        let from = sheet.rows.len();
        for (run, value) in runs.iter().zip(&values) {
            let (places, series) = (["Fig 22", "Fig 23", "Fig 24"], format!("PLC; {label}"));
            sheet.triple(places, &series, &value.to_string(), run)?;
        }
        let least = runs.iter().map(|run| run.latency.file_ms).fold(f64::INFINITY, f64::min);
        let near = |run: &Run| (run.latency.file_ms / least - 1.0) * 100.0 <= SAME_PERCENT;
        let until = runs.iter().zip(&values).find(|(run, _)| near(run));
        let until = until.map_or(0.0, |(_, &value)| value as f64);
        let (row, column) = ("latency falls until delay threshold", "value");
        let name = format!("{row}; {label}");
        if label.ends_with(Volume::Implied.name()) {
            sheet.beside(row, column, &name, until)?;
        } else {
            sheet.add("", &name, column, until, "count");
        }
        sheet.note_from(from, &regime);
    }
    Ok(sheet.rows)
}

const LATENCY: [&str; 2] = ["time to read a file", "ms"];
const WRITTEN: [&str; 2] = ["bytes written", "GB"];
const HITS: [&str; 2] = ["hit rate", "%"];

/// Fig. 10 to 12.
pub const SIZES: &[Drawing] = &[
    ("plc-cache-fig-10", |rows| lines(rows, "Fig 10", LATENCY[0], "cache (% of data)", LATENCY[1])),
    ("plc-cache-fig-11", |rows| lines(rows, "Fig 11", WRITTEN[0], "cache (% of data)", WRITTEN[1])),
    ("plc-cache-fig-12", |rows| lines(rows, "Fig 12", HITS[0], "cache (% of data)", HITS[1])),
];
/// Fig. 13 to 15.
pub const POPULARITY: &[Drawing] = &[
    ("plc-cache-fig-13", |rows| lines(rows, "Fig 13", LATENCY[0], "alpha", LATENCY[1])),
    ("plc-cache-fig-14", |rows| lines(rows, "Fig 14", WRITTEN[0], "alpha", WRITTEN[1])),
    ("plc-cache-fig-15", |rows| lines(rows, "Fig 15", HITS[0], "alpha", HITS[1])),
];
/// Fig. 16 to 18.
pub const CONTAINERS: &[Drawing] = &[
    ("plc-cache-fig-16", |rows| doubling(rows, "Fig 16", LATENCY)),
    ("plc-cache-fig-17", |rows| doubling(rows, "Fig 17", WRITTEN)),
    ("plc-cache-fig-18", |rows| doubling(rows, "Fig 18", HITS)),
];
/// Fig. 19 to 21.
pub const THRESHOLDS: &[Drawing] = &[
    ("plc-cache-fig-19", |rows| lines(rows, "Fig 19", LATENCY[0], "threshold", LATENCY[1])),
    ("plc-cache-fig-20", |rows| lines(rows, "Fig 20", WRITTEN[0], "threshold", WRITTEN[1])),
    ("plc-cache-fig-21", |rows| lines(rows, "Fig 21", HITS[0], "threshold", HITS[1])),
];
/// Fig. 22 to 24.
pub const DELAYS: &[Drawing] = &[
    ("plc-cache-fig-22", |rows| lines(rows, "Fig 22", LATENCY[0], "delay", LATENCY[1])),
    ("plc-cache-fig-23", |rows| lines(rows, "Fig 23", WRITTEN[0], "delay", WRITTEN[1])),
    ("plc-cache-fig-24", |rows| lines(rows, "Fig 24", HITS[0], "delay", HITS[1])),
];

/// Lines over container sizes.
fn doubling(rows: &[Row], place: &str, [title, unit]: [&str; 2]) -> crate::plot::Chart {
    let mut chart = lines(rows, place, title, "container (KiB)", unit);
    chart.log2_x = true;
    chart
}
