//! `onefold pool deduplicate`: what is stored more than once is found, now.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_control::{Report, Unit};
use onefold_pool::{PoolStatus, Thoroughness};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_reclaim::interrupted;
use crate::args::PoolDeduplicateArgs;
use crate::failure::Result;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;
use crate::table::plural;

/// Work between two looks at the progress, in bytes.
const STEP_BYTES: u64 = 4 << 20;

/// Nothing to say.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {}

/// Compare everything with everything, and say what was found.
pub fn operate(context: &Context<'_>, _: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let (pool, job) = (context.pool, context.job);
    // Only what a checkpoint knows is compared.
    pool.checkpoint().map_err(failed)?;
    let before = pool.status().map_err(failed)?;
    loop {
        let step = pool.deduplicate(STEP_BYTES, Thoroughness::Whole).map_err(failed)?;
        if step.done || job.is_cancelled() {
            break;
        }
        let now = pool.status().map_err(failed)?.deduplication;
        let (done, all) = now.merging.unwrap_or((0, now.new));
        job.tell("comparing", Unit::Blocks, done, Some(all));
    }
    pool.checkpoint().map_err(failed)?;
    let after = pool.status().map_err(failed)?;
    let said = verdict(&before, &after);
    Ok(if job.is_cancelled() { interrupted(&said) } else { Report::note(said) })
}

/// Compare, and print what was found.
pub fn run(args: &PoolDeduplicateArgs, printer: &Printer) -> Result<()> {
    let opening = Opening::Write(args.memory.budgets()?);
    let request = Request {};
    let report = door::call(&args.pool, opening, &table::POOL_DEDUPLICATE, &request, printer)?;
    printer.report(report, false)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;
    use crate::test_pool;

    #[test]
    fn what_was_found_won_and_left_is_said() {
        let before = test_pool::pool().status().unwrap();
        let said = |found, left, (stored, dead): (u64, u64)| {
            let mut after = before.clone();
            after.deduplication.found = found;
            after.deduplication.new = left;
            after.stored_bytes -= stored;
            (after.dead_bytes, after.removable_bytes) = (dead + 4096, 4096);
            verdict(&before, &after)
        };
        assert_eq!(said(0, 0, (0, 0)), "nothing is stored more than once");
        let one = "1 block was stored more than once: 4 KiB; won 1 KiB back";
        assert_eq!(said(1, 0, (1024, 0)), one);
        let more = ", and `onefold pool reclaim` can win up to 8 KiB";
        assert_eq!(said(1, 0, (1024, 8192)), format!("{one}{more}"));
        let left = "; 4 KiB could not be compared, for want of space or because it is damaged";
        assert_eq!(said(0, 1, (0, 0)), format!("nothing is stored more than once{left}"));

        let here = Folder::new();
        here.ok("pool create ./p");
        assert_eq!(here.ok("pool deduplicate ./p").err, "nothing is stored more than once\n");
    }
}
