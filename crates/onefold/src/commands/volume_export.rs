//! `onefold volume export`: a volume into a file, block device or pipe.
//! Room: onefold.

use std::time::Instant;

use onefold_block::BlockDevice as _;
use onefold_pool::Budgets;

use super::volume_import::summary;
use crate::args::VolumeExportArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;
use crate::progress;
use crate::transfer::{self, target::Target};

/// Export, and say what it came to.
pub fn run(args: &VolumeExportArgs, printer: &Printer) -> Result<()> {
    let pool = open_pool::to_read(&args.pool, Budgets::default())?;
    let volume = pool.volume(&args.name).map_err(|error| Failure::pool(&args.pool, error))?;
    let total = transfer::data_bytes(&volume).map_err(|e| Failure::volume(&args.name, &e))?;
    let target = Target::open(&args.file, volume.size_bytes(), args.force)?;
    let started = Instant::now();
    let bar = progress::bytes(printer, "exporting", Some(total));
    let moved = transfer::export(&volume, &args.name, &target, &bar);
    bar.finish_and_clear();
    let moved = match moved.and_then(|moved| target.finish().map(|()| moved)) {
        Ok(moved) => moved,
        Err(failure) => {
            target.give_up();
            return Err(failure);
        }
    };
    printer.note(&summary("exported", moved, started));
    Ok(())
}
