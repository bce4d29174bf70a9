//! `onefold pool drain`: the server of a pool stops in order.
//! Room: onefold.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onefold_control::Report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::PoolDrainArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::operate::door::Door;
use crate::operate::{Context, table};
use crate::output::Printer;

/// Longest that a server takes to stop, and some more.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(20);

/// Nothing to say.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {}

/// Begin to stop.
pub fn operate(context: &Context<'_>, _: &Request) -> Result<Report> {
    match context.live {
        Some(live) if live.stop() => Ok(Report::note("the server answers what it has, and stops")),
        _ => Err(Failure::nothing_done("no server is there to stop")),
    }
}

/// To the server of a pool, which there must be.
pub fn served(pool: &Path) -> Result<Door> {
    open_pool::must_exist(pool)?;
    let at = pool.display();
    Door::served(pool)?.ok_or_else(|| {
        Failure::nothing_done(format!("no server has pool '{at}'"))
            .hint(format!("one is started with: onefold serve {at}"))
    })
}

/// Stop the server, and wait until the pool is free.
pub fn run(args: &PoolDrainArgs, printer: &Printer) -> Result<()> {
    let door = served(&args.pool)?;
    let report = door.call(&table::POOL_DRAIN, &Request {}, printer)?;
    drop(door);
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if onefold_pool::Pool::lock_at(&args.pool).is_ok() {
            printer.report(report, false)?;
            printer.note("it has stopped");
            return Ok(());
        }
        sleep(LOOK);
    }
    Err(Failure::bad(format!("the server of pool '{}' has not stopped yet", args.pool.display())))
}
