//! Extended attributes, of what is open and of what is found in an open folder.
//! Room: onefold-archive.
//! Cost: one call for what has none, and one more for each.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{fgetxattr, flistxattr, lgetxattr, llistxattr};
use rustix::io::Errno;

/// Largest extended attribute that is kept, in bytes: Linux has none that is larger.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Names and values, by name.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Of what is open.
pub fn of_handle(handle: BorrowedFd<'_>) -> rustix::io::Result<Xattrs> {
    all(|list| flistxattr(handle, list), |name, value| fgetxattr(handle, name, value))
}

/// Of what has this path, be it a link.
pub fn of_path(path: &Path) -> rustix::io::Result<Xattrs> {
    all(|list| llistxattr(path, list), |name, value| lgetxattr(path, name, value))
}

/// Of what has this name in an open folder, be it a link. There are no calls for that before Linux
/// 6.13: the folder is named by its handle, and nothing after its name is followed.
pub fn of_name(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Xattrs> {
    let mut path = format!("/proc/self/fd/{}/", at.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    of_path(Path::new(OsStr::from_bytes(&path)))
}

fn all(
    list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&OsStr, &mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Xattrs> {
    let names = match whole(list) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        names => names?,
    };
    let mut found = Vec::new();
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let value = whole(|value| get(OsStr::from_bytes(name), value))?;
        found.push((name.to_vec(), value));
    }
    found.sort_unstable();
    Ok(found)
}

/// What a call puts into a buffer that is large enough.
fn whole(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut short = [0; 1024];
    match read(&mut short) {
        Ok(len) => Ok(short[..len].to_vec()),
        Err(Errno::RANGE) => {
            let mut long = vec![0; XATTR_BYTES_MAX];
            let len = read(&mut long)?;
            long.truncate(len);
            Ok(long)
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    use rustix::fs::XattrFlags;

    use super::*;

    #[test]
    fn short_and_long_attributes_are_the_same_by_handle_path_and_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "x").unwrap();
        let (folder, file) = (File::open(dir.path()).unwrap(), File::open(&path).unwrap());
        let found = || {
            let by_path = of_path(&path).unwrap();
            assert_eq!(of_handle(file.as_fd()).unwrap(), by_path);
            assert_eq!(of_name(folder.as_fd(), c"file").unwrap(), by_path);
            by_path.into_iter().filter(|(name, _)| name.starts_with(b"user.")).collect::<Vec<_>>()
        };
        assert_eq!(found(), []);
        let mut expected = Vec::new();
        for (name, len) in [("user.a", 1023), ("user.b", 1025), ("user.c", 0), ("user.d", 1024)] {
            let value = vec![b'v'; len];
            if let Err(errno) = rustix::fs::fsetxattr(&file, name, &value, XattrFlags::empty()) {
                println!("skipped: there are no such attributes here: {errno}");
                return;
            }
            expected.push((name.as_bytes().to_vec(), value));
        }
        assert_eq!(found(), expected);
        assert_eq!(of_name(folder.as_fd(), c"nothing"), Err(Errno::NOENT));
    }

    #[test]
    fn a_list_that_needs_more_room_is_asked_for_again() {
        let value = |name: &OsStr, value: &mut [u8]| {
            value[..name.len()].copy_from_slice(name.as_bytes());
            Ok(name.len())
        };
        let names = |count: usize| {
            move |list: &mut [u8]| {
                let names = "user.x\0".repeat(count);
                let room = list.get_mut(..names.len()).ok_or(Errno::RANGE)?;
                room.copy_from_slice(names.as_bytes());
                Ok(names.len())
            }
        };
        for count in [0, 1, 146, 147, 9362] {
            let found = all(names(count), value).unwrap();
            assert_eq!(found, vec![(b"user.x".to_vec(), b"user.x".to_vec()); count]);
        }
        assert_eq!(all(names(9363), value), Err(Errno::RANGE));
        assert_eq!(all(|_| Err(Errno::OPNOTSUPP), value), Ok(Vec::new()));
        assert_eq!(all(|_| Err(Errno::ACCESS), value), Err(Errno::ACCESS));
        assert_eq!(all(names(1), |_, _| Err(Errno::ACCESS)), Err(Errno::ACCESS));
    }
}
