//! Files that say who has a store open, where locks do not reach everybody who can get at it.
//! Room: onefold-block.
//! Whoever comes makes a file of its own beside the lock file, then looks who else has one, and
//! goes again if somebody is in the way: of two that come together at least one sees the other. If
//! both do, the one whose file has the lesser name stays for a moment to see the other go.
//! The name says all that has to be compared, so that a file is there as a whole or not at all;
//! what is in it is for people. It goes with its owner. One that a killed process left is removed
//! by the next that can tell that its owner has ended ([`Party::has_ended`]); where nobody can, as
//! after the death of another machine, a person removes it.
//! Invariant: nothing of a store is read or written before the file is there and nobody in the way.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use rustix::fs::OFlags;

use super::hold::{Hold, LOCK_FILE, LockError};
use super::party::{self, Party};
use crate::access::Access;
use crate::media::FOLDER_MARK;

/// Longest name of an owner that is read.
const NOTE_BYTES: u64 = 300;

/// How often somebody is asked for who may be about to go again. Each time is a question to the
/// server, where there is one.
const PATIENCE: u32 = 100;

/// Tells apart what one process has open.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// What somebody has of a store: its lock file, and the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    pub file: Hold,
    pub folder: Hold,
}

impl Holds {
    fn are_in_the_way_of(self, other: Self) -> bool {
        self.file.is_in_the_way_of(other.file) || self.folder.is_in_the_way_of(other.folder)
    }

    fn changes_something(self) -> bool {
        self.file == Hold::Alone || self.folder == Hold::Alone
    }
}

/// The files of this process; locked while one is made or removed, so that whoever leaves finds
/// all that there are.
static SHOWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// How often whoever leaves asks for them. On a disk that does not answer nobody waits for ever.
const LEAVE_ATTEMPTS: u32 = 1_000_000;

/// A file that says that this process has a store open; dropping it removes the file.
#[derive(Debug)]
pub struct Presence(PathBuf);

impl Presence {
    fn make(path: PathBuf, access: Access, me: &Party) -> io::Result<Self> {
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        make(&path, access, me)?;
        shown.push(path.clone());
        Ok(Self(path))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        shown.retain(|path| *path != self.0);
        let _ = fs::remove_file(&self.0);
    }
}

/// Remove the files of a process that ends now without dropping what it has, so that nobody on
/// another machine waits for it. Nobody makes one any more after that.
pub fn leave() {
    for _ in 0..LEAVE_ATTEMPTS {
        let shown = match SHOWN.try_lock() {
            Ok(shown) => shown,
            Err(TryLockError::Poisoned(shown)) => shown.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        for path in shown.iter() {
            let _ = fs::remove_file(path);
        }
        // Held to the end.
        std::mem::forget(shown);
        return;
    }
}

fn name_of(holds: Holds, party: &Party, count: u64) -> String {
    let Holds { file, folder } = holds;
    format!("{LOCK_FILE}.{}.{}.{party}.{count}", file.name(), folder.name())
}

/// Whether a file of that name is one of these.
pub fn is_one(name: &str) -> bool {
    !matches!(parse(name), Said::Nothing)
}

/// What the name of a file says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// It is none of these files.
    Nothing,
    /// It is one, in words of another version.
    Something,
    Of(Holds, Party),
}

fn parse(name: &str) -> Said {
    let rest = name.strip_prefix(LOCK_FILE).and_then(|rest| rest.strip_prefix('.'));
    let mut parts = rest.unwrap_or_default().split('.');
    let mut hold = || {
        let name = parts.next()?;
        Hold::ALL.into_iter().find(|hold| hold.name() == name)
    };
    let (Some(file), Some(folder)) = (hold(), hold()) else { return Said::Nothing };
    let party = parts.next().and_then(Party::parse);
    let is_whole = parts.next().is_some_and(|count| count.parse::<u64>().is_ok());
    match party {
        Some(party) if is_whole && parts.next().is_none() => {
            Said::Of(Holds { file, folder }, party)
        }
        _ => Said::Something,
    }
}

