//! Space won back: what is stored for what is alive, what that costs, and what is left of order.
//! Room: onefold-bench.
//! With reclaim and without are measured in the same run, an overwrite of the one after an
//! overwrite of the other. Figures are of one run whatever `--rounds` says, but for those with
//! clients: a run is ten overwrites of a volume, and what it counts are bytes and CPU seconds.

mod churn;
mod memory;
mod picture;
mod reads;
mod tail;

use anyhow::Result;
use onefold_block::ByteSize;
use onefold_pool::{Budgets, SpaceTarget};

use crate::lab::Lab;
use crate::nbd;
use crate::report::{Goal, Row, Unit};

use churn::{Churn, Cost, Pattern, Sample};
use picture::Curve;
use reads::Sequential;

pub use memory::work as memory_work;

const GROUP: &str = "space";
/// The picture, as the page shows it.
pub const PICTURE: &str = "
![Stored bytes for each live one, with reclaim and without](plots/space.svg)
";
/// Times that the volume is overwritten.
const OVERWRITES: u64 = 10;
/// From here on the target must hold.
const SETTLED: f64 = 2.0;

/// Measure everything about space.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    if lab.wants("churn") {
        let mut curves = Vec::new();
        all.extend(overwritten(lab, Pattern::Uniform, &mut curves)?);
        all.extend(overwritten(lab, Pattern::Zipf, &mut curves)?);
        all.extend(trimmed(lab)?);
        let svg = picture::draw(&curves);
        if let Some(page) = &lab.page {
            picture::write(page, &svg)?;
        }
    }
    if lab.wants("memory") {
        all.push(memory::run(lab)?);
    }
    if lab.wants("unique") {
        all.push(unique(lab)?);
    }
    if lab.wants("tail") {
        all.extend(tail::run(lab)?);
    }
    Ok(all)
}

fn volume_bytes(lab: &Lab) -> u64 {
    lab.pick(512 << 20, 16 << 20)
}

fn target() -> Result<SpaceTarget> {
    Ok(SpaceTarget::new(1.5)?)
}

/// A goal where sizes are large enough for it: in a small pool the containers that are being filled
/// are much of it.
fn goal(lab: &Lab, goal: Goal) -> Option<Goal> {
    lab.pick(Some(goal), None)
}

/// Two pools in turn, one that keeps to the target and one that never wins space back.
fn overwritten(lab: &Lab, pattern: Pattern, curves: &mut Vec<Curve>) -> Result<Vec<Row>> {
    let bytes = volume_bytes(lab);
    let scratch = lab.scratch()?;
    let new = |name: &str, target| {
        Churn::new(&scratch.path().join(name), Budgets::default(), bytes, pattern, target)
    };
    let mut kept = new("kept", Some(target()?))?;
    let mut left = new("left", None)?;
    // Before anything is overwritten: what a fresh volume reads like.
    let fresh = reads::sequential(&new("fresh", None)?.close()?)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut costs = [Cost::default(); 2];
    for number in 0..OVERWRITES {
        eprintln!("space: {pattern:?}, overwrite {} of {OVERWRITES}", number + 1);
        let both = [
            kept.overwrite(bytes, bytes / 16, &mut |sample| with.push(*sample))?,
            left.overwrite(bytes, bytes / 16, &mut |sample| without.push(*sample))?,
        ];
        if number as f64 >= SETTLED {
            costs[0] = costs[0].and(both[0]);
            costs[1] = costs[1].and(both[1]);
        }
    }
    drop(left);
    let name = match pattern {
        Pattern::Uniform => "uniform",
        Pattern::Zipf => "Zipf 1.1",
    };
    let mut rows = figures(lab, name, &with, &without, &costs);
    let moved = kept.idle(target()?)?;
    let after = reads::sequential(&kept.close()?)?;
    rows.extend(read_rows(lab, name, fresh, after, moved));
    curves.push(Curve { name: format!("{name}, no reclaim"), samples: without });
    curves.push(Curve { name: format!("{name}, kept at 1.5"), samples: with });
    Ok(rows)
}

fn most(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().filter(|sample| sample.overwrites >= SETTLED).map(of).fold(0.0, f64::max)
}

