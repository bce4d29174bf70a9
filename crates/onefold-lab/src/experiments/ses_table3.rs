//! SES-Dedup Table III: whether generated data has the skew that the table states.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. V, Tables III and IV. The three numbers per data set are inputs of the
//! generator; they are measured on what it made, by counting every page.

use onefold_workload::ContentProfile;
use onefold_workload::content::{Measured, PRESETS};

use crate::error::{LabError, Result};
use crate::row::{Kind, Row};
use crate::settings::Settings;

/// Generates each data set and counts it.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let (pages, seed) = (settings.number("pages")?, settings.number("seed")?);
    let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
    let measured = settings.sweep(&PRESETS, |preset| {
        let profile = ContentProfile::named(preset.name).unwrap_or(preset.profile);
        profile.data_set(pages, seed).map(Measured::of)
    });
    let mut rows = Vec::new();
    for (preset, measured) in PRESETS.iter().zip(measured) {
        let m = measured.map_err(|error| refused(format!("{}: {error}", preset.name)))?;
        for (column, share) in [
            ("duplicate_ratio", m.duplicate_ratio()),
            ("hot_fp_ratio", m.hot_fingerprint_ratio()),
            ("share_of_redundant", m.hot_share()),
        ] {
            let row = settings.published.row(preset.name, column, 100.0 * share)?;
            rows.push(row.kind(Kind::Given));
        }
        let of_pages = 100.0 * m.duplicated as f64 / m.pages as f64;
        let copies = m.hot_redundant as f64 / m.hot.max(1) as f64;
        for (column, value, unit) in [
            ("duplicated contents", of_pages, "% of pages"),
            ("redundant copies of a hot content", copies, "copies"),
        ] {
            rows.push(Row::new(settings.id, preset.name, column, value, unit));
        }
    }
    let lowest = rows.iter().filter(|row| row.column == "duplicate_ratio");
    let lowest = lowest.filter_map(|row| row.measured).fold(f64::INFINITY, f64::min);
    rows.push(Row::new(settings.id, "lowest", "duplicate_ratio", lowest, "%").kind(Kind::Given));
    Ok(rows)
}
