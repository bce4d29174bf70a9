//! Large writes past the page cache, where file system and alignment allow it.
//! Room: onefold-block.
//! Why: what a pool writes in large pieces is written once and kept by its clients' caches and the
//! pool's own. In the page cache it would cost a copy and fresh pages, and every flush would wait
//! for all of it to be written back; past the cache a flush finds little left to do.
//! Invariant: only whole, aligned pages go past the cache, so that no page is written both ways.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Offsets, lengths and memory are multiples of this: no known device or file system asks more.
pub const ALIGN_BYTES: usize = 4096;
/// Shorter writes are cheaper through the cache, which gathers them.
const LEN_BYTES_MIN: usize = 256 << 10;

/// A file's way past the page cache.
#[derive(Debug, Default)]
pub struct Direct {
    file: OnceLock<Option<File>>,
    refused: AtomicBool,
}

impl Direct {
    /// The part of a write that can go past the cache: none if it is short, or if memory and
    /// offset are not aligned alike.
    fn part(offset: u64, data: &[u8]) -> Option<Range<usize>> {
        let align = ALIGN_BYTES as u64;
        if data.len() < LEN_BYTES_MIN || data.as_ptr() as u64 % align != offset % align {
            return None;
        }
        let start = (offset.next_multiple_of(align) - offset) as usize;
        Some(start..start + (data.len() - start) / ALIGN_BYTES * ALIGN_BYTES)
    }

    /// Write what can be written so; returns the range of `data` that was, empty if nothing.
    pub fn write(&self, path: &Path, offset: u64, data: &[u8]) -> io::Result<Range<usize>> {
        let none = Ok(0..0);
        let Some(part) = Self::part(offset, data) else { return none };
        if self.refused.load(Ordering::Relaxed) {
            return none;
        }
        let flags = OFlags::DIRECT.bits().cast_signed();
        let open = || OpenOptions::new().write(true).custom_flags(flags).open(path).ok();
        let Some(file) = self.file.get_or_init(open) else { return none };
        let mut done = part.start;
        while done < part.end {
            match file.write_at(&data[done..part.end], offset + done as u64) {
                // The rest goes through the cache, which says what is wrong if something is.
                Ok(0) => break,
                Ok(count) if count % ALIGN_BYTES != 0 => {
                    done += count / ALIGN_BYTES * ALIGN_BYTES;
                    break;
                }
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    self.refused.store(true, Ordering::Relaxed);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(part.start..done)
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
}
