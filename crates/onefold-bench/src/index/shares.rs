//! What is found at once, and in all, where the index knows a part of the fingerprints.
//! Room: onefold-bench.

use anyhow::{Context, Result};
use onefold_block::ByteSize;

use super::bench::{Bench, Beside, Counted, Later, VOLUME_BYTES, Written, count};
use super::source::{Tree, WorkingSet};
use super::{GIB, GROUP, INDEX_MIN, needed, share};
use crate::data::BLOCK;
use crate::lab::Lab;
use crate::report::{Goal, Row, Unit};

/// Shares of what the index needs, and what is to be found at once of a second copy.
const SHARES: [(u64, f64); 3] = [(5, 0.90), (15, 0.95), (50, 0.97)];

/// Budgets for parts of what is needed, the least that an index works with where a part is less:
/// how many percent it is, what is to be found, and bytes.
fn budgets(unique: u64) -> Vec<(u64, f64, u64)> {
    // Directories have an eighth.
    let whole = needed(unique) * 8 / 7;
    let of = |(percent, goal): (u64, f64)| (percent, goal, (whole * percent / 100).max(INDEX_MIN));
    let mut budgets: Vec<(u64, f64, u64)> = SHARES.into_iter().map(of).collect();
    budgets.dedup_by_key(|&mut (.., bytes)| bytes);
    for (percent, _, bytes) in &mut budgets {
        *percent = (*bytes * 100).div_ceil(whole);
    }
    budgets
}

/// Trees of files, written twice.
pub fn second_copy(lab: &Lab) -> Result<Vec<Row>> {
    let tree = Tree::find(&lab.trees, lab.pick(16 << 30, 64 << 20))?;
    let scratch = lab.scratch()?;
    eprintln!("index: {} of files", ByteSize(tree.bytes()));
    let own = count(&mut tree.read())?;
    let mut rows = Vec::new();
    for (percent, goal, index_bytes) in budgets(own.unique) {
        eprintln!("index: {} of files, index for {percent} %", ByteSize(tree.bytes()));
        let path = scratch.path().join(format!("{percent}"));
        let mut bench = Bench::new(&path, index_bytes, Beside::Levels)?;
        let once = bench.write(&mut tree.read(), 0)?;
        let again = bench.write(&mut tree.read(), VOLUME_BYTES / 2)?;
        let counted = bench.counted();
        let later = bench.find_all(&path)?;
        let note = format!(
            "{} of files; of the first copy's own duplicates {:.1} %; index of {}",
            ByteSize(tree.bytes()),
            100.0 * share(once.found, own.duplicates()),
            ByteSize(index_bytes)
        );
        let name = format!("second copy of files, index for {percent} %: found at once");
        let found = share(again.found, again.blocks);
        let goal = lab.pick(Some(Goal::AtLeast(goal)), None);
        rows.push(Row { goal, note, ..Row::new(GROUP, name, found, Unit::Share) });
        rows.extend(background(lab, "files", percent, counted, &[once, again], later));
        std::fs::remove_dir_all(&path).context("a scratch folder")?;
    }
    Ok(rows)
}

/// Duplicates all over the place.
pub fn working_set(lab: &Lab) -> Result<Vec<Row>> {
    let blocks: u64 = lab.pick(12 << 30, 64 << 20) / BLOCK as u64;
    let scratch = lab.scratch()?;
    let unique = WorkingSet::new(blocks).unique();
    let mut rows = Vec::new();
    for (percent, _, index_bytes) in budgets(unique) {
        eprintln!("index: working set, index for {percent} %");
        let path = scratch.path().join(format!("{percent}"));
        let mut bench = Bench::new(&path, index_bytes, Beside::Levels)?;
        let written = bench.write(&mut WorkingSet::new(blocks), 0)?;
        let counted = bench.counted();
        let note = bench.asked()?;
        let later = bench.find_all(&path)?;
        let name = format!("working set, index for {percent} %: found at once");
        let found = share(written.found, counted.duplicates());
        let goal = (percent == 50).then_some(Goal::AtLeast(0.61)).filter(|_| lab.pick(true, false));
        rows.push(Row { goal, note, ..Row::new(GROUP, name, found, Unit::Share) });
        rows.extend(background(lab, "working set", percent, counted, &[written], later));
        std::fs::remove_dir_all(&path).context("a scratch folder")?;
    }
    Ok(rows)
}

/// What was found in all, and what the background took for it.
fn background(
    lab: &Lab,
    what: &str,
    percent: u64,
    counted: Counted,
    written: &[Written],
    later: Later,
) -> [Row; 3] {
    let at_once: u64 = written.iter().map(|written| written.found).sum();
    let blocks: u64 = written.iter().map(|written| written.blocks).sum();
    let stored_gib = ((blocks - at_once) * BLOCK as u64) as f64 / GIB;
    let row = |name: &str, value, unit, goal| Row {
        goal: lab.pick(Some(goal), None),
        ..Row::new(GROUP, format!("{what}, index for {percent} %: {name}"), value, unit)
    };
    // Neither less nor more is stored than what is different.
    let all = share(counted.unique, later.stored);
    [
        Row {
            note: format!(
                "{} different, {} stored; {} found in the background",
                counted.unique, later.stored, later.found
            ),
            ..row(
                "different blocks of those stored in the end",
                all,
                Unit::Share,
                Goal::AtLeast(1.0),
            )
        },
        Row {
            note: "of blocks stored, before compression".to_owned(),
            ..row("background pass", later.cpu / stored_gib, Unit::CpuPerGib, Goal::AtMost(0.3))
        },
        row(
            "background pass, bytes read and written for each stored",
            later.work_bytes as f64 / (stored_gib * GIB),
            Unit::Share,
            Goal::AtMost(0.05),
        ),
    ]
}
