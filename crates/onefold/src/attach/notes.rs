//! What was done to this machine to attach a volume: a file for each, until it is undone.
//! Room: onefold.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onefold_block::{FileFolder, small_file};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::Step;
use crate::failure::{Failure, Result};
use crate::text_file;

/// Names another folder for the notes.
const VARIABLE: &str = "ONEFOLD_ATTACHED";
/// They are gone when the machine starts again, and so is what they tell of.
const OF_ROOT: &str = "/run/onefold-attached";
const NOTE_BYTES_MAX: u64 = 1 << 20;
/// Rights of a folder by which its group, or others, write to it.
const OTHERS_WRITE: u32 = 0o022;

/// How long another command may have the notes, and how often it is looked for.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// A note. Steps are in the order in which they were done. As long as it is there no other command
/// has one: what two of them do at once to one volume nobody could undo.
#[derive(Debug, Serialize, Deserialize)]
pub struct Note {
    /// The pool's folder.
    pub pool: PathBuf,
    /// The volume.
    pub volume: String,
    steps: Vec<Step>,
    #[serde(skip)]
    at: PathBuf,
    /// The folder of the notes, locked.
    #[serde(skip)]
    lock: Option<File>,
}

/// Where the notes are: nobody else may write there.
fn folder() -> Result<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    let folder = match (std::env::var_os(VARIABLE), std::env::var_os("XDG_RUNTIME_DIR")) {
        (Some(named), _) => PathBuf::from(named),
        (None, _) if root => PathBuf::from(OF_ROOT),
        (None, Some(run)) => PathBuf::from(run).join("onefold-attached"),
        (None, None) => {
            let message = "there is no folder for a note of what is attached";
            return Err(Failure::nothing_done(message)
                .hint(format!("XDG_RUNTIME_DIR or {VARIABLE} has to name one")));
        }
    };
    let unusable = |error| Failure::unusable("keep notes in", &folder, error);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(error)),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder).map_err(unusable)?;
    if is_of_alone(&found, rustix::process::geteuid().as_raw()) {
        return Ok(folder);
    }
    let message = format!("others may write to '{}', where notes are kept", folder.display());
    Err(Failure::nothing_done(message)
        .hint(format!("remove it, or name another one in {VARIABLE}")))
}

/// The folder of the notes for this command alone, once those before it are done.
fn locked(folder: &Path, patience: Duration) -> Result<File> {
    let unusable = |error| Failure::unusable("lock", folder, error);
    let file = File::open(folder).map_err(unusable)?;
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => sleep(LOOK),
            Err(Errno::WOULDBLOCK) => {
                let message = "another attach or detach is under way and does not come to an end";
                return Err(Failure::nothing_done(message));
            }
            Err(error) => return Err(unusable(error.into())),
        }
    }
}

/// Whether something is a folder that this user may write to, and nobody else.
fn is_of_alone(found: &fs::Metadata, user: u32) -> bool {
    found.is_dir() && found.uid() == user && found.mode() & OTHERS_WRITE == 0
}

/// What a pool's folder is called, also once it is gone.
fn canonical(pool: &Path) -> std::io::Result<PathBuf> {
    match (pool.canonicalize(), pool.file_name()) {
        (Err(error), Some(name)) if error.kind() == ErrorKind::NotFound => {
            let above = pool.parent().filter(|above| !above.as_os_str().is_empty());
            Ok(above.unwrap_or(Path::new(".")).canonicalize()?.join(name))
        }
        (found, _) => found,
    }
}

impl Note {
    /// The note of a volume, with nothing done if there is none.
    pub fn of(pool: &Path, volume: &str) -> Result<Self> {
        let pool = canonical(pool).map_err(|error| Failure::unusable("find", pool, error))?;
        let named = [pool.as_os_str().as_encoded_bytes(), b"\0", volume.as_bytes()].concat();
        let name = format!("{:032x}.json", twox_hash::XxHash3_128::oneshot(&named));
        let folder = folder()?;
        let lock = Some(locked(&folder, PATIENCE)?);
        let at = folder.join(name);
        let empty = Self { pool, volume: volume.to_owned(), steps: Vec::new(), at, lock };
        if !empty.at.exists() {
            return Ok(empty);
        }
        let text = text_file::read(&empty.at, "note", NOTE_BYTES_MAX)?;
        let read: Self = serde_json::from_str(&text).map_err(|error| {
            Failure::nothing_done(format!("note '{}': {error}", empty.at.display()))
        })?;
        if (&read.pool, &read.volume) != (&empty.pool, &empty.volume) {
            let message = format!("note '{}' is of another volume", empty.at.display());
            return Err(Failure::nothing_done(message));
        }
        Ok(Self { at: empty.at, lock: empty.lock, ..read })
    }

