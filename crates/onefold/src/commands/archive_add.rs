//! `onefold archive add`: a version of trees as they are now.
//! Room: onefold.

use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use onefold_archive::tree::exclude::{self, Excludes};
use onefold_archive::tree::scan::{self, ScanOptions, ScanReport};
use onefold_archive::{
    AddNotes, AddOptions, AddTotals, Archive, ArchiveError, LockKind, VersionInfo,
};
use onefold_block::ByteSize;
use serde::Serialize;

use super::archive::{failure, open};
use crate::archive_place;
use crate::args::ArchiveAddArgs;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::table::{count, plural};

/// Problems that are printed one by one; the rest is counted.
const PROBLEMS_SHOWN: usize = 20;

/// Add a version.
pub fn run(args: &ArchiveAddArgs, printer: &Printer) -> Result<ExitCode> {
    let roots = scan::roots(&args.paths).map_err(|error| failure(&args.store, error))?;
    for path in &args.paths {
        std::fs::symlink_metadata(path).map_err(|e| Failure::unusable("read", path, e))?;
    }
    let exclude = excludes(args)?;
    let mut archive = open(&args.store, &args.key, LockKind::Add, printer)?;
    // An archive in an object store is in nobody's tree.
    let skip = if archive_place::is_remote(&args.store) {
        None
    } else {
        let store = std::fs::metadata(&args.store);
        let store = store.map_err(|e| Failure::unusable("read", &args.store, e))?;
        Some((store.dev(), store.ino()))
    };
    let scan_options = ScanOptions {
        one_file_system: args.one_file_system,
        exclude,
        exclude_caches: args.exclude_caches,
        skip,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let options = AddOptions {
        time_s: now.as_secs() as i64,
        label: args.label.clone(),
        index_bytes: args.index_memory.bytes(),
        rewriting: args.rewriting(),
        allow_empty: args.allow_empty,
        skip_unchanged: !args.read_all,
    };
    let added = add(&mut archive, options, &roots, &scan_options, printer);
    let (info, notes, report) = added.map_err(|error| match error {
        ArchiveError::Interrupted => interrupt::failure("no version was added")
            .hint("what was stored so far is made use of by the next addition")
            .hint(format!("to give it back: onefold archive prune {}", args.store.display())),
        error => failure(&args.store, error),
    })?;
    for warning in warnings(&notes, &report) {
        printer.warning(&warning);
    }
    for aside in asides(&notes, &report) {
        printer.note(&aside);
    }
    if args.json {
        printer.json(&AddJson::new(&info, &notes, &report))?;
    } else {
        printer.note(&text(&info, &report));
    }
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The patterns that were given, and those of the files that were.
fn excludes(args: &ArchiveAddArgs) -> Result<Excludes> {
    let mut patterns = args.exclude.clone();
    for path in &args.exclude_from {
        let text = std::fs::read_to_string(path).map_err(|e| Failure::unusable("read", path, e))?;
        patterns.extend(exclude::patterns_of(&text).map(str::to_owned));
    }
    let excludes = Excludes::new(patterns.iter().map(String::as_str));
    excludes.map_err(|error| Failure::nothing_done(error.to_string()))
}

fn add(
    archive: &mut Archive,
    options: AddOptions,
    roots: &[scan::Root],
    scan_options: &ScanOptions,
    printer: &Printer,
) -> std::result::Result<(VersionInfo, AddNotes, ScanReport), ArchiveError> {
    interrupt::heed();
    let mut adder = archive.add(options)?;
    let (total, measured) = (AtomicU64::new(0), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        let bar = progress::bytes(printer, "adding", None);
        // How much there is shows only where somebody watches.
        if printer.draws_progress() {
            scope.spawn(|| {
                let stop = || measured.load(Ordering::Relaxed);
                if let Some(bytes) = scan::measure(roots, scan_options, &stop) {
                    total.store(bytes, Ordering::Relaxed);
                }
            });
        }
        let report = scan::add_trees(&mut adder, roots, scan_options, &mut |report| {
            bar.show(report.bytes, total.load(Ordering::Relaxed).max(report.bytes));
            !interrupt::asked()
        });
        measured.store(true, Ordering::Relaxed);
        report
    });
    let report = match report {
        Ok(report) => report,
        // What was stored so far is kept for the next time.
        Err(ArchiveError::Interrupted) => return Err(ArchiveError::Interrupted),
        Err(error) => {
            adder.discard()?;
            return Err(error);
        }
    };
    let (info, notes) = adder.commit()?;
    Ok((info, notes, report))
}

/// What is to be looked at.
fn warnings(notes: &AddNotes, report: &ScanReport) -> Vec<String> {
    let shown = report.problems.iter().take(PROBLEMS_SHOWN);
    let mut warnings: Vec<String> =
        shown.map(|problem| format!("'{}': {}", problem.path, problem.problem)).collect();
    if report.problems.len() > PROBLEMS_SHOWN {
        warnings.push(format!("and {} more", report.problems.len() - PROBLEMS_SHOWN));
    }
    for container in &notes.unreadable_containers {
        warnings.push(format!("{container}; what it holds was not shared"));
    }
    if notes.unindexed_containers > 0 || notes.evicted_chunks > 0 {
        let why = "the index memory is too small for this archive";
        warnings.push(format!("{why}, so some duplicates were stored again"));
    }
    warnings
}

/// What is worth knowing.
fn asides(notes: &AddNotes, report: &ScanReport) -> Vec<String> {
    let mut asides = Vec::new();
    if notes.resumed_containers > 0 {
        let count = plural(notes.resumed_containers, "container", "containers");
        asides.push(format!("made use of {count} of an interrupted addition"));
    }
    if report.sockets > 0 {
        let count = plural(report.sockets, "socket", "sockets");
        asides.push(format!("left out {count}"));
    }
    asides
}

fn text(info: &VersionInfo, report: &ScanReport) -> String {
    let AddTotals { logical_bytes, new_bytes, stored_bytes, rewritten_bytes, .. } = info.totals;
    let again = if rewritten_bytes > 0 {
        format!(" ({} of it again)", ByteSize(rewritten_bytes))
    } else {
        String::new()
    };
    let unchanged = match report.unchanged {
        0 => String::new(),
        files => format!(" ({} unchanged, not read)", count(files)),
    };
    format!(
        "added version {}: {}{unchanged}, {}; {} new, {} stored{again}",
        info.number,
        plural(report.files, "file", "files"),
        ByteSize(logical_bytes),
        ByteSize(new_bytes),
        ByteSize(stored_bytes)
    )
}

/// A version's totals.
#[derive(Serialize)]
pub struct TotalsJson {
    entries: u64,
    files: u64,
    logical_bytes: u64,
    chunks: u64,
    new_bytes: u64,
    stored_bytes: u64,
    rewritten_bytes: u64,
}

impl From<&AddTotals> for TotalsJson {
    fn from(totals: &AddTotals) -> Self {
        let AddTotals { entries, files, logical_bytes, chunks, .. } = *totals;
        let AddTotals { new_bytes, stored_bytes, rewritten_bytes, .. } = *totals;
        Self { entries, files, logical_bytes, chunks, new_bytes, stored_bytes, rewritten_bytes }
    }
}

/// Something that could not be done for one path.
#[derive(Serialize)]
pub struct ProblemJson {
    path: String,
    problem: String,
}

impl From<&scan::Problem> for ProblemJson {
    fn from(problem: &scan::Problem) -> Self {
        Self { path: problem.path.clone(), problem: problem.problem.clone() }
    }
}

#[derive(Serialize)]
struct AddJson {
    schema_version: u32,
    version: u32,
    time_s: i64,
    label: String,
    totals: TotalsJson,
    unchanged_files: u64,
    resumed_containers: u64,
    unreadable_containers: Vec<String>,
    unindexed_containers: u64,
    evicted_chunks: u64,
    problems: Vec<ProblemJson>,
}

impl AddJson {
    fn new(info: &VersionInfo, notes: &AddNotes, report: &ScanReport) -> Self {
        Self {
            schema_version: JSON_SCHEMA_VERSION,
            version: info.number,
            time_s: info.time_s,
            label: info.label.clone(),
            totals: TotalsJson::from(&info.totals),
            unchanged_files: report.unchanged,
            resumed_containers: notes.resumed_containers,
            unreadable_containers: notes.unreadable_containers.clone(),
            unindexed_containers: notes.unindexed_containers,
            evicted_chunks: notes.evicted_chunks,
            problems: report.problems.iter().map(ProblemJson::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_addition_met_is_told_and_nothing_else() {
        let problems = |count: usize| {
            let problem = |n| scan::Problem { path: format!("p{n}"), problem: "odd".to_owned() };
            ScanReport { problems: (0..count).map(problem).collect(), ..ScanReport::default() }
        };
        let (notes, none) = (AddNotes::default(), ScanReport::default());
        assert!(warnings(&notes, &none).is_empty() && asides(&notes, &none).is_empty());
        assert_eq!(warnings(&notes, &problems(1)), ["'p0': odd"]);
        assert_eq!(warnings(&notes, &problems(20)).len(), 20);
        let told = warnings(&notes, &problems(23));
        assert_eq!((told.len(), &*told[20]), (21, "and 3 more"));
        let short = "the index memory is too small for this archive, so some duplicates were \
                     stored again";
        let unindexed = AddNotes { unindexed_containers: 1, ..AddNotes::default() };
        let evicted = AddNotes { evicted_chunks: 1, ..AddNotes::default() };
        let unreadable =
            AddNotes { unreadable_containers: vec!["container 7: bad".into()], ..evicted.clone() };
        assert_eq!(
            (warnings(&unindexed, &none), warnings(&evicted, &none)),
            (vec![short.to_owned()], vec![short.to_owned()])
        );
        let lost = "container 7: bad; what it holds was not shared";
        assert_eq!(warnings(&unreadable, &none), [lost, short]);
        let resumed = AddNotes { resumed_containers: 2, ..AddNotes::default() };
        let sockets = ScanReport { sockets: 1, ..ScanReport::default() };
        let known = ["made use of 2 containers of an interrupted addition", "left out 1 socket"];
        assert_eq!(asides(&resumed, &sockets), known);
    }

    #[test]
    fn a_version_is_told_with_what_it_took() {
        let totals = AddTotals {
            files: 2,
            logical_bytes: 4096,
            new_bytes: 2048,
            stored_bytes: 1024,
            ..AddTotals::default()
        };
        let info = VersionInfo { number: 3, totals, ..VersionInfo::default() };
        let all = text(&info, &ScanReport { files: 2, ..ScanReport::default() });
        assert_eq!(all, "added version 3: 2 files, 4 KiB; 2 KiB new, 1 KiB stored");
        let again = AddTotals { rewritten_bytes: 1, ..totals };
        let info = VersionInfo { totals: again, ..info };
        let some = text(&info, &ScanReport { files: 2, unchanged: 1, ..ScanReport::default() });
        let expected = "added version 3: 2 files (1 unchanged, not read), 4 KiB; 2 KiB new, 1 KiB \
                        stored (1 B of it again)";
        assert_eq!(some, expected);
    }

    #[test]
    fn an_addition_leaves_out_what_it_is_told_to_and_says_what_it_could_not_read() {
        use crate::commands::heard::Folder;

        let here = Folder::new();
        std::fs::create_dir(here.path("data")).unwrap();
        here.ok("archive create ./data/s");
        here.file("data/a.o", b"object");
        here.file("data/b", b"text");
        here.file("patterns", b"# objects\n*.o\n");
        let _socket = std::os::unix::net::UnixListener::bind(here.path("data/socket")).unwrap();
        let json = here.ok("archive add ./data/s ./data --exclude-from ./patterns --json");
        assert_eq!(json.err, "left out 1 socket\n");
        let json = json.json();
        // Neither the object nor the archive itself.
        assert_eq!((&json["totals"]["files"], &json["version"]), (&1.into(), &1.into()));
        assert_eq!(json["unchanged_files"], 0);
        let again = here.ok("archive add ./data/s ./data --exclude *.o --label x");
        assert!(again.err.contains("added version 2: 1 file"), "{}", again.err);
        let missing = here.refused("archive add ./data/s ./data/none", 2);
        assert!(missing.contains("./data/none"), "{missing}");
        let pattern = here.refused("archive add ./data/s ./data --exclude a[", 2);
        assert!(pattern.contains("a["), "{pattern}");
    }
}
