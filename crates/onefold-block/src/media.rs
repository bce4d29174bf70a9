//! The bytes underneath: named files in a folder, reduced to what a pool needs.
//! Room: onefold-block.
//! Invariants: (1) written bytes are durable only after `sync` of that media returned `Ok`;
//! (2) a created, removed or renamed name is durable only after `sync_names` of its folder;
//! (3) after a failed `sync` nothing is known about unsynced bytes: callers stop trusting them.
//! Checked by [`crate::conformance::media`].

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// Why an operation on media failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The layer below has no space for what was asked.
    #[error("no space left on the device of {name}")]
    NoSpace {
        /// The file concerned.
        name: String,
    },
    /// There is nothing of that name.
    #[error("{name} does not exist")]
    NotFound {
        /// The file concerned.
        name: String,
    },
    /// Bytes past the end were asked for.
    #[error("{name} ends at byte {len}, but bytes {offset}..{end} were expected")]
    Truncated {
        /// The file concerned.
        name: String,
        /// Its length in bytes.
        len: u64,
        /// First byte asked for.
        offset: u64,
        /// One past the last byte asked for.
        end: u64,
    },
    /// Bytes are not what was stored, as far as media can tell that keep checksums of their own.
    #[error("{name} is damaged at byte {offset}: {problem}")]
    Damaged {
        /// The file concerned.
        name: String,
        /// First byte concerned.
        offset: u64,
        /// What was found.
        problem: String,
    },
    /// The system reported an error.
    #[error("{action} {name}: {source}")]
    Io {
        /// What was being done: "read", "write", "sync" and so on.
        action: &'static str,
        /// The file concerned.
        name: String,
        /// The system's own error.
        source: io::Error,
    },
}

/// One file's bytes. All methods take `&self`; concurrent calls on disjoint ranges are fine.
pub trait Media: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> Result<u64, MediaError>;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> Result<bool, MediaError> {
        Ok(self.len()? == 0)
    }

    /// Fill `buf` from `offset`; [`MediaError::Truncated`] if it does not reach that far.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError>;

    /// Fill `buf` from `offset` if that needs no wait for a device; false if it may, and then `buf`
    /// holds anything.
    fn read_at_hand(&self, offset: u64, buf: &mut [u8]) -> bool {
        let _ = (offset, buf);
        false
    }

    /// Bytes from here on will be read soon: media that can begin now do, and say nothing.
    fn will_read(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Store `data` at `offset`, growing the media where needed; a gap reads as zeroes.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError>;

    /// Cut or extend (with zeroes) to `len` bytes. Space reserved past `len` is given back.
    fn set_len(&self, len: u64) -> Result<(), MediaError>;

    /// Make everything written to this media durable, its length included.
    fn sync(&self) -> Result<(), MediaError>;

    /// Set space aside so that writes inside `offset..offset + len` cannot run out of it. The
    /// length does not change. Media that cannot reserve answer `Ok`.
    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let _ = (offset, len);
        Ok(())
    }

    /// Give the space of a range back; it reads as zeroes. Media that cannot answer `Ok` having
    /// written zeroes or nothing: callers must not rely on the contents afterwards.
    fn punch(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let _ = (offset, len);
        Ok(())
    }

    /// The first byte from `offset` on that may be anything but zero; `None` if there is none up to
    /// the end. Media that do not know their holes say `offset` itself.
    fn next_data(&self, offset: u64) -> Result<Option<u64>, MediaError> {
        Ok((offset < self.len()?).then_some(offset))
    }

    /// Bytes of the device below that this media takes, where that is known; else its length.
    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.len()
    }

    /// What tells these bytes from all that ever had this name, where the media below say that of
    /// themselves and nothing has to be read for it, as an object store does.
    fn tag(&self) -> Option<String> {
        None
    }
}

/// Where what is stored ends: from there on everything is zeroes that nobody wrote, however long
/// the media says it is. At most 64 KiB too large, never too small.
///
/// # Errors
/// Those of [`Media::len`] and [`Media::next_data`].
pub fn data_end(media: &dyn Media) -> Result<u64, MediaError> {
    const STEP: u64 = 64 << 10;
    let len = media.len()?;
    let mut end = 0;
    while let Some(data) = media.next_data(end)? {
        end = (data.max(end) / STEP + 1) * STEP;
        if end >= len {
            return Ok(len);
        }
    }
    Ok(end)
}

/// A file of no meaning and no bytes: stores that know no folders keep an empty one by it, and so
/// does a copy of such a store.
pub const FOLDER_MARK: &str = ".folder";

/// A flat set of named media.
pub trait Folder: Send + Sync {
    /// Open an existing media. One that may not be written opens to be read, and fails to write.
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError>;

    /// Make a new empty media; an existing one of that name is emptied.
    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError>;

    /// Remove a name; open handles stay readable.
    fn remove(&self, name: &str) -> Result<(), MediaError>;

    /// Give a media another name in this folder, at once; a media that had that name is replaced.
    /// A power cut before `sync_names` leaves under `to` what was there or what is there now.
    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError>;

    /// All names, sorted. Subfolders are listed by the folders that own them.
    fn list(&self) -> Result<Vec<String>, MediaError>;

    /// Make created and removed names durable.
    fn sync_names(&self) -> Result<(), MediaError>;

    /// How many reads of different files are worth making at once: one where they share a device,
    /// more where each waits for an answer from afar.
    fn reads_at_once(&self) -> usize {
        1
    }

    /// Whether [`Media::punch`] gives pages of 4 KiB back one by one. Where not, it gives nothing
    /// back as long as anything is used of what was written together, whatever
    /// [`Media::allocated_bytes`] says.
    fn gives_pages_back(&self) -> bool {
        true
    }

    /// A folder inside this one, made if it is not there.
    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError>;

    /// A folder inside this one; [`MediaError::NotFound`] if it is not there. Makes nothing.
    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError>;

    /// Remove a folder inside this one that is empty; [`MediaError::NotFound`] if it is not there.
    /// Handles of it are of no use any more, also if there is one of that name again.
    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError>;
}
