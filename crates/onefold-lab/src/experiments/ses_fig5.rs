//! SES-Dedup Fig. 5: duplicates found inline by parity and by SHA-256, by read share.
//! Room: onefold-lab.
//! Source: seed 000 sec. V.C, Fig. 5. Both go through the same table and the same budget; the
//! controller needs 14.5 us to correct a parity and 226.5 us for SHA-256.

use onefold_workload::ContentProfile;
use onefold_workload::content::PRESETS;

use crate::error::Result;
use crate::experiments::drives::{SES_FLASH, mixed, replay, share_of_drive, with_policy};
use crate::experiments::ses_table4::drive;
use crate::row::{Kind, Row};
use crate::settings::Settings;

/// Shares of the duplicates found inline, and how many a second, geometric means over data sets.
fn inline(
    settings: &Settings<'_>,
    preset: &str,
    reads: u64,
    fingerprint_ns: u64,
) -> Result<(f64, f64)> {
    let (mut share, mut rate) = (0.0, 0.0);
    for set in &PRESETS {
        let mut spec = drive(settings, preset, set.name)?;
        spec.controller.parity_correction_ns = fingerprint_ns;
        let table = share_of_drive(&spec, settings.real("table_share")?);
        with_policy(&mut spec, "ses-device", &format!("table_share = {table}\noffline = false"));
        let profile = ContentProfile::named(set.name);
        let report = replay(settings, &spec, mixed(&spec, profile, reads)?)?;
        let redundant = set.profile.duplicate_ratio.of(report.requests.pages_written);
        let found = report.dedup.inline_pages as f64;
        share += (found / redundant as f64).ln();
        rate += (found / report.elapsed_ns as f64 * 1e9).ln();
    }
    let sets = PRESETS.len() as f64;
    Ok(((share / sets).exp(), (rate / sets).exp()))
}

/// Both fingerprints on each kind of flash at each read share.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let mut points = Vec::new();
    for (preset, flash) in SES_FLASH {
        let reads = settings.numbers("reads_percent")?;
        points.extend(reads.into_iter().map(|reads| (preset, flash, reads)));
    }
    let (parity, sha) = (settings.number("parity_ns")?, settings.number("sha256_ns")?);
    let found = settings.sweep(&points, |&(preset, _, reads)| {
        Ok::<_, crate::LabError>((
            inline(settings, preset, reads, parity)?,
            inline(settings, preset, reads, sha)?,
        ))
    });
    let (mut rows, mut gains, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for (&(_, flash, reads), both) in points.iter().zip(found) {
        let ((parity, parity_rate), (sha, sha_rate)) = both?;
        gains.push(100.0 * (parity_rate / sha_rate - 1.0));
        shares.extend([parity, sha]);
        let row = format!("{flash}, {reads} % reads");
        for (column, value, unit) in [
            ("inline share, parity", parity, "ratio"),
            ("inline share, SHA-256", sha, "ratio"),
            ("more found a second by parity", 100.0 * (parity_rate / sha_rate - 1.0), "%"),
        ] {
            rows.push(Row::new(settings.id, &row, column, value, unit));
        }
    }
    let low = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let why = "by duplicates found a second; by share of the duplicates SHA-256 finds more, \
               because its engine slows the host down and packages stand idle. The paper's axis is \
               lost, and it does not say what competes for the budget";
    for (column, value) in
        [("ecc_vs_sha_inline_gain_min", low(&gains)), ("ecc_vs_sha_inline_gain_max", high(&gains))]
    {
        let row = settings.published.row("device-side", column, value)?;
        rows.push(row.kind(Kind::NotReproducible).note(why));
    }
    for (column, value) in [("y_axis_min", low(&shares)), ("y_axis_max", high(&shares))] {
        let row = settings.published.row("device-side", column, value)?;
        rows.push(row.note("the axis of the picture; here the lowest and the highest share"));
    }
    Ok(rows)
}
