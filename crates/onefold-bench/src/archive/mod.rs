//! Archives beside borg and restic: six versions of real trees, in CPU seconds and stored bytes.
//! Room: onefold-bench.
//! Every program gets the same folders in turn, in the same run, and compresses with Zstandard at
//! its level 3 or what it calls its default. Without encryption ours stands beside borg's, with a
//! key file beside restic's, which always encrypts.

mod tools;
mod trees;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::clock;
use crate::lab::Lab;
use crate::measure::median_of;
use crate::report::{Goal, Row, Unit};

use tools::{Step, Store, Tool};
use trees::Tree;

const GROUP: &str = "archive";
/// A file that changed in the last seconds is read again by an addition, as its times cannot tell.
const REST: Duration = Duration::from_secs(4);
/// Versions that are kept when others are pruned.
const KEPT: usize = 2;

/// What a program took for one tree.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// CPU seconds of each step.
    cpu: [f64; 4],
    /// Bytes after all versions were added, and after all but the last ones were pruned.
    stored: [f64; 2],
    /// Wall seconds of restoring, and of reading all through a mount, where that can be had.
    restored: f64,
    mounted: Option<f64>,
}

/// Measure archives.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let scratch = lab.scratch()?;
    let trees = trees::make(lab, scratch.path())?;
    std::thread::sleep(REST);
    let tools: Vec<Tool> = Tool::ALL.into_iter().filter(|tool| tool.is_there()).collect();
    let mut rows = Vec::new();
    for tree in &trees {
        let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); tools.len()];
        for round in 0..lab.rounds {
            eprintln!("archive: {}, round {} of {}", tree.name, round + 1, lab.rounds);
            for (tool, figures) in tools.iter().zip(&mut figures) {
                let here = scratch.path().join("store");
                figures.push(measure(*tool, tree, &here).with_context(|| tool.name())?);
                std::fs::remove_dir_all(&here).context("cannot remove a store")?;
            }
        }
        let of = |wanted: Tool| {
            let at = tools.iter().position(|&tool| tool == wanted)?;
            Some(&figures[at])
        };
        for (ours, theirs) in [(Tool::Onefold, Tool::Borg), (Tool::Encrypted, Tool::Restic)] {
            if let (Some(ours), Some(rival)) = (of(ours), of(theirs)) {
                rows.extend(beside(lab, tree, theirs.name(), ours, rival));
            }
        }
        rows.extend(of(Tool::Onefold).and_then(|ours| mounted(lab, tree, ours)));
    }
    // What is missed comes first.
    rows.sort_by_key(|row| row.verdict() != "missed");
    Ok(rows)
}

/// One program's way through one tree, in a folder that is made for it.
fn measure(tool: Tool, tree: &Tree, here: &Path) -> Result<Figures> {
    let store = Store::create(tool, here)?;
    let mut figures = Figures::default();
    let mut step = |step: Step, work: &mut dyn FnMut() -> Result<()>| {
        let before = clock::children_cpu();
        work()?;
        figures.cpu[step as usize] += clock::children_cpu() - before;
        Ok::<(), anyhow::Error>(())
    };
    for (number, version) in tree.versions.iter().enumerate() {
        step(Step::Add, &mut || store.add(number, version))?;
    }
    let full = store.bytes()?;
    let last = tree.versions.last().context("a tree has versions")?;
    step(Step::Again, &mut || store.add(tree.versions.len(), last))?;
    let begun = Instant::now();
    step(Step::Restore, &mut || store.restore(tree.versions.len()))?;
    figures.restored = begun.elapsed().as_secs_f64();
    ensure!(store.is_as(last)?, "{} restored something else", tool.name());
    let begun = Instant::now();
    figures.mounted = store.read_mounted()?.then(|| begun.elapsed().as_secs_f64());
    let before = clock::children_cpu();
    store.prune(KEPT)?;
    figures.cpu[Step::Prune as usize] = clock::children_cpu() - before;
    figures.stored = [full, store.bytes()?].map(|bytes| bytes as f64);
    Ok(figures)
}

/// Ours beside a rival's, the rival's CPU seconds over ours.
fn beside(lab: &Lab, tree: &Tree, rival: &str, ours: &[Figures], theirs: &[Figures]) -> Vec<Row> {
    let mut rows = Vec::new();
    for step in Step::ALL {
        let cpu = |figures: &[Figures]| median_of(figures, |figures| figures.cpu[step as usize]);
        let (ours, theirs) = (cpu(ours), cpu(theirs));
        rows.push(Row {
            goal: lab.pick(Some(Goal::AtLeast(2.0)), None),
            note: format!("CPU seconds: {ours:.2}, {rival} {theirs:.2}"),
            ..Row::new(
                GROUP,
                format!("{}: {rival} / ours, {}", tree.name, step.name()),
                theirs / ours.max(1e-3),
                Unit::Times,
            )
        });
    }
    for (at, when) in ["stored", "stored after pruning"].into_iter().enumerate() {
        let bytes = |figures: &[Figures]| median_of(figures, |figures| figures.stored[at]);
        let (ours, theirs) = (bytes(ours), bytes(theirs));
        rows.push(Row {
            goal: lab.pick(Some(Goal::AtMost(1.0)), None),
            note: format!("MB: {:.1}, {rival} {:.1}", ours * 1e-6, theirs * 1e-6),
            ..Row::new(
                GROUP,
                format!("{}: ours / {rival}, {when}", tree.name),
                ours / theirs,
                Unit::Share,
            )
        });
    }
    rows
}

/// Reading all of the last version through a mount, beside restoring it.
fn mounted(lab: &Lab, tree: &Tree, ours: &[Figures]) -> Option<Row> {
    ours.first()?.mounted?;
    let read = median_of(ours, |figures| figures.mounted.unwrap_or(f64::INFINITY));
    let restored = median_of(ours, |figures| figures.restored);
    Some(Row {
        goal: lab.pick(Some(Goal::AtLeast(0.8)), None),
        note: format!("seconds: {read:.2}, restored in {restored:.2}"),
        ..Row::new(
            GROUP,
            format!("{}: reading through a mount / restoring", tree.name),
            restored / read,
            Unit::Share,
        )
    })
}