fn figures(
    lab: &Lab,
    name: &str,
    with: &[Sample],
    without: &[Sample],
    costs: &[Cost; 2],
) -> Vec<Row> {
    let row = |what: &str, value, unit, wanted| Row {
        goal: goal(lab, wanted),
        ..Row::new(GROUP, format!("{name} overwrites: {what}"), value, unit)
    };
    let over = |sample: &Sample| sample.stored_over_live;
    let [cost, free] = costs;
    let moved = cost.moved_bytes as f64;
    let speed = |cost: &Cost| cost.written_bytes as f64 / cost.cpu;
    let per_gib = (1u64 << 30) as f64 / speed(cost);
    vec![
        Row {
            note: format!(
                "without reclaim {:.2}x; with all files of the pool {:.2}x; a volume of {}",
                most(without, over),
                most(with, |sample| sample.files_over_live),
                ByteSize(volume_bytes(lab))
            ),
            ..row("most stored over live", most(with, over), Unit::Times, Goal::AtMost(1.5))
        },
        Row {
            note: format!(
                "{:.2} for each byte that clients wrote, before compression",
                moved / cost.written_bytes as f64
            ),
            ..row(
                "moved for each byte of new records",
                moved / cost.record_bytes as f64,
                Unit::Times,
                Goal::AtMost(1.0),
            )
        },
        Row {
            speed: Some(speed(cost)),
            reference: Some(speed(free)),
            cpu_per_gib: Some(per_gib),
            note: "speeds of one thread per CPU second, 4 KiB requests".to_owned(),
            ..row(
                "write speed against no reclaim",
                speed(cost) / speed(free),
                Unit::Share,
                Goal::AtLeast(0.6),
            )
        },
    ]
}

fn read_rows(lab: &Lab, name: &str, fresh: Sequential, after: Sequential, moved: u64) -> [Row; 2] {
    let row = |what: &str, value, most| Row {
        goal: goal(lab, Goal::AtMost(most)),
        ..Row::new(
            GROUP,
            format!("sequential reads after {name} overwrites: {what}"),
            value,
            Unit::Times,
        )
    };
    [
        Row {
            note: format!(
                "{:.1} and {:.1} per MiB; {} moved while idle",
                after.reads_per_mib,
                fresh.reads_per_mib,
                ByteSize(moved)
            ),
            ..row("disk reads against fresh", after.reads_per_mib / fresh.reads_per_mib, 3.0)
        },
        Row {
            cpu_per_gib: Some(after.cpu_per_gib),
            note: format!("fresh {:.2} s/GiB", fresh.cpu_per_gib),
            ..row("CPU against fresh", after.cpu_per_gib / fresh.cpu_per_gib, 1.5)
        },
    ]
}

/// Every second block is given up, and the pool is idle.
fn trimmed(lab: &Lab) -> Result<Vec<Row>> {
    eprintln!("space: every second block trimmed");
    let scratch = lab.scratch()?;
    let path = scratch.path().join("pool");
    let (budgets, bytes) = (Budgets::default(), volume_bytes(lab));
    let churn = Churn::new(&path, budgets, bytes, Pattern::Uniform, Some(target()?))?;
    churn.trim_every_second()?;
    let before = churn.sample()?.stored_over_live;
    let moved = churn.idle(target()?)?;
    let after = churn.sample()?.stored_over_live;
    let note = format!("{before:.2}x at first; {} moved", ByteSize(moved));
    let name = "every second block trimmed, then idle: stored over live";
    let goal = goal(lab, Goal::AtMost(1.5));
    Ok(vec![Row { goal, note, ..Row::new(GROUP, name, after, Unit::Times) }])
}

/// 128 KiB unique writes over NBD beside nbdkit memory.
fn unique(lab: &Lab) -> Result<Row> {
    let pairs = nbd::unique_copies(lab)?;
    let share =
        crate::measure::median_of(&pairs, |pair| pair[0].cpu_per_gib() / pair[1].cpu_per_gib());
    let name = "128 KiB unique writes over NBD: CPU of both sides against nbdkit memory";
    let row = nbd::row(GROUP, name, &pairs, share, Unit::Times);
    Ok(Row { goal: goal(lab, Goal::AtMost(1.07)), ..row })
}
