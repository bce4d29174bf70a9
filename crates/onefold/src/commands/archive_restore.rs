//! `onefold archive restore`: files, folders and links as they were.
//! Room: onefold.

use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use onefold_archive::tree::restore::{RestoreOptions, RestoreReport, restore};
use onefold_archive::{ArchiveError, LockKind, Version};
use onefold_block::ByteSize;
use serde::Serialize;

use super::archive::{failure, open};
use super::archive_add::ProblemJson;
use crate::archive_cache;
use crate::args::ArchiveRestoreArgs;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::table::plural;

/// Restore.
pub fn run(args: &ArchiveRestoreArgs, printer: &Printer) -> Result<ExitCode> {
    let refused = |error| failure(&args.store, error);
    let mut archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let _cache = archive_cache::before(&args.store, &mut archive, &args.cache, printer)?;
    let version = archive.version(args.which.version).map_err(refused)?;
    let paths: Vec<Vec<u8>> = args.paths.iter().map(|path| stored_path(path.as_bytes())).collect();
    let options = RestoreOptions {
        assembly_bytes: args.assembly_memory.bytes(),
        overwrite: args.overwrite,
        sparse: args.sparse,
    };
    // The file that is being written is taken away again.
    interrupt::heed();
    let total = paths.is_empty().then_some(version.info().totals.logical_bytes);
    let report = {
        let bar = progress::bytes(printer, "restoring", total);
        restore(&archive, &version, &paths, &args.target, &options, &mut |bytes| {
            bar.set_position(bytes);
            !interrupt::asked()
        })
    };
    let report = report.map_err(|error| match error {
        ArchiveError::Interrupted => interrupt::failure(&format!(
            "what is in '{}' is restored whole, the rest is missing",
            args.target.display()
        )),
        error => refused(error),
    })?;
    for problem in &report.problems {
        printer.warning(&format!("'{}': {}", problem.path, problem.problem));
    }
    if args.json {
        printer.json(&RestoreJson::new(&version, &report))?;
    } else {
        let totals = report.totals;
        printer.note(&format!(
            "restored {} of version {}, {}: {} read from {}",
            plural(report.entries, "path", "paths"),
            version.info().number,
            ByteSize(totals.bytes),
            ByteSize(totals.read_bytes),
            plural(totals.container_reads, "container", "containers")
        ));
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A path in a version as a person may write it: with a `/` at either end.
pub fn stored_path(path: &[u8]) -> Vec<u8> {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(start, |last| last + 1);
    path[start..end].to_vec()
}

#[derive(Serialize)]
struct RestoreJson {
    schema_version: u32,
    version: u32,
    entries: u64,
    bytes: u64,
    container_reads: u64,
    read_bytes: u64,
    speed_factor: f64,
    problems: Vec<ProblemJson>,
}

impl RestoreJson {
    fn new(version: &Version, report: &RestoreReport) -> Self {
        Self {
            schema_version: JSON_SCHEMA_VERSION,
            version: version.info().number,
            entries: report.entries,
            bytes: report.totals.bytes,
            container_reads: report.totals.container_reads,
            read_bytes: report.totals.read_bytes,
            speed_factor: report.totals.speed_factor(),
            problems: report.problems.iter().map(ProblemJson::from).collect(),
        }
    }
}
