//! Beyond the papers: every policy in the same memory, on families of data and load.
//! Room: onefold-lab.
//! The memory is what SES-Dedup's tables take for the data set; every other policy gets the
//! largest tables that fit into it. gleaner is compared with the best of the others, run by run.

use onefold_flash::run::Report;

use crate::error::{LabError, Result};
use crate::experiments::drives::{of_written, replay_as_is, share_of_drive, with_policy, write_us};
use crate::experiments::equal_memory::{deferred_entries, dram, sized};
use crate::experiments::families::{FAMILIES, Family};
use crate::series::{Data, Line, Spread};
use crate::settings::Settings;

/// Policies, the options that size their tables, and other options. `{budget}` is the budget of
/// inline hashing.
const POLICIES: [(&str, &[&str], &str); 8] = [
    ("none", &[], ""),
    ("caftl-online", &["store_share"], "hash = 'sha256'\nbackground = true\nbudget_us = {budget}"),
    ("caftl-offline", &["store_share"], ""),
    ("block-separation", &["store_share", "table_share"], ""),
    ("crc-compare", &["table_share"], ""),
    ("ses-host", &["table_share"], SCRATCH),
    ("ses-device", &["table_share"], SCRATCH),
    ("gleaner", &["table_share"], SCRATCH),
];
const SCRATCH: &str = "scratch_share = {scratch}\ndeferred_entries = {deferred}";
const GLEANER: usize = 7;

/// What one policy did in one run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    latency_us: f64,
    p99_us: f64,
    found: f64,
    bytes: f64,
}

impl Figures {
    fn of(report: &Report, bytes: f64) -> Self {
        let latency = report.latency_ns.get("write").and_then(Option::as_ref);
        let pages = report.dedup.inline_pages + report.dedup.offline_pages;
        Self {
            latency_us: write_us(report),
            p99_us: latency.map_or(f64::NAN, |latency| latency.p99 as f64 / 1000.0),
            found: of_written(report, pages),
            bytes,
        }
    }
}

/// A run of every policy on the same requests, each within the memory of SES-Dedup's tables.
fn compare(
    settings: &Settings<'_>,
    family: &Family,
    variant: usize,
    seed: u64,
) -> Result<Vec<Figures>> {
    let (spec, requests) = family.build(settings, variant, seed)?;
    let share = |of: &str| Ok::<_, LabError>(share_of_drive(&spec, settings.real(of)?));
    let filled = |options: &str| -> Result<String> {
        let pages = spec.workload.requests;
        Ok(options
            .replace("{scratch}", &share("scratch_share")?.to_string())
            .replace("{deferred}", &deferred_entries(pages).to_string())
            .replace("{budget}", &settings.number("hash_budget_us")?.to_string()))
    };
    let table = format!("{}\ntable_share = {}", filled(SCRATCH)?, share("table_share")?);
    let budget = dram(&spec, "ses-device", &table);
    let mut all = Vec::new();
    for (policy, keys, options) in POLICIES {
        let options = sized(&spec, (policy, keys, &filled(options)?), budget);
        let bytes = dram(&spec, policy, &options) as f64 / spec.workload.requests as f64;
        let mut spec = spec.clone();
        with_policy(&mut spec, policy, &options);
        all.push(Figures::of(&replay_as_is(settings, &spec, requests.clone())?, bytes));
    }
    Ok(all)
}

/// Mean and half the width of the 95 % interval, by Student's t.
fn interval(values: &[f64]) -> (f64, f64) {
    // Two-sided 5 % points for 1 to 10 degrees of freedom.
    const T: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, f64::NAN);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = T.get(values.len() - 2).copied().unwrap_or(if n < 31.0 { 2.2 } else { 2.04 });
    (mean, t * (variance / n).sqrt())
}

/// Latency and total reduction of every policy on every family, and gleaner beside the best.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let seeds = settings.numbers("seeds")?;
    let mut points = Vec::new();
    for family in FAMILIES {
        for variant in 0..family.variants() {
            points.extend(seeds.iter().map(|&seed| (family, variant, seed)));
        }
    }
    let found = settings
        .sweep(&points, |&(family, variant, seed)| compare(settings, family, variant, seed));
    let mut found = found.into_iter();
    for family in FAMILIES {
        let runs = found.by_ref().take(family.variants() * seeds.len());
        let runs = runs.collect::<Result<Vec<_>>>()?;
        of_family(family.name, &runs, data);
    }
    Ok(())
}

/// A quantity, its unit, and what it is of a run.
type Taken = (&'static str, &'static str, fn(&Figures) -> f64);

fn of_family(name: &str, runs: &[Vec<Figures>], data: &mut Data) {
    let line = |name: &str, unit: &str| Line::new(name, unit).over("family", "");
    let quantities: [Taken; 3] = [
        ("mean write latency", "us", |f| f.latency_us),
        ("p99 write latency", "us", |f| f.p99_us),
        ("found in all", "% of written pages", |f| f.found),
    ];
    for (quantity, unit, value) in quantities {
        for (at, (policy, ..)) in POLICIES.iter().enumerate() {
            let values: Vec<f64> = runs.iter().map(|run| value(&run[at])).collect();
            let (mean, half) = interval(&values);
            let point = data.put(&line(quantity, unit).of(policy), name, mean);
            point.range(mean - half, mean + half, Spread::Confidence95);
        }
    }
    let most = runs.iter().flatten().map(|f| f.bytes).fold(0.0, f64::max);
    let others = |run: &'_ Vec<Figures>| run[..GLEANER].to_vec();
    let latency: Vec<f64> = runs
        .iter()
        .map(|run| {
            let best = others(run).iter().map(|f| f.latency_us).fold(f64::INFINITY, f64::min);
            100.0 * (run[GLEANER].latency_us / best - 1.0)
        })
        .collect();
    let total: Vec<f64> = runs
        .iter()
        .map(|run| run[GLEANER].found - others(run).iter().map(|f| f.found).fold(0.0, f64::max))
        .collect();
    for (quantity, unit, values) in [
        ("mean write latency beside the best of the others", "%", &latency),
        ("found in all beside the best of the others", "points", &total),
    ] {
        let (mean, half) = interval(values);
        let point = data.put(&line(quantity, unit).of("gleaner"), name, mean);
        point.range(mean - half, mean + half, Spread::Confidence95);
    }
    data.put(&line("memory, at most", "B a page of data").of("all policies"), name, most);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of values of which one is 3 and all others are 1, in units of their standard error.
    fn half(count: usize) -> f64 {
        let mut values = vec![1.0; count];
        values[0] = 3.0;
        let (mean, half) = interval(&values);
        let n = count as f64;
        assert!((mean - 1.0 - 2.0 / n).abs() < 1e-9, "{mean}");
        // The squares of the differences sum to 4 (n - 1) / n.
        half / (2.0 / n)
    }

    #[test]
    fn an_interval_is_as_wide_as_student_says() {
        for (count, t) in [(2, 12.71), (3, 4.30), (11, 2.23), (12, 2.2), (30, 2.2), (31, 2.04)] {
            assert!((half(count) - t).abs() < 1e-9, "{count}: {}", half(count));
        }
        let (mean, half) = interval(&[5.0]);
        assert!((mean - 5.0).abs() < 1e-9 && half.is_nan(), "one run says nothing of its width");
    }
}
