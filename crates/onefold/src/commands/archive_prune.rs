//! `onefold archive remove` and `prune`: versions that go, and space that comes back.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;

use onefold_archive::{Archive, LockKind, Removed, VersionInfo};
use onefold_block::ByteSize;
use serde::Serialize;

use super::archive::{failure, open};
use crate::args::{ArchivePruneArgs, ArchiveRemoveArgs};
use crate::failure::Result;
use crate::interrupt;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::table::plural;
use crate::utc::utc_text;

/// Remove versions by number.
pub fn remove(args: &ArchiveRemoveArgs, printer: &Printer) -> Result<ExitCode> {
    let mut archive = open(&args.store, &args.key, LockKind::Remove, printer)?;
    let max_unused = args.unused.max_unused;
    let given_back = remove_all(&mut archive, &args.store, &args.numbers, max_unused, printer)?;
    given_back.tell(args.numbers.len(), printer);
    Ok(given_back.exit_code())
}

/// Remove the versions that no rule keeps.
pub fn prune(args: &ArchivePruneArgs, printer: &Printer) -> Result<ExitCode> {
    let kind = if args.dry_run { LockKind::Read } else { LockKind::Remove };
    let mut archive = open(&args.store, &args.key, kind, printer)?;
    let keep = args.keep.keep();
    let kept = keep.choose(archive.versions().map(|info| (info.time_s, info.number)));
    let goes = |info: &&VersionInfo| !keep.is_empty() && !kept.contains_key(&info.number);
    let gone: Vec<u32> = archive.versions().filter(goes).map(|info| info.number).collect();
    let decided = |info: &VersionInfo| VersionJson {
        version: info.number,
        time_s: info.time_s,
        label: info.label.clone(),
        kept: keep.is_empty() || kept.contains_key(&info.number),
        rules: kept.get(&info.number).cloned().unwrap_or_default(),
    };
    let versions: Vec<VersionJson> = archive.versions().map(decided).collect();
    if !args.json && (args.dry_run || !keep.is_empty()) {
        printer.data(&versions.iter().map(VersionJson::line).collect::<String>())?;
    }
    let given_back = if args.dry_run {
        GivenBack::default()
    } else {
        remove_all(&mut archive, &args.store, &gone, args.unused.max_unused, printer)?
    };
    if args.json {
        printer.json(&PruneJson {
            schema_version: JSON_SCHEMA_VERSION,
            dry_run: args.dry_run,
            versions,
            given_back: &given_back,
        })?;
    } else if !args.dry_run {
        given_back.tell(gone.len(), printer);
    }
    Ok(given_back.exit_code())
}

/// A version, and what the rules say of it.
#[derive(Serialize)]
struct VersionJson {
    version: u32,
    time_s: i64,
    label: String,
    kept: bool,
    rules: Vec<&'static str>,
}

impl VersionJson {
    fn line(&self) -> String {
        let what = match (self.kept, self.rules.is_empty()) {
            (true, true) => "keep".to_owned(),
            (true, false) => format!("keep ({})", self.rules.join(", ")),
            (false, _) => "remove".to_owned(),
        };
        let Self { version, time_s, label, .. } = self;
        let line = format!("{what} version {version} of {} {label}", utc_text(*time_s));
        format!("{}\n", line.trim_end())
    }
}

#[derive(Serialize)]
struct PruneJson<'a> {
    schema_version: u32,
    dry_run: bool,
    versions: Vec<VersionJson>,
    #[serde(flatten)]
    given_back: &'a GivenBack,
}

/// What came back, and what did not.
#[derive(Default, Serialize)]
struct GivenBack {
    containers: u64,
    freed_bytes: u64,
    moved_bytes: u64,
    unused_bytes: u64,
    obstacles: Vec<String>,
}

impl GivenBack {
    fn tell(&self, versions: usize, printer: &Printer) {
        printer.note(&format!(
            "removed {}: {} and {} given back, {} moved, {} unused",
            plural(versions as u64, "version", "versions"),
            plural(self.containers, "container", "containers"),
            ByteSize(self.freed_bytes),
            ByteSize(self.moved_bytes),
            ByteSize(self.unused_bytes)
        ));
    }

    fn exit_code(&self) -> ExitCode {
        if self.obstacles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn remove_all(
    archive: &mut Archive,
    store: &Path,
    numbers: &[u32],
    max_unused: u32,
    printer: &Printer,
) -> Result<GivenBack> {
    let refused = |error| failure(store, error);
    interrupt::heed();
    let removed = match numbers {
        [] => Removed::default(),
        numbers => archive.remove_all(numbers).map_err(refused)?,
    };
    let compacted = {
        let bar = progress::bytes(printer, "moving", None);
        archive.compact(max_unused, &mut |done, total| {
            bar.show(done, total);
            !interrupt::asked()
        })
    };
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
    Ok(GivenBack {
        containers: removed.containers + compacted.containers,
        freed_bytes: removed.bytes + compacted.freed_bytes,
        moved_bytes: compacted.moved_bytes,
        unused_bytes: compacted.unused_bytes,
        obstacles: compacted.obstacles,
    })
}
