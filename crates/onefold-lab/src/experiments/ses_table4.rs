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
use crate::series::{Data, Line};
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
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
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
    let line = |name: &str| Line::new(name, "% of written").over("data set", "");
    let mut of_slc = Vec::new();
    for ((set, _, flash), report) in points.iter().zip(found) {
        let report = report?;
        let inline = of_written(&report, report.dedup.inline_pages);
        let offline = of_written(&report, report.dedup.offline_pages);
        for (column, name, share) in
            [("inline", "found inline", inline), ("offline", "found offline", offline)]
        {
            let line = line(name).of(flash);
            data.beside((set, &format!("{column}_{flash}")), &line, *set, share)?;
        }
        if *flash == "SLC" {
            data.put(&line("found in all").of(flash), *set, inline + offline);
            of_slc.push((inline, offline));
        }
    }
    ends(&of_slc, data)
}

/// What sec. V-C says of the ends of Table IV's columns on SLC.
fn ends(of_slc: &[(f64, f64)], data: &mut Data) -> Result<()> {
    type Take = fn(&(f64, f64)) -> f64;
    let columns: [(&str, &str, Take); 3] = [
        ("inline_share", "inline, of all found", |(inline, off)| 100.0 * inline / (inline + off)),
        ("written_reduction", "fewer pages written", |(inline, _)| *inline),
        ("capacity_gain_offline", "capacity gained offline", |(_, offline)| *offline),
    ];
    for (name, words, take) in columns {
        let values = || of_slc.iter().map(take);
        let (low, high) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        for (end, value) in [("min", low), ("max", high)] {
            let wanted = (format!("{name}_{end}_SLC"), format!("{words}, {end}"));
            let line = Line::new(&wanted.1, "%").of("SLC");
            if data.printed(&wanted.0, "value").is_ok() {
                data.beside((&wanted.0, "value"), &line, (), value)?;
            }
        }
    }
    Ok(())
}
