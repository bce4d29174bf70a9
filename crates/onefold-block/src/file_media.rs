//! Media that are real files, in a folder that is a real directory.
//! Room: onefold-block.
//! Invariants: (1) those of [`crate::media`]; (2) a failed `sync` is never
//! [`MediaError::NoSpace`]: the kernel may have dropped the dirty pages, so callers must not carry
//! on as on a full disk; (3) what is made here is for its owner alone, or for the group that the
//! folder was shared with ([`crate::access`]), whatever the process's umask; (4) a folder that is
//! open stays the one that was opened, wherever it is moved, and whatever takes its place.
//! Cost: one system call per verb; `sync` is `fdatasync` unless the length changed.

use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    Advice, AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, SeekFrom, chmodat, fadvise,
    fallocate, fstatvfs, mkdirat, openat, renameat, seek, statat, unlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

use crate::access::{Access, Group};
use crate::copy_on_write;
use crate::direct::Direct;
use crate::media::{Folder, Media, MediaError};
use crate::spent::{self, Part};

#[cfg(test)]
mod tests;

/// The largest file offset that the system's calls accept, in bytes.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// The largest allocation unit of any file system met so far, in bytes.
const ALLOCATION_UNIT_MAX: u64 = 64 << 10;

/// The unit of `st_blocks`, in bytes, whatever the file system's own blocks are.
const STAT_BLOCK_BYTES: u64 = 512;

/// A directory of the host's file system.
#[derive(Debug)]
pub struct FileFolder {
    /// Where it was when it was opened.
    path: PathBuf,
    /// What names are looked up in: a path may lead to another directory by now.
    directory: File,
    /// Who may use what is made in it.
    access: Access,
}

/// An open file.
#[derive(Debug)]
struct FileMedia {
    file: File,
    path: PathBuf,
    direct: Direct,
    /// Whether the length may differ from what the last successful `sync` made durable.
    length_changed: AtomicBool,
}

impl FileFolder {
    /// Open a directory that exists. [`MediaError::NotFound`] names the path if it does not.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MediaError> {
        let path = path.as_ref();
        Self::open_in(CWD, path, path.to_owned())
    }

    /// Open a directory by its name in another one; `path` is what it is called in messages.
    fn open_in(parent: BorrowedFd<'_>, name: &Path, path: PathBuf) -> Result<Self, MediaError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = opened(parent, name, flags).map_err(|e| changed("open", &path, e))?;
        let metadata = directory.metadata().map_err(|e| failed("open", &path, e))?;
        Ok(Self { path, directory, access: Access::of(&metadata) })
    }

    /// Make a directory, with its parents where they are missing, and open it. It is its owner's
    /// alone; its parents have the usual modes, and one that exists is opened as it is. The new
    /// names are durable when this returns.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, MediaError> {
        let path = path.as_ref();
        let missing: Vec<&Path> =
            path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
        if let Some(parents) = missing.first().and_then(|path| path.parent())
            && !parents.as_os_str().is_empty()
        {
            fs::create_dir_all(parents).map_err(|e| changed("create", path, e))?;
        }
        make_directory(CWD, path, (path, Access::Owner))?;
        for made in missing {
            let parent = match made.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            File::open(parent)
                .and_then(|directory| directory.sync_all())
                .map_err(|e| failed("sync names in", parent, e))?;
        }
        Self::open(path)
    }

    /// Let nobody but its owner into this directory, and `group` where one is named or the
    /// directory was shared with one before. What is made in it from now on is made for these.
    ///
    /// # Errors
    /// [`MediaError::Io`] if the directory belongs to somebody else, or the group cannot be given.
    pub fn restrict(&mut self, group: Option<Group>) -> Result<(), MediaError> {
        self.access = self
            .access
            .give(&self.directory, group)
            .map_err(|e| failed("set the access to", &self.path, e))?;
        Ok(())
    }

    /// Have what is made in it from now on be overwritten where it lies, also by a file system that
    /// would copy: space that is set aside is a promise only then.
    pub fn overwrite_in_place(&self) {
        copy_on_write::overwrite_in_place(&self.directory);
    }

    /// Bytes that its file system has left for us; `None` where it does not say, as over some
    /// networks.
    ///
    /// # Errors
    /// [`MediaError::Io`].
    pub fn free_bytes(&self) -> Result<Option<u64>, MediaError> {
        let file_system =
            fstatvfs(&self.directory).map_err(|e| failed("measure", &self.path, e.into()))?;
        let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
        Ok((file_system.f_blocks > 0).then_some(free))
    }

    /// Where this folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn child(&self, action: &'static str, name: &str) -> Result<PathBuf, MediaError> {
        let path = self.path.join(name);
        check_name(name).map_err(|e| failed(action, &path, e))?;
        Ok(path)
    }
}

