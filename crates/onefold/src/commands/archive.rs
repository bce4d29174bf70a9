//! `onefold archive ...`: opening, and what its commands have in common.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;

use onefold_archive::{Archive, ArchiveError, ArchiveIdentity, LockKind, SecretKind};
use serde::Serialize;

use super::{archive_add, archive_diff, archive_key, archive_prune, archive_read, archive_restore};
use crate::archive_cache;
use crate::archive_place::{self, Place};
use crate::args::{ArchiveCheckArgs, ArchiveCommand, ArchiveCreateArgs, KeyArgs};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::make_pool;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::store_folder::{self, Making};

/// Run the command that was named.
pub fn run(command: &ArchiveCommand, printer: &Printer) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        ArchiveCommand::Create(args) => create(args, printer).map(done),
        ArchiveCommand::Add(args) => archive_add::run(args, printer),
        ArchiveCommand::List(args) => archive_read::list(args, printer).map(done),
        ArchiveCommand::Ls(args) => archive_read::ls(args, printer).map(done),
        ArchiveCommand::Cat(args) => archive_read::cat(args, printer).map(done),
        ArchiveCommand::Diff(args) => archive_diff::run(args, printer).map(done),
        ArchiveCommand::Restore(args) => archive_restore::run(args, printer),
        #[cfg(feature = "mount")]
        ArchiveCommand::Mount(args) => super::archive_mount::run(args, printer),
        #[cfg(not(feature = "mount"))]
        ArchiveCommand::Mount(_) => {
            Err(Failure::nothing_done("this onefold was built without mounting")
                .hint("build it with: cargo build --release --features mount"))
        }
        ArchiveCommand::Verify(args) => archive_read::verify(args, printer),
        ArchiveCommand::Check(args) => check(args, printer),
        ArchiveCommand::Remove(args) => archive_prune::remove(args, printer),
        ArchiveCommand::Prune(args) => archive_prune::prune(args, printer),
        ArchiveCommand::Key(args) => archive_key::change(args, printer).map(done),
        ArchiveCommand::Trace(args) => archive_read::trace(args, printer).map(done),
    }
}

/// Open an archive for what `kind` says.
pub fn open(store: &Path, key: &KeyArgs, kind: LockKind, printer: &Printer) -> Result<Archive> {
    let place = Place::of(store)?;
    let secret = archive_key::secret(store, &place, key)?;
    let archive = place.open(kind, secret.as_ref());
    let mut archive = archive.map_err(|error| failure(store, error))?;
    archive.set_workers(std::thread::available_parallelism().map_or(1, usize::from));
    for damage in archive.damage() {
        printer.warning(&format!("the log of archive '{}': {damage}", store.display()));
    }
    if !archive.damage().is_empty() {
        let at = store.display();
        printer.note(&format!("to see what can be repaired: onefold archive check {at}"));
    }
    Ok(archive)
}

/// An archive's error, with the archive's name and what to do about it.
pub fn failure(store: &Path, error: ArchiveError) -> Failure {
    let at = store.display();
    match error {
        ArchiveError::NoArchive => Failure::nothing_done(format!("there is no archive at '{at}'"))
            .hint(format!("make one with: onefold archive create {at}")),
        ArchiveError::NotEmpty(name) => Failure::nothing_done(format!(
            "cannot make an archive at '{at}': it already holds '{name}'"
        ))
        .hint("name a folder that is empty or does not exist"),
        ArchiveError::Locked { holder } => {
            let failure = Failure::nothing_done(format!("archive '{at}' is in use by {holder}"));
            failure.hint(if archive_place::is_remote(store) {
                "wait for it, or stop it; the lock of one that was killed ends after five minutes"
            } else {
                "wait for it, or stop it"
            })
        }
        error @ (ArchiveError::NewerFormat { .. }
        | ArchiveError::OlderFormat { .. }
        | ArchiveError::NoVersions) => Failure::nothing_done(format!("archive '{at}': {error}")),
        error @ ArchiveError::NoVersion { .. } => {
            Failure::nothing_done(format!("archive '{at}': {error}"))
                .hint(format!("to see the versions: onefold archive list {at}"))
        }
        error @ ArchiveError::NoPath { .. } => {
            Failure::nothing_done(format!("archive '{at}': {error}"))
                .hint(format!("to see the paths: onefold archive ls {at}"))
        }
        error @ ArchiveError::KeyNeeded { kind } => {
            Failure::nothing_done(format!("archive '{at}': {error}")).hint(match kind {
                SecretKind::Passphrase => "give --passphrase-file FILE",
                SecretKind::KeyFile => "give --key-file FILE",
            })
        }
        error @ ArchiveError::WrongKey { .. } => {
            Failure::nothing_done(format!("archive '{at}': {error}"))
        }
        error @ ArchiveError::Setting(_) => Failure::nothing_done(error.to_string()),
        error @ ArchiveError::Nothing => {
            Failure::nothing_done(error.to_string()).hint("to make such a version: --allow-empty")
        }
        // Settings and log are what a check looks at.
        ArchiveError::Corrupt { ref what, .. }
            if ["log", "archive.0", "archive.1", "versions", "containers"]
                .contains(&what.as_str()) =>
        {
            Failure::bad(format!("archive '{at}': {error}"))
                .hint(format!("to see what can be repaired: onefold archive check {at}"))
        }
        error if error.is_corruption() => Failure::bad(format!("archive '{at}': {error}"))
            .hint(format!("for a list of all damage: onefold archive verify {at}")),
        ArchiveError::Interrupted => interrupt::failure(""),
        error => Failure::bad(format!("archive '{at}': {error}")),
    }
}

