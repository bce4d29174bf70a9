//! Large writes and reads past the page cache, where file system and alignment allow it.
//! Room: onefold-block.
//! Why: what a pool writes in large pieces is written once and kept by its clients' caches and the
//! pool's own. In the page cache it would cost a copy and fresh pages, and every flush would wait
//! for all of it to be written back; past the cache a flush finds little left to do. What is read
//! in such pieces is read once, to be moved or checked.
//! Invariant: only whole, aligned pages go past the cache, so that no page is written both ways.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt as _, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Offsets, lengths and memory are multiples of this: no known device or file system asks more.
pub const ALIGN_BYTES: usize = 4096;
/// Shorter writes are cheaper through the cache, which gathers them; shorter reads profit from what
/// it reads ahead.
const LEN_BYTES_MIN: usize = 256 << 10;

/// A file's way past the page cache.
#[derive(Debug, Default)]
pub struct Direct {
    file: OnceLock<Option<File>>,
    refused: AtomicBool,
}

impl Direct {
    /// The part of a write or read that can go past the cache: none if it is short, or if memory
    /// and offset are not aligned alike.
    fn part(offset: u64, data: &[u8]) -> Option<Range<usize>> {
        let align = ALIGN_BYTES as u64;
        if data.len() < LEN_BYTES_MIN || data.as_ptr() as u64 % align != offset % align {
            return None;
        }
        let start = (offset.next_multiple_of(align) - offset) as usize;
        Some(start..start + (data.len() - start) / ALIGN_BYTES * ALIGN_BYTES)
    }

    /// The file, opened so, unless that was refused.
    fn file(&self, (cached, path): (&File, &Path)) -> Option<&File> {
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let flags = OFlags::DIRECT.bits().cast_signed();
        let open =
            |write| OpenOptions::new().read(true).write(write).custom_flags(flags).open(path).ok();
        let same = |file: &File| {
            let (a, b) = (cached.metadata().ok()?, file.metadata().ok()?);
            Some((a.dev(), a.ino()) == (b.dev(), b.ino()))
        };
        // Where nothing may be written there is still something to read. Another file may bear the
        // name by now.
        let file = || open(true).or_else(|| open(false)).filter(|file| same(file) == Some(true));
        self.file.get_or_init(file).as_ref()
    }

    /// Write what can be written so; returns the range of `data` that was, empty if nothing.
    pub fn write(
        &self,
        which: (&File, &Path),
        offset: u64,
        data: &[u8],
    ) -> io::Result<Range<usize>> {
        let Some(part) = Self::part(offset, data) else { return Ok(0..0) };
        let Some(file) = self.file(which) else { return Ok(0..0) };
        let (start, mut at) = (part.start, part.start);
        let result = self.in_pages(part, |range| {
            let count = file.write_at(&data[range.clone()], offset + range.start as u64)?;
            at = range.start + count / ALIGN_BYTES * ALIGN_BYTES;
            Ok(count)
        });
        result.map(|()| start..at)
    }

    /// Read what can be read so; returns the range of `buf` that was, empty if nothing.
    pub fn read(
        &self,
        which: (&File, &Path),
        offset: u64,
        buf: &mut [u8],
    ) -> io::Result<Range<usize>> {
        let Some(part) = Self::part(offset, buf) else { return Ok(0..0) };
        let Some(file) = self.file(which) else { return Ok(0..0) };
        let (start, mut at) = (part.start, part.start);
        let result = self.in_pages(part, |range| {
            let count = file.read_at(&mut buf[range.clone()], offset + range.start as u64)?;
            at = range.start + count / ALIGN_BYTES * ALIGN_BYTES;
            Ok(count)
        });
        result.map(|()| start..at)
    }