impl Presence {
    /// Say that `me` has the store in the folder at `path` open, unless somebody is in the way.
    /// `has_locks` if all of `holds` are locked through this mount. Somebody who only looks, and
    /// may make no file, goes without.
    ///
    /// # Errors
    /// [`LockError::Held`] if somebody is, or may be, in the way; [`LockError::Io`] for whatever
    /// the system refuses.
    pub fn show(
        path: &Path,
        access: Access,
        holds: Holds,
        me: &Party,
        has_locks: bool,
    ) -> Result<Option<Self>, LockError> {
        let name = name_of(holds, me, COUNT.fetch_add(1, Ordering::Relaxed));
        let own = path.join(&name);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| LockError::Io { path, source }
        };
        let presence = match Presence::make(own.clone(), access, me) {
            Ok(presence) => presence,
            Err(error) if !holds.changes_something() && is_denied(&error) => return Ok(None),
            Err(error) => return Err(failed(&own)(error)),
        };
        let mut is_seen = false;
        for entry in fs::read_dir(path).map_err(failed(path))? {
            let entry = entry.map_err(failed(path))?;
            let found = entry.file_name().to_string_lossy().into_owned();
            if found == name {
                is_seen = true;
                continue;
            }
            let has_ended = match parse(&found) {
                Said::Nothing => continue,
                Said::Of(theirs, _) if !theirs.are_in_the_way_of(holds) => continue,
                Said::Of(_, who) => who.has_ended(me, has_locks, party::started),
                Said::Something => false,
            };
            if has_ended {
                // Whether that works is the next one's concern: it will be judged again.
                let _ = fs::remove_file(entry.path());
                continue;
            }
            if name < found && is_about_to_go(&entry.path()) {
                continue;
            }
            return Err(LockError::Held { holder: holder(&entry.path()) });
        }
        if !is_seen {
            let source = io::Error::other("a file that was just made is not in its folder");
            return Err(failed(&own)(source));
        }
        forget_lists(path);
        Ok(Some(presence))
    }
}

/// Have the file system list the folders within a store as they are: sshfs remembers lists for 20
/// seconds, so that what another machine has just made would be missing and what it removed be
/// there. Whoever makes something in a folder has its list forgotten, here as for the file that
/// says who is there.
fn forget_lists(path: &Path) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A name that means nothing in any store. Where that fails, lists are as they are.
            let mark = entry.path().join(FOLDER_MARK);
            let _ = OpenOptions::new().write(true).create_new(true).open(&mark);
            let _ = fs::remove_file(&mark);
        }
    }
}

/// Make the file, with a line for people in it.
fn make(path: &Path, access: Access, me: &Party) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(Access::OWNER_FILE_MODE);
    let mut file = options.open(path)?;
    // Neither is needed by anybody but people.
    let _ = access.set_file(&file);
    let _ = writeln!(file, "process {} on {}", me.process, party::host());
    Ok(())
}

