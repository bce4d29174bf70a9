//! `onefold volume import`: a file, block device or pipe into a volume.
//! Room: onefold.

use std::time::Instant;

use onefold_block::{BlockDevice as _, ByteSize};
use onefold_pool::{Pool, PoolError, Volume};

use crate::args::VolumeImportArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::Printer;
use crate::progress;
use crate::transfer::{self, Moved, source::Source};

/// Volumes are made in whole sectors: clients expect that.
const SECTOR_BYTES: u64 = 512;

/// Import, and say what it came to.
pub fn run(args: &VolumeImportArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    let source = Source::open(&args.file)?;
    let pool = open_pool::to_write(&args.pool, args.memory.budgets()?)?;
    let (volume, made) = find_or_make(&pool, args, &source, printer)?;
    let mapped = mapped_bytes(&pool, args)?;
    let size = ByteSize(volume.size_bytes());
    if !made && mapped > 0 {
        printer.note(&format!(
            "volume '{}' holds {} of data already; its beginning is overwritten",
            args.name,
            ByteSize(mapped)
        ));
    }
    let before = pool.status().map_err(failed)?.stored_bytes;
    let started = Instant::now();
    let bar = progress::bytes(printer, "importing", source.data_bytes());
    let moved = transfer::import(source, &volume, &args.name, mapped == 0, &bar);
    bar.finish_and_clear();
    let moved = moved.map_err(|failure| incomplete(failure, args, made))?;
    pool.checkpoint().map_err(failed)?;
    let after = pool.status().map_err(failed)?.stored_bytes;
    pool.close().map_err(failed)?;
    printer.note(&summary("imported", moved, started));
    let grown = after.saturating_sub(before);
    printer.note(&format!(
        "volume '{}' of {size}; the pool grew by {}",
        args.name,
        ByteSize(grown)
    ));
    Ok(())
}

/// The volume to fill, and whether it was made for this.
fn find_or_make(
    pool: &Pool,
    args: &VolumeImportArgs,
    source: &Source,
    printer: &Printer,
) -> Result<(Volume, bool)> {
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
                (None, Some(0)) => {
                    return Err(Failure::nothing_done(format!("'{file}' is empty"))
                        .hint("--size makes a volume of that size all the same"));
                }
                (None, Some(len)) => ByteSize(len.next_multiple_of(SECTOR_BYTES)),
                (None, None) => {
                    let message = format!(
                        "there is no volume '{name}' yet, and the end of '{file}' is not in sight"
                    );
                    return Err(Failure::nothing_done(message)
                        .hint("say how large the volume shall be: --size 64G"));
                }
            };
            let volume = pool.create_volume(name, size).map_err(failed)?;
            printer.note(&format!("made volume '{name}' of {size}"));
            Ok((volume, true))
        }
        Err(error) => Err(failed(error)),
    }
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

fn mapped_bytes(pool: &Pool, args: &VolumeImportArgs) -> Result<u64> {
    let status = pool.status().map_err(|error| Failure::pool(&args.pool, error))?;
    let volume = status.volumes.iter().find(|volume| volume.name == args.name);
    Ok(volume.map_or(0, |volume| volume.mapped_bytes))
}

fn incomplete(failure: Failure, args: &VolumeImportArgs, made: bool) -> Failure {
    let made = if made { ", which was made for this," } else { "" };
    failure.hint(format!("volume '{}'{made} holds only a part of it now", args.name))
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
