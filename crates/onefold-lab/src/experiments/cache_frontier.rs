//! Hit rate of a read cache within a budget of flash writes: Toll and its rivals.
//! Room: onefold-lab.
//! Source: ours; the rivals as in [plc-cache], `LazyLFU` and W-TinyLFU. Workloads are those that
//! Toll was not tuned on.

use onefold_cache::Choice;
use onefold_cache::simulate::{Run, run_one};
use onefold_cache::trace::{Future, Trace};
use onefold_cache::workload::WorkloadSpec;

use super::plc::plan;
use crate::error::{LabError, Result};
use crate::series::{Data, Line, Spread};
use crate::settings::Settings;

/// Data whose reads the workloads describe, in MiB.
const DATA_MIB: f64 = 16_384.0;
/// Of the budget, what Toll is told: the rest is the last container of a fill.
const TOLD: f64 = 0.995;
/// Where the mean of all workloads stands.
const MEAN: &str = "mean of all workloads";

/// A workload and a size of the cache.
struct Family {
    name: &'static str,
    workload: WorkloadSpec,
    size: f64,
}

/// A policy with the settings of which the best within the budget counts.
struct Rival {
    name: &'static str,
    settings: Vec<String>,
    /// Whether it is shown although it keeps to no budget.
    unbounded: bool,
}

fn families(data_mib: u64) -> Vec<Family> {
    let by = DATA_MIB / data_mib as f64;
    let base = WorkloadSpec { data_mib, read_gib: 520.0 / by, ..WorkloadSpec::default() };
    let corr = WorkloadSpec { sharing_exponent: 1.0, ..base };
    let half = WorkloadSpec { sharing_exponent: 0.5, read_gib: 128.0 / by, ..base };
    let steep = WorkloadSpec { zipf_exponent: 0.9, ..base };
    let drift = |spec, drift_steps, drift_share| WorkloadSpec { drift_steps, drift_share, ..spec };
    let every = (4_000.0 / by) as u32;
    let scan = |spec| WorkloadSpec { scan_every: every, scan_share: 0.2, ..spec };
    let family = |name, workload, size| Family { name, workload, size };
    vec![
        family("uncorrelated, 20 %", base, 0.2),
        family("uncorrelated, 10 %", base, 0.1),
        family("corr1, 20 %", corr, 0.2),
        family("steep, 5 %", steep, 0.05),
        family("corr1, 4 drifts, 20 %", drift(corr, 4, 1.0), 0.2),
        family("uncorrelated, 8 drifts, 10 %", drift(base, 8, 0.5), 0.1),
        family("steep, 2 drifts, 10 %", drift(steep, 2, 1.0), 0.1),
        family("corr1, scans, 20 %", scan(corr), 0.2),
        family("uncorrelated, scans, 4 drifts, 10 %", scan(drift(base, 4, 0.5)), 0.1),
        family("corr.5, short, 20 %", half, 0.2),
    ]
}

/// All policies for one budget; `per_object` is reads per object that fits.
fn rivals(fills: u64, per_object: f64) -> Vec<Rival> {
    let lazy = [(1.0, 1), (1.0, 2), (1.0, 4), (1.0, 8), (1.25, 4), (1.5, 4), (1.5, 8), (2.0, 8)];
    let lazy = lazy.iter().map(|(m, d)| format!("lazy-lfu:m={m},d={d}")).collect();
    let tiny = [(10, 1), (40, 1), (40, 2), (40, 4), (160, 2), (160, 4), (160, 8), (160, 16)];
    let tiny = tiny.iter().map(|(sample, margin)| {
        format!("w-tinylfu:memory=1,counter=255,sample={sample},margin={margin}")
    });
    let plc = ["plc", "plc:rules=literal", "plc:f=const2"].map(str::to_owned).to_vec();
    let one = if fills <= 2 { "lazy-lfu:m=1.5,d=8" } else { "lazy-lfu:m=1,d=4" };
    let toll = format!("toll:fills={},period={per_object}", fills as f64 * TOLD);
    let rival = |name, settings| Rival { name, settings, unbounded: false };
    vec![
        rival("static", vec!["static".to_owned()]),
        rival("toll", vec![toll]),
        rival("lazy-lfu, best of 8", lazy),
        rival("w-tinylfu, best of 8", tiny.collect()),
        rival("lazy-lfu, one setting", vec![one.to_owned()]),
        rival("plc, best of 3", plc),
        Rival { name: "lru", settings: vec!["lru".to_owned()], unbounded: true },
    ]
}

/// Traces of one family, one per seed, and their futures.
type Traces = Vec<(Trace, Future)>;

