//! The data sets of [ses-dedup], with a part of their fingerprints in memory.
//! Room: onefold-bench.
//! Their duplicates are in no order, so that only the memory and the runs on disk find them.

use std::collections::HashSet;

use anyhow::{Context, Result};
use onefold_workload::content::PRESETS;

use super::bench::{Bench, Beside};
use super::source::Identities;
use super::{GROUP, INDEX_MIN, needed, share};
use crate::lab::Lab;
use crate::report::{Goal, Row, Unit};

/// Parts of what all fingerprints need, in percent, and pages of which that is as much as an index
/// has at least.
const PERCENTS: [(u64, u64); 4] =
    [(1, 14_000_000), (5, 3_000_000), (15, 3_000_000), (50, 3_000_000)];
const SEED: u64 = 1;

/// What is found at once in each, and of all of them the least that is found in the end.
pub fn data_sets(lab: &Lab) -> Result<Vec<Row>> {
    let scratch = lab.scratch()?;
    let (mut rows, mut least) = (Vec::new(), 1.0_f64);
    for preset in &PRESETS {
        for (percent, pages) in PERCENTS {
            let contents = || preset.profile.data_set(lab.pick(pages, 8_000), SEED);
            let unique = contents()?.collect::<HashSet<_>>().len() as u64;
            eprintln!("index: {}, {percent} %", preset.name);
            let path = scratch.path().join(format!("{}-{percent}", preset.name));
            let index_bytes = (needed(unique) * percent / 100).max(INDEX_MIN);
            let mut bench = Bench::new(&path, index_bytes, Beside::Levels)?.without_counter();
            let written = bench.write(&mut Identities::new(contents()?), 0)?;
            let duplicates = written.blocks - unique;
            let later = bench.find_all(&path)?;
            least = least.min(share(unique, later.stored));
            let sum = share(written.found + later.found, duplicates);
            rows.push(Row {
                note: format!(
                    "{:.1} % of the blocks are duplicates; the background adds {:.1} %, {:.1} % in \
                     sum",
                    100.0 * share(duplicates, written.blocks),
                    100.0 * share(later.found, duplicates),
                    100.0 * sum
                ),
                ..Row::new(
                    GROUP,
                    format!("{}, memory for {percent} %: found at once", preset.name),
                    share(written.found, duplicates),
                    Unit::Share,
                )
            });
            std::fs::remove_dir_all(&path).context("a scratch folder")?;
        }
    }
    rows.push(Row {
        goal: lab.pick(Some(Goal::AtLeast(1.0)), None),
        note: "the least of the six data sets and four memories".to_owned(),
        ..Row::new(
            GROUP,
            "data sets: different blocks of those stored in the end",
            least,
            Unit::Share,
        )
    });
    Ok(rows)
}
