//! `onefold volume import`: a file, block device or pipe into a volume.
//! Room: onefold.

use std::time::Instant;

use onefold_block::{BlockDevice as _, ByteSize};
use onefold_pool::{Pool, PoolError, Volume, check_volume_name};

use crate::args::VolumeImportArgs;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::open_pool;
use crate::output::Printer;
use crate::progress;
use crate::transfer::{self, Moved, source::Source};

/// Volumes are made in whole sectors: clients expect that.
const SECTOR_BYTES: u64 = 512;

/// Size of a volume at first where only the end of FILE will tell; it grows as needed.
const FIRST_SIZE: ByteSize = ByteSize(1 << 30);
/// What the name of a volume ends in while it is being filled.
const INCOMPLETE: &str = ".incomplete";
/// Longest name of a volume in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Import, and say what it came to.
pub fn run(args: &VolumeImportArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    check_volume_name(&args.name).map_err(failed)?;
    let source = Source::open(&args.file, args.format)?;
    let pool = open_pool::to_write(&args.pool, args.memory.budgets()?)?;
    // What was made is taken away again when the command is interrupted.
    interrupt::heed();
    let unsized_source = source.len().is_none() && args.size.is_none();
    let (volume, made) = find_or_make(&pool, args, &source)?;
    let mapped = mapped_bytes(&pool, &volume.name(), args)?;
    if mapped > 0 {
        printer.note(&format!(
            "volume '{}' holds {} of data already; its beginning is overwritten",
            args.name,
            ByteSize(mapped)
        ));
    }
    let before = pool.status().map_err(failed)?.stored_bytes;
    let started = Instant::now();
    let bar = progress::bytes(printer, "importing", source.data_bytes());
    let grow = |needed: u64| {
        let size = needed.max(volume.size_bytes().saturating_mul(2));
        pool.resize_volume(&incomplete(&args.name), ByteSize(size), false).map_err(failed)
    };
    let grow: Option<&(dyn Fn(u64) -> Result<()> + Sync)> =
        if made && unsized_source { Some(&grow) } else { None };
    let moved = transfer::import(source, &volume, &args.name, mapped == 0, grow, &bar);
    bar.finish_and_clear();
    let moved = match (moved, grow) {
        (Ok(Moved { bytes: 0, .. }), Some(_)) => Err(empty(&args.file.display().to_string())),
        // It grew in steps, and has now exactly what it needs.
        (Ok(moved), Some(_)) => {
            let size = ByteSize(moved.bytes.next_multiple_of(SECTOR_BYTES));
            let cut = pool.resize_volume(&incomplete(&args.name), size, false);
            cut.map(|()| moved).map_err(failed)
        }
        (moved, _) => moved,
    };
    let size = ByteSize(volume.size_bytes());
    drop(volume);
    let whole = moved.and_then(|moved| {
        pool.checkpoint().map_err(failed)?;
        if made {
            if interrupt::asked() {
                return Err(interrupt::failure(""));
            }
            pool.rename_volume(&incomplete(&args.name), &args.name).map_err(failed)?;
        }
        Ok(moved)
    });
    let moved = match whole {
        Ok(moved) => moved,
        Err(failure) => return Err(give_up(failure, pool, args, made)),
    };
    let after = pool.status().map_err(failed)?.stored_bytes;
    pool.close().map_err(failed)?;
    printer.note(&summary("imported", moved, started));
    let (did, grown) = (if made { "made volume" } else { "volume" }, after.saturating_sub(before));
    let (name, grown) = (&args.name, ByteSize(grown));
    printer.note(&format!("{did} '{name}' of {size}; the pool grew by {grown}"));
    Ok(())
}

fn empty(file: &str) -> Failure {
    Failure::nothing_done(format!("'{file}' is empty"))
        .hint("--size makes a volume of that size all the same")
}

/// The name of a volume while it is being filled.
fn incomplete(name: &str) -> String {
    // Names of volumes are ASCII.
    let name = name.get(..NAME_BYTES_MAX - INCOMPLETE.len()).unwrap_or(name);
    format!("{name}{INCOMPLETE}")
}

