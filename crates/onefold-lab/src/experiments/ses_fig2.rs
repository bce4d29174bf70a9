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
use crate::plot::{Chart, Series};
use crate::row::Row;
use crate::settings::Settings;

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
fn with_duplicates(settings: &Settings<'_>) -> Result<Vec<Row>> {
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
    let row =
        |column: &str, gain| Row::new(settings.id, "MLC-2, 30.8 % duplicates", column, gain, "%");
    let published =
        settings.published.row("sha256 dedup, 30.7% dup", "write_improvement_max", memory?)?;
    Ok(vec![
        row("gain, table of all pages", all?).note("no digest is forgotten, none is compared"),
        row("gain, table of 15 % of the pages", table?).note("as for parity; candidates are read"),
        published.note(
            "digests of 32 bytes in the memory of SES-Dedup's table, 4.8 MiB, hot ones kept; \
             candidates are read and compared, as SES-Dedup does",
        ),
    ])
}

/// One drive per kind of flash and read share.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let shares = settings.numbers("reads_percent")?;
    let mut points = Vec::new();
    for (preset, flash) in SES_FLASH {
        points.extend(shares.iter().map(|&reads| (preset, flash, reads)));
    }
    let losses = settings.sweep(&points, |&(preset, _, reads)| {
        let spec = serial(settings, preset)?;
        loss(settings, &spec, &mixed(&spec, None, reads)?, TRUSTED)
    });
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
    rows.extend(with_duplicates(settings)?);
    Ok(rows)
}

/// A line per kind of flash.
pub fn chart(rows: &[Row]) -> Chart {
    let mut chart = Chart::lines(
        "Loss by SHA-256 on the write path",
        "reads (%)",
        "requests per second lost (%)",
    );
    for row in rows {
        let reads = row.column.strip_prefix("loss at ").and_then(|rest| rest.split(' ').next());
        let reads = reads.and_then(|reads| reads.parse::<f64>().ok());
        if let (Some(reads), Some(loss)) = (reads, row.measured) {
            Series::of(&mut chart, &row.row).points.push((reads, loss));
        }
    }
    chart
}
