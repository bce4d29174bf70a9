//! SES-Dedup Fig. 5: duplicates found inline by parity and by SHA-256, by read share.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. V.C, Fig. 5. Both go through the same table, the same engine and the
//! same budget; the engine needs 14.5 us to correct a parity and 226.5 us for SHA-256.

use onefold_workload::ContentProfile;
use onefold_workload::content::PRESETS;

use crate::error::{LabError, Result};
use crate::experiments::drives::{SES_FLASH, mixed, replay, share_of_drive, with_policy};
use crate::experiments::lives::ends;
use crate::experiments::ses_table4::drive;
use crate::row::show;
use crate::series::{Data, Line, Spread};
use crate::settings::Settings;
use crate::shape::{above, all};

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
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
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
    let of_chosen = &found[..places.len()];
    let more = Line::new("more found by parity", "%").over("reads", "%");
    for (&(_, flash, reads), &(parity, sha)) in places.iter().zip(of_chosen) {
        data.put(&share("parity", flash), reads, parity);
        data.put(&share("SHA-256", flash), reads, sha);
        data.put(&more.of(flash), reads, gain(parity, sha));
    }
    let mean = Line::new("more found by parity, mean of all points", "%").over("budget", "");
    for (budget, found) in budgets.iter().zip(found.chunks_exact(places.len())) {
        let name = match budget {
            0 => "none".to_owned(),
            budget => format!("{budget} us"),
        };
        let (low, high) = ends(found.iter().map(|&(parity, sha)| gain(parity, sha)));
        let point = data.put(&mean, name.as_str(), mean_gain(found));
        point.range(low, high, Spread::Extremes);
    }
    beside(of_chosen, data)?;
    let compared = SES_FLASH.map(|(_, flash)| {
        let (parity, sha) =
            (data.curve(&share("parity", flash)), data.curve(&share("SHA-256", flash)));
        (flash.to_owned(), above(&parity, &sha, 0.0))
    });
    let (holds, figure) = all(compared);
    data.shows("parity-above", holds, figure)?;
    let (low, high) = ends(of_chosen.iter().flat_map(|&(parity, sha)| [parity, sha]));
    let (least, most) =
        (data.printed("device-side", "y_axis_min")?, data.printed("device-side", "y_axis_max")?);
    let within = [low, high].iter().all(|share| (least..=most).contains(share));
    data.shows("within-the-axis", within, format!("{} to {}", show(low), show(high)))
}

/// The inline share of a fingerprint on a kind of flash.
fn share(fingerprint: &str, flash: &str) -> Line {
    let line = Line::new("duplicates found inline", "share of all").over("reads", "%");
    line.of(fingerprint).under(flash)
}

/// What the paper prints, beside what the chosen budget gives.
fn beside(found: &[(f64, f64)], data: &mut Data) -> Result<()> {
    let (least, most) = ends(found.iter().map(|&(parity, sha)| gain(parity, sha)));
    let (low, high) = ends(found.iter().flat_map(|&(parity, sha)| [parity, sha]));
    for (column, name, unit, value) in [
        ("ecc_vs_sha_inline_gain_min", "least that parity finds more", "%", least),
        ("ecc_vs_sha_inline_gain_max", "most that parity finds more", "%", most),
        ("y_axis_min", "lowest inline share", "ratio", low),
        ("y_axis_max", "highest inline share", "ratio", high),
    ] {
        let line = Line::new(name, unit).of("all flash and read shares");
        data.beside(("device-side", column), &line, (), value)?;
    }
    Ok(())
}
