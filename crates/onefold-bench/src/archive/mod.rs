//! Archives beside borg and restic: six versions of real trees, in CPU seconds and stored bytes.
//! Room: onefold-bench.
//! Every program gets the same folders in turn, in the same run, and compresses with Zstandard at
//! its level 3 or what it calls its default. Without encryption ours stands beside borg's, with a
//! key file beside restic's, which always encrypts.
//! Nothing is deleted before the end: ext4 passes over each inode that was deleted in the last
//! minutes, one by one, before it takes a free one, which would be most of what the next restore
//! costs. What others delete on the same file system costs as much: `--dir` names a quiet one.

mod tools;
mod trees;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::clock;
use crate::lab::Lab;
use crate::measure::median_of;
use crate::report::{Goal, Row, Unit};

pub use tools::at_hand;
use tools::{Step, Store, Tool};
use trees::Tree;

const GROUP: &str = "archive";
/// A file that changed in the last minute is read again by an addition, as its times cannot tell.
const REST: Duration = Duration::from_secs(61);
/// Versions that are kept when others are pruned.
const KEPT: usize = 2;

/// What a program took for one tree.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// CPU seconds of each step, and of these the kernel's.
    cpu: [f64; 4],
    kernel: [f64; 4],
    /// Bytes after all versions were added, and after all but the last ones were pruned.
    stored: [f64; 2],
    /// Wall and CPU seconds of restoring, and of reading all through a mount, where that can be
    /// had.
    restored: [f64; 2],
    mounted: Option<[f64; 2]>,
}

/// Measure archives.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let tools = at_hand(lab.quick)?;
    for version in tools.iter().filter_map(|tool| tool.version()) {
        eprintln!("archive: {version}");
    }
    let scratch = lab.scratch()?;
    let trees = trees::make(lab, scratch.path())?;
    if !lab.quick {
        std::thread::sleep(REST);
    }
    let mut rows = Vec::new();
    for tree in &trees {
        let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); tools.len()];
        for round in 0..lab.rounds {
            eprintln!("archive: {}, round {} of {}", tree.name, round + 1, lab.rounds);
            for (tool, figures) in tools.iter().zip(&mut figures) {
                let here = format!("stores/{}-{round}-{}", tree.name, tool.name());
                let here = scratch.path().join(here);
                figures.push(measure(*tool, tree, &here).with_context(|| tool.name())?);
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
        let before = [clock::children_cpu(), clock::children_kernel()];
        work()?;
        figures.cpu[step as usize] += clock::children_cpu() - before[0];
        figures.kernel[step as usize] += clock::children_kernel() - before[1];
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
    let restored = begun.elapsed().as_secs_f64();
    ensure!(store.is_as(last)?, "{} restored something else", tool.name());
    let (begun, before) = (Instant::now(), clock::children_cpu());
    let mounted = store.read_mounted()?;
    let read = [begun.elapsed().as_secs_f64(), clock::children_cpu() - before];
    step(Step::Prune, &mut || store.prune(KEPT))?;
    figures.restored = [restored, figures.cpu[Step::Restore as usize]];
    figures.mounted = mounted.then_some(read);
    figures.stored = [full, store.bytes()?].map(|bytes| bytes as f64);
    Ok(figures)
}

/// Ours beside a rival's, the rival's CPU seconds over ours.
fn beside(lab: &Lab, tree: &Tree, rival: &str, ours: &[Figures], theirs: &[Figures]) -> Vec<Row> {
    let mut rows = Vec::new();
    for step in Step::ALL {
        let cpu = |figures: &[Figures]| median_of(figures, |figures| figures.cpu[step as usize]);
        let kernel =
            |figures: &[Figures]| median_of(figures, |figures| figures.kernel[step as usize]);
        let of_kernel = [kernel(ours), kernel(theirs)];
        let (ours, theirs) = (cpu(ours), cpu(theirs));
        rows.push(Row {
            goal: lab.pick(Some(Goal::AtLeast(2.0)), None),
            note: format!(
                "CPU seconds: {ours:.2} ({:.2} in the kernel), {rival} {theirs:.2} ({:.2})",
                of_kernel[0], of_kernel[1]
            ),
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
    let [read, read_cpu] = [0, 1]
        .map(|at| median_of(ours, |figures| figures.mounted.map_or(f64::INFINITY, |all| all[at])));
    let [restored, restored_cpu] = [0, 1].map(|at| median_of(ours, |figures| figures.restored[at]));
    Some(Row {
        goal: lab.pick(Some(Goal::AtLeast(0.8)), None),
        note: format!(
            "seconds: {read:.2} (CPU {read_cpu:.2}), restored in {restored:.2} (CPU \
             {restored_cpu:.2})"
        ),
        ..Row::new(
            GROUP,
            format!("{}: reading through a mount / restoring", tree.name),
            restored / read,
            Unit::Share,
        )
    })
}
