//! One process at a time: the lock on a drive's folder.
//! Room: onefold-flash.
//! An advisory lock on the file `lock`: it goes with the process, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use onefold_block::MediaError;

use super::error::DriveError;

/// The file that is locked, and holds the number of the process that did.
pub(super) const LOCK_FILE: &str = "lock";

/// The lock; dropping it gives it up.
#[derive(Debug)]
pub(super) struct DriveLock {
    _file: File,
}

impl DriveLock {
    pub(super) fn acquire(folder: &Path) -> Result<Self, DriveError> {
        let path = folder.join(LOCK_FILE);
        let failed = |source| {
            let name = path.display().to_string();
            DriveError::Media(MediaError::Io { action: "lock", name, source })
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = match holder.trim().parse::<u32>() {
                    Ok(process) => format!("process {process}"),
                    Err(_) => "another process".to_owned(),
                };
                return Err(DriveError::Locked { holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        #[expect(clippy::disallowed_methods, reason = "a note for people; nothing reads it")]
        let note = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(note.as_bytes()))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }
}
