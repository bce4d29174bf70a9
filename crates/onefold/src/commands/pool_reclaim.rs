//! `onefold pool reclaim`: what overwritten data takes is won back, now.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_control::{Report, Unit};
use onefold_pool::{PoolStatus, SpaceTarget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::PoolReclaimArgs;
use crate::failure::{Failure, Result};
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;

/// Work between two looks at the progress, in bytes.
const STEP_BYTES: u64 = 4 << 20;

/// How far to go.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// How many bytes may be stored for each byte that is alive.
    pub to: f64,
}

impl Default for Request {
    fn default() -> Self {
        Self { to: 1.2 }
    }
}

/// Win space back, and say how much.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let (pool, job) = (context.pool, context.job);
    let to = SpaceTarget::new(request.to).map_err(failed)?;
    let before = pool.status().map_err(failed)?;
    let mut moved = 0;
    loop {
        let step = pool.background(STEP_BYTES, to).map_err(failed)?;
        moved += step.moved_bytes;
        let totals = pool.space();
        let dead = totals.stored_bytes.saturating_sub(totals.live_bytes);
        let done = before.dead_bytes.saturating_sub(dead);
        job.tell("moving", Unit::Bytes, done, Some(before.dead_bytes));
        if step.done || job.is_cancelled() {
            break;
        }
    }
    pool.checkpoint().map_err(failed)?;
    let after = pool.status().map_err(failed)?;
    let said = verdict(&before, &after, moved, to);
    Ok(if job.is_cancelled() { interrupted(&said) } else { Report::note(said) })
}

/// What there is when nobody wanted it to go on.
pub fn interrupted(said: &str) -> Report {
    let mut report = Report::note(said);
    report.fault = Some(Failure::bad("it was told to end before all was done").into_fault());
    report
}

/// Win space back, and print what came of it.
pub fn run(args: &PoolReclaimArgs, printer: &Printer) -> Result<()> {
    let request = Request { to: args.to.stored_over_live() };
    let opening = Opening::Write(args.memory.budgets()?);
    let report = door::call(&args.pool, opening, &table::POOL_RECLAIM, &request, printer)?;
    printer.report(report, false)
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

#[cfg(test)]
mod tests {
    use onefold_block::BlockDevice as _;

    use super::*;
    use crate::commands::heard::{self, Folder};
    use crate::test_pool;

    #[test]
    fn space_is_won_back_or_there_is_none_to_win() {
        let here = Folder::new();
        here.ok("pool create ./p");
        let said = here.ok("pool reclaim ./p");
        let nothing = "nothing to win back towards 1.20x: 0 B are stored for 0 B that are alive";
        assert!(said.err.starts_with(nothing), "{}", said.err);

        let settings = onefold_pool::PoolSettings {
            container_bytes: 256 << 10,
            ..onefold_pool::PoolSettings::default()
        };
        let pool = test_pool::pool_of(&settings);
        let volume = pool.create_volume("v", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &onefold_block::SplitMix64::new(1).bytes(1 << 20), true).unwrap();
        for block in (0..256).filter(|block| block % 4 != 0) {
            volume.trim(block * 4096, 4096, false).unwrap();
        }
        let report = heard::operate(&pool, &table::POOL_RECLAIM, &Request::default()).unwrap();
        let said = report.notes.concat();
        assert!(said.starts_with("won ") && said.contains(" back and moved "), "{said}");
        assert!(!said.contains("won 0 B") && !said.contains("moved 0 B"), "{said}");
        assert!(report.fault.is_none());
        let nowhere = heard::operate(&pool, &table::POOL_RECLAIM, &Request { to: 0.5 });
        assert!(nowhere.is_err());
    }

    #[test]
    fn what_was_told_to_end_is_no_success() {
        let report = interrupted("so far");
        assert_eq!(report.notes, ["so far"]);
        let fault = report.fault.unwrap();
        assert_eq!(
            (fault.exit_status, &*fault.message),
            (1, "it was told to end before all was done")
        );
    }
}
