//! What a simulated disk may hold after a power cut.
//! Room: onefold-block.
//! In: files and names with their pending versions. Out: a world in which all is durable.
//! Invariants: each sector, each length and each name is what it was when last made durable or
//! after one of the operations since; nothing else ever appears.

use std::collections::BTreeSet;

use super::file::SimFile;
use super::world::{Dir, NodeKind, ROOT, World};
use crate::seeded::SplitMix64;

/// How much of what was never synced a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// Only what was made durable.
    KeepNothing,
    /// Everything, as if all had just reached the disk.
    KeepEverything,
    /// Anything in between, drawn from the seed: for the whole disk either the operations in
    /// order up to one that is torn, or for each file and folder its own choice of nothing,
    /// everything, a torn prefix, or sectors (lengths, names) in any mix, later ones without
    /// earlier ones too.
    Random,
}

/// The choice for one file or folder.
#[derive(Clone, Copy, Debug)]
enum Keep {
    Nothing,
    Everything,
    /// Operations up to and including this number, and a torn part of the next pending one.
    Until {
        op: u64,
        torn: u64,
    },
    /// Each version on its own; the latest at least this often out of 100.
    Any {
        latest_percent: u64,
    },
}

/// The disk that the power cut leaves.
pub(super) fn after_crash(world: &World, seed: u64, mode: CrashMode) -> World {
    let mut random = SplitMix64::new(seed);
    let all_ops = || world.nodes.values().flat_map(|node| pending_ops(&node.kind)).collect();
    let whole = match mode {
        CrashMode::KeepNothing => Some(Keep::Nothing),
        CrashMode::KeepEverything => Some(Keep::Everything),
        CrashMode::Random if random.chance(1, 3) => Some(until(&all_ops(), &mut random)),
        CrashMode::Random => None,
    };
    let mut left = World::new(world.capacity_bytes);
    left.keeps_pages = world.keeps_pages;
    copy_folder(world, ROOT, &mut left, ROOT, whole, &mut random);
    left
}

/// Copy what survives of a folder `from` into the empty folder `to` of another world.
fn copy_folder(
    world: &World,
    from: u64,
    left: &mut World,
    to: u64,
    whole: Option<Keep>,
    random: &mut SplitMix64,
) {
    let dir = world.dir(from);
    let keep = whole.unwrap_or_else(|| own_choice(&world.nodes[&from].kind, random));
    for (name, state) in &dir.names {
        let marks: Vec<(u64, bool)> = state.pending.iter().map(|v| (v.at, v.doubtful)).collect();
        let chosen = match choose(keep, &marks, None, random) {
            Some(index) => state.pending[index].state,
            None => state.durable,
        };
        let Some(node) = chosen else { continue };
        match &world.nodes[&node].kind {
            NodeKind::Dir(_) => {
                let inner = left.adopt(to, name, NodeKind::Dir(Dir::default()));
                copy_folder(world, node, left, inner, whole, random);
            }
            NodeKind::File(file) => {
                let survivor = crash_file(file, whole, random);
                left.adopt(to, name, NodeKind::File(survivor));
            }
        }
    }
}

fn crash_file(file: &SimFile, whole: Option<Keep>, random: &mut SplitMix64) -> SimFile {
    let keep = whole.unwrap_or_else(|| {
        let ops = file.pending_ops().collect();
        draw_keep(&ops, random)
    });
    // The one operation that may be torn, and the sectors it wrote here.
    let torn = match keep {
        Keep::Until { torn, .. } => file.sectors_of(torn),
        _ => 0..0,
    };
    // Half of the torn writes stop at a sector, the others lose sectors anywhere.
    let stop = if !torn.is_empty() && random.chance(1, 2) {
        Some(torn.start + random.below(torn.end - torn.start + 1))
    } else {
        None
    };
    let keep_space = match keep {
        Keep::Nothing => false,
        Keep::Everything => true,
        _ => random.chance(1, 2),
    };
    let mut lens = random.split();
    file.after_crash(
        |sector, marks| choose(keep, marks, stop.map(|stop| sector < stop), random),
        |marks| choose(keep, marks, None, &mut lens),
        keep_space,
    )
}

/// Pick one of the versions, or `None` for what is durable. `torn` settles whether the torn
/// operation's part is kept; `None` leaves it to chance.
fn choose(
    keep: Keep,
    marks: &[(u64, bool)],
    torn: Option<bool>,
    random: &mut SplitMix64,
) -> Option<usize> {
    let last = marks.len().checked_sub(1)?;
    match keep {
        Keep::Nothing => None,
        Keep::Everything => Some(last),
        Keep::Until { op, torn: next } => {
            let mut chosen = None;
            for (index, &(at, doubtful)) in marks.iter().enumerate() {
                let whole = at <= op && (!doubtful || random.chance(1, 2));
                let part = at == next && torn.unwrap_or_else(|| random.chance(1, 2));
                if whole || part {
                    chosen = Some(index);
                }
            }
            chosen
        }
        Keep::Any { latest_percent } => {
            if random.chance(latest_percent, 100) {
                return Some(last);
            }
            random.below(marks.len() as u64 + 1).checked_sub(1).map(|index| index as usize)
        }
    }
}

fn own_choice(kind: &NodeKind, random: &mut SplitMix64) -> Keep {
    draw_keep(&pending_ops(kind).into_iter().collect(), random)
}

fn draw_keep(ops: &BTreeSet<u64>, random: &mut SplitMix64) -> Keep {
    match random.below(6) {
        0 => Keep::Nothing,
        1 => Keep::Everything,
        2 | 3 => until(ops, random),
        _ => Keep::Any { latest_percent: [0, 50, 90][random.below(3) as usize] },
    }
}

/// A cut in the middle of one of the pending operations.
fn until(ops: &BTreeSet<u64>, random: &mut SplitMix64) -> Keep {
    if ops.is_empty() {
        return Keep::Nothing;
    }
    let index = random.below(ops.len() as u64) as usize;
    let torn = *ops.iter().nth(index).expect("the index is below the length");
    Keep::Until { op: torn - 1, torn }
}

fn pending_ops(kind: &NodeKind) -> Vec<u64> {
    match kind {
        NodeKind::File(file) => file.pending_ops().collect(),
        NodeKind::Dir(dir) => {
            dir.names.values().flat_map(|state| state.pending.iter().map(|v| v.at)).collect()
        }
    }
}
