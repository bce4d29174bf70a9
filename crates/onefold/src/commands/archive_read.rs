//! `onefold archive list`, `ls`, `cat`, `verify` and `trace`: looking into an archive.
//! Room: onefold.

use std::io::{BufWriter, IsTerminal as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use onefold_archive::tree::restore::read_file;
use onefold_archive::{
    ASSEMBLY_BYTES_MIN, AddTotals, Archive, ArchiveError, Entry, Kind, LockKind, VerifyReport,
    VersionInfo, zipf_order,
};
use onefold_block::ByteSize;
use onefold_workload::CsvWriter;
use serde::Serialize;

use super::archive::{failure, open};
use super::archive_add::TotalsJson;
use super::archive_restore::stored_path;
use crate::archive_cache;
use crate::args::{
    ArchiveCatArgs, ArchiveListArgs, ArchiveLsArgs, ArchiveTraceArgs, ArchiveVerifyArgs,
};
use crate::cache_view::{CacheJson, cache_table};
use crate::failure::{Failure, Result};
use crate::out_file::Listed;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::table::{Align, Table, count, plural};
use crate::utc::utc_text;

/// Memory for the assembly area of one file.
const CAT_BYTES: u64 = 32 << 20;

#[derive(Serialize)]
struct ListJson {
    schema_version: u32,
    chunker: &'static str,
    chunk_bytes: u32,
    container_bytes: u32,
    compression: String,
    versions: Vec<VersionJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheJson>,
}

#[derive(Serialize)]
struct VersionJson {
    version: u32,
    time_s: i64,
    label: String,
    totals: TotalsJson,
}

/// Print the versions.
pub fn list(args: &ArchiveListArgs, printer: &Printer) -> Result<()> {
    let archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let cache = archive_cache::report(&archive, &args.cache);
    if args.json {
        let settings = archive.settings();
        let version = |info: &VersionInfo| VersionJson {
            version: info.number,
            time_s: info.time_s,
            label: info.label.clone(),
            totals: TotalsJson::from(&info.totals),
        };
        return printer.json(&ListJson {
            schema_version: JSON_SCHEMA_VERSION,
            chunker: settings.chunking.name(),
            chunk_bytes: settings.chunk_bytes,
            container_bytes: settings.container_bytes,
            compression: settings.compression.to_string(),
            versions: archive.versions().map(version).collect(),
            cache: cache.as_ref().map(CacheJson::from),
        });
    }
    let mut text = list_text(&archive);
    if let Some(cache) = &cache {
        text.push('\n');
        text.extend(cache_table(cache).lines(0).into_iter().map(|line| line + "\n"));
    }
    printer.data(&text)
}

fn list_text(archive: &Archive) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[Right, Left, Right, Right, Right, Right, Left]);
    table.row(["version", "added (UTC)", "files", "bytes", "new", "stored", "label"]);
    let mut all = AddTotals::default();
    for info in archive.versions() {
        let AddTotals { files, logical_bytes, new_bytes, stored_bytes, .. } = info.totals;
        all.logical_bytes += logical_bytes;
        all.new_bytes += new_bytes;
        all.stored_bytes += stored_bytes;
        table.row([
            info.number.to_string(),
            utc_text(info.time_s),
            count(files),
            ByteSize(logical_bytes).to_string(),
            ByteSize(new_bytes).to_string(),
            ByteSize(stored_bytes).to_string(),
            info.label.clone(),
        ]);
    }
    let mut lines = table.lines(0);
    if all.logical_bytes > 0 {
        let ratio = |by: u64| all.logical_bytes as f64 / by.max(1) as f64;
        let ratios = if !archive.lacks_older_versions() {
            let (unique, stored) = (ratio(all.new_bytes), ratio(all.stored_bytes));
            format!(": deduplication {unique:.3}, with compression {stored:.3}")
        } else if let Ok(stored) = archive.bytes_in_containers() {
            // What they share with removed versions is in none of these counts, but still there.
            format!(": {} in containers, reduction {:.3}", ByteSize(stored), ratio(stored))
        } else {
            String::new()
        };
        let (bytes, count) = (ByteSize(all.logical_bytes), archive.versions().len() as u64);
        let versions = plural(count, "version", "versions");
        lines.push(format!("{bytes} in {versions}{ratios}"));
    }
    lines.join("\n") + "\n"
}

