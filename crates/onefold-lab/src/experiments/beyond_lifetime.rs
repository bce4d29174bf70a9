//! Beyond the papers: write amplification and bytes written until worn, under endless writes.
//! Room: onefold-lab.

use onefold_flash::spec::{
    ArrivalKind, BlockCount, ContentKind, DriveSpec, Precondition, ThinkKind,
};

use crate::error::{LabError, Result};
use crate::experiments::drives::{PLENTY, simulate, with_policy};
use crate::experiments::lives::ends;
use crate::series::{Data, Line, Spread};
use crate::settings::Settings;

/// Policies and options.
const POLICIES: [(&str, &str); 8] = [
    ("none", ""),
    ("caftl-online", "hash = 'sha256'"),
    ("caftl-offline", ""),
    ("block-separation", ""),
    ("crc-compare", ""),
    ("ses-host", ""),
    ("ses-device", ""),
    ("gleaner", ""),
];

fn drive(settings: &Settings<'_>, percent: u64, seed: u64) -> Result<DriveSpec> {
    let preset = settings.spec.text("flash", settings.options.full)?;
    let mut spec = DriveSpec::preset(preset).expect("experiments name presets that exist");
    spec.seed = seed;
    spec.geometry.planes_per_die = 1;
    spec.geometry.blocks_per_plane = settings.number("blocks_per_plane")? as u32;
    spec.ftl.gc_reserve_blocks = BlockCount::Blocks(4);
    spec.ftl.over_provisioning = settings.real("over_provisioning")?;
    spec.precondition = Precondition::Steady;
    spec.workload.requests = spec.footprint_pages() * settings.number("writes_percent")? / 100;
    spec.workload.arrivals = ArrivalKind::Closed;
    spec.workload.queue_depth = 4;
    spec.workload.think_time = ThinkKind::Exponential;
    spec.workload.think_time_ns = settings.number("think_time_ns")?;
    spec.workload.content = if percent == 0 { ContentKind::Unique } else { ContentKind::Profile };
    spec.workload.duplicate_ratio = percent as f64 / 100.0;
    spec.workload.hot_fingerprint_ratio = 0.15;
    spec.workload.hot_share = 0.8;
    spec.workload.finish_offline = false;
    spec.controller.idle_after_ns = settings.span_of_us("idle_after_us")?.ns();
    spec.controller.dram_bytes = PLENTY;
    Ok(spec)
}

/// Write amplification and terabytes of every policy at every duplicate ratio.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (ratios, seeds) = (settings.numbers("duplicate_percent")?, settings.numbers("seeds")?);
    let mut points = Vec::new();
    for &percent in &ratios {
        for policy in POLICIES {
            points.extend(seeds.iter().map(|&seed| (percent, policy, seed)));
        }
    }
    let found = settings.sweep(&points, |&(percent, (policy, options), seed)| {
        let mut spec = drive(settings, percent, seed)?;
        with_policy(&mut spec, policy, options);
        let report = simulate(settings, &spec)?;
        let life = &report.lifetime;
        let ends = life.terabytes_written_low.zip(life.terabytes_written_high);
        let waf = report.waf.total.unwrap_or(f64::NAN);
        Ok::<_, LabError>(Found { waf, terabytes: life.terabytes_written.zip(ends) })
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let line = |name: &str, unit: &str| Line::new(name, unit).over("duplicates", "% of writes");
    let mut plain: Vec<Found> = Vec::new();
    for (at, runs) in found.chunks_exact(seeds.len()).enumerate() {
        let (percent, (policy, _)) = (ratios[at / POLICIES.len()], POLICIES[at % POLICIES.len()]);
        if policy == "none" {
            plain = runs.to_vec();
        }
        let mut put = |line: Line, values: Vec<f64>, (low, high): (f64, f64)| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let point = data.put(&line.of(policy), percent, mean);
            point.range(low, high, Spread::Extremes);
        };
        let wafs: Vec<f64> = runs.iter().map(|run| run.waf).collect();
        let extremes = ends(wafs.iter().copied());
        put(line("write amplification", ""), wafs, extremes);
        // A run that has not settled has no lifetime, and its policy no point.
        let lives: Option<Vec<(f64, (f64, f64))>> = runs.iter().map(|run| run.terabytes).collect();
        let Some(lives) = lives else { continue };
        let all: Vec<f64> = lives.iter().flat_map(|(_, (low, high))| [*low, *high]).collect();
        put(
            line("written until worn", "TB"),
            lives.iter().map(|life| life.0).collect(),
            ends(all.iter().copied()),
        );
        if plain.iter().all(|run| run.terabytes.is_some()) {
            let longer: Vec<f64> =
                plain.iter().zip(runs).map(|(plain, run)| plain.waf / run.waf).collect();
            let extremes = ends(longer.iter().copied());
            put(line("life", "no deduplication = 1"), longer, extremes);
        }
    }
    Ok(())
}

/// What one run found.
#[derive(Clone, Copy, Debug)]
struct Found {
    waf: f64,
    /// Terabytes until worn, and the ends of their interval, if the run has settled.
    terabytes: Option<(f64, (f64, f64))>,
}
