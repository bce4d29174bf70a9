//! `onefold volume delete`: a volume and what only it held.
//! Room: onefold.

use std::io::{IsTerminal as _, Write as _};

use onefold_block::ByteSize;
use onefold_pool::{Budgets, VolumeStatus};

use crate::args::VolumeDeleteArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;

/// Delete the volume, after asking where there is somebody to ask.
pub fn run(args: &VolumeDeleteArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    let pool = open_pool::to_write(&args.pool, Budgets::default())?;
    pool.volume(&args.name).map_err(failed)?;
    let before = pool.status().map_err(failed)?;
    let volume = before.volumes.iter().find(|volume| volume.name == args.name);
    if let Some(volume) = volume.filter(|_| !args.yes && std::io::stdin().is_terminal())
        && !confirmed(volume)
    {
        pool.close().map_err(failed)?;
        return Err(Failure::nothing_done(format!("volume '{}' was not deleted", args.name)));
    }
    pool.delete_volume(&args.name).map_err(failed)?;
    let after = pool.status().map_err(failed)?;
    pool.close().map_err(failed)?;
    let freed = before.stored_bytes.saturating_sub(after.stored_bytes);
    printer.note(&format!("deleted volume '{}', which freed {}", args.name, ByteSize(freed)));
    Ok(())
}

fn confirmed(volume: &VolumeStatus) -> bool {
    eprint!(
        "Delete volume '{}' ({}, {} of data)? [y/N] ",
        volume.name,
        ByteSize(volume.size_bytes),
        ByteSize(volume.mapped_bytes)
    );
    // The question waits for an answer even if it could not be shown.
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
