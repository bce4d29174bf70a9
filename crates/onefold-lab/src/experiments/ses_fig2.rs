//! SES-Dedup Fig. 2: what SHA-256 on the write path costs by flash and read share.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. II: data without duplicates, random reads and writes mixed; and the
//! data with the most duplicates, through the bounded table and the comparison of the paper's
//! scheme.

use onefold_flash::spec::{ArrivalKind, DriveSpec, ThinkKind};
use onefold_workload::{ContentProfile, Request};

use crate::error::{LabError, Result};
use crate::experiments::drives::{
    SES_FLASH, filled_once, mixed, replay, share_of_drive, with_policy,
};
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, above, all, goes};

fn serial(settings: &Settings<'_>, preset: &str) -> Result<DriveSpec> {
    let mut spec = filled_once(preset, settings.number("pages")?);
    spec.seed = settings.number("seed")?;
    spec.workload.arrivals = ArrivalKind::Closed;
    spec.workload.queue_depth = settings.number("clients")? as u32;
    spec.workload.think_time = ThinkKind::None;
    Ok(spec)
}

/// Requests per second that a policy loses, in percent; below 0 for a gain.
fn loss(
    settings: &Settings<'_>,
    spec: &DriveSpec,
    requests: &[Request],
    (policy, options): (&str, &str),
) -> Result<f64> {
    let rate = |spec: &DriveSpec| {
        let report = replay(settings, spec, requests.to_vec())?;
        Ok::<_, LabError>(report.iops.unwrap_or(f64::NAN))
    };
    let plain = rate(spec)?;
    let mut spec = spec.clone();
    with_policy(&mut spec, policy, options);
    Ok(100.0 * (1.0 - rate(&spec)? / plain))
}

/// SHA-256 of every page, trusted, in a table of all pages.
const TRUSTED: (&str, &str) = ("caftl-online", "hash = 'sha256'");

/// What the data of sec. II gains, by the table that the drive can afford.
fn with_duplicates(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let mut spec = serial(settings, "ses-mlc2")?;
    spec.controller.parity_correction_ns = settings.number("sha256_ns")?;
    let requests = mixed(&spec, ContentProfile::named("desktop4"), 0)?;
    let bounded = |percent: f64| {
        let share = share_of_drive(&spec, percent / 100.0);
        format!("offline = false\ntable_share = {share}")
    };
    let same_memory = settings.real("table_percent")? * settings.real("entry_bytes")?
        / settings.real("digest_bytes")?;
    let tables =
        [TRUSTED.1.to_owned(), bounded(settings.real("table_percent")?), bounded(same_memory)];
    let policies = [TRUSTED.0, "ses-device", "ses-device"];
    let gains = settings.sweep(&[0, 1, 2], |&at| {
        Ok::<_, LabError>(-loss(settings, &spec, &requests, (policies[at], &tables[at]))?)
    });
    let [all, table, memory] = <[Result<f64>; 3]>::try_from(gains).expect("three points");
    let line = Line::new("gain with 30.8 % duplicates, MLC-2", "%").over("table of", "");
    data.put(&line, "all pages", all?).note("no digest is forgotten, none is compared");
    data.put(&line, "15 % of the pages", table?).note("as for parity; candidates are read");
    let printed = ("sha256 dedup, 30.7% dup", "write_improvement_max");
    data.beside(printed, &line, "4.8 MiB", memory?)?.note(
        "digests of 32 bytes in the memory of SES-Dedup's table, hot ones kept; candidates are \
         read and compared, as SES-Dedup does",
    );
    Ok(())
}

/// One drive per kind of flash and read share.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let shares = settings.numbers("reads_percent")?;
    let mut points = Vec::new();
    for (preset, flash) in SES_FLASH {
        points.extend(shares.iter().map(|&reads| (preset, flash, reads)));
    }
    let losses = settings.sweep(&points, |&(preset, _, reads)| {
        let spec = serial(settings, preset)?;
        loss(settings, &spec, &mixed(&spec, None, reads)?, TRUSTED)
    });
    let line = Line::new("requests per second lost", "%").over("reads", "%");
    for (&(_, flash, reads), lost) in points.iter().zip(losses) {
        data.put(&line.of(flash), reads, lost?);
    }
    let curves = SES_FLASH.map(|(_, flash)| (flash, data.curve(&line.of(flash))));
    let most = |curve: &[(f64, f64)]| curve.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
    let worst = curves.iter().map(|(_, curve)| most(curve)).fold(f64::NEG_INFINITY, f64::max);
    let of_each = curves.iter().map(|(flash, curve)| format!("{flash} {}", show(most(curve))));
    let of_each: Vec<String> = of_each.collect();
    let lost = Line::new("most that SHA-256 costs on any flash", "%").of("no duplicates");
    let printed = ("sha256 dedup, no duplicates", "overhead_max");
    data.beside(printed, &lost, (), worst)?.note(of_each.join(", "));
    let falls =
        curves.iter().map(|(flash, curve)| ((*flash).to_owned(), goes(Way::Falls, curve, 0.0)));
    let (holds, figure) = all(falls);
    data.shows("falls-with-reads", holds, figure)?;
    let pairs = curves.windows(2).map(|pair| {
        (format!("{} over {}:", pair[0].0, pair[1].0), above(&pair[0].1, &pair[1].1, 0.0))
    });
    let (holds, figure) = all(pairs);
    data.shows("falls-with-flash", holds, figure)?;
    with_duplicates(settings, data)
}
