//! `onefold archive remove` and `prune`: versions that go, and space that comes back.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;

use onefold_archive::{Archive, LockKind, Removed, VersionInfo};
use onefold_block::ByteSize;

use super::archive::{failure, open, utc_text};
use crate::args::{ArchivePruneArgs, ArchiveRemoveArgs};
use crate::failure::Result;
use crate::interrupt;
use crate::output::Printer;
use crate::progress;
use crate::table::plural;

/// Remove versions by number.
pub fn remove(args: &ArchiveRemoveArgs, printer: &Printer) -> Result<ExitCode> {
    let mut archive = open(&args.store, LockKind::Remove, printer)?;
    remove_all(&mut archive, &args.store, &args.numbers, args.unused.max_unused, printer)
}

/// Remove the versions that no rule keeps.
pub fn prune(args: &ArchivePruneArgs, printer: &Printer) -> Result<ExitCode> {
    let kind = if args.dry_run { LockKind::Read } else { LockKind::Remove };
    let mut archive = open(&args.store, kind, printer)?;
    let keep = args.keep();
    let kept = keep.choose(archive.versions());
    let goes = |info: &&VersionInfo| !keep.is_empty() && !kept.contains_key(&info.number);
    let gone: Vec<u32> = archive.versions().filter(goes).map(|info| info.number).collect();
    if args.dry_run || !keep.is_empty() {
        let mut text = String::new();
        for info in archive.versions() {
            let what = match kept.get(&info.number) {
                Some(rules) => format!("keep ({})", rules.join(", ")),
                None if keep.is_empty() => "keep".to_owned(),
                None => "remove".to_owned(),
            };
            let (number, time) = (info.number, utc_text(info.time_s));
            let line = format!("{what} version {number} of {time} {}", info.label);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        printer.data(&text)?;
    }
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    remove_all(&mut archive, &args.store, &gone, args.unused.max_unused, printer)
}

fn remove_all(
    archive: &mut Archive,
    store: &Path,
    numbers: &[u32],
    max_unused: u32,
    printer: &Printer,
) -> Result<ExitCode> {
    let refused = |error| failure(store, error);
    interrupt::heed();
    let removed = match numbers {
        [] => Removed::default(),
        numbers => archive.remove_all(numbers).map_err(refused)?,
    };
    let bar = progress::bytes(printer, "moving", Some(0));
    let compacted = archive.compact(max_unused, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        !interrupt::asked()
    });
    bar.finish_and_clear();
    // The versions are gone by now, whatever comes of the space.
    let compacted = compacted.map_err(|error| {
        let gone = plural(numbers.len() as u64, "version was removed", "versions were removed");
        failure(store, error).hint(format!(
            "{gone}; to give the rest of the space back: onefold archive prune {}",
            store.display()
        ))
    })?;
    for obstacle in &compacted.obstacles {
        printer.warning(obstacle);
    }
    printer.note(&format!(
        "removed {}: {} and {} given back, {} moved, {} unused",
        plural(numbers.len() as u64, "version", "versions"),
        plural(removed.containers + compacted.containers, "container", "containers"),
        ByteSize(removed.bytes + compacted.freed_bytes),
        ByteSize(compacted.moved_bytes),
        ByteSize(compacted.unused_bytes)
    ));
    Ok(if compacted.obstacles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