impl Folder for FileFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let path = self.child("open", name)?;
        let open = |flags| opened(self.directory.as_fd(), name.as_ref(), flags);
        let file = match open(OFlags::RDWR) {
            // To be read, as from a read-only mount; a write to it is answered with an error.
            Err(error) if refuses_writing(&error) => open(OFlags::RDONLY),
            opened => opened,
        };
        let file = file.map_err(|e| changed("open", &path, e))?;
        Ok(Arc::new(FileMedia::new(file, path, false)))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let path = self.child("create", name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = opened(self.directory.as_fd(), name.as_ref(), flags)
            .map_err(|e| changed("create", &path, e))?;
        self.access.set_file(&file).map_err(|e| failed("set the access to", &path, e))?;
        Ok(Arc::new(FileMedia::new(file, path, true)))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        let path = self.child("remove", name)?;
        let removed = unlinkat(&self.directory, name, AtFlags::empty());
        removed.map_err(|e| changed("remove", &path, e.into()))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let path = self.child("rename", from)?;
        self.child("rename", to)?;
        let renamed = renameat(&self.directory, from, &self.directory, to);
        renamed.map_err(|e| changed("rename", &path, e.into()))
    }

    /// Directories are left out. A name that is no UTF-8 is shown with replacement characters,
    /// so that a check can report it.
    fn list(&self) -> Result<Vec<String>, MediaError> {
        let mut names = Vec::new();
        let listed = |e: Errno| changed("list", &self.path, e.into());
        for entry in Dir::read_from(&self.directory).map_err(listed)? {
            let entry = entry.map_err(listed)?;
            let name = entry.file_name();
            let kind = match entry.file_type() {
                // A file system that does not say so here.
                FileType::Unknown => match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
                {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    // It went meanwhile.
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(listed(error)),
                },
                kind => kind,
            };
            if kind != FileType::Directory {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        self.directory.sync_all().map_err(|e| failed("sync names in", &self.path, e))
    }

    fn gives_pages_back(&self) -> bool {
        !copy_on_write::is_btrfs(&self.directory)
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        let path = self.child("open", name)?;
        make_directory(self.directory.as_fd(), name.as_ref(), (&path, self.access))?;
        self.existing_subfolder(name)
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        let path = self.child("open", name)?;
        Ok(Arc::new(Self::open_in(self.directory.as_fd(), name.as_ref(), path)?))
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        let path = self.child("remove", name)?;
        let removed = unlinkat(&self.directory, name, AtFlags::REMOVEDIR);
        removed.map_err(|e| changed("remove", &path, e.into()))
    }
}

impl Media for FileMedia {
    fn len(&self) -> Result<u64, MediaError> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        spent::on(Part::Read, || self.read_whole(offset, buf))
    }

    fn read_at_hand(&self, offset: u64, buf: &mut [u8]) -> bool {
        let wanted = buf.len();
        let read = preadv2(&self.file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT);
        read == Ok(wanted)
    }

    fn will_read(&self, offset: u64, len: u64) {
        // A hint: what it comes to shows when it is read.
        let _ = fadvise(&self.file, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        spent::on(Part::Write, || self.write_whole(offset, data))
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.checked_end("set the length of", 0, len)?;
        self.length_changed.store(true, Ordering::Release);
        // Space reserved past the end is given back by cutting or by setting the length that
        // the file has, but not by growing (ext4, XFS, btrfs and tmpfs alike): so a file that
        // grows is set twice.
        let growing = len > self.len()?;
        for _ in 0..=u8::from(growing) {
            self.file.set_len(len).map_err(|e| changed("set the length of", &self.path, e))?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), MediaError> {
        spent::on(Part::Sync, || self.sync_whole())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let end = self.checked_end("reserve space in", offset, len)?;
        self.refuse_hopeless(end, len)?;
        let flags = FallocateFlags::KEEP_SIZE;
        spent::on(Part::Write, || self.allocate("reserve space in", flags, offset, len))
    }

    /// Reservations past the end stay: [`Media::set_len`] is what gives those back.
    fn punch(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        // Ranges that reach far past the end are refused by some file systems; ranges that stop
        // short of the last allocation unit's end do not free it.
        let limit = self.len()?.next_multiple_of(ALLOCATION_UNIT_MAX);
        let end = offset.saturating_add(len).min(limit);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.allocate("punch a hole in", flags, offset, end.saturating_sub(offset))
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>, MediaError> {
        if offset >= self.len()? {
            return Ok(None);
        }
        match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => Ok(Some(data)),
            Err(Errno::NXIO) => Ok(None),
            // A file system that cannot say where its holes are.
            Err(_) => Ok(Some(offset)),
        }
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        Ok(self.metadata()?.blocks() * STAT_BLOCK_BYTES)
    }
}

impl FileMedia {
    fn new(file: File, path: PathBuf, length_changed: bool) -> Self {
        let length_changed = AtomicBool::new(length_changed);
        Self { file, path, direct: Direct::default(), length_changed }
    }

    fn read_whole(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let wanted = buf.len() as u64;
        if offset.checked_add(wanted).is_none_or(|end| end > OFFSET_MAX) {
            return Err(self.truncated(offset, wanted)?);
        }
        let direct = self.direct.read((&self.file, &self.path), offset, buf);
        let direct = direct.map_err(|e| failed("read", &self.path, e))?;
        let (before, rest) = buf.split_at_mut(direct.start);
        for (from, piece) in [(0, before), (direct.end, &mut rest[direct.len()..])] {
            match self.file.read_exact_at(piece, offset + from as u64) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.truncated(offset, wanted)?);
                }
                Err(e) => return Err(failed("read", &self.path, e)),
            }
        }
        Ok(())
    }

    fn write_whole(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let end = self.checked_end("write", offset, data.len() as u64)?;
        if end > self.len()? {
            self.length_changed.store(true, Ordering::Release);
        }
        let direct = self.direct.write((&self.file, &self.path), offset, data);
        let direct = direct.map_err(|e| changed("write", &self.path, e))?;
        self.write_cached(offset, &data[..direct.start])?;
        self.write_cached(offset + direct.end as u64, &data[direct.end..])
    }

    fn sync_whole(&self) -> Result<(), MediaError> {
        // Taken before the call: a write that comes meanwhile sets it again for the next one.
        let length_changed = self.length_changed.swap(false, Ordering::AcqRel);
        let result = if length_changed { self.file.sync_all() } else { self.file.sync_data() };
        result.map_err(|e| {
            self.length_changed.store(true, Ordering::Release);
            failed("sync", &self.path, e)
        })
    }

    /// Write through the page cache.
    fn write_cached(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.file.write_all_at(data, offset).map_err(|e| changed("write", &self.path, e))
    }

    fn metadata(&self) -> Result<fs::Metadata, MediaError> {
        self.file.metadata().map_err(|e| failed("measure", &self.path, e))
    }

    /// Answer a reservation that cannot succeed before the file system tries: ext4 keeps what it
    /// took until it ran out, which leaves nothing for anybody else. btrfs takes all or nothing,
    /// and has more than it says.
    fn refuse_hopeless(&self, end: u64, len: u64) -> Result<(), MediaError> {
        let file_system =
            fstatvfs(&self.file).map_err(|e| failed("measure", &self.path, e.into()))?;
        // What the file has already may lie in the range; past it, all is to be taken anew.
        let needed = len.min(end.saturating_sub(self.allocated_bytes()?));
        let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
        // A file system without a size (some networks and memories) does not say what is free.
        if file_system.f_blocks > 0 && needed > free && !copy_on_write::is_btrfs(&self.file) {
            return Err(MediaError::NoSpace { name: self.path.display().to_string() });
        }
        Ok(())
    }

    fn allocate(
        &self,
        action: &'static str,
        flags: FallocateFlags,
        offset: u64,
        len: u64,
    ) -> Result<(), MediaError> {
        if len == 0 {
            return Ok(());
        }
        match retry_on_intr(|| fallocate(&self.file, flags, offset, len)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(changed(action, &self.path, e.into())),
        }
    }

    /// One past the last byte of a range to be changed, if the system can address it.
    fn checked_end(&self, action: &'static str, offset: u64, len: u64) -> Result<u64, MediaError> {
        match offset.checked_add(len) {
            Some(end) if end <= OFFSET_MAX => Ok(end),
            _ => Err(failed(action, &self.path, io::ErrorKind::FileTooLarge.into())),
        }
    }

    /// The error for a read past the end; the outer `Err` when not even the length is known.
    fn truncated(&self, offset: u64, wanted: u64) -> Result<MediaError, MediaError> {
        Ok(MediaError::Truncated {
            name: self.path.display().to_string(),
            len: self.len()?,
            offset,
            end: offset.saturating_add(wanted),
        })
    }
}

