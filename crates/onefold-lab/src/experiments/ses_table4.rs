//! SES-Dedup Table IV: which duplicates are found inline and which are left for idle moments.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. V.C, Table IV. A closed loop of Q clients that think for Z on average
//! writes each page of a data set once; a candidate is compared if its package is idle.

use onefold_flash::spec::{ArrivalKind, DriveSpec, ThinkKind};
use onefold_workload::content::PRESETS;

use crate::error::Result;
use crate::experiments::drives::{
    SES_FLASH, content, filled_once, of_written, share_of_drive, simulate, with_policy,
};
use crate::plot::{Chart, Series};
use crate::row::{Kind, Row};
use crate::settings::Settings;

/// The closed loop of the calibration, on one kind of flash with one data set.
pub fn drive(settings: &Settings<'_>, preset: &str, data_set: &str) -> Result<DriveSpec> {
    let mut spec = filled_once(preset, settings.number("pages")?);
    spec.seed = settings.number("seed")?;
    spec.workload.arrivals = ArrivalKind::Closed;
    spec.workload.queue_depth = settings.number("clients")? as u32;
    spec.workload.think_time = ThinkKind::Exponential;
    spec.workload.think_time_ns = settings.number("think_time_ns")?;
    spec.workload.content = content(data_set);
    Ok(spec)
}

/// Fills the drive with each data set, on each kind of flash.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let table_share = settings.real("table_share")?;
    let mut points = Vec::new();
    for set in &PRESETS {
        points.extend(SES_FLASH.iter().map(|&(preset, flash)| (set.name, preset, flash)));
    }
    let found = settings.sweep(&points, |&(set, preset, _)| {
        let mut spec = drive(settings, preset, set)?;
        let share = share_of_drive(&spec, table_share);
        let scratch = share / 3.0;
        with_policy(
            &mut spec,
            "ses-host",
            &format!("table_share = {share}\nscratch_share = {scratch}"),
        );
        simulate(settings, &spec)
    });
    let (mut rows, mut shares) = (Vec::new(), Vec::new());
    let mut inline_of_slc = Vec::new();
    let mut offline_of_slc = Vec::new();
    for ((set, _, flash), report) in points.iter().zip(found) {
        let report = report?;
        let inline = of_written(&report, report.dedup.inline_pages);
        let offline = of_written(&report, report.dedup.offline_pages);
        for (column, share) in [("inline", inline), ("offline", offline)] {
            let row = settings.published.row(set, &format!("{column}_{flash}"), share)?;
            rows.push(row.kind(Kind::Calibrated));
        }
        if *flash == "SLC" {
            let both = Row::new(settings.id, set, "inline + offline", inline + offline, "%");
            rows.push(both.note("the duplicate ratio of Table III's generator, found in full"));
            shares.push(100.0 * inline / (inline + offline));
            inline_of_slc.push(inline);
            offline_of_slc.push(offline);
        }
    }
    let low = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for (name, all) in [
        ("inline_share", &shares),
        ("written_reduction", &inline_of_slc),
        ("capacity_gain_offline", &offline_of_slc),
    ] {
        for (end, value) in [("min", low(all)), ("max", high(all))] {
            let wanted = format!("{name}_{end}_SLC");
            if let Some(number) = settings.published.numbers.iter().find(|n| n.row == wanted) {
                rows.push(settings.published.beside(number, Some(value)));
            }
        }
    }
    Ok(rows)
}

/// Inline shares, printed and ours, a group for each kind of flash of a data set.
pub fn chart(rows: &[Row]) -> Chart {
    let mut chart = Chart::bars("Found inline by data set", "data set", "% of written pages");
    for row in rows.iter().filter(|row| row.column.starts_with("inline_")) {
        let Some(published) = row.published else { continue };
        let Some(flash) = row.column.strip_prefix("inline_") else { continue };
        let flash = flash.split(' ').next().unwrap_or(flash);
        if !PRESETS.iter().any(|preset| preset.name == row.row) {
            continue;
        }
        let group = chart.groups.iter().position(|group| *group == row.row);
        let group = group.unwrap_or_else(|| {
            chart.groups.push(row.row.clone());
            chart.groups.len() - 1
        }) as f64;
        let printed = Series::of(&mut chart, &format!("{flash}, printed"));
        printed.printed = true;
        printed.points.push((group, published));
        if let Some(measured) = row.measured {
            Series::of(&mut chart, &format!("{flash}, ours")).points.push((group, measured));
        }
    }
    chart
}