/// Everything at every budget.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
    let (budgets, seeds) = (settings.numbers("fills")?, settings.numbers("seeds")?);
    let families = families(settings.number("data_mib")?);
    let traces = settings.sweep(&families, |family| {
        let trace = |&seed| -> std::result::Result<_, String> {
            let workload = WorkloadSpec { seed, ..family.workload };
            let trace = workload.trace().map_err(|error| error.to_string())?;
            let future = Future::of(&trace.requests);
            Ok((trace, future))
        };
        seeds.iter().map(trace).collect::<std::result::Result<Traces, String>>()
    });
    let traces: std::result::Result<Vec<Traces>, String> = traces.into_iter().collect();
    let traces = traces.map_err(refused)?;
    let rivals_of = |family: usize, fills: u64| {
        let trace = &traces[family][0].0;
        let objects = trace.containers() as f64 * families[family].size;
        rivals(fills, trace.requests.len() as f64 / objects)
    };
    // Settings that do not know the budget are run once for all budgets.
    let mut points: Vec<(usize, String)> = Vec::new();
    for family in 0..families.len() {
        for &fills in &budgets {
            let texts = rivals_of(family, fills).into_iter().flat_map(|rival| rival.settings);
            for text in texts {
                let point = (family, text);
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
    }
    let results = settings
        .sweep(&points, |(family, text)| point(&traces[*family], families[*family].size, text));
    let mut found = Vec::with_capacity(results.len());
    for (point, result) in points.into_iter().zip(results) {
        found.push((point, result.map_err(refused)?));
    }
    for &fills in &budgets {
        for rival in rivals(fills, 1.0) {
            let mut all: Vec<Option<f64>> = Vec::new();
            for (at, family) in families.iter().enumerate() {
                // The settings of a rival may depend on the workload's length.
                let rivals = rivals_of(at, fills);
                let Some(of_family) = rivals.iter().find(|other| other.name == rival.name) else {
                    continue;
                };
                let best = best(of_family, at, fills as f64, &found);
                all.push(best.map(|best| best.hits));
                put(family.name, &rival, fills, best, data);
            }
            mean(&rival, fills, &all, data);
        }
    }
    Ok(())
}

/// What one setting reached.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Mean hit rate over the seeds, in percent, and its ends.
    hits: f64,
    low: f64,
    high: f64,
    /// Most fills of the cache.
    fills: f64,
}

fn point(traces: &Traces, size: f64, text: &str) -> std::result::Result<Reached, String> {
    let choice = Choice::parse(text).map_err(|error| error.to_string())?;
    let run = |(trace, future): &(Trace, Future)| {
        run_one(trace, Some(future), &choice, size, &plan(1)).map_err(|error| error.to_string())
    };
    let runs: Vec<Run> = traces.iter().map(run).collect::<std::result::Result<_, String>>()?;
    let rates = || runs.iter().map(|run| run.hit_rate * 100.0);
    Ok(Reached {
        hits: rates().sum::<f64>() / runs.len() as f64,
        low: rates().fold(f64::INFINITY, f64::min),
        high: rates().fold(f64::NEG_INFINITY, f64::max),
        fills: runs.iter().map(|run| run.fills).fold(0.0, f64::max),
    })
}

/// A family and a setting, with what it reached.
type Found = ((usize, String), Reached);

/// The setting of a rival that hits most within the budget.
fn best(rival: &Rival, family: usize, budget: f64, found: &[Found]) -> Option<Reached> {
    found
        .iter()
        .filter(|((at, text), _)| *at == family && rival.settings.contains(text))
        .filter(|(_, reached)| rival.unbounded || reached.fills <= budget)
        .map(|(_, reached)| *reached)
        .max_by(|a, b| a.hits.total_cmp(&b.hits))
}

fn line(name: &str, rival: &Rival, fills: u64) -> Line {
    let line = Line::new(name, "%").over("workload", "");
    line.of(rival.name).under(&format!("{fills} fills"))
}

fn put(family: &str, rival: &Rival, fills: u64, best: Option<Reached>, data: &mut Data) {
    let point = data.put(&line("hit rate", rival, fills), family, best.map(|best| best.hits));
    match best {
        Some(best) => {
            point.range(best.low, best.high, Spread::Extremes);
        }
        None => {
            point.note("no setting keeps to the budget");
        }
    }
    let written = Line::new("written", "fills of the cache").over("workload", "");
    let written = written.of(rival.name).under(&format!("{fills} fills"));
    data.put(&written, family, best.map(|best| best.fills));
}

/// The mean of a policy that kept to the budget everywhere.
fn mean(rival: &Rival, fills: u64, of: &[Option<f64>], data: &mut Data) {
    let all: Option<Vec<f64>> = of.iter().copied().collect();
    let mean = all.map(|all| all.iter().sum::<f64>() / all.len().max(1) as f64);
    let missed = of.iter().filter(|hits| hits.is_none()).count();
    data.put(&line("hit rate", rival, fills), MEAN, mean);
    let means = Line::new("mean hit rate of all workloads", "%").over("budget", "fills");
    let point = data.put(&means.of(rival.name), format!("{fills}").as_str(), mean);
    if missed > 0 {
        point.note(format!("no setting keeps to the budget on {missed} workloads"));
    }
}
