//! Cuts a source into chunks, with memory for one chunk and one read.
//! Room: onefold-archive.
//! Machine code is cut into chunks of twice the size: little of it stays from version to version,
//! so that smaller ones find little more that was there before, and each chunk takes 20 bytes of a
//! container and 32 of every version.

use std::io::{self, Read};
use std::ops::Range;

use onefold_content::Chunker;

use crate::machine_code::{BEGIN_BYTES, begins_machine_code};
use crate::settings::ArchiveSettings;

/// Bytes asked of the source at a time.
const READ_BYTES: usize = 256 << 10;
/// Chunks of zeroes that are handed over at a time.
const ZERO_CHUNKS_MAX: u64 = 1024;
/// Bytes of chunks of a hole that are put together at most: builds since 2026-11-28 decode groups
/// of up to twice as many.
const HOLE_BYTES_MAX: usize = 1 << 20;

/// What is cut: bytes, and stretches of zeroes that need not be read.
pub trait Source: Read {
    /// How many of the bytes that come next are zeroes; 0 where that is not known.
    fn zeroes(&mut self) -> u64;

    /// Go on behind so many of them.
    fn skip(&mut self, zeroes: u64) -> io::Result<()>;
}

/// A source of which nothing is known before it is read.
pub struct Unknown<'a>(pub &'a mut dyn Read);

