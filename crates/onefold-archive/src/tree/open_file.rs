//! A file that is being restored: what comes is written in large pieces.
//! Room: onefold-archive.
//! Cost: up to 1 MiB of chunks that wait to be written with those that follow.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Seek as _, SeekFrom};

use crate::chunk_bytes::ChunkBytes;
use crate::format::entry::Entry;

/// Bytes of a file that are written at once: fewer calls, and a file system can keep them in larger
/// pieces.
const WRITE_BYTES: usize = 1 << 20;
/// Pieces of memory that wait at most: as many as systems take in one call.
const WRITE_PIECES: usize = 1024;

/// A file that is being restored.
pub struct OpenFile {
    /// What it will be.
    pub entry: Entry,
    /// Its handle.
    pub file: File,
    /// What it is called until it is whole.
    pub name: OsString,
    /// Bytes that came, written or not.
    pub len: u64,
    /// What is not written yet, and its bytes.
    waiting: Vec<ChunkBytes>,
    waiting_bytes: usize,
    /// It may end in a hole, and then is not long enough yet.
    holes: bool,
}

impl OpenFile {
    /// One without content, under another name.
    pub const fn new(entry: Entry, file: File, name: OsString) -> Self {
        Self { entry, file, name, len: 0, waiting: Vec::new(), waiting_bytes: 0, holes: false }
    }

    /// Leave a hole.
    pub fn skip(&mut self, bytes: usize) -> io::Result<()> {
        self.flush()?;
        self.holes = true;
        self.len += bytes as u64;
        self.file.seek(SeekFrom::Current(bytes as i64)).map(drop)
    }

    /// Put bytes behind the others.
    pub fn put(&mut self, data: ChunkBytes) -> io::Result<()> {
        self.len += data.len() as u64;
        self.waiting_bytes += data.len();
        let apart = match self.waiting.last_mut() {
            Some(last) => last.join(data),
            None => Some(data),
        };
        self.waiting.extend(apart);
        let is_much = self.waiting_bytes >= WRITE_BYTES || self.waiting.len() >= WRITE_PIECES;
        if is_much { self.flush() } else { Ok(()) }
    }

    /// Write what waits.
    fn flush(&mut self) -> io::Result<()> {
        let mut pieces: Vec<IoSlice<'_>> =
            self.waiting.iter().map(|piece| IoSlice::new(piece)).collect();
        write_all(&mut self.file, &mut pieces)?;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    /// Write what is left, and give the file its length.
    pub fn complete(&mut self) -> io::Result<()> {
        self.flush()?;
        if self.holes { self.file.set_len(self.len) } else { Ok(()) }
    }
}

/// Write all of these pieces.
fn write_all(to: &mut impl io::Write, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    // None of nothing is at the front, for which `Ok(0)` would say nothing.
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        match to.write_vectored(pieces) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut pieces, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::entry::{Kind, Metadata, Recipe, Stamp};

    fn data(bytes: &[u8]) -> ChunkBytes {
        ChunkBytes::of(Arc::new(bytes.to_vec()), 0..bytes.len())
    }

    #[test]
    fn pieces_are_written_together_up_to_so_many_and_so_many_bytes() {
        let file = tempfile::tempfile().unwrap();
        let (metadata, stamp) = (Metadata::default(), Stamp::default());
        let (path, kind, recipe) = (b"f".to_vec(), Kind::File, Recipe::default());
        let entry = Entry { path, kind, metadata, stamp, recipe };
        let mut open = OpenFile::new(entry, file, "f".into());
        let len = |open: &OpenFile| open.file.metadata().unwrap().len();
        open.put(data(&vec![1; WRITE_BYTES - 1])).unwrap();
        assert_eq!((len(&open), open.len), (0, WRITE_BYTES as u64 - 1));
        open.put(data(&[2])).unwrap();
        let mut expected = WRITE_BYTES as u64;
        assert_eq!((len(&open), open.waiting.len()), (expected, 0));
        for _ in 1..WRITE_PIECES {
            open.put(data(&[3])).unwrap();
        }
        assert_eq!((len(&open), open.waiting.len()), (expected, WRITE_PIECES - 1));
        // What lies behind the last one makes no other piece, and what lies elsewhere does.
        let piece = Arc::new(vec![4; 5]);
        open.waiting.pop();
        for at in 0..5 {
            open.put(ChunkBytes::of(Arc::clone(&piece), at..at + 1)).unwrap();
        }
        assert_eq!((len(&open), open.waiting.len()), (expected, WRITE_PIECES - 1));
        open.put(data(&[5])).unwrap();
        expected += WRITE_PIECES as u64 - 2 + 5 + 1;
        assert_eq!((len(&open), open.waiting_bytes), (expected, 0));
    }

    /// Takes a few bytes at a time, of the first piece and of the next, and is interrupted.
    struct Slow(Vec<u8>, u32);

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(2) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let all = pieces.iter().flat_map(|piece| piece.iter()).take(3);
            let before = self.0.len();
            self.0.extend(all);
            Ok(self.0.len() - before)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_is_written_where_a_write_takes_a_part_or_is_interrupted() {
        let mut slow = Slow(Vec::new(), 0);
        let parts = [&b""[..], b"ab", b"cdefgh", b"", b"i", b""];
        write_all(&mut slow, &mut parts.map(IoSlice::new)).unwrap();
        assert_eq!(slow.0, b"abcdefghi");
        write_all(&mut slow, &mut [IoSlice::new(b""), IoSlice::new(b"")]).unwrap();
        write_all(&mut slow, &mut []).unwrap();
        let mut room = [0; 4];
        let error = write_all(&mut &mut room[..], &mut [IoSlice::new(b"12345")]).unwrap_err();
        assert_eq!((error.kind(), &room), (io::ErrorKind::WriteZero, b"1234"));
    }
}
