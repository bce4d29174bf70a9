//! Making and opening the pool that a command names.
//! Room: onefold.

use std::path::Path;

use onefold_pool::{Budgets, OpenOptions, Pool, PoolError, RescueReport, Surroundings};

use crate::args::RescueArgs;
use crate::failure::{Failure, Result};
use crate::handover;
use crate::output::Printer;
use crate::table::plural;

/// Open a pool to change it.
pub fn to_write(pool: &Path, budgets: Budgets) -> Result<Pool> {
    open(pool, false, budgets)
}

/// Open a pool to look at it; others may look at the same time.
pub fn to_read(pool: &Path, budgets: Budgets) -> Result<Pool> {
    open(pool, true, budgets)
}

/// Open a pool to look at it, though it may be refused for damage: then only by `--rescue`, which
/// says what may be missing. The report is there if it was asked for.
pub fn to_read_or_rescue(
    pool: &Path,
    budgets: Budgets,
    rescue: RescueArgs,
    printer: &Printer,
) -> Result<(Pool, Option<RescueReport>)> {
    let Some(point) = rescue.rescue else {
        return to_read(pool, budgets).map(|pool| (pool, None));
    };
    must_exist(pool)?;
    let rescued = Pool::rescue_at(pool, budgets, point.into());
    let (opened, report) = rescued.map_err(|error| Failure::pool(pool, error))?;
    for damage in &report.damage {
        printer.warning(&format!("damaged: {damage}"));
    }
    for missing in &report.missing {
        printer.warning(&format!("missing or old: {missing}"));
    }
    printer.note(&format!(
        "rescued from checkpoint {} and {} of the journal",
        report.checkpoint,
        plural(report.frames, "frame", "frames")
    ));
    if report.missing.is_empty() {
        printer.note("nothing shows that anything flushed is missing");
    }
    Ok((opened, Some(report)))
}

fn open(pool: &Path, read_only: bool, budgets: Budgets) -> Result<Pool> {
    must_exist(pool)?;
    let options = OpenOptions { read_only, budgets };
    let handover = if read_only { None } else { handover::of(pool) };
    let around = Surroundings { handover, wrap: None };
    let opened = Pool::open_at_in(pool, &options, around).map_err(|error| refused(pool, error))?;
    if read_only {
        handover::tell_left(pool, &opened);
    }
    Ok(opened)
}

/// A pool that could not be opened; where it is damaged, with what can still be done.
pub fn refused(pool: &Path, error: PoolError) -> Failure {
    let damaged = error.is_corruption();
    let failure = Failure::pool(pool, error);
    if !damaged {
        return failure;
    }
    failure.hint(format!(
        "to read what is left, changing nothing: onefold volume list {} --rescue",
        pool.display()
    ))
}

/// Refuse a place where no pool can be.
pub fn must_exist(pool: &Path) -> Result<()> {
    must_exist_or(pool, |at| format!("make one with: onefold pool create {at}"))
}

/// The same for who comes to repair one: what was lost is not to be made anew.
pub fn must_exist_to_repair(pool: &Path) -> Result<()> {
    must_exist_or(pool, |_| "is the name right, and the disk mounted that it is on?".to_owned())
}

fn must_exist_or(pool: &Path, hint: impl Fn(&std::path::Display<'_>) -> String) -> Result<()> {
    let at = pool.display();
    match std::fs::metadata(pool) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::nothing_done(format!("'{at}' is a file, but a pool is a folder"))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::nothing_done(format!("there is no pool at '{at}'")).hint(hint(&at)))
        }
        Err(error) => Err(Failure::unusable("open", pool, error)),
    }
}

/// A UUID as people write it.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*uuid));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}
