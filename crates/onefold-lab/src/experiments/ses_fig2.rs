//! SES-Dedup Fig. 2: what SHA-256 on the write path costs by flash and read share.
//! Room: onefold-lab.
//! Source: seed 000 sec. II: data without duplicates, random reads and writes mixed.

use onefold_flash::spec::{ArrivalKind, DriveSpec, ThinkKind};
use onefold_workload::ContentProfile;

use crate::error::Result;
use crate::experiments::drives::{SES_FLASH, filled_once, mixed, replay, with_policy};
use crate::plot::{Chart, Series};
use crate::row::{Kind, Row};
use crate::settings::Settings;

fn serial(settings: &Settings<'_>, preset: &str) -> Result<DriveSpec> {
    let mut spec = filled_once(preset, settings.number("pages")?);
    spec.seed = settings.number("seed")?;
    spec.workload.arrivals = ArrivalKind::Closed;
    spec.workload.queue_depth = settings.number("clients")? as u32;
    spec.workload.think_time = ThinkKind::None;
    Ok(spec)
}

/// Requests per second that are lost, in percent; below 0 for a gain.
fn loss(
    settings: &Settings<'_>,
    preset: &str,
    profile: Option<ContentProfile>,
    reads: u64,
) -> Result<f64> {
    let mut spec = serial(settings, preset)?;
    let requests = mixed(&spec, profile, reads)?;
    let plain = replay(settings, &spec, requests.clone())?;
    with_policy(&mut spec, "caftl-online", "hash = 'sha256'");
    let hashed = replay(settings, &spec, requests)?;
    let rate = |iops: Option<f64>| iops.unwrap_or(f64::NAN);
    Ok(100.0 * (1.0 - rate(hashed.iops) / rate(plain.iops)))
}

/// One drive per kind of flash and read share.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let shares = settings.numbers("reads_percent")?;
    let mut points = Vec::new();
    for (preset, flash) in SES_FLASH {
        points.extend(shares.iter().map(|&reads| (preset, flash, reads)));
    }
    let losses = settings.sweep(&points, |&(preset, _, reads)| loss(settings, preset, None, reads));
    let mut rows = Vec::new();
    let mut mlc2 = f64::NAN;
    for (&(_, flash, reads), lost) in points.iter().zip(losses) {
        let lost = lost?;
        if flash == "MLC-2" && reads == 0 {
            mlc2 = lost;
        }
        rows.push(Row::new(settings.id, flash, &format!("loss at {reads} % reads"), lost, "%"));
    }
    let worst = "sha256 dedup, no duplicates";
    rows.push(settings.published.row(worst, "overhead_max", mlc2)?.note(
        "MLC-2 with one request at a time meets it; SLC and MLC-1 lose more, so that \"up to\" \
         contradicts Table I",
    ));
    let profile = ContentProfile::named("desktop4");
    let gain = -loss(settings, "ses-mlc2", profile, 0)?;
    rows.push(
        settings.published.row("sha256 dedup, 30.7% dup", "write_improvement_max", gain)?.note(
            "MLC-2, all duplicates found; the paper's number would need one in ten to be missed",
        ),
    );
    for row in &mut rows {
        row.kind = Kind::Predicted;
    }
    Ok(rows)
}

/// A line per kind of flash.
pub fn chart(rows: &[Row]) -> Chart {
    let mut chart =
        Chart::lines("Loss by SHA-256 on the write path", "reads (%)", "requests per second (%)");
    for row in rows {
        let reads = row.column.strip_prefix("loss at ").and_then(|rest| rest.split(' ').next());
        let reads = reads.and_then(|reads| reads.parse::<f64>().ok());
        if let (Some(reads), Some(loss)) = (reads, row.measured) {
            Series::of(&mut chart, &row.row).points.push((reads, loss));
        }
    }
    chart
}