/// Whether somebody goes who has come together with us. Opening a file asks for it anew, where a
/// folder's list may be remembered.
fn is_about_to_go(path: &Path) -> bool {
    (0..PATIENCE).any(|_| {
        std::thread::yield_now();
        look(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    })
}

/// Open what somebody made, and nothing else.
fn look(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Who is in the way, by what it wrote for people, and what to do if that is wrong.
fn holder(path: &Path) -> String {
    let read = || {
        let file = look(path).ok()?;
        let mut text = String::new();
        file.take(NOTE_BYTES).read_to_string(&mut text).ok()?;
        let line = text.strip_suffix('\n')?;
        (!line.is_empty() && !line.contains(|letter: char| letter.is_control()))
            .then(|| line.to_owned())
    };
    let who = read().unwrap_or_else(|| "another process".to_owned());
    format!("{who}; if that has ended, remove '{}'", path.display())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const LOOKS: Holds = Holds { file: Hold::Not, folder: Hold::Shared };
    const ADDS: Holds = Holds { file: Hold::Alone, folder: Hold::Shared };
    const REMOVES: Holds = Holds { file: Hold::Alone, folder: Hold::Alone };

    fn folder() -> (TempDir, Party, Party) {
        let dir = tempfile::tempdir().unwrap();
        let me = Party::here(1).unwrap();
        let other = Party { boot: !me.boot, machine: None, ..me.clone() };
        (dir, me, other)
    }

    fn show(dir: &TempDir, holds: Holds, who: &Party) -> Result<Option<Presence>, LockError> {
        Presence::show(dir.path(), Access::Owner, holds, who, true)
    }

    fn files(dir: &TempDir) -> usize {
        fs::read_dir(dir.path()).unwrap().count()
    }

    #[test]
    fn who_is_in_the_way_is_kept_out_whatever_machine_it_is_on() {
        let (dir, me, other) = folder();
        for (first, second, together) in [
            (LOOKS, LOOKS, true),
            (LOOKS, ADDS, true),
            (LOOKS, REMOVES, false),
            (ADDS, LOOKS, true),
            (ADDS, ADDS, false),
            (ADDS, REMOVES, false),
            (REMOVES, LOOKS, false),
            (REMOVES, ADDS, false),
            (REMOVES, REMOVES, false),
        ] {
            for (one, two) in [(&me, &other), (&other, &me)] {
                let one = show(&dir, first, one).unwrap().unwrap();
                let two = show(&dir, second, two);
                match &two {
                    Ok(Some(_)) => assert!(together, "{first:?} and {second:?}"),
                    Err(LockError::Held { holder }) => {
                        assert!(!together, "{first:?} and {second:?}");
                        let said = format!("process {} on {}; if", me.process, party::host());
                        assert!(holder.starts_with(&said), "{holder}");
                        assert!(holder.ends_with(&format!("'{}'", one.0.display())), "{holder}");
                    }
                    other => panic!("{other:?}"),
                }
                drop((one, two));
                assert_eq!(files(&dir), 0, "each goes with its owner");
            }
        }
    }

    #[test]
    fn what_the_dead_left_is_removed_and_what_the_living_have_is_not() {
        let (dir, me, other) = folder();
        let leave = |who: &Party| std::mem::forget(show(&dir, ADDS, who).unwrap());
        // It was killed, and had the store through the same mount.
        leave(&Party { namespace: 0, ..me.clone() });
        let here = show(&dir, ADDS, &me).unwrap();
        assert_eq!(files(&dir), 1);
        drop(here);
        // This machine has been started again.
        leave(&Party { boot: 0, machine: Some(1), ..me.clone() });
        let me = Party { machine: Some(1), ..me };
        drop(show(&dir, ADDS, &me).unwrap());
        assert_eq!(files(&dir), 0);

        leave(&other);
        for holds in [ADDS, REMOVES] {
            assert!(matches!(show(&dir, holds, &me), Err(LockError::Held { .. })), "{holds:?}");
        }
        assert_eq!(files(&dir), 1, "the other's stays, ours are gone");
        assert!(show(&dir, LOOKS, &me).unwrap().is_some());
    }

    #[test]
    fn without_locks_the_process_itself_is_looked_for() {
        let (dir, me, _) = folder();
        let theirs = show(&dir, ADDS, &me).unwrap();
        let held = Presence::show(dir.path(), Access::Owner, ADDS, &me, false);
        assert!(matches!(held, Err(LockError::Held { .. })), "it is this one, which lives");
        drop(theirs);
        let gone = Party { started: 0, ..me.clone() };
        std::mem::forget(show(&dir, ADDS, &gone).unwrap());
        Presence::show(dir.path(), Access::Owner, ADDS, &me, false).unwrap().unwrap();
    }

    #[test]
    fn names_of_others_are_no_business_of_ours_but_those_of_later_versions() {
        let (dir, me, _) = folder();
        for name in ["lock", "lock.txt", "lock.alone", "lock.alone.txt", "unlock.alone.alone.x"] {
            fs::write(dir.path().join(name), b"").unwrap();
        }
        drop(show(&dir, REMOVES, &me).unwrap());
        assert_eq!(files(&dir), 5);
        let later = dir.path().join("lock.shared.shared.who-knows");
        fs::write(&later, b"process 1 on \x1b[2J\n").unwrap();
        let Err(LockError::Held { holder }) = show(&dir, LOOKS, &me) else { panic!("let in") };
        let expected = format!("another process; if that has ended, remove '{}'", later.display());
        assert_eq!(holder, expected);
    }

    #[test]
    fn names_say_all_that_is_compared() {
        let me = Party::here(1).unwrap();
        for holds in [LOOKS, ADDS, REMOVES] {
            let name = name_of(holds, &me, 3);
            assert_eq!(parse(&name), Said::Of(holds, me.clone()));
            for cut in ["", ".x", ".3.3"] {
                let wrong = format!("{}{cut}", name.strip_suffix(".3").unwrap());
                assert_eq!(parse(&wrong), Said::Something, "{wrong}");
            }
        }
        assert_eq!(parse("lock"), Said::Nothing);
    }

    #[test]
    fn lists_that_were_remembered_are_forgotten() {
        let (dir, me, _) = folder();
        let at = |name: &str| dir.path().join(name);
        let mark = Path::new("containers").join(FOLDER_MARK);
        for name in ["containers", "versions"] {
            fs::create_dir(at(name)).unwrap();
        }
        // As a copy of a bucket has it.
        fs::write(dir.path().join(&mark), "").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        for name in ["containers", "versions"] {
            File::open(at(name)).unwrap().set_modified(old).unwrap();
        }
        drop(show(&dir, LOOKS, &me).unwrap());
        for name in ["containers", "versions"] {
            assert_ne!(at(name).metadata().unwrap().modified().unwrap(), old, "{name}");
            assert_eq!(fs::read_dir(at(name)).unwrap().count(), 0, "{name}");
        }
    }

    #[test]
    fn who_is_there_does_not_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock.x");
        assert!(is_about_to_go(&path));
        fs::write(&path, "").unwrap();
        assert!(!is_about_to_go(&path));
    }

    #[test]
    fn who_may_make_no_file_may_look_and_nothing_else() {
        let me = Party::here(1).unwrap();
        // Nobody may make a file there, root neither.
        let show =
            |holds| Presence::show(Path::new("/sys/kernel"), Access::Owner, holds, &me, true);
        assert!(show(LOOKS).unwrap().is_none());
        for holds in [ADDS, Holds { file: Hold::Not, folder: Hold::Alone }] {
            assert!(matches!(show(holds), Err(LockError::Io { .. })), "{holds:?}");
        }
        assert!(is_denied(&io::ErrorKind::ReadOnlyFilesystem.into()));
        assert!(!is_denied(&io::ErrorKind::StorageFull.into()));
    }
}
