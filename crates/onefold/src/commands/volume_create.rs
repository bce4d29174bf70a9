//! `onefold volume create`: a thin volume.
//! Room: onefold.

use onefold_pool::Budgets;

use crate::args::VolumeCreateArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;

/// Make the volume.
pub fn run(args: &VolumeCreateArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    let pool = open_pool::to_write(&args.pool, Budgets::default())?;
    pool.create_volume(&args.name, args.size).map_err(failed)?;
    pool.close().map_err(failed)?;
    printer.note(&format!("made volume '{}' of {}", args.name, args.size));
    Ok(())
}
