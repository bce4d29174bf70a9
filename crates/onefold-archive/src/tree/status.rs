//! What the system tells of a path: of a name in an open folder, or of an open handle.
//! Room: onefold-archive.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Stat, Statx, StatxFlags, makedev};
use rustix::io::Errno;

/// Seconds since 1970, and nanoseconds past that.
pub type Moment = (i64, u32);

/// Device and inode: they tell one thing from another as long as both are there.
pub type Id = (u64, u64);

/// What is known of a path without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub id: Id,
    pub kind: FileType,
    /// Permission bits, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    pub uid: u32,
    pub gid: u32,
    /// Which device it is, if it is one.
    pub device: u64,
    pub len: u64,
    /// Units of 512 bytes that are stored.
    pub blocks: u64,
    /// Last change of content.
    pub mtime: Moment,
    /// Last change of content or metadata.
    pub ctime: Moment,
    /// When it was made, where the file system knows that.
    pub made: Option<Moment>,
}

impl Status {
    /// Of what has a name in a folder; of a link itself, unless it is to be followed.
    pub fn of_name(at: BorrowedFd<'_>, name: &CStr, follow: bool) -> rustix::io::Result<Self> {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        Self::find(at, name, flags)
    }

    /// Of what is open.
    pub fn of(handle: &impl AsFd) -> rustix::io::Result<Self> {
        Self::find(handle.as_fd(), c"", AtFlags::EMPTY_PATH)
    }

    fn find(at: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> rustix::io::Result<Self> {
        let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        match rustix::fs::statx(at, name, flags, asked) {
            Ok(found) => Ok(Self::from(&found)),
            // Systems before Linux 4.11, and some sandboxes.
            Err(Errno::NOSYS) => Ok(Self::from(&rustix::fs::statat(at, name, flags)?)),
            Err(errno) => Err(errno),
        }
    }

    pub fn is_dir(&self) -> bool {
        self.kind.is_dir()
    }

    /// Whether there may be other names of it.
    pub const fn has_other_names(&self) -> bool {
        self.links > 1
    }
}

impl From<&Statx> for Status {
    fn from(found: &Statx) -> Self {
        let mode = u32::from(found.stx_mode);
        let knows = |what: StatxFlags| found.stx_mask & what.bits() != 0;
        Self {
            id: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            kind: FileType::from_raw_mode(mode),
            mode: mode & 0o7777,
            links: found.stx_nlink.into(),
            uid: found.stx_uid,
            gid: found.stx_gid,
            device: makedev(found.stx_rdev_major, found.stx_rdev_minor),
            len: found.stx_size,
            blocks: found.stx_blocks,
            mtime: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            ctime: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
            made: knows(StatxFlags::BTIME)
                .then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
        }
    }
}

#[allow(clippy::unnecessary_cast, reason = "types of fields differ from machine to machine")]
impl From<&Stat> for Status {
    fn from(found: &Stat) -> Self {
        Self {
            id: (found.st_dev, found.st_ino),
            kind: FileType::from_raw_mode(found.st_mode),
            mode: found.st_mode & 0o7777,
            links: found.st_nlink as u64,
            uid: found.st_uid,
            gid: found.st_gid,
            device: found.st_rdev,
            len: found.st_size as u64,
            blocks: found.st_blocks as u64,
            mtime: (found.st_mtime, found.st_mtime_nsec as u32),
            ctime: (found.st_ctime, found.st_ctime_nsec as u32),
            made: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn both_calls_of_the_system_tell_the_same_and_so_do_name_and_handle() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), vec![1; 100_000]).unwrap();
        fs::hard_link(dir.path().join("file"), dir.path().join("again")).unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        let folder = File::open(dir.path()).unwrap();
        for name in [c"file", c"link", c"folder", c"/dev/null"] {
            let told = Status::of_name(folder.as_fd(), name, false).unwrap();
            let old = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            assert_eq!(Status { made: None, ..told.clone() }, Status::from(&old), "{name:?}");
            let metadata = dir.path().join(name.to_str().unwrap()).symlink_metadata().unwrap();
            let (id, times) = ((metadata.dev(), metadata.ino()), (told.mtime, told.ctime));
            assert_eq!((told.id, told.len, told.device), (id, metadata.len(), metadata.rdev()));
            let mtime = (metadata.mtime(), metadata.mtime_nsec() as u32);
            assert_eq!(times, (mtime, (metadata.ctime(), metadata.ctime_nsec() as u32)));
            let owner = (metadata.uid(), metadata.gid(), metadata.nlink(), metadata.blocks());
            assert_eq!((told.uid, told.gid, told.links, told.blocks), owner);
            assert_eq!(told.mode, metadata.mode() & 0o7777);
            let made = metadata.created().ok().map(|made| {
                let since = made.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
                (since.as_secs() as i64, since.subsec_nanos())
            });
            assert_eq!(told.made, made, "{name:?}");
        }
        let file = File::open(dir.path().join("file")).unwrap();
        let by_name = Status::of_name(folder.as_fd(), c"file", false).unwrap();
        assert_eq!(Status::of(&file).unwrap(), by_name);
        assert_eq!(Status::of_name(folder.as_fd(), c"link", true).unwrap(), by_name);
        assert_eq!((by_name.links, by_name.is_dir()), (2, false));
        let gone = Status::of_name(CWD, c"/proc/self/nothing", false);
        assert_eq!(gone, Err(Errno::NOENT));
    }
}
