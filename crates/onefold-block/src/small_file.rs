//! Small files, written whole: settings, counters and the like.
//! Room: onefold-block.
//! Invariant: whatever happens, the name shows what it showed before or all that was written; once
//! the call has returned `Ok`, also after a power cut.
//! Cost: two syncs.

use std::path::Path;

use crate::file_media::FileFolder;
use crate::media::{Folder, MediaError};

/// What the name of a file that is being written ends with. One that a power cut left behind is
/// overwritten by the next attempt and means nothing.
pub const UNFINISHED: &str = ".new";

/// Write `bytes` as the media `name`, in the place of what was there.
///
/// # Errors
/// Whatever the folder refuses; what was there before is still there then, unless the error came
/// from the last step, of making the new name durable.
pub fn replace(folder: &dyn Folder, name: &str, bytes: &[u8]) -> Result<(), MediaError> {
    let unfinished = format!("{name}{UNFINISHED}");
    let media = folder.create(&unfinished)?;
    let written = media
        .write(0, bytes)
        .and_then(|()| media.sync())
        .and_then(|()| folder.rename(&unfinished, name));
    if let Err(error) = written {
        // It may be what fills the disk; the first error is the one to tell.
        let _ = folder.remove(&unfinished);
        return Err(error);
    }
    folder.sync_names()
}

/// The same for a file of the system, which is its owner's alone.
///
/// # Errors
/// Those of [`replace`]; a path without a name, or with one that is not UTF-8, is refused.
pub fn replace_at(path: &Path, bytes: &[u8]) -> Result<(), MediaError> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        let name = path.display().to_string();
        let source = std::io::Error::other("its name is missing or not UTF-8");
        return Err(MediaError::Io { action: "write", name, source });
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    replace(&FileFolder::open(folder)?, name, bytes)
}

/// All of a media that is small: more than `limit` bytes are refused unread.
///
/// # Errors
/// Whatever the folder refuses; [`MediaError::Io`] for one that is too long.
pub fn read(folder: &dyn Folder, name: &str, limit: u64) -> Result<Vec<u8>, MediaError> {
    let media = folder.open(name)?;
    let len = media.len()?;
    if len > limit {
        let source = std::io::Error::other(format!("{len} bytes, but {limit} at most are read"));
        return Err(MediaError::Io { action: "read", name: name.to_owned(), source });
    }
    let mut bytes = vec![0; len as usize];
    media.read(0, &mut bytes)?;
    Ok(bytes)
}
