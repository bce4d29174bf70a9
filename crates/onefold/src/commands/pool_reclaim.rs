//! `onefold pool reclaim`: what overwritten data takes is won back, now.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_pool::{PoolStatus, SpaceTarget};

use crate::args::PoolReclaimArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;
use crate::progress;

/// Work between two looks at the progress, in bytes.
const STEP_BYTES: u64 = 4 << 20;

/// Win space back, and say how much.
pub fn run(args: &PoolReclaimArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    let pool = open_pool::to_write(&args.pool, args.memory.budgets()?)?;
    let before = pool.status().map_err(failed)?;
    let bar = progress::bytes(printer, "moving", Some(before.dead_bytes));
    let mut moved = 0;
    loop {
        let step = match pool.background(STEP_BYTES, args.to) {
            Ok(step) => step,
            Err(error) => {
                bar.finish_and_clear();
                return Err(failed(error));
            }
        };
        moved += step.moved_bytes;
        let totals = pool.space();
        bar.set_position(before.dead_bytes.saturating_sub(totals.stored_bytes - totals.live_bytes));
        if step.done {
            break;
        }
    }
    bar.finish_and_clear();
    pool.checkpoint().map_err(failed)?;
    let after = pool.status().map_err(failed)?;
    pool.close().map_err(failed)?;
    printer.note(&verdict(&before, &after, moved, args.to));
    Ok(())
}

fn verdict(before: &PoolStatus, after: &PoolStatus, moved: u64, to: SpaceTarget) -> String {
    let won = before.stored_bytes.saturating_sub(after.stored_bytes);
    let live = format!(
        "{} are stored for {} that are alive ({:.2}x)",
        ByteSize(after.container_bytes),
        ByteSize(after.live_bytes),
        after.stored_over_live()
    );
    match (won, moved) {
        (0, 0) => format!("nothing to win back towards {to}: {live}"),
        _ => format!("won {} back and moved {}: {live}", ByteSize(won), ByteSize(moved)),
    }
}