    /// Go through a range by calls that may do less than they are asked for, up to the first that
    /// does not end at a page, or does nothing: the rest goes through the cache, which says what is
    /// wrong if something is.
    fn in_pages(
        &self,
        part: Range<usize>,
        mut call: impl FnMut(Range<usize>) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut done = part.start;
        while done < part.end {
            match call(done..part.end) {
                Ok(0) => return Ok(()),
                Ok(count) if count % ALIGN_BYTES != 0 => return Ok(()),
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    self.refused.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_aligned_alike_in_memory_and_file_go_past_the_cache() {
        let memory = vec![0u8; (1 << 20) + 2 * ALIGN_BYTES];
        let aligned = memory.as_ptr().align_offset(ALIGN_BYTES);
        let data = &memory[aligned..aligned + (1 << 20)];
        assert_eq!(Direct::part(0, data), Some(0..1 << 20));
        assert_eq!(Direct::part(8192, &data[..(1 << 20) - 1]), Some(0..(1 << 20) - 4096));
        assert_eq!(Direct::part(100, &data[100..]), Some(3996..(1 << 20) - 100));
        assert_eq!(Direct::part(100, data), None, "memory and file are not aligned alike");
        assert_eq!(Direct::part(0, &data[..LEN_BYTES_MIN - 1]), None, "too short");
        assert_eq!(Direct::part(0, &data[..LEN_BYTES_MIN]), Some(0..LEN_BYTES_MIN));
    }

    #[test]
    fn calls_that_do_less_go_on_and_those_that_do_nothing_end() {
        const PAGE: usize = ALIGN_BYTES;
        let run = |direct: &Direct, answers: &[io::Result<usize>]| {
            let (mut asked, mut answers) = (Vec::new(), answers.iter());
            let result = direct.in_pages(PAGE..5 * PAGE, |range| {
                asked.push(range.start / PAGE);
                assert_eq!(range.end, 5 * PAGE);
                match answers.next().expect("no call more") {
                    Ok(count) => Ok(*count),
                    Err(error) => Err(io::Error::from_raw_os_error(error.raw_os_error().unwrap())),
                }
            });
            (asked, result.is_ok())
        };
        let error = |errno: Errno| Err(io::Error::from_raw_os_error(errno.raw_os_error()));
        let direct = Direct::default();
        assert_eq!(run(&direct, &[Ok(4 * PAGE)]), (vec![1], true));
        assert_eq!(run(&direct, &[Ok(PAGE), Ok(2 * PAGE), Ok(PAGE)]), (vec![1, 2, 4], true));
        assert_eq!(run(&direct, &[Ok(PAGE), Ok(0)]), (vec![1, 2], true));
        assert_eq!(run(&direct, &[Ok(PAGE + 1)]), (vec![1], true));
        let interrupted = [Ok(PAGE), error(Errno::INTR), Ok(3 * PAGE)];
        assert_eq!(run(&direct, &interrupted), (vec![1, 2, 2], true));
        assert_eq!(run(&direct, &[Ok(PAGE), error(Errno::NOSPC)]), (vec![1, 2], false));
        assert!(!direct.refused.load(Ordering::Relaxed));
        assert_eq!(run(&direct, &[error(Errno::INVAL)]), (vec![1], true));
        assert!(direct.refused.load(Ordering::Relaxed), "and it is not tried again");
    }

    #[test]
    fn what_is_read_past_the_cache_is_what_was_written_either_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let cached =
            OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
        let data: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        cached.write_all_at(&data, 0).unwrap();
        let mut memory = vec![0u8; data.len() + 2 * ALIGN_BYTES];
        let aligned = memory.as_ptr().align_offset(ALIGN_BYTES);
        let flags = OFlags::DIRECT.bits().cast_signed();
        let allowed = OpenOptions::new().read(true).custom_flags(flags).open(&path).is_ok();
        let direct = Direct::default();
        for (from, len) in [(0, data.len()), (100, 700_000), (8192, 512 << 10), (4096, 1000)] {
            let buf = &mut memory[aligned + from % ALIGN_BYTES..][..len];
            buf.fill(0);
            let read = direct.read((&cached, &path), from as u64, buf).unwrap();
            let expected = if allowed { Direct::part(from as u64, buf) } else { None };
            assert_eq!(read, expected.clone().unwrap_or_default(), "{from} {len}");
            assert!(buf[read.clone()] == data[from..from + len][read.clone()], "{from} {len}");
            let outside = buf[..read.start].iter().chain(&buf[read.end..]);
            assert!(outside.copied().all(|byte| byte == 0), "{from} {len}");
            buf.fill(9);
            let written = Direct::default().write((&cached, &path), from as u64, buf).unwrap();
            assert_eq!(written, expected.unwrap_or_default(), "{from} {len}");
            let mut found = vec![0; data.len()];
            cached.read_exact_at(&mut found, 0).unwrap();
            let changed = (0..data.len()).filter(|&at| found[at] != data[at] || data[at] == 9);
            let within = from + written.start..from + written.end;
            let nines = (0..data.len()).filter(|at| data[*at] == 9 || within.contains(at));
            assert!(changed.eq(nines), "{from} {len}");
            cached.write_all_at(&data, 0).unwrap();
        }
        // Another file of that name is not taken for this one.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, vec![7; data.len()]).unwrap();
        let buf = &mut memory[aligned..aligned + (512 << 10)];
        assert_eq!(Direct::default().read((&cached, &path), 0, buf).unwrap(), 0..0);
        assert_eq!(Direct::default().write((&cached, &path), 0, buf).unwrap(), 0..0);
    }
}
