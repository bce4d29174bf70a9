//! Cuts a source into chunks, with memory for one chunk and one read.
//! Room: onefold-archive.

use std::io::{self, Read};

use onefold_content::Chunker;

/// Bytes asked of the source at a time.
const READ_BYTES: usize = 256 << 10;

/// Cuts one source after the other.
pub struct ChunkStream {
    chunker: Chunker,
    buffer: Vec<u8>,
    cuts: Vec<usize>,
}

impl ChunkStream {
    /// A stream that cuts like `chunker`, into chunks of at most `chunk_bytes_max`.
    pub fn new(chunker: Chunker, chunk_bytes_max: usize) -> Self {
        Self { chunker, buffer: vec![0; chunk_bytes_max + READ_BYTES], cuts: Vec::new() }
    }

    /// Cut all of `source`. The outer error is `take`'s, the inner one the source's; after either
    /// the stream is ready for the next source. Returns the bytes that were read.
    pub fn cut<E>(
        &mut self,
        source: &mut dyn Read,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<io::Result<u64>, E> {
        let result = self.cut_inner(source, &mut take);
        // Ends the stream, so that the next one starts afresh whatever happened to this one.
        self.chunker.finish();
        result
    }

    fn cut_inner<E>(
        &mut self,
        source: &mut dyn Read,
        take: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<io::Result<u64>, E> {
        // The open chunk is `start..end` of the buffer.
        let (mut start, mut end, mut total) = (0, 0, 0);
        loop {
            if self.buffer.len() - end < READ_BYTES {
                self.buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
            }
            let count = match source.read(&mut self.buffer[end..end + READ_BYTES]) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            };
            self.cuts.clear();
            let cuts = &mut self.cuts;
            self.chunker.push(&self.buffer[end..end + count], |cut| cuts.push(cut.len));
            end += count;
            total += count as u64;
            for &len in &self.cuts {
                take(&self.buffer[start..start + len])?;
                start += len;
            }
        }
        if start < end {
            take(&self.buffer[start..end])?;
        }
        Ok(Ok(total))
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;
    use onefold_content::{ChunkSizes, FastCdc};

    use super::*;

    /// Gives bytes in pieces of odd sizes, and fails at the end if told to.
    struct Pieces<'a>(&'a [u8], SplitMix64, bool);

    impl Read for Pieces<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() && self.2 {
                return Err(io::Error::other("gone"));
            }
            let most = self.1.below(9000) as usize + 1;
            let count = self.0.len().min(buf.len()).min(most);
            let (now, rest) = self.0.split_at(count);
            buf[..count].copy_from_slice(now);
            self.0 = rest;
            Ok(count)
        }
    }

    #[test]
    fn chunks_do_not_depend_on_how_the_source_comes() {
        let chunker = FastCdc::new(ChunkSizes::new(256, 1024, 8192).unwrap());
        let mut stream = ChunkStream::new(Chunker::FastCdc(chunker.clone()), 8192);
        for (seed, len) in [(1, 0), (2, 1), (3, 255), (4, 700_000), (5, 1_500_000)] {
            let data = SplitMix64::new(seed).bytes(len);
            let mut broken = Pieces(&data, SplitMix64::new(seed), true);
            assert!(stream.cut(&mut broken, |_| Ok::<_, ()>(())).unwrap().is_err());
            let mut lens = Vec::new();
            let mut joined = Vec::new();
            let mut pieces = Pieces(&data, SplitMix64::new(seed), false);
            let total = stream.cut(&mut pieces, |chunk| {
                lens.push(chunk.len());
                joined.extend_from_slice(chunk);
                Ok::<_, ()>(())
            });
            assert_eq!(total.unwrap().unwrap(), len as u64);
            assert_eq!(joined, data);
            let expected: Vec<usize> = chunker.cuts(&data).map(|(_, len)| len).collect();
            assert_eq!(lens, expected);
        }
    }
}
