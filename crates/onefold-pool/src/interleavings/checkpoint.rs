//! Writers, readers and trims while a checkpoint is at each of its media operations.
//! Room: onefold-pool.

use std::sync::atomic::{AtomicBool, Ordering};

use onefold_block::interleave::{Switches, run};

use super::operations::{Operation, Stage};

/// Operations on the checkpoint's own files, as their points are named.
fn is_of_checkpoint(point: &str) -> bool {
    ["map", "super.0", "super.1", "journal"].iter().any(|name| point.ends_with(name))
}

#[test]
fn who_writes_reads_or_trims_ends_while_a_checkpoint_waits_for_the_media() {
    let operations = [
        Operation::WriteDuplicate,
        Operation::WriteUnique,
        Operation::WritePiece,
        Operation::Read,
        Operation::Trim,
    ];
    for operation in operations {
        let (mut met, mut to_second) = (Vec::new(), 1);
        loop {
            let stage = Stage::new(false);
            let written = AtomicBool::new(false);
            let checkpoint = || {
                stage.pool.checkpoint().unwrap();
                written.store(true, Ordering::SeqCst);
            };
            let other = || {
                stage.perform(operation, 1).unwrap();
                !written.load(Ordering::SeqCst)
            };
            let ran = run(Switches { to_second, back: None }, checkpoint, other);
            {
                let engine = stage.pool.inner.engine();
                let (used, waiting) = (engine.space.journal_used(), engine.entries.len_bytes());
                assert!(used > waiting as u64, "{operation:?}: what waits has its place");
            }
            let Some(point) = ran.points.get(to_second - 1) else { break };
            if is_of_checkpoint(point) {
                assert!(ran.second, "{operation:?} waited for a checkpoint that was {point}");
                met.push(point.clone());
            }
            to_second += 1;
        }
        for file in ["map", "super.0", "journal"] {
            let met = met.iter().any(|point| point.ends_with(file));
            assert!(met, "{operation:?} met no operation of {file}");
        }
    }
}
