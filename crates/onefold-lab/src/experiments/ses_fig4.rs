//! SES-Dedup Fig. 4: what tables of different size gain on SLC.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. V.B, Fig. 4; the closed loop is that of Table IV.

use onefold_workload::content::PRESETS;

use crate::error::Result;
use crate::experiments::drives::{of_written, share_of_drive, simulate, with_policy, write_us};
use crate::experiments::ses_table4::drive;
use crate::plot::{Chart, Series};
use crate::row::{Kind, Row};
use crate::settings::Settings;

/// One drive per data set and table size, beside one without deduplication.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let sizes = settings.numbers("table_percent")?;
    let found = settings.sweep(&PRESETS, |set| {
        let mut spec = drive(settings, "ses-slc", set.name)?;
        let plain = simulate(settings, &spec)?;
        let mut gains = Vec::new();
        for &percent in &sizes {
            let share = share_of_drive(&spec, percent as f64 / 100.0);
            with_policy(&mut spec, "ses-host", &format!("table_share = {share}\noffline = false"));
            let report = simulate(settings, &spec)?;
            let sooner = 100.0 * (1.0 - write_us(&report) / write_us(&plain));
            let rate = |iops: Option<f64>| iops.unwrap_or(f64::NAN);
            let more = 100.0 * (rate(report.iops) / rate(plain.iops) - 1.0);
            gains.push((percent, sooner, more, of_written(&report, report.dedup.inline_pages)));
        }
        Ok::<_, crate::LabError>(gains)
    });
    let mut rows = Vec::new();
    let mut best: f64 = f64::NEG_INFINITY;
    for (set, gains) in PRESETS.iter().zip(found) {
        for (percent, sooner, more, inline) in gains? {
            if percent == 15 {
                best = best.max(sooner);
            }
            for (what, value) in
                [("latency gain", sooner), ("throughput gain", more), ("found inline", inline)]
            {
                let column = format!("{what}, {percent} %");
                rows.push(Row::new(settings.id, set.name, &column, value, "%"));
            }
        }
    }
    rows.push(settings.published.row("ses-dedup host-side", "write_improvement_max", best)?.note(
        "the largest gain in mean write latency at 15 %; the paper does not say of what its \
         performance is a measure",
    ));
    rows.push(settings.published.row("fingerprint_table", "ratio_chosen", 15.0)?.kind(Kind::Given));
    Ok(rows)
}

/// A line per data set.
pub fn chart(rows: &[Row]) -> Chart {
    let mut chart = Chart::lines(
        "Gain by table size, SLC",
        "table (% of all fingerprints)",
        "gain in mean write latency (%)",
    );
    for row in rows {
        let size = row.column.strip_prefix("latency gain, ").and_then(|r| r.split(' ').next());
        let size = size.and_then(|size| size.parse::<f64>().ok());
        if let (Some(size), Some(gain)) = (size, row.measured) {
            Series::of(&mut chart, &row.row).points.push((size, gain));
        }
    }
    chart
}
