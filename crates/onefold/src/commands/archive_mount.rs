//! `onefold archive mount`: an archive as a file system, until a signal, an unmount or the end of a
//! command.
//! Room: onefold.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;

use onefold_archive::{BrowseMemory, Browser, LockKind};
use onefold_mount::{Damage, Mounted};

use super::archive::{failure, open};
use crate::archive_cache;
use crate::args::ArchiveMountArgs;
use crate::args::Hangup;
use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::pool_cache::ServedCache;
use crate::serve::child::{self, Child};
use crate::serve::events::{Event, Events};
use crate::serve::stop::Patience;
use crate::table::plural;

/// Mount.
pub fn run(args: &ArchiveMountArgs, printer: &Printer) -> Result<ExitCode> {
    let at = (args.store.display(), args.dir.display());
    let silent = Failure::bad(format!("archive '{}' does not answer", at.0))
        .hint(format!("if '{}' is still mounted: fusermount3 -u -z {}", at.1, at.1));
    let patience = Patience::or(silent, args.run.is_some());
    let events = Events::listen(Hangup::Stop, patience.on_stop())?;
    check_folder(&args.dir)?;
    let dir = fs::canonicalize(&args.dir).map_err(|error| {
        Failure::nothing_done(format!("cannot mount at '{}': {error}", args.dir.display()))
    })?;
    let mut archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let cache = archive_cache::before(&args.store, &mut archive, &args.cache, printer)?;
    let memory = BrowseMemory {
        metadata_bytes: args.metadata_memory.bytes(),
        content_bytes: args.read_memory.bytes(),
    };
    let browser = Browser::new(archive, memory).map_err(|error| failure(&args.store, error))?;
    let versions = browser.versions().len() as u64;
    let damage = Arc::new(Damage::new(|what| Printer::new(false).warning(what)));
    let mounted = mount(browser, &damage, args, &dir, &events)?;
    let command = match &args.run {
        None => {
            introduce(args, versions, printer);
            None
        }
        Some(command) => {
            let started =
                Child::start_with(command, &[("mount", dir.as_os_str())], events.sender());
            match started {
                Ok(child) => Some(child),
                Err(failure) => {
                    unmount(mounted, &dir, printer);
                    return Err(failure);
                }
            }
        }
    };
    let ended = wait(&events, &cache);
    let ended = ended.or_else(|| command.as_ref().and_then(|command| command.end(&events)));
    patience.begin();
    unmount(mounted, &dir, printer);
    let code = ended.map_or(0, child::exit_code);
    let code = if code == 0 && damage.was_met() { 1 } else { code };
    if command.is_none() {
        printer.note(&format!("'{}' is unmounted", args.dir.display()));
    }
    Ok(ExitCode::from(code))
}

/// The folder must be there, and hide nothing.
fn check_folder(dir: &Path) -> Result<()> {
    let at = dir.display();
    let refused = |error: std::io::Error| {
        let failure = Failure::nothing_done(format!("cannot mount at '{at}': {error}"));
        match error.kind() {
            ErrorKind::NotFound => failure.hint(format!("make it first: mkdir {at}")),
            // What a killed process leaves.
            ErrorKind::NotConnected => {
                failure.hint(format!("what was mounted there has died: fusermount3 -u {at}"))
            }
            _ => failure,
        }
    };
    if let Some(entry) = fs::read_dir(dir).map_err(refused)?.next() {
        let name = entry.map_err(refused)?.file_name();
        return Err(Failure::nothing_done(format!(
            "cannot mount at '{at}': it holds '{}', which would be hidden",
            name.display()
        ))
        .hint("name an empty folder"));
    }
    Ok(())
}

fn introduce(args: &ArchiveMountArgs, versions: u64, printer: &Printer) {
    let (store, dir) = (args.store.display(), args.dir.display());
    let versions = plural(versions, "version", "versions");
    printer.note(&format!("archive '{store}' is mounted at '{dir}', to be read: {versions}"));
    printer.note(&format!("to unmount it: fusermount3 -u {dir}, or Ctrl-C"));
}

/// Wait for the end; answers how the command ended, if it did.
fn wait(events: &Events, cache: &ServedCache) -> Option<ExitStatus> {
    loop {
        match events.next() {
            Event::Stop => return None,
            Event::CommandEnded(status) => return Some(status),
            Event::Tick => cache.tick(),
            Event::Reload | Event::ShowStatus | Event::Relieve => {}
        }
    }
}

/// Mount it, and say what to do if the system refuses.
fn mount(
    browser: Browser,
    damage: &Arc<Damage>,
    args: &ArchiveMountArgs,
    dir: &Path,
    events: &Events,
) -> Result<Mounted> {
    let ended = events.sender();
    let ended = move || {
        // Nobody listens any more where this was the end that was asked for.
        let _ = ended.send(Event::Stop);
    };
    let at = args.dir.display();
    Mounted::start(browser, damage, (dir, args.allow_other), ended).map_err(|error| {
        let failure = Failure::nothing_done(format!("cannot mount at '{at}': {error}"));
        if !Path::new("/dev/fuse").exists() {
            return failure.hint("this system has no /dev/fuse: modprobe fuse");
        }
        match error.kind() {
            ErrorKind::NotFound => failure.hint("fusermount3 is needed: apt install fuse3"),
            _ if args.allow_other => {
                failure.hint("--allow-other needs root, or user_allow_other in /etc/fuse.conf")
            }
            _ => failure,
        }
    })
}

/// Unmount it, if nobody has.
fn unmount(mut mounted: Mounted, dir: &Path, printer: &Printer) {
    if mounted.is_over() {
        return;
    }
    let at = dir.display();
    if let Err(error) = mounted.unmount() {
        if error.kind() != ErrorKind::ResourceBusy {
            printer.warning(&format!("cannot unmount '{at}': {error}"));
            return;
        }
        // It goes out of sight now, and what is open in it ends with this process.
        printer.warning(&format!("'{at}' was still in use"));
        let detached = rustix::mount::unmount(dir, rustix::mount::UnmountFlags::DETACH);
        if let Err(error) = detached {
            printer.warning(&format!("cannot unmount '{at}': {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_to_mount_at_is_there_and_hides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("empty")).unwrap();
        assert!(check_folder(&at("empty")).is_ok());
        let missing = check_folder(&at("none")).unwrap_err();
        assert!(missing.hints[0].starts_with("make it first: mkdir "), "{:?}", missing.hints);
        fs::write(at("empty/file"), "").unwrap();
        let hidden = check_folder(&at("empty")).unwrap_err();
        assert!(hidden.message.ends_with(": it holds 'file', which would be hidden"));
        let file = check_folder(&at("empty/file")).unwrap_err();
        assert!(file.hints.is_empty(), "{:?}", file.hints);
    }
}