#[derive(Serialize)]
struct EntryJson {
    /// The path, with what is no UTF-8 replaced.
    path: String,
    /// The path's bytes in hexadecimal, if they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    kind: &'static str,
    mode: u32,
    uid: u32,
    gid: u32,
    size: u64,
    chunks: u64,
    mtime_s: i64,
    mtime_ns: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl EntryJson {
    fn new(entry: &Entry) -> Self {
        Self {
            path: String::from_utf8_lossy(&entry.path).into_owned(),
            path_hex: hex_unless_text(&entry.path),
            kind: entry.kind.name(),
            mode: entry.metadata.mode,
            uid: entry.metadata.uid,
            gid: entry.metadata.gid,
            size: entry.recipe.size,
            chunks: entry.recipe.chunks,
            mtime_s: entry.metadata.mtime_s,
            mtime_ns: entry.metadata.mtime_ns,
            target: target_of(entry),
        }
    }
}

/// The bytes of a path that is no UTF-8, in hexadecimal.
pub fn hex_unless_text(path: &[u8]) -> Option<String> {
    let hex = || path.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    std::str::from_utf8(path).is_err().then(hex)
}

fn target_of(entry: &Entry) -> Option<String> {
    match &entry.kind {
        Kind::Symlink { target } | Kind::HardLink { target } => {
            Some(String::from_utf8_lossy(target).into_owned())
        }
        _ => None,
    }
}

/// Print the paths of a version.
pub fn ls(args: &ArchiveLsArgs, printer: &Printer) -> Result<()> {
    let refused = |error| failure(&args.store, error);
    let archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let version = archive.version(args.which.version).map_err(refused)?;
    let path = args.path.as_ref().map_or_else(Vec::new, |path| stored_path(path.as_bytes()));
    let mut out = BufWriter::new(std::io::stdout().lock());
    let to_a_person = std::io::stdout().is_terminal();
    for index in version.within(&path).map_err(refused)? {
        let entry = version.entry(index).map_err(refused)?;
        let written = if args.json {
            let line = serde_json::to_string(&EntryJson::new(&entry))
                .map_err(|e| Failure::bad(format!("cannot write JSON: {e}")))?;
            writeln!(out, "{line}")
        } else if args.long {
            writeln!(out, "{}", long_line(&entry))
        } else {
            write_path(&mut out, &entry.path, to_a_person)
        };
        if !goes_on(written)? {
            return Ok(());
        }
    }
    goes_on(out.flush()).map(drop)
}

fn long_line(entry: &Entry) -> String {
    let mode = entry.metadata.mode;
    let bits: String = (0..9)
        .map(|bit| if mode >> (8 - bit) & 1 == 1 { ['r', 'w', 'x'][bit % 3] } else { '-' })
        .collect();
    let target = target_of(entry).map(|target| format!(" -> {}", target.escape_debug()));
    format!(
        "{}{bits} {:>6} {:>6} {:>14} {} {}{}",
        entry.kind.letter(),
        entry.metadata.uid,
        entry.metadata.gid,
        entry.recipe.size,
        utc_text(entry.metadata.mtime_s),
        String::from_utf8_lossy(&entry.path).escape_debug(),
        target.unwrap_or_default()
    )
}

/// Whether the reader of stdout is still there. One that has gone away has read enough.
/// Write a path and end the line.
pub fn write_path(out: &mut dyn Write, path: &[u8], to_a_person: bool) -> std::io::Result<()> {
    if to_a_person {
        // Names may hold what a terminal would obey.
        return writeln!(out, "{}", String::from_utf8_lossy(path).escape_debug());
    }
    // As it is, whatever its bytes are: scripts read this.
    out.write_all(path).and_then(|()| out.write_all(b"\n"))
}

pub fn goes_on(written: std::io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::bad(format!("cannot write to stdout: {error}"))),
    }
}

