//! Which store each folder of memory belongs to, and the removal of what no store claims any more.
//! Room: onefold-block.
//! The memory of a store is told apart by device and inode of the store's folder. Beside it lies a
//! note that says where that folder is and in which run of the machine, and on which the process
//! that has the store open holds a lock for as long as it lives.
//! Invariants: (1) nothing is removed while somebody holds its note, without a note, or where the
//! store's folder is found: where it was, or under another name beside that; (2) nothing of another
//! user is looked at; (3) who claims memory holds a note that is there, not one just removed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{FlockOperation, flock};

use super::files::{FileHandover, failed};
use super::{Handover, Region};
use crate::media::MediaError;

/// What the name of a note ends with.
const NOTE: &str = ".at";
/// Longest note that is read, in bytes: a path of the system and the run of the machine.
const NOTE_BYTES_MAX: u64 = 8192;
/// Bytes of the run of the machine at the beginning of a note, in hexadecimal, and a line feed.
const BOOT_BYTES: usize = 33;
/// How often a note that is removed at the wrong moment is made again.
const ATTEMPTS: usize = 16;

/// The memory of all stores of this user.
#[derive(Debug)]
pub struct Shelf {
    folder: PathBuf,
    boot: [u8; 16],
}

/// The memory of one store, for as long as this lives.
#[derive(Debug)]
pub struct Claimed {
    memory: Option<FileHandover>,
    note: PathBuf,
    lock: File,
}

/// What a note says.
struct Said {
    boot: [u8; 16],
    /// When the store's folder was made, as the file system says it; a number of a folder that was
    /// removed is given to another one.
    born: String,
    store: PathBuf,
}

impl Shelf {
    /// The memory in `folder`, which is made if it is not there, during the run of the machine that
    /// `boot` names.
    ///
    /// # Errors
    /// [`MediaError`] where it is not this user's alone.
    pub fn open(folder: &Path, boot: [u8; 16]) -> Result<Self, MediaError> {
        FileHandover::private_folder(folder)?;
        Ok(Self { folder: folder.to_owned(), boot })
    }

    fn name_of(store: &Path) -> io::Result<String> {
        let folder = fs::metadata(store)?;
        Ok(format!("{:x}-{:x}", folder.dev(), folder.ino()))
    }

    /// Look at the memory of the store in this folder, without claiming it; `None` if there is
    /// none.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn look(&self, store: &Path) -> Result<Option<FileHandover>, MediaError> {
        let name = Self::name_of(store).map_err(|error| failed("look at", store, error))?;
        let folder = self.folder.join(name);
        if !folder.is_dir() {
            return Ok(None);
        }
        FileHandover::look(&folder, self.boot).map(Some)
    }

    /// Claim the memory of the store in this folder, which the caller has locked.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn claim(&self, store: &Path) -> Result<Claimed, MediaError> {
        let name = Self::name_of(store).map_err(|error| failed("look at", store, error))?;
        let note = self.folder.join(format!("{name}{NOTE}"));
        let lock = self.take_note(store, &note).map_err(|error| failed("note", &note, error))?;
        let memory = Some(FileHandover::open(&self.folder.join(name), self.boot)?);
        Ok(Claimed { memory, note, lock })
    }

    fn take_note(&self, store: &Path, path: &Path) -> io::Result<File> {
        let store = fs::canonicalize(store)?;
        for _ in 0..ATTEMPTS {
            let mut note = open_note(path, true)?;
            flock(&note, FlockOperation::LockShared)?;
            // Whoever swept may have removed it between our opening and our locking it.
            if !is_at(&note, path) {
                continue;
            }
            let born = born(&store);
            let of_another = read_note(&mut note).is_some_and(|said| said.born != born);
            if of_another && flock(&note, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // What a folder left that had this number before.
                let _ = remove_all(&path.with_extension(""));
                flock(&note, FlockOperation::LockShared)?;
            }
            let mut text = format!("{}\n{born}\n", hex(self.boot)).into_bytes();
            text.extend(store.as_os_str().as_bytes());
            note.set_len(0)?;
            note.write_all_at(&text, 0)?;
            return Ok(note);
        }
        Err(io::Error::other("it comes and goes"))
    }

    /// Remove the memory that no store claims any more: its folder is gone, or the machine was
    /// started again since, and no process holds it. The answer is where those stores were. What
    /// cannot be removed or understood stays.
    pub fn sweep(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let notes = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(NOTE).map(str::to_owned)
        });
        notes.filter_map(|name| self.sweep_one(&name)).collect()
    }

    fn sweep_one(&self, name: &str) -> Option<PathBuf> {
        let path = self.folder.join(format!("{name}{NOTE}"));
        let mut note = open_note(&path, false).ok()?;
        match flock(&note, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&note, &path) => {}
            _ => return None,
        }
        let said = read_note(&mut note)?;
        if said.boot == self.boot && is_somewhere(name, &said) {
            return None;
        }
        let folder = self.folder.join(name);
        remove_all(&folder).ok()?;
        fs::remove_file(&path).ok()?;
        Some(said.store)
    }
}

