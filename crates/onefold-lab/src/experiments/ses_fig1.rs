//! SES-Dedup Fig. 1: how much redundancy fixed chunks of each size find.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. II, Fig. 1, a picture with two numbers in the text. Data of the user is
//! scanned as it is. Generated data: half original units, then units that are copies of them in
//! runs; a run ends after each unit with probability 1/L, so that a chunk of m units is a copy
//! with probability (1 - 1/L)^(m - 1) times that of a unit.

use std::collections::HashSet;
use std::path::Path;

use onefold_content::{Chunker, FixedChunker};
use onefold_sim::{RandomStreams, Ratio};
use onefold_workload::scan::scan;

use crate::error::{LabError, Result};
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, at, goes};

/// Units of the largest chunk, on whose borders copies keep their place.
const PHASE: u64 = 32;

fn line() -> Line {
    Line::new("redundant chunks", "%").over("chunk size", "KiB")
}

/// Measures generated data, and what the user gave.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let unit = settings.number("unit_kib")?;
    let sizes = settings.numbers("chunk_kib")?;
    let units = generated(settings)?;
    let found = settings.sweep(&sizes, |size| redundancy(&units, (size / unit).max(1) as usize));
    let generated = line().of("generated");
    for (&size, share) in sizes.iter().zip(found) {
        match size {
            _ if size == unit => {
                data.beside(("desktop4", "redundancy_max_fixed_chunk"), &generated, size, share)?;
            }
            8 => {
                data.beside(("max", "redundancy_8KB"), &generated, size, share)?;
            }
            _ => {
                data.put(&generated, size, share);
            }
        }
    }
    let curve = data.curve(&generated);
    let (falls, figure) = goes(Way::Falls, &curve, 0.0);
    data.shows("falls-with-size", falls, figure)?;
    let kept = 100.0 * at(&curve, 8.0) / at(&curve, 4.0);
    data.shows("most-at-8-kib", is_most(kept), format!("{} % of it", show(kept)))?;
    real(settings, &sizes, data)
}

/// Whether so many % are more than half.
fn is_most(percent: f64) -> bool {
    percent > 50.0
}

/// The units of the generated data, as numbers of contents.
fn generated(settings: &Settings<'_>) -> Result<Vec<u64>> {
    let half = settings.number("units")? / 2 / PHASE * PHASE;
    let mut stream = RandomStreams::new(settings.number("seed")?).stream("fig-1");
    // Copies are in the second half only, so they are twice as frequent there.
    let copies = Ratio::permille(2 * settings.number("redundancy_permille")?);
    let ends = Ratio::new(1000, settings.number("run_units_thousandths")?);
    let ends = ends.map_err(|error| LabError::Refused {
        id: settings.id.to_owned(),
        problem: format!("run_units_thousandths: {error}"),
    })?;
    // Of runs and gaps, the share `copies` shall be runs: a gap ends as often as a run begins.
    let begins = copies.as_f64() * ends.as_f64() / copies.complement().as_f64();
    let mut units: Vec<u64> = (0..half).collect();
    let mut run: Option<u64> = None;
    for place in 0..half {
        let goes_on = match run {
            Some(_) => !stream.chance(ends),
            None => stream.unit() < begins,
        };
        run = match (goes_on, run) {
            (false, _) => None,
            // A run may not leave the original half.
            (true, Some(from)) if from + 1 < half => Some(from + 1),
            (true, _) => Some(stream.below(half / PHASE) * PHASE + place % PHASE),
        };
        units.push(run.unwrap_or(half + place));
    }
    Ok(units)
}

/// Chunks of so many units that another chunk equals, of all chunks, in percent; no number if there
/// are none.
fn redundancy(units: &[u64], units_per_chunk: usize) -> f64 {
    let chunks = units.chunks_exact(units_per_chunk);
    let all = chunks.len();
    let distinct = chunks.collect::<HashSet<_>>().len();
    100.0 * (all - distinct) as f64 / all as f64
}

/// Lines for the trees and images of the user.
fn real(settings: &Settings<'_>, sizes: &[u64], data: &mut Data) -> Result<()> {
    let paths = &settings.options.data;
    let points: Vec<(&Path, u64)> = paths
        .iter()
        .flat_map(|path| sizes.iter().map(move |&size| (path.as_path(), size)))
        .collect();
    let found = settings.sweep(&points, |&(path, size)| scanned(path, size));
    for ((path, size), share) in points.iter().zip(found) {
        let line = line().of(&path.display().to_string());
        data.put(&line, *size, share?).note("data of the user");
    }
    Ok(())
}

/// Redundant chunks of real data, of all its chunks, in percent; no number if it has none.
fn scanned(path: &Path, size_kib: u64) -> Result<f64> {
    let failed = |problem| LabError::Data { path: path.to_owned(), problem };
    let chunker = FixedChunker::new(size_kib as usize * 1024);
    let chunker = chunker.map_err(|error| failed(error.to_string()))?;
    let (mut distinct, mut all) = (HashSet::new(), 0_u64);
    let report = scan(path, &Chunker::Fixed(chunker), |chunk| {
        all += 1;
        distinct.insert(chunk.identity);
    });
    report.map_err(|error| failed(error.source.to_string()))?;
    Ok(100.0 * (all - distinct.len() as u64) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::Options;

    #[test]
    fn redundancy_counts_copies_beyond_the_first() {
        assert!((redundancy(&[1, 2, 1, 2, 3, 4, 1, 2], 1) - 50.0).abs() < 1e-9);
        assert!((redundancy(&[1, 2, 1, 2, 3, 4, 1, 2], 2) - 50.0).abs() < 1e-9);
        assert!(redundancy(&[1, 2, 1, 2, 3, 4, 1, 2], 4).abs() < 1e-9);
        assert!(redundancy(&[1, 2, 1], 4).is_nan(), "of no chunk there is no share");
        assert!(is_most(50.1) && !is_most(50.0));
    }

    #[test]
    fn units_are_new_or_copies_of_the_first_half_in_runs_that_may_reach_its_end() {
        let mut last = 0;
        for seed in 1..20 {
            let set = [("units", 128), ("seed", seed), ("run_units_thousandths", 30_000)];
            let set = set.map(|(name, value)| (name.to_owned(), toml::Value::Integer(value)));
            let options = Options { set: set.into(), ..Options::default() };
            let settings = Settings::new(find("ses-dedup/fig-1").unwrap()[0], &options).unwrap();
            let units = generated(&settings).unwrap();
            let (first, second) = units.split_at(64);
            assert!(first.iter().copied().eq(0..64));
            for (place, &unit) in (64..).zip(second) {
                assert!(unit < 64 || unit == place, "{unit} at {place}");
                last += u64::from(unit == 63);
            }
        }
        assert!(last > 0, "no run is cut short of the end");
    }
}
