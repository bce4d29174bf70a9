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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;

    #[test]
    fn slashes_at_either_end_of_a_path_say_nothing() {
        for (written, stored) in [("/a/b/", "a/b"), ("a", "a"), ("//", ""), ("", ""), ("/a", "a")] {
            assert_eq!(stored_path(written.as_bytes()), stored.as_bytes(), "{written}");
        }
    }

    #[test]
    fn what_was_restored_is_counted() {
        let here = Folder::new();
        here.ok("archive create ./s");
        std::fs::create_dir(here.path("data")).unwrap();
        here.file("data/one", &[7; 2048]);
        let said = here.ok("archive add ./s ./data");
        assert!(
            said.out.is_empty()
                && said.err.starts_with("added version 1: 1 file, 2 KiB; 2 KiB new, ")
        );
        let said = here.ok("archive restore ./s --target ./out");
        let told = "restored 2 paths of version 1, 2 KiB: ";
        assert!(
            said.err.starts_with(told) && said.err.ends_with(" read from 1 container\n"),
            "{}",
            said.err
        );
        assert!(said.out.is_empty());
        let json = here.ok("archive restore ./s --target ./again --json").json();
        assert_eq!((&json["entries"], &json["bytes"]), (&2.into(), &2048.into()));
        let file = here.path("s/containers/00000001.container");
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let damaged = here.onefold("archive restore ./s --target ./third");
        assert_eq!(damaged.code, 1);
        assert!(damaged.err.contains("/data/one': corrupt container 1 "), "{}", damaged.err);
        let report = here.onefold("archive verify ./s");
        assert_eq!(report.code, 1);
        assert!(report.out.contains("archive './s' is damaged"), "{}", report.out);
    }
}