/// Write a file's content to stdout.
pub fn cat(args: &ArchiveCatArgs, printer: &Printer) -> Result<()> {
    let refused = |error| failure(&args.store, error);
    let mut archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let _cache = archive_cache::before(&args.store, &mut archive, &args.cache, printer)?;
    let version = archive.version(args.which.version).map_err(refused)?;
    let entry = version.find(&stored_path(args.path.as_bytes())).map_err(refused)?;
    if !entry.kind.has_content() {
        let path = Path::new(&args.path).display();
        let kind = entry.kind.name();
        return Err(Failure::nothing_done(format!("'{path}' is a {kind}, not a file")));
    }
    let mut out = std::io::stdout().lock();
    let _listed = Listed::in_place(Path::new("stdout"));
    let memory = CAT_BYTES.max(ASSEMBLY_BYTES_MIN);
    let mut closed = false;
    let read = read_file(&archive, &version, &entry, memory, &mut |piece| {
        let written = out.write_all(piece);
        closed = written.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe);
        written.map_err(|e| ArchiveError::Io { context: "write to stdout".to_owned(), source: e })
    });
    match read {
        Err(_) if closed => Ok(()),
        Err(error) => Err(refused(error)),
        Ok(_) => goes_on(out.flush()).map(drop),
    }
}

#[derive(Serialize)]
struct FindingJson {
    what: String,
    problem: String,
}

#[derive(Serialize)]
struct VerifyJson {
    schema_version: u32,
    sound: bool,
    containers: u64,
    chunks: u64,
    chunk_bytes: u64,
    versions: u64,
    entries: u64,
    references: u64,
    unused_containers: u64,
    notes: Vec<FindingJson>,
    findings: Vec<FindingJson>,
    more_damaged_files: u64,
}

