//! Writers that wait for the media keep nobody else waiting.
//! Room: onefold-pool.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_block::interleave::{Switches, run};
use onefold_block::{BlockDevice, ByteSize};

use super::operations::{CHUNK, Operation, Stage, chunk};

/// More map leaves than space is set aside for in a step, so that writes into them ask for more.
const LEAVES: u64 = 80;
/// Blocks under one of them.
const LEAF: u64 = 512;

/// The media operations of `first`, in all of which `second` went through to its end.
fn met(second: Operation, first: impl Fn(&Stage) + Sync) -> BTreeSet<String> {
    let (mut met, mut to_second) = (BTreeSet::new(), 1);
    loop {
        let stage = Stage::new(false);
        let size = ByteSize(LEAVES * LEAF * CHUNK as u64);
        drop(stage.pool.create_volume("wide", size).unwrap());
        let over = AtomicBool::new(false);
        let one = || {
            first(&stage);
            over.store(true, Ordering::SeqCst);
        };
        let other = || {
            stage.perform(second, 1).unwrap();
            !over.load(Ordering::SeqCst)
        };
        let ran = run(Switches { to_second, back: None }, one, other);
        let Some(point) = ran.points.get(to_second - 1) else { return met };
        if point.starts_with("before ") || point.starts_with("after ") {
            assert!(ran.second, "{second:?} waited for a writer {point}");
            met.insert(point.clone());
        }
        to_second += 1;
    }
}

#[test]
fn who_writes_reads_or_trims_ends_while_a_writer_asks_for_space() {
    let seconds =
        [Operation::WriteDuplicate, Operation::WritePiece, Operation::Read, Operation::Trim];
    for second in seconds {
        // Two chunks: the second of them needs the next container.
        let fills = |stage: &Stage| drop(stage.perform(Operation::WriteUnique, 0).unwrap());
        let filling = met(second, fills);
        assert!(filling.iter().any(|point| point.contains("create")), "{second:?}: {filling:?}");
    }
}

#[test]
fn who_reads_or_trims_ends_while_a_writer_asks_for_space_for_maps_and_journal() {
    for second in [Operation::Read, Operation::Trim] {
        let spreads = |stage: &Stage| {
            let wide = stage.pool.volume("wide").unwrap();
            for leaf in 0..LEAVES {
                wide.write_at(leaf * LEAF * CHUNK as u64, &chunk(4), false).unwrap();
            }
        };
        let spreading = met(second, spreads);
        assert!(spreading.contains("before reserve of map"), "{second:?}: {spreading:?}");
    }
}