    /// A folder beside the note, for what is shown of the volume.
    pub fn folder(&self) -> PathBuf {
        self.at.with_extension("d")
    }

    /// Whether nothing is done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// What was done last.
    pub fn last(&self) -> Option<&Step> {
        self.steps.last()
    }

    /// The device that was made last.
    pub fn device(&self) -> Option<PathBuf> {
        self.steps.iter().rev().find_map(Step::device)
    }

    /// A step is about to be done, or was, where only that tells what it is.
    pub fn add(&mut self, step: Step) -> Result<()> {
        self.steps.push(step);
        self.write()
    }

    /// It is undone.
    pub fn forget_last(&mut self) -> Result<()> {
        self.steps.pop();
        self.write()
    }

    /// There is nothing to tell.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.at) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::broke("remove", &self.at, error))
            }
            _ => Ok(()),
        }
    }

    /// One of nothing, in this file.
    #[cfg(test)]
    pub fn in_file(at: PathBuf) -> Self {
        let (pool, volume) = ("/pool".into(), "main".to_owned());
        Self { pool, volume, steps: Vec::new(), at, lock: None }
    }

    fn write(&self) -> Result<()> {
        let broke = |error: String| Failure::broke("write", &self.at, error);
        let (folder, name) = (self.at.parent(), self.at.file_name().and_then(|name| name.to_str()));
        let (Some(folder), Some(name)) = (folder, name) else {
            return Err(broke("it has no folder".to_owned()));
        };
        let text = serde_json::to_vec(self).map_err(|error| broke(error.to_string()))?;
        let folder = FileFolder::open(folder).map_err(|error| broke(error.to_string()))?;
        small_file::replace(&folder, name, &text).map_err(|error| broke(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_in_a_folder_that_nobody_else_writes_to() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let is_ours = |user| is_of_alone(&fs::symlink_metadata(folder.path()).unwrap(), user);
        let ours = [0o700, 0o755, 0o720, 0o702].map(|mode| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            is_ours(user)
        });
        assert_eq!(ours, [true, true, false, false]);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_ours(user + 1));
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_of_alone(&fs::symlink_metadata(file).unwrap(), user));
    }

    #[test]
    fn one_command_at_a_time_has_the_notes() {
        let folder = tempfile::tempdir().unwrap();
        let first = locked(folder.path(), Duration::ZERO).unwrap();
        let why = locked(folder.path(), Duration::ZERO).unwrap_err().message;
        assert!(why.starts_with("another attach or detach is under way"), "{why}");
        let waiting = std::thread::scope(|scope| {
            let waits = scope.spawn(|| locked(folder.path(), PATIENCE));
            drop(first);
            waits.join().unwrap()
        });
        drop(waiting.unwrap());
        locked(folder.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_pool_that_is_gone_is_called_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, link) = (folder.path().join("pool"), folder.path().join("link"));
        fs::create_dir(&pool).unwrap();
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let there = canonical(&link.join("pool")).unwrap();
        fs::remove_dir(&pool).unwrap();
        assert_eq!(canonical(&link.join("pool")).unwrap(), there);
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(canonical(Path::new("no such")).unwrap(), here.join("no such"));
        assert!(canonical(&pool.join("deeper")).is_err());
    }

    #[test]
    fn a_note_tells_what_is_done_until_it_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let mut note = Note::in_file(folder.path().join("n.json"));
        assert!(note.is_empty() && note.last().is_none());
        assert_eq!(note.folder(), folder.path().join("n.d"));
        assert_eq!(note.device(), None);
        let steps = [Step::Nbd(1), Step::Mount("/mnt".into())];
        let kept = |note: &Note| {
            let text = fs::read_to_string(&note.at).unwrap();
            serde_json::from_str::<Note>(&text).unwrap().steps
        };
        for step in &steps {
            note.add(step.clone()).unwrap();
            assert_eq!(note.last(), Some(step));
        }
        assert_eq!(kept(&note), steps);
        assert_eq!(note.device().as_deref(), Some(Path::new("/dev/nbd1")));
        note.forget_last().unwrap();
        assert_eq!((kept(&note), note.is_empty()), (steps[..1].to_vec(), false));
        note.remove().unwrap();
        assert!(!note.at.exists());
        note.remove().unwrap();
        // A folder in its place cannot be removed as a file, and is told.
        fs::create_dir(&note.at).unwrap();
        assert!(note.remove().unwrap_err().message.contains("n.json"));
        assert!(note.add(Step::Nbd(2)).unwrap_err().message.contains("n.json"));
    }
}
