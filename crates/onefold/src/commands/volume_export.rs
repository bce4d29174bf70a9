//! `onefold volume export`: a volume into a file, block device or pipe.
//! Room: onefold.

use std::path::Path;
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

/// Refuse a file of the pool itself: exporting over it would destroy the pool.
fn must_be_elsewhere(pool: &Path, file: &Path) -> Result<()> {
    // What does not exist yet is where its folder is.
    let place = file.canonicalize().or_else(|_| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize(),
        _ => Path::new(".").canonicalize(),
    });
    match (pool.canonicalize(), place) {
        (Ok(pool), Ok(place)) if place.starts_with(&pool) => {
            let (file, pool) = (file.display(), pool.display());
            Err(Failure::nothing_done(format!("'{file}' lies in the pool's own folder '{pool}'"))
                .hint("name a file outside of it"))
        }
        // Where one of them cannot be found, opening it says so.
        _ => Ok(()),
    }
}

/// Export, and say what it came to.
pub fn run(args: &VolumeExportArgs, printer: &Printer) -> Result<()> {
    let pool = open_pool::to_read(&args.pool, Budgets::default())?;
    let volume = pool.volume(&args.name).map_err(|error| Failure::pool(&args.pool, error))?;
    let total = transfer::data_bytes(&volume).map_err(|e| Failure::volume(&args.name, &e))?;
    must_be_elsewhere(&args.pool, &args.file)?;
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
