//! Opens files without disturbing them and finds their holes.
//! Room: onefold-estimate.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::options::CHUNK_MAX_BYTES;
use crate::walk::FileRef;

/// A run of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// Bytes to be read.
    Data { start: u64, end: u64 },
    /// Whole blocks of 128 KiB, or what is left of the file, that the file system does not hold.
    Hole { start: u64, end: u64 },
}

/// Open for reading: never waits for a pipe that took the file's place, never follows a symbolic
/// link that did, and leaves the access time alone where the system allows that.
///
/// Also the length in bytes now, which may be less than when the file was found.
pub(crate) fn open(file: &FileRef) -> io::Result<(File, u64)> {
    let opened = open_path(&file.path, file.is_input)?;
    let stat = rustix::fs::fstat(&opened)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_device = kind == FileType::BlockDevice && file.is_input;
    if kind != FileType::RegularFile && !is_device {
        return Err(io::Error::other("is no regular file any more"));
    }
    let size_now = if is_device { file.size } else { stat.st_size as u64 };
    Ok((opened, size_now))
}

/// The same by path; links are followed for inputs only.
pub(crate) fn open_path(path: &Path, is_input: bool) -> io::Result<File> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if !is_input {
        flags |= OFlags::NOFOLLOW;
    }
    let quiet = rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty());
    let opened = match quiet {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        other => other,
    }?;
    Ok(opened.into())
}

/// Tell the system that a range will be read from front to back.
pub(crate) fn advise_sequential(file: &File, start: u64, end: u64) {
    let len = std::num::NonZeroU64::new(end - start);
    // A hint: nothing depends on whether the file system takes it.
    let _ = rustix::fs::fadvise(file, start, len, Advice::Sequential);
}

/// The run that starts at `start`, a multiple of 128 KiB, and ends at `end` at the latest.
/// Without help from the file system everything is data.
pub(crate) fn next_run(file: &File, start: u64, end: u64) -> Run {
    let block = u64::from(CHUNK_MAX_BYTES);
    let data = match rustix::fs::seek(file, SeekFrom::Data(start)) {
        Ok(data) => data.min(end),
        // There is no data after `start`.
        Err(Errno::NXIO) => end,
        Err(_) => return Run::Data { start, end },
    };
    let whole = if data == end { end } else { data / block * block };
    if whole > start {
        return Run::Hole { start, end: whole };
    }
    match rustix::fs::seek(file, SeekFrom::Hole(data)) {
        Ok(hole) if hole > data => Run::Data { start, end: hole.next_multiple_of(block).min(end) },
        _ => Run::Data { start, end },
    }
}

/// Fill as much of `buffer` as there is. What was read before an error is not lost: the error
/// comes with the number of bytes that are good.
pub(crate) fn fill(file: &File, buffer: &mut [u8], offset: u64) -> (usize, io::Result<()>) {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_takes_what_there_is_and_says_how_much() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"0123456789", 0).unwrap();
        for (len, offset, wanted) in
            [(4, 3, "3456"), (10, 0, "0123456789"), (4, 8, "89"), (3, 10, "")]
        {
            let mut buffer = vec![0; len];
            let (got, read) = fill(&file, &mut buffer, offset);
            assert!(read.is_ok());
            assert_eq!(&buffer[..got], wanted.as_bytes());
        }
    }

    #[test]
    fn runs_tile_a_sparse_file_and_holes_are_whole_blocks() {
        let file = tempfile::tempfile().unwrap();
        let block = u64::from(CHUNK_MAX_BYTES);
        file.write_all_at(b"x", 10 * block + 5000).unwrap();
        file.write_all_at(b"y", 20 * block).unwrap();
        file.set_len(33 * block + 77).unwrap();
        let end = 33 * block + 77;
        let (mut at, mut runs) = (0, Vec::new());
        while at < end {
            let run = next_run(&file, at, end);
            let (Run::Data { start, end: stop } | Run::Hole { start, end: stop }) = run;
            assert_eq!(start, at);
            assert!(stop > at && (stop % block == 0 || stop == end));
            at = stop;
            runs.push(run);
        }
        assert_eq!(at, end);
        // On file systems that know holes, most of the file is one.
        assert!(runs.len() == 1 || runs.len() == 5, "{runs:?}");
        if runs.len() == 5 {
            assert_eq!(runs[1], Run::Data { start: 10 * block, end: 11 * block });
            assert_eq!(runs[4], Run::Hole { start: 21 * block, end });
        }
    }
}