/// Remove a folder of regions with whatever is in it.
fn remove_all(folder: &Path) -> io::Result<()> {
    FileHandover::private_folder(folder).map_err(io::Error::other)?;
    for entry in fs::read_dir(folder)? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(folder)
}

/// When a folder was made; "-" where its file system does not say.
fn born(folder: &Path) -> String {
    let made = fs::metadata(folder).and_then(|metadata| metadata.created());
    let since = made.ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    since.map_or_else(|| "-".to_owned(), |since| since.as_nanos().to_string())
}

fn open_note(path: &Path, make: bool) -> io::Result<File> {
    match FileHandover::file(path, false) {
        Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
            match FileHandover::file(path, true) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    FileHandover::file(path, false)
                }
                made => made,
            }
        }
        opened => opened,
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(found)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (file.dev(), file.ino()) == (found.dev(), found.ino())
}

fn read_note(note: &mut File) -> Option<Said> {
    let mut text = Vec::new();
    note.take(NOTE_BYTES_MAX).read_to_end(&mut text).ok()?;
    let (boot, store) = text.split_at_checked(BOOT_BYTES)?;
    let boot = std::str::from_utf8(boot).ok()?.strip_suffix('\n')?;
    let boot = u128::from_str_radix(boot, 16).ok()?.to_be_bytes();
    let end = store.iter().position(|&byte| byte == b'\n')?;
    let born = std::str::from_utf8(&store[..end]).ok()?.to_owned();
    let store = PathBuf::from(OsString::from_vec(store[end + 1..].to_vec()));
    store.is_absolute().then_some(Said { boot, born, store })
}

/// Whether the folder that memory of this name belongs to is where it was, or beside that under
/// another name; or cannot be looked for.
fn is_somewhere(name: &str, said: &Said) -> bool {
    let store = &said.store;
    let is_it = |path: &Path| {
        Shelf::name_of(path).is_ok_and(|found| found == name) && born(path) == said.born
    };
    if is_it(store) {
        return true;
    }
    let mut above = store.ancestors().skip(1);
    let Some(parent) = above.find(|path| path.is_dir()) else { return true };
    // A disk that is not there now may come again.
    let same_disk =
        Shelf::name_of(parent).is_ok_and(|found| found.split('-').next() == name.split('-').next());
    let Ok(entries) = fs::read_dir(parent) else { return true };
    !same_disk || entries.filter_map(Result::ok).any(|entry| is_it(&entry.path()))
}

fn hex(boot: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(boot))
}

