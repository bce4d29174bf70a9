//! `onefold volume resize`: another size for a volume.
//! Room: onefold.

use onefold_block::{BlockDevice as _, ByteSize};
use onefold_pool::Budgets;

use crate::args::VolumeResizeArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;

/// Resize the volume.
pub fn run(args: &VolumeResizeArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    let pool = open_pool::to_write(&args.pool, Budgets::default())?;
    let before = ByteSize(pool.volume(&args.name).map_err(failed)?.size_bytes());
    pool.resize_volume(&args.name, args.size, args.discard).map_err(failed)?;
    pool.close().map_err(failed)?;
    printer.note(&format!("volume '{}' has {} now, {before} before", args.name, args.size));
    Ok(())
}
