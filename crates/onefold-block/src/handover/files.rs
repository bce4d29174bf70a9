//! Regions that are files: in a folder of memory such as `/dev/shm`, or on a disk, where the
//! system's page cache is the memory.
//! Room: onefold-block.
//! What others could have put there is refused: the folder and its files belong to this user alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::{Handover, Region};
use crate::media::MediaError;

/// Names end so while they are made; what a kill leaves of these counts for nothing.
const UNFINISHED: &str = ".new";

/// Regions as files of one folder.
#[derive(Debug)]
pub struct FileHandover {
    folder: PathBuf,
    boot: [u8; 16],
    /// Whether the folder goes with this if nothing is in it.
    removes: bool,
}

pub(super) fn failed(action: &'static str, path: &Path, source: io::Error) -> MediaError {
    let name = path.display().to_string();
    match source.kind() {
        io::ErrorKind::NotFound => MediaError::NotFound { name },
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => MediaError::NoSpace { name },
        _ => MediaError::Io { action, name, source },
    }
}

/// Whether only this user can have made or changed what `metadata` tells of.
fn check_owner(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("others may use it"));
    }
    Ok(())
}

impl FileHandover {
    /// Regions in `folder`, which is made if it is not there (its parent must be), during the run
    /// of the machine that `boot` names.
    pub fn open(folder: &Path, boot: [u8; 16]) -> Result<Self, MediaError> {
        Self::private_folder(folder)?;
        Ok(Self { folder: folder.to_owned(), boot, removes: true })
    }

    /// The same for somebody who only looks at what others use: the folder stays.
    pub(super) fn look(folder: &Path, boot: [u8; 16]) -> Result<Self, MediaError> {
        Self::private_folder(folder)?;
        Ok(Self { folder: folder.to_owned(), boot, removes: false })
    }

    /// Make a folder that is this user's alone, or see that it is.
    pub fn private_folder(folder: &Path) -> Result<(), MediaError> {
        let fail = |error| failed("open", folder, error);
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Whatever the umask says.
            made => made
                .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o700)))
                .map_err(fail)?,
        }
        let metadata = fs::symlink_metadata(folder).map_err(fail)?;
        if !metadata.is_dir() {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        check_owner(&metadata).map_err(fail)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> Result<PathBuf, MediaError> {
        let path = self.folder.join(name);
        let plain = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
            && !name.starts_with('.')
            && !name.ends_with(UNFINISHED);
        if !plain {
            return Err(failed("name", &path, io::ErrorKind::InvalidInput.into()));
        }
        Ok(path)
    }

    /// A file that is nobody else's, made anew if `make`.
    pub(super) fn file(path: &Path, make: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(make).mode(0o600);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let file = options.open(path)?;
        if make {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.nlink() != 1 {
            return Err(io::Error::other("it is no file of its own"));
        }
        check_owner(&metadata)?;
        Ok(file)
    }

    fn make(path: &Path, unfinished: &Path, bytes: usize) -> io::Result<Region> {
        match fs::remove_file(unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = Self::file(unfinished, true)?;
        // All of it now: a store to a page that cannot be had would end the process.
        fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
        let region = Region::map(&file, bytes)?;
        fs::rename(unfinished, path)?;
        Ok(region)
    }
}

impl Drop for FileHandover {
    fn drop(&mut self) {
        if self.removes {
            // Where regions are left this fails, as it should.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

impl Handover for FileHandover {
    fn boot(&self) -> [u8; 16] {
        self.boot
    }

    fn create(&self, name: &str, bytes: usize) -> Result<Region, MediaError> {
        let path = self.path(name)?;
        let unfinished = self.folder.join(format!("{name}{UNFINISHED}"));
        Self::make(&path, &unfinished, bytes).map_err(|error| {
            let _ = fs::remove_file(&unfinished);
            failed("make", &path, error)
        })
    }

    fn open(&self, name: &str) -> Result<Region, MediaError> {
        let path = self.path(name)?;
        let open = || {
            let file = Self::file(&path, false)?;
            let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // A file with holes, such as a copy, must not run out of memory later either.
            fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
            Region::map(&file, bytes)
        };
        open().map_err(|error| failed("open", &path, error))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        let list = || {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.folder)? {
                if let Ok(name) = entry?.file_name().into_string()
                    && self.path(&name).is_ok()
                {
                    names.push(name);
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        list().map_err(|error| failed("list", &self.folder, error))
    }
}