/// Read and check everything.
pub fn verify(args: &ArchiveVerifyArgs, printer: &Printer) -> Result<ExitCode> {
    let archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let report = {
        let bar = progress::bytes(printer, "reading", None);
        let verified = archive.verify(&mut |done, total| {
            bar.show(done, total);
            true
        });
        verified.map_err(|error| failure(&args.store, error))?
    };
    if args.json {
        printer.json(&verify_json(&report))?;
    } else {
        printer.data(&verify_text(&args.store, &report))?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verify_json(report: &VerifyReport) -> VerifyJson {
    let findings = |findings: &[onefold_archive::Finding]| {
        let json = |finding: &onefold_archive::Finding| FindingJson {
            what: finding.what.clone(),
            problem: finding.problem.clone(),
        };
        findings.iter().map(json).collect()
    };
    VerifyJson {
        schema_version: JSON_SCHEMA_VERSION,
        sound: report.is_sound(),
        containers: report.containers,
        chunks: report.chunks,
        chunk_bytes: report.chunk_bytes,
        versions: report.versions,
        entries: report.entries,
        references: report.references,
        unused_containers: report.unused_containers,
        notes: findings(&report.notes),
        findings: findings(&report.findings),
        more_damaged_files: report.more_damaged_files,
    }
}

fn verify_text(store: &Path, report: &VerifyReport) -> String {
    let line =
        |finding: &onefold_archive::Finding| format!("{}: {}\n", finding.what, finding.problem);
    let mut text: String = report.findings.iter().map(line).collect();
    text.extend(report.notes.iter().map(|note| format!("note: {}", line(note))));
    if report.more_damaged_files > 0 {
        text.extend(["and ", &count(report.more_damaged_files), " more damaged files\n"]);
    }
    let summary = format!(
        "archive '{}' is {}: {}, {} in {}, {}, {}\n",
        store.display(),
        if report.is_sound() { "sound" } else { "damaged" },
        plural(report.versions, "version", "versions"),
        plural(report.chunks, "chunk", "chunks"),
        plural(report.containers, "container", "containers"),
        ByteSize(report.chunk_bytes),
        plural(report.references, "reference", "references")
    );
    text + &summary
}

/// Print which containers Zipf reads of a version's files touch.
pub fn trace(args: &ArchiveTraceArgs, printer: &Printer) -> Result<()> {
    let refused = |error| failure(&args.store, error);
    let archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let version = archive.version(args.which.version).map_err(refused)?;
    let files = version.files_with_content().map_err(refused)?;
    if files.is_empty() {
        return Err(Failure::nothing_done("the version has no file with content to read"));
    }
    let order = zipf_order(&files, args.zipf, args.seed).map_err(refused)?;
    let container_bytes = u64::from(archive.settings().container_bytes);
    let io = |e| ArchiveError::Io { context: "write to stdout".to_owned(), source: e };
    let written = (|| {
        let out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
        let mut writer = CsvWriter::new(out).map_err(io)?;
        let order = order.take(args.reads.min(usize::MAX as u64) as usize);
        version.container_accesses(order, |access| {
            writer.write(&access.request(container_bytes)).map_err(io)
        })?;
        writer.finish().map_err(io).map(drop)
    })();
    match written {
        Err(ArchiveError::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => {
            Ok(())
        }
        Err(error) => Err(refused(error)),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use onefold_archive::{Finding, Metadata, Recipe, Stamp};

    use super::*;
    use crate::commands::heard::Folder;

    fn entry(path: &[u8], kind: Kind, mode: u32) -> Entry {
        let metadata = Metadata { mode, uid: 7, gid: 1000, mtime_ns: 5, ..Metadata::default() };
        let recipe = Recipe { size: 42, at: 3, chunks: 2 };
        Entry { path: path.to_owned(), kind, metadata, stamp: Stamp::default(), recipe }
    }

    #[test]
    fn a_long_line_has_rights_owners_size_time_and_where_a_link_goes() {
        let file = long_line(&entry(b"a\nb", Kind::File, 0o754));
        let expected = "-rwxr-xr--      7   1000             42 1970-01-01 00:00:00 a\\nb";
        assert_eq!(file, expected);
        let link = entry(b"l", Kind::Symlink { target: b"t\x1b".to_vec() }, 0o021);
        assert!(long_line(&link).starts_with("l----w---x "), "{}", long_line(&link));
        assert!(long_line(&link).ends_with(" l -> t\\u{1b}"), "{}", long_line(&link));
    }

    #[test]
    fn paths_are_as_they_are_for_scripts_and_harmless_for_people() {
        let written = |path: &[u8], to_a_person| {
            let mut out = Vec::new();
            write_path(&mut out, path, to_a_person).unwrap();
            out
        };
        assert_eq!(written(b"a\xff\x1b", false), b"a\xff\x1b\n");
        assert_eq!(written(b"a\x1b", true), b"a\\u{1b}\n");
        assert_eq!(hex_unless_text(b"a\xff\x0a"), Some("61ff0a".to_owned()));
        assert_eq!(hex_unless_text("\u{e4}".as_bytes()), None);
        let error = |kind| goes_on(Err(std::io::Error::from(kind)));
        assert!(goes_on(Ok(())).unwrap() && !error(std::io::ErrorKind::BrokenPipe).unwrap());
        assert!(error(std::io::ErrorKind::StorageFull).is_err());
        let json = serde_json::to_value(EntryJson::new(&entry(b"a", Kind::File, 0o600))).unwrap();
        let expected = serde_json::json!({
            "path": "a", "kind": "file", "mode": 0o600, "uid": 7, "gid": 1000, "size": 42,
            "chunks": 2, "mtime_s": 0, "mtime_ns": 5,
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_verified_archive_is_told_with_all_that_is_wrong() {
        let finding = |what: &str| Finding { what: what.to_owned(), problem: "odd".to_owned() };
        let sound = VerifyReport {
            containers: 1,
            chunks: 2,
            chunk_bytes: 1024,
            versions: 1,
            references: 3,
            notes: vec![finding("log")],
            ..VerifyReport::default()
        };
        let read = "1 version, 2 chunks in 1 container, 1 KiB, 3 references\n";
        let text = |report: &VerifyReport| verify_text(Path::new("s"), report);
        assert_eq!(text(&sound), format!("note: log: odd\narchive 's' is sound: {read}"));
        let findings = vec![finding("container 1")];
        let damaged = VerifyReport { findings, notes: vec![], more_damaged_files: 1, ..sound };
        let more = "container 1: odd\nand 1 more damaged files\n";
        assert_eq!(text(&damaged), format!("{more}archive 's' is damaged: {read}"));
        let named = VerifyReport { more_damaged_files: 0, ..damaged };
        assert!(!text(&named).contains("more"));
    }

    #[test]
    fn versions_are_a_table_and_what_they_save_is_below_it() {
        let here = Folder::new();
        let made = here.ok("archive create ./s");
        let next = "next: onefold archive add ./s PATH\n";
        assert!(made.err.starts_with("made archive './s': ") && made.err.ends_with(next));
        assert!(!made.err.contains("encrypted"), "{}", made.err);
        let rows = |text: &str| -> Vec<String> {
            text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let none = here.ok("archive list ./s");
        let head = "version added (UTC) files bytes new stored label";
        assert_eq!(rows(&none.out), [head]);
        here.file("data", &[7; 3000]);
        here.ok("archive add ./s ./data --label one");
        here.ok("archive add ./s ./data");
        let list = here.ok("archive list ./s").out;
        let [first, one, two, sums] = &rows(&list)[..] else { panic!("{list}") };
        assert!(list.starts_with("version  added (UTC)"), "{list}");
        assert_eq!(first, head);
        assert!(
            one.starts_with("1 2")
                && one.contains(" 1 2.93 KiB 2.93 KiB ")
                && one.ends_with(" B one")
        );
        assert!(two.ends_with(" 1 2.93 KiB 0 B 0 B"), "{two}");
        assert!(sums.starts_with("5.86 KiB in 2 versions: deduplication 2.000, with compression "));
        let json = here.ok("archive list ./s --json").json();
        assert_eq!(json["versions"][1]["totals"]["new_bytes"], 0);
        // What is left refers to what a removed one stored, and stored nothing itself.
        here.ok("archive remove ./s 1");
        let left = here.ok("archive list ./s").out;
        let mut containers = std::fs::read_dir(here.path("s/containers")).unwrap();
        let bytes = containers.next().unwrap().unwrap().metadata().unwrap().len();
        assert!(containers.next().is_none());
        let reduction = 3000.0 / bytes as f64;
        let sums =
            format!("2.93 KiB in 1 version: {bytes} B in containers, reduction {reduction:.3}");
        assert_eq!(left.lines().last(), Some(&*sums));
        here.ok("archive add ./s ./data");
        let verified = here.ok("archive verify ./s");
        let sound =
            "archive './s' is sound: 2 versions, 1 chunk in 1 container, 2.93 KiB, 2 references\n";
        assert_eq!((&*verified.out, &*verified.err), (sound, ""));
        assert_eq!(here.ok("archive verify ./s --json").json()["references"], 2);
        for name in ["verify ./none", "list ./none", "ls ./none", "cat ./none a"] {
            let said = here.refused(&format!("archive {name}"), 2);
            assert!(said.contains("there is no archive at './none'"), "{said}");
        }
        assert!(here.refused("archive trace ./s --version 9", 2).contains("archive list ./s"));
        std::fs::create_dir(here.path("empty")).unwrap();
        here.ok("archive add ./s ./empty --allow-empty");
        let said = here.refused("archive trace ./s", 2);
        assert_eq!(said, "error: the version has no file with content to read\n");
    }
}
