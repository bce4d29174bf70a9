//! Where a file has holes, as its file system tells.
//! Room: onefold-archive.
//! Cost: two calls for each stretch of data, none for a file without holes.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// What is known of the holes of a file that is read from its beginning.
pub struct Holes {
    /// The file's length in bytes.
    len: u64,
    /// Up to where nothing need be asked: there is data before `data_end`, and before `hole_end`
    /// a hole.
    data_end: u64,
    hole_end: u64,
}

impl Holes {
    /// Of a file with this metadata. If as much is stored as it is long there are none.
    pub fn of(metadata: &Metadata) -> Self {
        let len = metadata.len();
        let whole = metadata.blocks() * 512 >= len;
        Self { len, data_end: if whole { u64::MAX } else { 0 }, hole_end: 0 }
    }

    /// Bytes of the hole that begins, or goes on, at `at`: 0 if there is data, or if the file
    /// system does not say. Only for places that do not go back.
    pub fn from(&mut self, file: &File, at: u64) -> u64 {
        if at < self.hole_end {
            return self.hole_end - at;
        }
        if at < self.data_end || at >= self.len {
            return 0;
        }
        self.hole_end = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(self.len),
            // There is no data from here on.
            Err(Errno::NXIO) => self.len,
            Err(_) => {
                self.data_end = u64::MAX;
                return 0;
            }
        };
        if self.hole_end > at {
            return self.hole_end - at;
        }
        // Asked again where the data ends.
        self.data_end = seek(file, SeekFrom::Hole(at)).unwrap_or(u64::MAX).max(at + 1);
        0
    }
}
