//! Beyond the papers: every policy on every flash at every duplicate ratio.
//! Room: onefold-lab.
//! One client writes a data set page by page, so that a latency is what the write path costs.

use onefold_flash::spec::{ArrivalKind, ContentKind, DriveSpec, ThinkKind};

use crate::error::Result;
use crate::experiments::drives::{filled_once, simulate, with_policy, write_us};
use crate::plot::{Chart, Series};
use crate::registry::Drawing;
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

/// The charts: gains by duplicate ratio on each kind of flash, and where they begin.
pub const CHARTS: &[Drawing] = &[
    ("beyond-policies-slc", |rows| gains(rows, "SLC")),
    ("beyond-policies-mlc-1", |rows| gains(rows, "MLC-1")),
    ("beyond-policies-mlc-2", |rows| gains(rows, "MLC-2")),
    ("beyond-policies-tlc", |rows| gains(rows, "TLC")),
    ("beyond-policies-break-even", break_evens),
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

/// A policy that loses less than this costs nothing: gleaner compares one page of 2,000 in vain.
const NOTHING: f64 = 0.05;

/// Where a line of gains leaves the losses for good, between the points around it.
fn break_even(points: &[(f64, f64)]) -> Option<f64> {
    let Some(last) = points.iter().rposition(|&(_, gain)| gain < -NOTHING) else {
        return Some(0.0);
    };
    let (&(x0, y0), &(x1, y1)) = (&points[last], points.get(last + 1)?);
    Some(x0 + (x1 - x0) * -y0 / (y1 - y0))
}

/// Gains in mean write latency over no deduplication, and break-even duplicate ratios.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let ratios = settings.numbers("duplicate_percent")?;
    let mut points = Vec::new();
    for flash in FLASH {
        points.extend(POLICIES.map(|policy| (flash.0, flash.1, policy)));
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
    let (mut rows, mut ends) = (Vec::new(), Vec::new());
    for (&(_, flash, (.., name)), gains) in points.iter().zip(found) {
        let gains = gains?;
        for &(percent, gain) in &gains {
            let row = format!("{flash}, {name}");
            rows.push(Row::new(settings.id, &row, &format!("{percent} % duplicates"), gain, "%"));
        }
        let mut row = Row::new(settings.id, name, &format!("break-even, {flash}"), 0.0, "%");
        row.measured = break_even(&gains);
        ends.push(match row.measured {
            None => row.note("no gain up to the highest ratio"),
            Some(_) if gains.iter().all(|(_, gain)| gain.abs() < NOTHING) => {
                row.note("writes take what they took: duplicates are found when idle")
            }
            Some(_) => row,
        });
    }
    rows.extend(ends);
    Ok(rows)
}

/// A line per policy, of those that change what a write takes.
fn gains(rows: &[Row], flash: &str) -> Chart {
    let title = format!("Gain in write latency, {flash}");
    let mut chart = Chart::lines(&title, "duplicates (% of writes)", "gain (%)");
    for row in rows {
        let name = row.row.strip_prefix(flash).and_then(|rest| rest.strip_prefix(", "));
        let percent = row.column.strip_suffix(" % duplicates").and_then(|p| p.parse::<f64>().ok());
        let (Some(name), Some(percent), Some(gain)) = (name, percent, row.measured) else {
            continue;
        };
        let name = match name {
            "caftl-offline" => "offline schemes",
            // One of lines that lie on each other.
            "block-separation" | "crc-compare" | "ses-host" => continue,
            "gleaner" => "gleaner, ses-host",
            name => name,
        };
        Series::of(&mut chart, name).points.push((percent, gain));
    }
    chart
}

/// Bars of break-even ratios, a group for each kind of flash.
fn break_evens(rows: &[Row]) -> Chart {
    let mut chart =
        Chart::bars("Duplicates from which on a policy gains", "flash", "duplicates (% of writes)");
    chart.groups = FLASH.iter().map(|(_, name)| (*name).to_owned()).collect();
    for row in rows {
        let Some(flash) = row.column.strip_prefix("break-even, ") else { continue };
        let group = chart.groups.iter().position(|group| group == flash);
        let inline = !["caftl-offline", "block-separation", "crc-compare"].contains(&&*row.row);
        if let (Some(group), Some(ratio), true) = (group, row.measured, inline) {
            Series::of(&mut chart, &row.row).points.push((group as f64, ratio));
        }
    }
    chart
}
