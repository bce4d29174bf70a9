//! SES-Dedup Table III: whether generated data has the skew that the table states.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. V, Tables III and IV. The three numbers per data set are inputs of the
//! generator; they are measured on what it made, by counting every page.

use onefold_workload::ContentProfile;
use onefold_workload::content::{Measured, PRESETS};

use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Generates each data set and counts it.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (pages, seed) = (settings.number("pages")?, settings.number("seed")?);
    let measured = settings.sweep(&PRESETS, |preset| {
        let profile = ContentProfile::named(preset.name).unwrap_or(preset.profile);
        profile.data_set(pages, seed).map(Measured::of)
    });
    let line = |name: &str, unit: &str| Line::new(name, unit).over("data set", "");
    for (preset, measured) in PRESETS.iter().zip(measured) {
        let m = measured.map_err(|error| settings.refused(format!("{}: {error}", preset.name)))?;
        for (column, name, share) in [
            ("duplicate_ratio", "duplicate pages", m.duplicate_ratio()),
            ("hot_fp_ratio", "contents with more than two copies", m.hot_fingerprint_ratio()),
            ("share_of_redundant", "duplicate pages that are theirs", m.hot_share()),
        ] {
            let line = line(name, "%").of("generated");
            data.beside((preset.name, column), &line, preset.name, 100.0 * share)?;
        }
        let of_pages = 100.0 * m.duplicated as f64 / m.pages as f64;
        let copies = m.hot_redundant as f64 / m.hot as f64;
        let contents = line("duplicated contents", "% of pages").of("generated");
        data.put(&contents, preset.name, of_pages);
        let copied = line("redundant copies of a hot content", "copies").of("generated");
        data.put(&copied, preset.name, copies);
    }
    Ok(())
}