fn create(args: &ArchiveCreateArgs, printer: &Printer) -> Result<()> {
    let settings = args.settings()?;
    let identity = make_pool::random_identity()?;
    let identity = ArchiveIdentity { uuid: identity.uuid, key: identity.key };
    let secret = archive_key::secret_to_create(args)?;
    archive_cache::must_be_open(args.cache.cache.as_deref(), secret.is_some())?;
    let key = secret.as_ref().map(archive_key::new_key).transpose()?;
    let place = Place::of(&args.store)?;
    let store = match &place {
        Place::Folder(path) => Some(*path),
        #[cfg(feature = "s3")]
        Place::Bucket(_) => None,
    };
    let making = Making::begin(store.into_iter().chain(args.cache.cache.as_deref()));
    let beside = archive_cache::settings_text(args)?;
    match place {
        Place::Folder(path) => drop(store_folder::make(path, args.access.group)?),
        #[cfg(feature = "s3")]
        Place::Bucket(_) if args.access.group.is_some() => {
            return Err(Failure::nothing_done("an object store knows no groups")
                .hint("who may use a bucket is up to its store; leave out --group"));
        }
        #[cfg(feature = "s3")]
        Place::Bucket(_) => {}
    }
    place
        .create(&settings, identity, key.as_ref(), beside.as_deref())
        .map_err(|error| failure(&args.store, error))?;
    making.done();
    let at = args.store.display();
    // What is encrypted may be read.
    if secret.is_none() {
        store_folder::tell_if_open(&args.store, args.cache.cache.as_deref(), printer);
    }
    let encrypted = match &secret {
        Some(secret) => format!(", encrypted: a {} opens it", secret.kind().name()),
        None => String::new(),
    };
    printer.note(&format!(
        "made archive '{at}': {} chunks of about {}, containers of {}, {}{encrypted}",
        settings.chunking, args.chunk_size, args.container_size, settings.compression
    ));
    printer.note(&format!("next: onefold archive add {at} PATH"));
    Ok(())
}

#[derive(Serialize)]
struct CheckJson {
    schema_version: u32,
    sound: bool,
    repaired: bool,
    steps: Vec<String>,
    lost: Vec<String>,
}

fn check(args: &ArchiveCheckArgs, printer: &Printer) -> Result<ExitCode> {
    let place = Place::of(&args.store)?;
    let secret = archive_key::secret(&args.store, &place, &args.key)?;
    let report =
        place.check(args.repair, secret.as_ref()).map_err(|error| failure(&args.store, error))?;
    let repaired = args.repair && !report.steps.is_empty();
    let at = args.store.display();
    if args.json {
        printer.json(&CheckJson {
            schema_version: JSON_SCHEMA_VERSION,
            sound: report.is_sound(),
            repaired,
            steps: report.steps.clone(),
            lost: report.lost.clone(),
        })?;
    } else {
        let lines = report.steps.iter().chain(&report.lost).map(|line| format!("{line}\n"));
        let summary = match (report.steps.is_empty(), args.repair) {
            (true, _) if report.lost.is_empty() => "is well",
            (true, _) => "has lost what no repair brings back",
            (false, true) => "was repaired",
            (false, false) => "can be repaired: onefold archive check --repair",
        };
        let text = lines.chain([format!("archive '{at}' {summary}\n")]).collect::<String>();
        printer.data(&text)?;
    }
    let is_well = report.lost.is_empty() && (report.steps.is_empty() || repaired);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;

    #[test]
    fn an_archive_that_is_in_use_says_how_long_to_wait() {
        let locked = || ArchiveError::Locked { holder: "process 7".to_owned() };
        let here = failure(Path::new("s"), locked());
        assert_eq!(here.message, "archive 's' is in use by process 7");
        assert_eq!(here.hints, ["wait for it, or stop it"]);
        let there = failure(Path::new("s3://bucket/s"), locked());
        assert!(there.hints[0].contains("after five minutes"), "{:?}", there.hints);
    }

    #[test]
    fn a_check_says_what_is_lost_what_it_would_do_and_what_it_did() {
        let here = Folder::new();
        here.ok("archive create ./s");
        let well = here.ok("archive check ./s");
        assert_eq!((&*well.out, &*well.err), ("archive './s' is well\n", ""));
        let json = here.ok("archive check ./s --repair --json").json();
        assert_eq!((&json["sound"], &json["repaired"]), (&true.into(), &false.into()));
        here.file("data", &[7; 3000]);
        here.ok("archive add ./s ./data");
        std::fs::remove_file(here.path("s/log.0")).unwrap();
        std::fs::remove_file(here.path("s/log.1")).unwrap();
        let said = here.onefold("archive check ./s");
        assert_eq!(said.code, 1);
        let can = "archive './s' can be repaired: onefold archive check --repair\n";
        assert!(said.out.ends_with(can) && said.out.lines().count() > 1, "{}", said.out);
        let json = here.onefold("archive check ./s --json");
        assert_eq!((json.code, &json.json()["repaired"]), (1, &false.into()));
        let said = here.ok("archive check ./s --repair");
        assert!(said.out.ends_with("archive './s' was repaired\n"), "{}", said.out);
        let full = here.refused("archive create ./s", 2);
        assert!(full.contains("cannot make an archive at './s': it already holds '"), "{full}");
    }
}