/// Open a file or a directory by its name in a directory. One that is made is its owner's alone.
fn opened(parent: BorrowedFd<'_>, name: &Path, flags: OFlags) -> io::Result<File> {
    let mode = Mode::from_raw_mode(Access::OWNER_FILE_MODE);
    let file = retry_on_intr(|| openat(parent, name, flags | OFlags::CLOEXEC, mode))?;
    Ok(File::from(file))
}

/// Make one directory in another one, unless it is there, and give it this access. It is called
/// `path` in messages.
fn make_directory(
    parent: BorrowedFd<'_>,
    name: &Path,
    (path, access): (&Path, Access),
) -> Result<(), MediaError> {
    match mkdirat(parent, name, Mode::from_raw_mode(Access::OWNER_FOLDER_MODE)) {
        Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(changed("create", path, e.into())),
        Ok(()) => open_made(parent, name)
            .and_then(|directory| access.set_folder(&directory))
            .map_err(|e| failed("set the access to", path, e)),
    }
}

/// Open a directory that was just made, even if the umask lets not even its owner in.
fn open_made(parent: BorrowedFd<'_>, name: &Path) -> io::Result<File> {
    let open = || opened(parent, name, OFlags::RDONLY | OFlags::DIRECTORY);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mode = Mode::from_raw_mode(Access::OWNER_FOLDER_MODE);
            chmodat(parent, name, mode, AtFlags::empty())?;
            open()
        }
        opened => opened,
    }
}

/// Whether a name is one plain file name. Shared by every implementation of [`Folder`].
pub fn check_name(name: &str) -> io::Result<()> {
    let reason = if name.is_empty() {
        "a name must not be empty"
    } else if name == "." || name == ".." {
        "a name must not be '.' or '..'"
    } else if name.contains(['/', '\0']) {
        "a name must not contain '/' or NUL"
    } else if name.len() > 255 {
        "a name must be at most 255 bytes long"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// Whether the place or its owner allows no writing, and perhaps reading.
fn refuses_writing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

/// The error of an action that says nothing about names or space.
fn failed(action: &'static str, path: &Path, source: io::Error) -> MediaError {
    MediaError::Io { action, name: path.display().to_string(), source }
}

/// The error of an action that may find no name or no space.
fn changed(action: &'static str, path: &Path, source: io::Error) -> MediaError {
    let name = path.display().to_string();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => MediaError::NoSpace { name },
        io::ErrorKind::NotFound => MediaError::NotFound { name },
        _ => MediaError::Io { action, name, source },
    }
}
