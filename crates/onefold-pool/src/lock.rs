//! One process at a time: the lock on a pool's folder.
//! Room: onefold-pool.
//! An advisory `flock` on the file `lock`: it goes with the process, however that ends.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::PoolError;

/// File that is locked, and holds the number of the process that did.
pub const LOCK_FILE: &str = "lock";

/// The lock; dropping it gives it up.
pub struct PoolLock {
    _folder: File,
    _file: File,
}

impl PoolLock {
    /// Take the lock: alone, or shared with others who only read.
    pub fn acquire(pool: &Path, shared: bool) -> Result<Self, PoolError> {
        let path = pool.join(LOCK_FILE);
        let io = |source| PoolError::Io { context: format!("open {}", path.display()), source };
        let mut options = OpenOptions::new();
        // A FIFO of that name must be refused below, not waited for.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut file = if shared {
            match options.read(true).open(&path) {
                Ok(file) => file,
                // A pool copied without its lock: the folder is locked too, and nothing is made.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    File::open(pool).map_err(io)?
                }
                Err(error) => return Err(io(error)),
            }
        } else {
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?
        };
        let kind = file.metadata().map_err(io)?.file_type();
        if !kind.is_file() && !kind.is_dir() {
            let context = format!("lock {}", path.display());
            let source = std::io::Error::other("it is not a regular file");
            return Err(PoolError::Io { context, source });
        }
        let operation = if shared {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        // The folder itself is locked too: a lock file that was removed, or a copy of it, must
        // not let a second process in.
        let folder = File::open(pool).map_err(io)?;
        for lock in [flock(&folder, operation), flock(&file, operation)] {
            match lock {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = file.read_to_string(&mut holder);
                    let holder = match holder.trim().parse::<u32>() {
                        Ok(process) => format!("process {process}"),
                        Err(_) => "another process".to_owned(),
                    };
                    return Err(PoolError::Locked { holder });
                }
                Err(error) => {
                    let context = format!("lock {}", path.display());
                    return Err(PoolError::Io { context, source: error.into() });
                }
            }
        }
        if !shared {
            #[expect(clippy::disallowed_methods, reason = "a note for people; nothing reads it")]
            let note = format!("{}\n", std::process::id());
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(note.as_bytes()))
                .map_err(io)?;
        }
        Ok(Self { _folder: folder, _file: file })
    }
}
