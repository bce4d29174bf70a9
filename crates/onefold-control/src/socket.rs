//! The socket in the folder of a store that is served.
//! Room: onefold-control.
//! Invariants: (1) whoever may change the folder may connect, and nobody else  (2) a socket that a
//! killed process left is replaced, and nothing else is ever removed.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use onefold_block::Group;
use rustix::fs::{Mode, chmod, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use crate::peer::Admission;

/// The socket, in the folder.
pub const NAME: &str = "control";
/// Clients that wait to be heard.
const BACKLOG: i32 = 64;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_WRITES: u32 = 0o020;

/// A socket in a folder that this process has for itself. Dropping it removes it.
pub struct Bound {
    folder: File,
    /// Where clients come in.
    pub listener: UnixListener,
    /// Who may.
    pub admission: Admission,
}

impl Bound {
    /// Binds it. A folder that is shared with a group shares its socket.
    pub fn new(path: &Path) -> io::Result<Self> {
        let folder = File::open(path)?;
        let found = folder.metadata()?;
        let mode = found.mode();
        let shared = mode & SET_GROUP_ID != 0 && mode & GROUP_WRITES != 0;
        let group = shared.then(|| Group(found.gid()));
        let listener = bound(&folder, shared)?;
        Ok(Self { folder, listener, admission: Admission::Users { owner: found.uid(), group } })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(within(&self.folder));
    }
}

/// The socket by a short name: that of a folder may be longer than an address of a socket.
fn within(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}

fn bound(folder: &File, shared: bool) -> io::Result<UnixListener> {
    let path = within(folder);
    if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        std::fs::remove_file(&path)?;
    }
    // A program that is started here must not keep it open: it would look as if somebody listened.
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let made: OwnedFd = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // The file is made with the mode of the socket: there is no moment at which others may connect.
    fchmod(&made, Mode::RUSR | Mode::WUSR)?;
    bind(&made, &SocketAddrUnix::new(&path)?)?;
    if shared {
        chmod(&path, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP)?;
    }
    listen(&made, BACKLOG)?;
    Ok(UnixListener::from(made))
}

/// Connects to whoever serves the store in a folder. `None` if nobody does.
pub fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    let connected = File::open(path).and_then(|folder| UnixStream::connect(within(&folder)));
    match connected {
        Ok(server) => Ok(Some(server)),
        Err(error) if [NotFound, ConnectionRefused, NotADirectory].contains(&error.kind()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let bound = Bound::new(folder.path()).unwrap();
        assert!(connect(folder.path()).unwrap().is_some());
        let flags = rustix::io::fcntl_getfd(&bound.listener).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "no other program gets it");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let second = Bound::new(folder.path()).err().unwrap();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse, "one that answers stays");
        // A process that was killed leaves its socket, and nobody listens to it.
        let left = folder.path().join("left");
        std::fs::rename(&path, &left).unwrap();
        drop(bound);
        std::fs::rename(left, &path).unwrap();
        assert!(connect(folder.path()).unwrap().is_none());
        let again = Bound::new(folder.path()).unwrap();
        assert!(connect(folder.path()).unwrap().is_some());
        drop(again);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(Bound::new(folder.path()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    }

    #[test]
    fn a_deep_folder_is_no_trouble_and_no_folder_is_nobody() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("a".repeat(100)).join("b".repeat(100));
        assert!(connect(&deep).unwrap().is_none());
        std::fs::create_dir_all(&deep).unwrap();
        let bound = Bound::new(&deep).unwrap();
        assert!(connect(&deep).unwrap().is_some());
        drop(bound);
        std::fs::write(top.path().join("file"), "").unwrap();
        assert!(connect(&top.path().join("file")).unwrap().is_none());
    }

    #[test]
    fn a_folder_that_is_shared_with_a_group_shares_its_socket() {
        use std::os::unix::fs::PermissionsExt;
        for (mode, shared) in [(0o2770, true), (0o770, false), (0o2750, false), (0o2700, false)] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
            let bound = Bound::new(folder.path()).unwrap();
            let found = std::fs::metadata(folder.path().join(NAME)).unwrap().mode() & 0o777;
            assert_eq!(found, if shared { 0o660 } else { 0o600 }, "{mode:o}");
            let Admission::Users { owner, group } = bound.admission else { panic!("for all") };
            let folder = folder.path().metadata().unwrap();
            assert_eq!(owner, folder.uid());
            assert_eq!(group.map(|group| group.0), shared.then(|| folder.gid()), "{mode:o}");
        }
    }
}