/// The volume to fill, and whether it was made for this.
fn find_or_make(pool: &Pool, args: &VolumeImportArgs, source: &Source) -> Result<(Volume, bool)> {
    let failed = |error| Failure::pool(&args.pool, error);
    let (name, file) = (&args.name, args.file.display());
    let len = source.len();
    match pool.volume(name) {
        Ok(volume) => {
            let size = volume.size_bytes();
            if let Some(len) = len.filter(|&len| len > size) {
                return Err(too_large(args, len, size));
            }
            Ok((volume, false))
        }
        Err(PoolError::NoVolume { .. }) => {
            let size = match (args.size, len) {
                (Some(size), Some(len)) if len > size.bytes() => {
                    return Err(too_large(args, len, size.bytes()));
                }
                (Some(size), _) => size,
                (None, Some(0)) => return Err(empty(&file.to_string())),
                (None, Some(len)) => ByteSize(len.next_multiple_of(SECTOR_BYTES)),
                (None, None) => FIRST_SIZE,
            };
            match pool.create_volume(&incomplete(name), size) {
                Ok(volume) => Ok((volume, true)),
                Err(PoolError::VolumeExists(left)) => {
                    let at = args.pool.display();
                    let message = format!("volume '{left}' is there: an import that did not end");
                    Err(Failure::nothing_done(message)
                        .hint(format!("remove it with: onefold volume delete {at} {left}")))
                }
                Err(error) => Err(failed(error)),
            }
        }
        Err(error) => Err(failed(error)),
    }
}

/// Leave no volume that looks whole.
fn give_up(failure: Failure, pool: Pool, args: &VolumeImportArgs, made: bool) -> Failure {
    let name = &args.name;
    if !made {
        // What came before the failure is as good as it was; the pool says so if not.
        let closed = pool.close();
        let failure = failure.left(&format!(
            "volume '{name}' holds the beginning of '{}' now, and what it held before behind that",
            args.file.display()
        ));
        return match closed {
            Ok(()) => failure,
            Err(error) => failure.hint(Failure::pool(&args.pool, error).message),
        };
    }
    let left = incomplete(name);
    // The one that was made for this, or what a rename that failed has left of it.
    if pool.delete_volume(&left).and_then(|()| pool.close()).is_ok() {
        return failure.left(&format!("volume '{name}' was not made"));
    }
    let at = args.pool.display();
    failure
        .left(&format!("volume '{left}' holds the beginning of it"))
        .hint(format!("remove that with: onefold volume delete {at} {left}"))
}

fn too_large(args: &VolumeImportArgs, len: u64, size: u64) -> Failure {
    let (pool, name) = (args.pool.display(), &args.name);
    Failure::nothing_done(format!(
        "'{}' has {}, but volume '{name}' has room for {}",
        args.file.display(),
        exact(len),
        exact(size)
    ))
    .hint(format!("make room with: onefold volume resize {pool} {name} --size {len}"))
}

/// A size with its exact number where the short form hides some of it.
fn exact(bytes: u64) -> String {
    let short = ByteSize(bytes).to_string();
    if short.contains('.') || short.parse() != Ok(ByteSize(bytes)) {
        format!("{short} ({bytes} bytes)")
    } else {
        short
    }
}

fn mapped_bytes(pool: &Pool, name: &str, args: &VolumeImportArgs) -> Result<u64> {
    let status = pool.status().map_err(|error| Failure::pool(&args.pool, error))?;
    let volume = status.volumes.iter().find(|volume| volume.name == name);
    Ok(volume.map_or(0, |volume| volume.mapped_bytes))
}

/// What was moved, how fast.
pub fn summary(did: &str, moved: Moved, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let rate = ByteSize((moved.data_bytes as f64 / seconds.max(1e-3)) as u64);
    let all = ByteSize(moved.bytes);
    let holes = if moved.data_bytes < moved.bytes {
        format!(" ({} of data, the rest holes)", ByteSize(moved.data_bytes))
    } else {
        String::new()
    };
    format!("{did} {all}{holes} in {seconds:.1} s, {rate}/s")
}
