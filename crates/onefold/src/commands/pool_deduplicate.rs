//! `onefold pool deduplicate`: what is stored more than once is found, now.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_pool::{DeduplicationStatus, PoolStatus, Thoroughness};

use crate::args::PoolDeduplicateArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;
use crate::progress;
use crate::table::plural;

/// Work between two looks at the progress, in bytes.
const STEP_BYTES: u64 = 4 << 20;

/// Compare everything with everything, and say what was found.
pub fn run(args: &PoolDeduplicateArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    let pool = open_pool::to_write(&args.pool, args.memory.budgets()?)?;
    // Only what a checkpoint knows is compared.
    pool.checkpoint().map_err(failed)?;
    let before = pool.status().map_err(failed)?;
    let bar = progress::counted(printer, "comparing", "blocks", None);
    loop {
        let step = pool.deduplicate(STEP_BYTES, Thoroughness::Whole).map_err(|error| {
            bar.finish_and_clear();
            failed(error)
        })?;
        if step.done {
            break;
        }
        show(&bar, &pool.status().map_err(failed)?.deduplication);
    }
    bar.finish_and_clear();
    pool.checkpoint().map_err(failed)?;
    let after = pool.status().map_err(failed)?;
    pool.close().map_err(failed)?;
    printer.note(&verdict(&before, &after));
    Ok(())
}

fn show(bar: &progress::Bar, now: &DeduplicationStatus) {
    let (done, all) = now.merging.unwrap_or((0, now.new));
    bar.set_length(all);
    bar.set_position(done);
}

fn verdict(before: &PoolStatus, after: &PoolStatus) -> String {
    let found = after.deduplication.found;
    let left = after.deduplication.undetermined();
    let chunk = after.settings.chunk_size.bytes64();
    let said = if found == 0 {
        "nothing is stored more than once".to_owned()
    } else {
        let blocks = plural(found, "block was", "blocks were");
        let data = ByteSize(found * chunk);
        let won = ByteSize(before.stored_bytes.saturating_sub(after.stored_bytes));
        let said = format!("{blocks} stored more than once: {data}; won {won} back");
        match after.dead_bytes - after.removable_bytes {
            0 => said,
            dead => format!("{said}, and `onefold pool reclaim` can win up to {}", ByteSize(dead)),
        }
    };
    if left == 0 {
        return said;
    }
    let left = ByteSize(left * chunk);
    format!("{said}; {left} could not be compared, for want of space or because it is damaged")
}
