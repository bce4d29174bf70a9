//! CAL'17: duplicates that drives find which deduplicate alone.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "Intra-SSD Deduplication". The data sets are those of [ses-dedup] Table
//! III, written in random order and striped over the drives page by page.

use std::collections::HashSet;

use onefold_workload::ContentProfile;
use onefold_workload::content::PRESETS;

use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, all, goes};

/// Counts what each of several numbers of drives finds in each data set.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (pages, seed) = (settings.number("pages")?, settings.number("seed")?);
    let drives = settings.numbers("drives")?;
    let found = settings.sweep(&PRESETS, |preset| {
        let profile = ContentProfile::named(preset.name).unwrap_or(preset.profile);
        let contents: Vec<_> = profile.data_set(pages, seed)?.collect();
        let per_count = |&count: &u64| {
            let mut seen = HashSet::new();
            let striped = contents.iter().enumerate();
            striped.filter(|&(page, content)| !seen.insert((page as u64 % count, *content))).count()
        };
        Ok::<_, onefold_workload::content::ProfileError>(
            drives.iter().map(per_count).collect::<Vec<usize>>(),
        )
    });
    let line =
        Line::new("duplicates found, of those that one server finds", "%").over("drives", "");
    for (preset, counts) in PRESETS.iter().zip(found) {
        let counts = counts.map_err(|error| settings.refused(error))?;
        let Some(&whole) = counts.first() else { continue };
        for (&count, found) in drives.iter().zip(counts) {
            data.put(&line.of(preset.name), count, 100.0 * found as f64 / whole as f64);
        }
    }
    let falls = PRESETS.iter().map(|preset| {
        (preset.name.to_owned(), goes(Way::Falls, &data.curve(&line.of(preset.name)), 0.0))
    });
    let (falls, figure) = all(falls.collect::<Vec<_>>());
    data.shows("alone-finds-less", falls, figure)
}
