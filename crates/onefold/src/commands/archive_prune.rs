//! `onefold archive remove` and `prune`: versions that go, and space that comes back.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;

use onefold_archive::{Archive, Compacted, LockKind, Removed, VersionInfo};
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
    // One that is named twice is removed, and counted, once.
    let mut numbers = args.numbers.clone();
    numbers.sort_unstable();
    numbers.dedup();
    let given_back = remove_all(&mut archive, &args.store, &numbers, max_unused, printer)?;
    given_back.tell(numbers.len(), printer);
    Ok(given_back.end(printer))
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
    Ok(given_back.end(printer))
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
    fn of(removed: Removed, compacted: Compacted) -> Self {
        let Compacted { containers, freed_bytes, moved_bytes, unused_bytes, obstacles } = compacted;
        Self {
            containers: removed.containers + containers,
            freed_bytes: removed.bytes + freed_bytes,
            moved_bytes,
            unused_bytes,
            obstacles,
        }
    }

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

    /// Say what stood in the way, if anything did.
    fn end(&self, printer: &Printer) -> ExitCode {
        for obstacle in &self.obstacles {
            printer.warning(obstacle);
        }
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
    Ok(GivenBack::of(removed, compacted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;
    use crate::output::Heard;

    #[test]
    fn both_ways_of_giving_back_are_summed_and_obstacles_are_no_success() {
        let removed = Removed { containers: 1, bytes: 1024 };
        let compacted = Compacted {
            containers: 2,
            freed_bytes: 2048,
            moved_bytes: 512,
            unused_bytes: 256,
            obstacles: vec!["container 7: unreadable".to_owned()],
        };
        let heard = Heard::default();
        let printer = Printer::heard(&heard);
        let given_back = GivenBack::of(removed, compacted);
        given_back.tell(2, &printer);
        let code = given_back.end(&printer);
        let expected = "removed 2 versions: 3 containers and 3 KiB given back, 512 B moved, 256 B \
                        unused\nwarning: container 7: unreadable\n";
        assert_eq!(heard.lock().unwrap().1, expected);
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
        let nothing = GivenBack::of(removed, Compacted::default()).end(&printer);
        assert_eq!(format!("{nothing:?}"), format!("{:?}", ExitCode::SUCCESS));
    }

    #[test]
    fn what_rules_keep_and_what_goes_is_said_before_and_after() {
        let here = Folder::new();
        here.ok("archive create ./s");
        for (label, bytes) in [("first", &[1; 5000]), ("second", &[2; 5000]), ("third", &[3; 5000])]
        {
            here.file("data", bytes);
            here.ok(&format!("archive add ./s ./data --label {label} --read-all"));
        }
        let without_times = |text: &str| {
            let line = |line: &str| {
                let (head, tail) = line.split_once(" of ").unwrap();
                format!("{head}{}\n", &tail["1970-01-01 00:00:00".len()..])
            };
            text.lines().map(line).collect::<String>()
        };
        let all = here.ok("archive prune ./s --dry-run");
        let expected = "keep version 1 first\nkeep version 2 second\nkeep version 3 third\n";
        assert_eq!((&*without_times(&all.out), &*all.err), (expected, ""));
        let none = here.ok("archive prune ./s");
        assert!(
            none.out.is_empty() && none.err.starts_with("removed 0 versions: "),
            "{}",
            none.err
        );
        let dry = here.ok("archive prune ./s --keep-last 2 --dry-run");
        let expected =
            "remove version 1 first\nkeep (last) version 2 second\nkeep (last) version 3 third\n";
        assert_eq!((&*without_times(&dry.out), &*dry.err), (expected, ""));
        let dry = here.ok("archive prune ./s --keep-last 2 --dry-run --json").json();
        let kept: Vec<bool> =
            (0..3).map(|at| dry["versions"][at]["kept"].as_bool().unwrap()).collect();
        assert_eq!((kept, &dry["dry_run"]), (vec![false, true, true], &true.into()));
        let done = here.ok("archive prune ./s --keep-last 2");
        assert_eq!(without_times(&done.out), expected);
        assert!(done.err.starts_with("removed 1 version: "), "{}", done.err);
        let removed = here.ok("archive remove ./s 2 2");
        assert!(
            removed.out.is_empty() && removed.err.starts_with("removed 1 version: 1 container ")
        );
        let json = here.ok("archive prune ./s --json").json();
        assert_eq!((&json["versions"][0]["kept"], &json["containers"]), (&true.into(), &0.into()));
        assert!(json["versions"].as_array().unwrap().len() == 1);
    }
}
