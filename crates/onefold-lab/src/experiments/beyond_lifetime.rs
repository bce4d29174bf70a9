//! Beyond the papers: write amplification and bytes written until worn, under endless writes.
//! Room: onefold-lab.

use onefold_flash::spec::{
    ArrivalKind, BlockCount, ContentKind, DriveSpec, Precondition, ThinkKind,
};

use crate::error::{LabError, Result};
use crate::experiments::drives::{simulate, with_policy};
use crate::plot::{Chart, Series};
use crate::row::Row;
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
    spec.precondition = Precondition::Prefill;
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
    spec.controller.idle_after_ns = settings.number("idle_after_us")? * 1000;
    spec.controller.dram_bytes = 1 << 32;
    Ok(spec)
}

/// Write amplification and terabytes of every policy at every duplicate ratio.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
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
        let waf = report.waf.total.unwrap_or(f64::NAN);
        Ok::<_, LabError>((waf, report.lifetime.terabytes_written.unwrap_or(f64::NAN)))
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let (mut rows, mut plain) = (Vec::new(), f64::NAN);
    for (at, runs) in found.chunks_exact(seeds.len()).enumerate() {
        let (percent, (policy, _)) = (ratios[at / POLICIES.len()], POLICIES[at % POLICIES.len()]);
        let mean =
            |value: fn(&(f64, f64)) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
        let (waf, terabytes) = (mean(|run| run.0), mean(|run| run.1));
        if policy == "none" {
            plain = waf;
        }
        let row = format!("{percent} % duplicates");
        for (column, value, unit) in [
            ("write amplification", waf, ""),
            ("written until worn", terabytes, "TB"),
            ("life beside none", plain / waf, "times"),
        ] {
            rows.push(Row::new(settings.id, &row, &format!("{column}, {policy}"), value, unit));
        }
    }
    Ok(rows)
}

/// A line per policy.
pub fn chart(rows: &[Row]) -> Chart {
    let mut chart = Chart::lines(
        "Life of the drive",
        "duplicates (% of writes)",
        "life (no deduplication = 1)",
    );
    for row in rows {
        let Some(policy) = row.column.strip_prefix("life beside none, ") else { continue };
        let percent = row.row.split(' ').next().and_then(|percent| percent.parse::<f64>().ok());
        if let (Some(percent), Some(life)) = (percent, row.measured)
            && !["none", "ses-device", "block-separation"].contains(&policy)
        {
            // One of lines that lie on each other.
            let name = match policy {
                "ses-host" => "ses-host, ses-device",
                "crc-compare" => "CRC-32 schemes",
                policy => policy,
            };
            Series::of(&mut chart, name).points.push((percent, life));
        }
    }
    chart
}
