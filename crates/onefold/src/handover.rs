//! Memory in which a pool leaves what is not flushed to the next process, should this one die.
//! Room: onefold.
//! It is a folder of `/dev/shm`, one for each pool, which the pool's own folder is told apart by
//! (device and inode): a copy of a pool never takes what belongs to the original. Whoever starts
//! removes the memory of stores that are gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_block::MediaError;
use onefold_block::handover::{FileHandover, Handover, Shelf};
use onefold_pool::{Pool, TakenUp};

use crate::output::Printer;
use crate::table::plural;

/// Where such memory is, unless [`ELSEWHERE`] says otherwise.
const PLACE: &str = "/dev/shm";
/// Environment variable that names another folder, or says `off`.
const ELSEWHERE: &str = "ONEFOLD_HANDOVER";
/// Which run of the machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The memory of the pool in this folder. Without any the pool works, and what was not flushed goes
/// with the process.
pub fn of(pool: &Path) -> Option<Arc<dyn Handover>> {
    let claimed = shelf(&place()?).and_then(|shelf| {
        let claimed = shelf.claim(pool)?;
        for store in shelf.sweep() {
            tracing::info!("removed what '{}', which is gone, left in memory", store.display());
        }
        Ok(claimed)
    });
    match claimed {
        Ok(claimed) => Some(Arc::new(claimed)),
        Err(error) => {
            tracing::warn!("writes since the last flush would not survive a kill: {error}");
            None
        }
    }
}

/// The folder that has all of it, if there is one.
fn place() -> Option<PathBuf> {
    let place = std::env::var_os(ELSEWHERE).unwrap_or_else(|| PLACE.into());
    (place != "off").then(|| place.into())
}

fn shelf(place: &Path) -> Result<Shelf, MediaError> {
    let io = |action, path: &Path| {
        let name = path.display().to_string();
        move |source| MediaError::Io { action, name, source }
    };
    let boot = std::fs::read_to_string(BOOT_ID).map_err(io("read", Path::new(BOOT_ID)))?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).map_err(std::io::Error::other);
    let boot = boot.map_err(io("understand", Path::new(BOOT_ID)))?;
    let user = place.join(format!("onefold-{}", rustix::process::geteuid().as_raw()));
    Shelf::open(&user, boot.to_be_bytes())
}

/// What a process left to the next one that opens this store, where it can be looked at.
pub fn left(store: &Path) -> Option<FileHandover> {
    shelf(&place()?).and_then(|shelf| shelf.look(store)).ok().flatten()
}

/// Say what a killed process left, to those who only look at a pool.
pub fn tell_left(path: &Path, pool: &Pool) {
    let Some(memory) = left(path) else { return };
    if let Some(text) = text_of_left(pool.changes_left_in(&memory)) {
        tracing::warn!("{text}");
    }
}

/// What is said where a killed process left so many changes.
fn text_of_left(changes: u64) -> Option<String> {
    (changes > 0).then(|| {
        format!(
            "a process that was killed left up to {} in memory that were acknowledged and not \
             flushed: they are not shown here, and whoever opens the pool for writing stores them",
            plural(changes, "change", "changes")
        )
    })
}

/// Say what was found of a process that did not close the pool.
pub fn tell(pool: &Pool, printer: &Printer) {
    let unaccepted = pool.generation().is_some_and(|generation| generation.is_unaccepted());
    tell_taken(pool.taken_up(), unaccepted, printer);
}

/// Say what was taken up, and what may be lost: for a reason that is known, or without any where a
/// generation is not accepted.
fn tell_taken(taken: &TakenUp, unaccepted: bool, printer: &Printer) {
    if taken.changes > 0 {
        printer.note(&format!(
            "{} acknowledged by a process that ended without a flush are durable now",
            plural(taken.changes, "change", "changes")
        ));
    }
    if let Some(why) = &taken.lost {
        printer.warning(&format!(
            "writes that a former process acknowledged after its last flush may be lost: {why}"
        ));
    } else if unaccepted {
        printer.warning(
            "the pool was not closed before the machine stopped, or what its process left in \
             memory is gone: writes that were acknowledged and not flushed may be lost",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_and_what_may_be_lost_is_told_and_else_nothing() {
        let told = |changes, lost: Option<&str>, unaccepted| {
            let printer = Printer::kept(false);
            let taken = TakenUp { found: true, changes, lost: lost.map(str::to_owned) };
            tell_taken(&taken, unaccepted, &printer);
            printer.told()
        };
        assert_eq!(told(0, None, false), "");
        let durable = "1 change acknowledged by a process that ended without a flush are durable";
        assert!(told(1, None, false).starts_with(durable), "{}", told(1, None, false));
        let lost = told(0, Some("a power cut"), true);
        assert!(
            lost.ends_with("may be lost: a power cut\n") && lost.lines().count() == 1,
            "{lost}"
        );
        assert!(told(0, None, true).contains("not closed before the machine stopped"));
        assert_eq!(text_of_left(0), None);
        assert!(text_of_left(1).unwrap().contains("up to 1 change in memory"));
    }
}