impl Claimed {
    fn memory(&self) -> &FileHandover {
        self.memory.as_ref().expect("it is given up by dropping alone")
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let folder = self.memory().folder().to_owned();
        // Removes the folder if nothing is left in it.
        self.memory = None;
        // Somebody who tries to open a store that is open claims its memory for a moment, too.
        let alone = flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if alone && !folder.exists() {
            let _ = fs::remove_file(&self.note);
        }
        // A child that is about to be started may have a copy of the open file.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Handover for Claimed {
    fn boot(&self) -> [u8; 16] {
        self.memory().boot()
    }

    fn create(&self, name: &str, bytes: usize) -> Result<Region, MediaError> {
        self.memory().create(name, bytes)
    }

    fn open(&self, name: &str) -> Result<Region, MediaError> {
        Handover::open(self.memory(), name)
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.memory().remove(name)
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        self.memory().list()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const BOOT: [u8; 16] = [3; 16];

    struct Place {
        dir: tempfile::TempDir,
        shelf: Shelf,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let shelf = Shelf::open(&dir.path().join("shelf"), BOOT).unwrap();
            fs::create_dir(dir.path().join("stores")).unwrap();
            Self { dir, shelf }
        }

        fn store(&self, name: &str) -> PathBuf {
            self.dir.path().join("stores").join(name)
        }

        /// A store whose process was killed: its memory is there, and nobody holds it.
        fn killed(&self, name: &str) -> PathBuf {
            let store = self.store(name);
            fs::create_dir(&store).unwrap();
            let claimed = self.shelf.claim(&store).unwrap();
            claimed.create("journal", 4096).unwrap();
            claimed.create("container.0", 4096).unwrap();
            fs::canonicalize(&store).unwrap()
        }

        fn left(&self) -> usize {
            fs::read_dir(&self.shelf.folder).unwrap().count()
        }

        fn regions(&self, store: &Path) -> Vec<String> {
            self.shelf.look(store).unwrap().map_or(Vec::new(), |memory| memory.list().unwrap())
        }
    }

    #[test]
    fn memory_of_a_store_that_is_gone_goes_and_that_of_others_stays() {
        let place = Place::new();
        let (gone, there) = (place.killed("gone"), place.killed("there"));
        let [old, new] = ["old", "new"].map(|name| place.store(name));
        place.killed("old");
        fs::rename(&old, &new).unwrap();
        assert!(place.shelf.sweep().is_empty(), "all are there");
        assert_eq!(place.left(), 6);
        // What a kill left half made goes too.
        let name = Shelf::name_of(&gone).unwrap();
        fs::write(place.shelf.folder.join(name).join("journal.new"), b"x").unwrap();
        fs::remove_dir(&gone).unwrap();
        assert_eq!(place.shelf.sweep(), [gone]);
        assert_eq!(place.left(), 4);
        for store in [&there, &new] {
            assert_eq!(place.regions(store), ["container.0", "journal"], "{}", store.display());
        }
        assert!(place.shelf.sweep().is_empty());
    }

    #[test]
    fn what_a_process_holds_stays_even_if_the_store_is_gone() {
        let place = Place::new();
        let store = place.killed("store");
        let living = place.shelf.claim(&store).unwrap();
        fs::remove_dir(&store).unwrap();
        assert!(place.shelf.sweep().is_empty());
        let later = Shelf::open(&place.shelf.folder, [4; 16]).unwrap();
        assert!(later.sweep().is_empty());
        assert_eq!(living.list().unwrap(), ["container.0", "journal"]);
        drop(living);
        assert_eq!(place.shelf.sweep(), [store]);
        assert_eq!(place.left(), 0);
    }

    /// File systems give the number of a folder that was removed to one that is made.
    #[test]
    fn a_folder_that_has_the_number_of_one_that_is_gone_gets_none_of_its_memory() {
        let place = Place::new();
        let store = place.killed("store");
        let note = place.shelf.folder.join(Shelf::name_of(&store).unwrap() + NOTE);
        let said = fs::read_to_string(&note).unwrap();
        let born = said.lines().nth(1).unwrap();
        assert_eq!(place.regions(&store).len(), 2);
        drop(place.shelf.claim(&store).unwrap());
        assert_eq!(place.regions(&store).len(), 2, "its own");
        fs::write(&note, said.replace(born, "12345")).unwrap();
        let claimed = place.shelf.claim(&store).unwrap();
        assert!(claimed.list().unwrap().is_empty());
        drop(place.shelf.claim(&store).expect("somebody else may try meanwhile"));
        drop(claimed);
        // The same, of a store that nobody opens.
        let store = place.killed("other");
        let note = place.shelf.folder.join(Shelf::name_of(&store).unwrap() + NOTE);
        fs::write(&note, fs::read_to_string(&note).unwrap().replace(&self::born(&store), "12345"))
            .unwrap();
        assert_eq!(place.shelf.sweep(), [store]);
        assert_eq!(place.left(), 0);
    }

    #[test]
    fn a_note_whose_memory_is_gone_goes_with_its_store() {
        let place = Place::new();
        let store = place.killed("store");
        fs::remove_dir_all(place.shelf.folder.join(Shelf::name_of(&store).unwrap())).unwrap();
        fs::remove_dir(&store).unwrap();
        assert_eq!(place.shelf.sweep(), [store]);
        assert_eq!(place.left(), 0);
    }

    #[test]
    fn memory_that_others_may_use_is_not_looked_at() {
        let place = Place::new();
        let store = place.killed("store");
        let folder = place.shelf.folder.join(Shelf::name_of(&store).unwrap());
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(place.shelf.look(&store).is_err());
    }

    #[test]
    fn memory_of_another_run_of_the_machine_goes() {
        let place = Place::new();
        let store = place.killed("store");
        let later = Shelf::open(&place.shelf.folder, [4; 16]).unwrap();
        assert_eq!(later.sweep(), [store]);
        assert_eq!(place.left(), 0);
    }

    #[test]
    fn memory_that_was_given_up_in_order_leaves_no_note() {
        let place = Place::new();
        let store = place.killed("store");
        let claimed = place.shelf.claim(&store).unwrap();
        // Somebody else tries, and is sent away.
        drop(place.shelf.claim(&store).unwrap());
        assert_eq!(claimed.list().unwrap().len(), 2);
        for region in claimed.list().unwrap() {
            claimed.remove(&region).unwrap();
        }
        drop(claimed);
        assert_eq!(place.left(), 0);
        assert_eq!(place.regions(&store), [""; 0]);
    }

    #[test]
    fn what_nothing_is_known_of_stays() {
        let place = Place::new();
        let store = place.killed("store");
        fs::remove_dir(&store).unwrap();
        let note = fs::read_dir(&place.shelf.folder).unwrap().filter_map(Result::ok);
        let note = note.map(|entry| entry.path()).find(|path| path.is_file()).unwrap();
        let whole = fs::read(&note).unwrap();
        for text in [&b""[..], b"x", &whole[..20], &whole[..33], b"zz\n/nowhere"] {
            fs::write(&note, text).unwrap();
            assert!(place.shelf.sweep().is_empty(), "{text:?}");
        }
        fs::write(&note, &whole).unwrap();
        let away = place.dir.path().join("away");
        fs::rename(&note, &away).unwrap();
        assert!(place.shelf.sweep().is_empty(), "without a note");
        // Of a disk that is not there now.
        let other = Shelf::name_of(place.dir.path()).unwrap().replace('-', "1-");
        fs::copy(&away, place.shelf.folder.join(format!("{other}{NOTE}"))).unwrap();
        assert!(place.shelf.sweep().is_empty(), "another disk");
        fs::remove_file(place.shelf.folder.join(format!("{other}{NOTE}"))).unwrap();
        fs::rename(&away, &note).unwrap();
        assert_eq!(place.shelf.sweep(), [store]);
    }
}
