//! Where a file has holes, as its file system tells.
//! Room: onefold-archive.
//! Cost: two calls for each stretch of data, none for a file without holes.

use std::fs::File;

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
    /// Of a file of so many bytes that takes so many units of 512 bytes. If as much is stored as
    /// it is long, there are none.
    pub const fn of(len: u64, blocks: u64) -> Self {
        let whole = blocks.saturating_mul(512) >= len;
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

#[cfg(test)]
mod tests {
    use std::fs::Metadata;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    fn of(metadata: &Metadata) -> Holes {
        Holes::of(metadata.len(), metadata.blocks())
    }

    #[test]
    fn holes_are_told_from_where_they_are_asked_for_to_their_ends() {
        const STEP: u64 = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        // A hole, data, a hole, data, and a hole to the end.
        file.set_len(5 * STEP).unwrap();
        for at in [STEP, 3 * STEP] {
            file.write_all_at(&vec![7; STEP as usize], at).unwrap();
        }
        let metadata = file.metadata().unwrap();
        let mut holes = of(&metadata);
        if seek(&file, SeekFrom::Data(0)) != Ok(STEP) {
            println!("skipped: this file system tells of no holes");
            return;
        }
        for (at, expected) in [
            (0, STEP),
            (4096, STEP - 4096),
            (STEP, 0),
            (STEP + 4096, 0),
            (2 * STEP, STEP),
            (3 * STEP - 1, 1),
            (3 * STEP, 0),
            (4 * STEP, STEP),
            (5 * STEP - 4096, 4096),
            (5 * STEP, 0),
        ] {
            assert_eq!(holes.from(&file, at), expected, "at {at}");
        }
        // Each place asked for by itself.
        for (at, expected) in [(STEP, 0), (2 * STEP + 1, STEP - 1), (4 * STEP, STEP)] {
            assert_eq!(of(&metadata).from(&file, at), expected, "at {at} alone");
        }
        file.write_all_at(&vec![7; 5 * STEP as usize], 0).unwrap();
        let mut none = of(&file.metadata().unwrap());
        assert_eq!((none.from(&file, 0), none.from(&file, 4 * STEP)), (0, 0));
    }

    #[test]
    fn a_small_hole_in_a_large_file_is_found_and_what_cannot_be_asked_has_none() {
        let file = tempfile::tempfile().unwrap();
        let (len, at) = (4 << 20, 1 << 20);
        file.set_len(len).unwrap();
        file.write_all_at(&vec![7; at as usize], 0).unwrap();
        file.write_all_at(&vec![7; (len - at - 4096) as usize], at + 4096).unwrap();
        file.sync_all().unwrap();
        if seek(&file, SeekFrom::Hole(0)) == Ok(at) {
            let mut holes = of(&file.metadata().unwrap());
            assert_eq!((holes.from(&file, 0), holes.from(&file, at)), (0, 4096));
        }
        // A pipe has no places at all.
        let (read, _write) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(read));
        let mut holes = Holes { len: 10, data_end: 0, hole_end: 0 };
        assert_eq!(holes.from(&pipe, 0), 0);
        assert_eq!((holes.data_end, holes.from(&pipe, 5)), (u64::MAX, 0));
    }
}
