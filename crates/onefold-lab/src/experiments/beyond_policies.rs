//! Beyond the papers: every policy on every flash at every duplicate ratio.
//! Room: onefold-lab.
//! One client writes a data set page by page, so that a latency is what the write path costs.

use onefold_flash::spec::{ArrivalKind, ContentKind, DriveSpec, ThinkKind};

use crate::error::Result;
use crate::experiments::drives::{filled_once, simulate, with_policy, write_us};
use crate::row::Row;
use crate::settings::Settings;

/// Presets and names of the kinds of flash.
const FLASH: [(&str, &str); 4] =
    [("ses-slc", "SLC"), ("ses-mlc1", "MLC-1"), ("ses-mlc2", "MLC-2"), ("tlc", "TLC")];

/// Policies with options, and a name for the row.
const POLICIES: [(&str, &str, &str); 8] = [
    ("caftl-online", "hash = 'sha256'", "caftl-online"),
    ("caftl-online", "hash = 'sha256'\nprehash = true", "caftl-online, prehash"),
    ("caftl-offline", "", "caftl-offline"),
    ("block-separation", "", "block-separation"),
    ("crc-compare", "", "crc-compare"),
    ("ses-host", "", "ses-host"),
    ("ses-device", "", "ses-device"),
    ("gleaner", "", "gleaner"),
];

fn drive(settings: &Settings<'_>, preset: &str, percent: u64) -> Result<DriveSpec> {
    let mut spec = filled_once(preset, settings.number("pages")?);
    spec.seed = settings.number("seed")?;
    spec.workload.arrivals = ArrivalKind::Closed;
    spec.workload.queue_depth = 1;
    spec.workload.think_time = ThinkKind::None;
    spec.workload.finish_offline = false;
    spec.controller.dram_bytes = 1 << 32;
    if percent == 0 {
        spec.workload.content = ContentKind::Unique;
    } else {
        spec.workload.content = ContentKind::Profile;
        spec.workload.duplicate_ratio = percent as f64 / 100.0;
        spec.workload.hot_fingerprint_ratio = 0.15;
        // So many duplicates leave little room for contents with two copies.
        spec.workload.hot_share = if percent > 60 { 0.95 } else { 0.8 };
    }
    Ok(spec)
}

/// Where a line of gains first reaches 0, between the points around it.
fn break_even(points: &[(f64, f64)]) -> Option<f64> {
    if points.first().is_some_and(|first| first.1 >= 0.0) {
        return points.first().map(|first| first.0);
    }
    points.windows(2).find(|pair| pair[0].1 < 0.0 && pair[1].1 >= 0.0).map(|pair| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        x0 + (x1 - x0) * -y0 / (y1 - y0)
    })
}

/// Gains in mean write latency over no deduplication, and break-even duplicate ratios.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let ratios = settings.numbers("duplicate_percent")?;
    let mut points = Vec::new();
    for (preset, flash) in FLASH {
        points.extend(POLICIES.map(|policy| (preset, flash, policy)));
    }
    let found = settings.sweep(&points, |&(preset, _, (policy, options, _))| {
        let mut gains = Vec::new();
        for &percent in &ratios {
            let mut spec = drive(settings, preset, percent)?;
            let plain = write_us(&simulate(settings, &spec)?);
            with_policy(&mut spec, policy, options);
            let time = write_us(&simulate(settings, &spec)?);
            gains.push((percent as f64, 100.0 * (1.0 - time / plain)));
        }
        Ok::<_, crate::LabError>(gains)
    });
    let mut rows = Vec::new();
    for (&(_, flash, (.., name)), gains) in points.iter().zip(found) {
        let gains = gains?;
        for &(percent, gain) in &gains {
            let column = format!("{flash}, gain at {percent} % duplicates");
            rows.push(Row::new(settings.id, name, &column, gain, "%"));
        }
        let column = format!("{flash}, break-even");
        let reached = break_even(&gains);
        let mut row = Row::new(settings.id, name, &column, 0.0, "% duplicates");
        row.measured = reached;
        if reached.is_none() {
            row = row.note("no gain up to the highest ratio");
        }
        rows.push(row);
    }
    Ok(rows)
}