impl Read for Unknown<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Source for Unknown<'_> {
    fn zeroes(&mut self) -> u64 {
        0
    }

    fn skip(&mut self, _zeroes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Cuts one source after the other.
pub struct ChunkStream {
    /// For machine code, and for all else.
    code: Chunker,
    other: Chunker,
    buffer: Vec<u8>,
    cuts: Vec<usize>,
    /// Zeroes, as soon as there was a long hole.
    zeroes: Vec<u8>,
    /// Bytes of zeroes that may be one chunk.
    hole_bytes: usize,
}

/// Bytes that chunks of a hole are put together to, of so many bytes each, where a container is to
/// have so many.
pub fn hole_bytes(chunk_bytes: usize, container_bytes: usize) -> usize {
    let most = HOLE_BYTES_MAX.min(container_bytes / 2);
    most - most % chunk_bytes
}

impl ChunkStream {
    /// A stream that cuts as an archive's settings say.
    pub fn of(settings: &ArchiveSettings) -> Self {
        let max = settings.sizes().max();
        let hole_bytes = hole_bytes(max, settings.container_bytes as usize);
        Self { hole_bytes, ..Self::new(settings.chunker(), settings.code_chunker(), max) }
    }

    /// A stream that cuts like `other`, and machine code like `code`, into chunks of at most
    /// `chunk_bytes_max`, and puts none of them together.
    fn new(other: Chunker, code: Chunker, chunk_bytes_max: usize) -> Self {
        let open_bytes_max = chunk_bytes_max.max(BEGIN_BYTES);
        let buffer = vec![0; open_bytes_max + READ_BYTES];
        Self { code, other, buffer, cuts: Vec::new(), zeroes: Vec::new(), hole_bytes: 0 }
    }

    /// Cut all of `source`; `take` hears of each chunk, and how often it comes there. The outer
    /// error is `take`'s, the inner one the source's; after either the stream is ready for the next
    /// source. Returns the bytes of the source.
    pub fn cut<E>(
        &mut self,
        source: &mut dyn Source,
        mut take: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<io::Result<u64>, E> {
        let result = self.cut_inner(source, &mut take);
        // Ends the stream, so that the next one starts afresh whatever happened to this one.
        self.code.finish();
        self.other.finish();
        result
    }

    fn cut_inner<E>(
        &mut self,
        source: &mut dyn Source,
        take: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<io::Result<u64>, E> {
        // The open chunk is `start..end` of the buffer.
        let (mut start, mut end, mut total) = (0, 0, 0);
        // What came and was not looked at for cuts begins here.
        let mut unseen = 0;
        // Set once enough came to tell.
        let mut is_code = None;
        // Of all that came, the last so many bytes are known to be zeroes.
        let mut run = 0;
        loop {
            if self.buffer.len() - end < READ_BYTES {
                self.buffer.copy_within(start..end, 0);
                (start, end, unseen) = (0, end - start, unseen - start);
            }
            let space = &mut self.buffer[end..end + READ_BYTES];
            let zeroes = source.zeroes();
            let count = match next(source, zeroes, space) {
                Ok(0) if unseen == end => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            };
            run = if zeroes > 0 { run + count } else { 0 };
            end += count;
            total += count as u64;
            if is_code.is_none() {
                // A source may give a few bytes at a time.
                if count > 0 && zeroes == 0 && end < BEGIN_BYTES {
                    continue;
                }
                is_code = Some(begins_machine_code(&self.buffer[..end.min(BEGIN_BYTES)]));
            }
            self.cuts.clear();
            let cuts = &mut self.cuts;
            let chunker = if is_code == Some(true) { &mut self.code } else { &mut self.other };
            chunker.push(&self.buffer[unseen..end], |cut| cuts.push(cut.len));
            unseen = end;
            for &len in &self.cuts {
                take(&self.buffer[start..start + len], 1)?;
                start += len;
            }
            if count == 0 {
                break;
            }
            // A chunk begins afresh whatever came before it. If the last one was of zeroes alone,
            // and so is what follows, then all that follow are equal, but for the last of them,
            // whose end may depend on the byte behind it.
            let Some(&len) = self.cuts.last().filter(|&len| run >= end - start + len) else {
                continue;
            };
            match self.skip_hole(source, start - len..start, take)? {
                Ok(skipped) => total += skipped,
                Err(error) => return Ok(Err(error)),
            }
        }
        if start < end {
            take(&self.buffer[start..end], 1)?;
        }
        Ok(Ok(total))
    }

    /// Skip chunks of zeroes like that which stands at `chunk` in the buffer, as many as are known
    /// to follow. The bytes of those.
    fn skip_hole<E>(
        &mut self,
        source: &mut dyn Source,
        chunk: Range<usize>,
        take: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<io::Result<u64>, E> {
        let (len, left) = (chunk.len(), source.zeroes().saturating_sub(1));
        let together = self.hole_bytes - self.hole_bytes % len;
        let is_long = together > len && left >= together as u64;
        let bytes = if is_long { together } else { len };
        let times = (left / bytes as u64).min(ZERO_CHUNKS_MAX);
        if times == 0 {
            return Ok(Ok(0));
        }
        if let Err(error) = source.skip(times * bytes as u64) {
            return Ok(Err(error));
        }
        if is_long {
            self.zeroes.resize(together, 0);
            take(&self.zeroes, times)?;
        } else {
            take(&self.buffer[chunk], times)?;
        }
        Ok(Ok(times * bytes as u64))
    }
}

/// Fill some of `space`: with zeroes if so many come next, else by reading.
fn next(source: &mut dyn Source, zeroes: u64, space: &mut [u8]) -> io::Result<usize> {
    if zeroes == 0 {
        return source.read(space);
    }
    let count = zeroes.min(space.len() as u64) as usize;
    source.skip(count as u64)?;
    space[..count].fill(0);
    Ok(count)
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;
    use onefold_content::{ChunkSizes, FastCdc, FixedChunker, Rabin};

    use super::*;

    /// Gives bytes in pieces of odd sizes, and fails at the end if told to.
    struct Pieces<'a>(&'a [u8], SplitMix64, bool);

    impl Source for Pieces<'_> {
        fn zeroes(&mut self) -> u64 {
            0
        }

        fn skip(&mut self, _zeroes: u64) -> io::Result<()> {
            unreachable!("it knows of none")
        }
    }

    /// Knows its zeroes, and counts what is read.
    struct Holes<'a> {
        data: &'a [u8],
        /// Shorter runs are not known.
        least: usize,
        read: usize,
    }

    impl Read for Holes<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let zeroes = |at: usize| self.data[at..].iter().take_while(|&&byte| byte == 0).count();
            // Up to where zeroes come that are known.
            let data = (1..self.data.len())
                .find(|&at| self.data[at - 1] != 0 && zeroes(at) >= self.least)
                .unwrap_or(self.data.len());
            let count = data.min(buf.len());
            let (now, rest) = self.data.split_at(count);
            buf[..count].copy_from_slice(now);
            self.data = rest;
            self.read += count;
            Ok(count)
        }
    }

    impl Source for Holes<'_> {
        fn zeroes(&mut self) -> u64 {
            let zeroes = self.data.iter().take_while(|&&byte| byte == 0).count();
            if zeroes >= self.least { zeroes as u64 } else { 0 }
        }

        fn skip(&mut self, zeroes: u64) -> io::Result<()> {
            let (gone, rest) = self.data.split_at(zeroes as usize);
            assert!(gone.iter().all(|&byte| byte == 0));
            self.data = rest;
            Ok(())
        }
    }

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

    /// A stream that cuts everything alike.
    fn alike(chunker: Chunker, chunk_bytes_max: usize) -> ChunkStream {
        ChunkStream::new(chunker.clone(), chunker, chunk_bytes_max)
    }

    #[test]
    fn chunks_do_not_depend_on_how_the_source_comes() {
        let other = FastCdc::new(ChunkSizes::new(256, 1024, 8192).unwrap());
        let code = FastCdc::new(ChunkSizes::new(512, 2048, 8192).unwrap());
        let chunkers = [&other, &code].map(|chunker| Chunker::FastCdc(chunker.clone()));
        let [for_other, for_code] = chunkers;
        let mut stream = ChunkStream::new(for_other, for_code, 8192);
        let elf = &b"\x7FELF"[..];
        for (seed, len, begin) in [
            (1, 0, &b""[..]),
            (2, 1, b""),
            (3, 255, b""),
            (4, 700_000, b""),
            (5, 1_500_000, b""),
            (6, 600, &elf[..3]),
            (7, 700, elf),
            (8, 1023, elf),
            (9, 1024, elf),
            (10, 1_500_000, elf),
        ] {
            let mut data = SplitMix64::new(seed).bytes(len);
            data[..begin.len()].copy_from_slice(begin);
            let chunker = if begin == elf { &code } else { &other };
            let mut broken = Pieces(&data, SplitMix64::new(seed), true);
            assert!(stream.cut(&mut broken, |_, _| Ok::<_, ()>(())).unwrap().is_err());
            let mut lens = Vec::new();
            let mut joined = Vec::new();
            let mut pieces = Pieces(&data, SplitMix64::new(seed), false);
            let total = stream.cut(&mut pieces, |chunk, times| {
                assert_eq!(times, 1);
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

    #[test]
    fn an_archive_cuts_machine_code_as_such() {
        let settings = ArchiveSettings::default();
        let mut data = SplitMix64::new(3).bytes(300_000);
        for (begin, mut chunker) in
            [(b"text", settings.chunker()), (b"\x7FELF", settings.code_chunker())]
        {
            data[..4].copy_from_slice(begin);
            let (mut lens, mut expected) = (Vec::new(), Vec::new());
            chunker.push(&data, |cut| expected.push(cut.len));
            expected.extend(chunker.finish().map(|cut| cut.len));
            let total = ChunkStream::of(&settings).cut(&mut Unknown(&mut &data[..]), |chunk, _| {
                lens.push(chunk.len());
                Ok::<_, ()>(())
            });
            assert_eq!((total.unwrap().unwrap(), lens), (300_000, expected));
        }
    }

    /// The chunks of `data`, and the bytes that were read for them.
    fn chunks(stream: &mut ChunkStream, data: &[u8], least: usize) -> (Vec<usize>, Vec<u8>, usize) {
        let (mut lens, mut joined) = (Vec::new(), Vec::new());
        let mut source = Holes { data, least, read: 0 };
        let total = stream.cut(&mut source, |chunk, times| {
            for _ in 0..times {
                lens.push(chunk.len());
                joined.extend_from_slice(chunk);
            }
            Ok::<_, ()>(())
        });
        assert_eq!(total.unwrap().unwrap(), data.len() as u64);
        (lens, joined, source.read)
    }

    #[test]
    fn holes_are_cut_as_the_zeroes_that_they_are_and_not_read() {
        let sizes = ChunkSizes::new(256, 1024, 8192).unwrap();
        let chunkers = [
            Chunker::FastCdc(FastCdc::new(sizes)),
            Chunker::Rabin(Rabin::new(sizes)),
            Chunker::Fixed(FixedChunker::new(1000).unwrap()),
        ];
        for chunker in chunkers {
            let mut stream = alike(chunker, 8192);
            for seed in 0..40 {
                let mut random = SplitMix64::new(seed);
                let mut data = Vec::new();
                for _ in 0..random.below(6) {
                    let len = random.below(20_000) as usize;
                    data.extend(random.bytes(len).iter().map(|byte| byte | 1));
                    data.resize(data.len() + random.below(2_000_000) as usize, 0);
                }
                let bytes_not_zero = data.iter().filter(|&&byte| byte != 0).count();
                let read_in_full = chunks(&mut stream, &data, usize::MAX);
                assert!(read_in_full.1 == data && read_in_full.2 == data.len());
                let skipped = chunks(&mut stream, &data, 4096);
                assert_eq!(skipped.0, read_in_full.0, "seed {seed}");
                assert!(skipped.1 == data);
                assert!(skipped.2 <= bytes_not_zero + 6 * 4096, "{} read", skipped.2);
            }
        }
    }

    #[test]
    fn a_long_hole_is_handed_over_a_thousand_chunks_at_a_time() {
        let mut data = vec![7; 2500];
        data.resize(2500 + 3_000_500, 0);
        data.extend([7; 10]);
        let mut stream = alike(Chunker::Fixed(FixedChunker::new(1000).unwrap()), 1000);
        let mut source = Holes { data: &data, least: 4096, read: 0 };
        let mut calls: Vec<(usize, u64)> = Vec::new();
        let mut bytes_not_zero = 0;
        let total = stream.cut(&mut source, |chunk, times| {
            calls.push((chunk.len(), times));
            bytes_not_zero += chunk.iter().filter(|&&byte| byte != 0).count() as u64 * times;
            Ok::<_, ()>(())
        });
        // Of the hole its end is read, which is too short to be known.
        assert_eq!((total.unwrap().unwrap(), source.read), (3_003_010, 2510 + 68));
        // A read's worth of zeroes is cut one by one, then the last chunk comes as often as it can.
        let (alone, together): (Vec<_>, Vec<_>) = calls.iter().partition(|(_, times)| *times == 1);
        assert_eq!(together, [(1000, 1024), (1000, 1024), (1000, 166)]);
        assert_eq!((alone.len(), alone.last()), (790, Some(&(10, 1))));
        let chunks: u64 = calls.iter().map(|(_, times)| times).sum();
        assert_eq!((chunks, bytes_not_zero), (3004, 2510));
    }

    #[test]
    fn chunks_of_a_long_hole_are_put_together_and_what_is_behind_it_is_cut_as_before() {
        let sizes = ChunkSizes::new(256, 1024, 8192).unwrap();
        let mut data = SplitMix64::new(1).bytes(30_000);
        data.resize(30_000 + 7_000_000, 0);
        data.extend(SplitMix64::new(2).bytes(30_000));
        let mut stream = alike(Chunker::FastCdc(FastCdc::new(sizes)), 8192);
        let apart = chunks(&mut stream, &data, 4096);
        stream.hole_bytes = hole_bytes(8192, 200_000);
        assert_eq!(stream.hole_bytes, 98_304);
        let together = chunks(&mut stream, &data, 4096);
        assert!(together.1 == data && apart.1 == data);
        assert!(together.2 < 60_000 + 2 * 4096, "{} read", together.2);
        // Each end of one is an end of the others, and those that lack are within the hole.
        let ends = |lens: &[usize]| {
            let sums = lens.iter().scan(0, |end, len| {
                *end += len;
                Some(*end)
            });
            sums.collect::<Vec<usize>>()
        };
        let (apart, together) = (ends(&apart.0), ends(&together.0));
        let lack: Vec<_> = apart.iter().filter(|end| !together.contains(end)).collect();
        assert_eq!(apart.len() - lack.len(), together.len());
        assert!(lack.iter().all(|end| (30_000..7_030_000 - 98_304 / 12).contains(*end)));
        assert!(lack.len() > 700, "{} of {}", lack.len(), apart.len());
        assert_eq!((hole_bytes(65_536, 2 << 20), hole_bytes(65_536, 128 << 10)), (1 << 20, 65_536));
        assert_eq!(hole_bytes(8 << 20, 16 << 20), 0);
    }

    #[test]
    fn a_source_of_which_nothing_is_known_cannot_be_skipped_and_is_read_on_when_interrupted() {
        /// Is interrupted before each read.
        struct Nervous<'a>(&'a [u8], bool);
        impl Read for Nervous<'_> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.1 = !self.1;
                if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(buf) }
            }
        }
        let data = SplitMix64::new(3).bytes(5000);
        let mut nervous = Nervous(&data, false);
        let mut unknown = Unknown(&mut nervous);
        assert_eq!(unknown.zeroes(), 0);
        assert_eq!(unknown.skip(1).unwrap_err().kind(), io::ErrorKind::Unsupported);
        let mut stream = alike(Chunker::Fixed(FixedChunker::new(2000).unwrap()), 2000);
        let mut lens = Vec::new();
        let mut take = |chunk: &[u8], times| {
            lens.push((chunk.len(), times));
            Ok::<_, ()>(())
        };
        assert_eq!(stream.cut(&mut unknown, &mut take).unwrap().unwrap(), 5000);
        assert_eq!(lens, [(2000, 1), (2000, 1), (1000, 1)]);
        // Who takes chunks may end it, and the next source begins afresh.
        let refused = stream.cut(&mut Unknown(&mut data.as_slice()), |_, _| Err(7));
        assert_eq!(refused.unwrap_err(), 7);
        lens.clear();
        let mut take = |chunk: &[u8], times| {
            lens.push((chunk.len(), times));
            Ok::<_, ()>(())
        };
        stream.cut(&mut Unknown(&mut &data[..100]), &mut take).unwrap().unwrap();
        assert_eq!(lens, [(100, 1)]);
    }

    /// Tells of its zeroes some at a time: first of so many, then of so many.
    struct Steps<'a>(Holes<'a>, [u64; 2]);

    impl Read for Steps<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }

    impl Source for Steps<'_> {
        fn zeroes(&mut self) -> u64 {
            self.0.zeroes().min(self.1[0])
        }

        fn skip(&mut self, zeroes: u64) -> io::Result<()> {
            self.1[0] = self.1[1];
            self.0.skip(zeroes)
        }
    }

    #[test]
    fn a_chunk_comes_again_only_if_all_of_it_is_known_to_be_zeroes() {
        let chunker = || Chunker::Fixed(FixedChunker::new(1000).unwrap());
        let in_steps = |before: usize, zeroes: usize, steps: [u64; 2]| {
            let mut data = vec![7; before];
            data.resize(before + zeroes, 0);
            let mut source = Steps(Holes { data: &data, least: 1, read: 0 }, steps);
            let (mut joined, mut calls) = (Vec::new(), Vec::new());
            let total = alike(chunker(), 1000).cut(&mut source, |chunk, times| {
                calls.push((chunk.len(), times));
                (0..times).for_each(|_| joined.extend_from_slice(chunk));
                Ok::<_, ()>(())
            });
            assert_eq!(total.unwrap().unwrap(), data.len() as u64);
            assert!(joined == data && source.0.read == before);
            calls
        };
        let calls = |before, zeroes, step| in_steps(before, zeroes, [step; 2]);
        let (once, twice) = ((1000, 1), (1000, 2));
        // One read of a whole chunk is enough; a chunk that may be the last is looked at.
        assert_eq!(calls(0, 4000, 1000), [once; 4]);
        assert_eq!(calls(0, 4001, 2001), [once, once, once, (1000, 1), (1, 1)]);
        assert_eq!(calls(0, 6001, 3001), [once, once, once, twice, once, (1, 1)]);
        assert_eq!(calls(0, 6000, 3000), [once, once, once, twice, once]);
        // The byte before is no zero.
        assert_eq!(calls(1001, 4999, 999), [once; 6]);
        assert_eq!(in_steps(1001, 6999, [999, 6000]), [once; 8]);
        assert_eq!(in_steps(1000, 7000, [1000, 6000])[..3], [once, once, (1000, 5)]);
        assert_eq!(calls(1001, 6999, 3001)[..5], [once, once, once, once, (1000, 3)]);
    }
}
