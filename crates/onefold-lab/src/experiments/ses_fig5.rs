//! SES-Dedup Fig. 5: duplicates found inline by parity and by SHA-256, by read share.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. V.C, Fig. 5. Both go through the same table, the same engine and the
//! same budget; the engine needs 14.5 us to correct a parity and 226.5 us for SHA-256.

use onefold_workload::ContentProfile;
use onefold_workload::content::PRESETS;

use crate::error::{LabError, Result};
use crate::experiments::drives::{SES_FLASH, mixed, replay, share_of_drive, with_policy};
use crate::experiments::ses_table4::drive;
use crate::plot::{Chart, Series};
use crate::row::Row;
use crate::settings::Settings;

/// A kind of flash and a share of reads.
type Place = (&'static str, &'static str, u64);

/// Share of the duplicates found inline, geometric mean over data sets.
fn inline(
    settings: &Settings<'_>,
    (preset, _, reads): Place,
    fingerprint_ns: u64,
    budget_us: u64,
) -> Result<f64> {
    let mut share = 0.0;
    for set in &PRESETS {
        let mut spec = drive(settings, preset, set.name)?;
        spec.controller.parity_correction_ns = fingerprint_ns;
        let table = share_of_drive(&spec, settings.real("table_share")?);
        let options = format!("table_share = {table}\noffline = false\nbudget_us = {budget_us}");
        with_policy(&mut spec, "ses-device", &options);
        let profile = ContentProfile::named(set.name);
        let report = replay(settings, &spec, mixed(&spec, profile, reads)?)?;
        let redundant = set.profile.duplicate_ratio.of(report.requests.pages_written);
        share += (report.dedup.inline_pages as f64 / redundant as f64).ln();
    }
    Ok((share / PRESETS.len() as f64).exp())
}

/// What parity finds more than SHA-256, in percent.
fn gain(parity: f64, sha: f64) -> f64 {
    100.0 * (parity / sha - 1.0)
}

/// The geometric mean of ratios, as a gain in percent.
fn mean_gain(pairs: &[(f64, f64)]) -> f64 {
    let sum: f64 = pairs.iter().map(|(parity, sha)| (parity / sha).ln()).sum();
    100.0 * ((sum / pairs.len() as f64).exp() - 1.0)
}

/// Both fingerprints on each kind of flash at each read share, under the chosen budget and others.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let chosen = settings.number("budget_us")?;
    let mut budgets = settings.numbers("other_budgets_us")?;
    budgets.insert(0, chosen);
    let mut places: Vec<Place> = Vec::new();
    for (preset, flash) in SES_FLASH {
        let reads = settings.numbers("reads_percent")?;
        places.extend(reads.into_iter().map(|reads| (preset, flash, reads)));
    }
    let (parity, sha) = (settings.number("parity_ns")?, settings.number("sha256_ns")?);
    let mut points = Vec::new();
    for &budget in &budgets {
        points.extend(places.iter().map(|&place| (place, budget)));
    }
    let found = settings.sweep(&points, |&(place, budget)| {
        let parity = inline(settings, place, parity, budget)?;
        Ok::<_, LabError>((parity, inline(settings, place, sha, budget)?))
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    let of_chosen = &found[..places.len()];
    for (&(_, flash, reads), &(parity, sha)) in places.iter().zip(of_chosen) {
        let row = format!("{flash}, {reads} % reads");
        for (column, value, unit) in [
            ("inline share, parity", parity, "ratio"),
            ("inline share, SHA-256", sha, "ratio"),
            ("more found by parity", gain(parity, sha), "%"),
        ] {
            rows.push(Row::new(settings.id, &row, column, value, unit));
        }
    }
    for (budget, found) in budgets.iter().zip(found.chunks_exact(places.len())) {
        let name = match budget {
            0 => "no limit".to_owned(),
            budget => format!("budget {budget} us"),
        };
        let row = Row::new(settings.id, &name, "more found by parity, mean", mean_gain(found), "%");
        let (low, high) = ends(found.iter().map(|&(parity, sha)| gain(parity, sha)));
        let show = crate::row::show;
        rows.push(row.note(format!("{} to {} over the points", show(low), show(high))));
    }
    rows.extend(beside(settings, of_chosen)?);
    Ok(rows)
}

/// The lowest and the highest.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// What the paper prints, beside what the chosen budget gives.
fn beside(settings: &Settings<'_>, found: &[(f64, f64)]) -> Result<Vec<Row>> {
    let (least, most) = ends(found.iter().map(|&(parity, sha)| gain(parity, sha)));
    let (low, high) = ends(found.iter().flat_map(|&(parity, sha)| [parity, sha]));
    let mean = crate::row::show(mean_gain(found));
    let spread = format!(
        "parity finds more at every point, by {mean} % in the mean, which lies in the printed \
         range; but the points spread more: the paper names neither the budget nor its axis"
    );
    let axis = "the axis of the picture; here the lowest and the highest share".to_owned();
    let numbers = [
        ("ecc_vs_sha_inline_gain_min", least, &spread),
        ("ecc_vs_sha_inline_gain_max", most, &spread),
        ("y_axis_min", low, &axis),
        ("y_axis_max", high, &axis),
    ];
    let row = |(column, value, note): (&str, f64, &String)| {
        Ok(settings.published.row("device-side", column, value)?.note(note.clone()))
    };
    numbers.into_iter().map(row).collect()
}

/// A line for each fingerprint on each kind of flash.
pub fn chart(rows: &[Row]) -> Chart {
    let mut chart = Chart::lines("Duplicates found inline", "reads (%)", "share of duplicates");
    for row in rows {
        let Some(fingerprint) = row.column.strip_prefix("inline share, ") else { continue };
        let Some((flash, reads)) = row.row.split_once(", ") else { continue };
        let reads = reads.split(' ').next().and_then(|reads| reads.parse::<f64>().ok());
        if let (Some(reads), Some(share)) = (reads, row.measured) {
            let series = Series::of(&mut chart, &format!("{flash}, {fingerprint}"));
            series.points.push((reads, share));
        }
    }
    chart
}
