//! `onefold pool status`: what a pool holds, saves and uses.
//! Room: onefold.

use crate::args::PoolStatusArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;
use crate::pool_cache::CacheReport;
use crate::status_view::{StatusJson, status_text};

/// Print the status.
pub fn run(args: &PoolStatusArgs, printer: &Printer) -> Result<()> {
    let pool = open_pool::to_read(&args.pool, args.memory.budgets()?)?;
    let status = pool.status().map_err(|error| Failure::pool(&args.pool, error))?;
    let cache = CacheReport::saved(&args.cache, &status.uuid);
    if args.json {
        return printer.json(&StatusJson::new(&args.pool, &status, cache.as_ref()));
    }
    let heading = |heading: &str| printer.heading(heading);
    printer.data(&status_text(&args.pool, &status, cache.as_ref(), heading))
}
