//! A file whose bytes are compressed in pages, and read from any place.
//! Room: onefold-archive.
//! It begins with some bytes as they are, which whoever finds the file alone can make sense of;
//! then pages; then the table of them and a footer. Positions are those of the bytes before they
//! were compressed.
//! Invariants: (1) a page that is damaged takes along what lies in it and nothing else  (2) memory
//! grows with what was decoded, not with what a damaged file claims to hold.
//! Cost: 12 bytes of memory a page, and the pages read last.

use std::sync::{Arc, Mutex, PoisonError};

use onefold_block::Media;
use onefold_block::bytes::{Reader, Writer};
use onefold_content::{Codec, Compression, Compressor, Decompressor};

use crate::cache::Cache;
use crate::error::ArchiveError;
use crate::format::bytes::{checked, checksum};

/// Bytes of a page, at about which its writer begins the next.
pub const PAGE_BYTES: usize = 64 << 10;
/// Bytes that a page has at most.
const PAGE_BYTES_MAX: usize = 256 << 10;
/// Times its stored bytes that a page has at most; what would shrink more is stored as it is.
const SHRINK_MAX: usize = 1024;
/// Bytes of decoded pages that are kept of an open file.
const KEPT_BYTES: u64 = 2 << 20;
/// Bytes of the table for each page.
const ROW_BYTES: usize = 12;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 28;
const MAGIC: &[u8; 8] = b"OFPACKED";
/// Bits of the field that holds stored length and codec which are the length's.
const STORED_BITS: u32 = 30;

/// Writes such a file.
pub struct PackedWriter {
    media: Arc<dyn Media>,
    compressor: Compressor,
    /// Bytes in the file so far.
    file_bytes: u64,
    table: Writer,
    pages: u32,
    out: Vec<u8>,
}

impl PackedWriter {
    /// Begin a file with `plain`, which is not compressed; all else is by `compression`.
    pub fn create(
        media: Arc<dyn Media>,
        compression: Compression,
        plain: &[u8],
    ) -> Result<Self, ArchiveError> {
        media.write(0, plain)?;
        Ok(Self {
            media,
            compressor: Compressor::new(compression),
            file_bytes: plain.len() as u64,
            table: Writer::default(),
            pages: 0,
            out: Vec::new(),
        })
    }

    /// Add bytes, which end a page.
    pub fn write(&mut self, data: &[u8]) -> Result<(), ArchiveError> {
        for page in data.chunks(PAGE_BYTES_MAX) {
            self.out.clear();
            let least = page.len() / SHRINK_MAX;
            let mut codec = self.compressor.compress_into(page, &mut self.out, page.len() - 1);
            if codec == Codec::Raw || self.out.len() <= least {
                codec = Codec::Raw;
                self.out.clear();
                self.out.extend_from_slice(page);
            }
            self.media.write(self.file_bytes, &self.out)?;
            self.file_bytes += self.out.len() as u64;
            self.table.u32(page.len() as u32);
            self.table.u32(self.out.len() as u32 | u32::from(codec.id()) << STORED_BITS);
            self.table.u32(crc32fast::hash(&self.out));
            self.pages += 1;
        }
        Ok(())
    }

    /// Write the table, and make the file durable. Answers its length.
    pub fn finish(&mut self) -> Result<u64, ArchiveError> {
        let mut end = Writer(std::mem::take(&mut self.table.0));
        let sum = crc32fast::hash(&end.0);
        let mut footer = Writer::default();
        footer.bytes(MAGIC);
        footer.u64(self.file_bytes);
        footer.u32(self.pages);
        footer.u32(sum);
        checksum(&mut footer);
        end.bytes(&footer.0);
        self.media.write(self.file_bytes, &end.0)?;
        self.file_bytes += end.0.len() as u64;
        self.media.sync()?;
        Ok(self.file_bytes)
    }
}

/// Where a page is.
#[derive(Clone, Copy)]
struct Page {
    /// Its first byte, and the one behind its last.
    begin: u64,
    end: u64,
    /// Its first stored byte in the file, and how many there are.
    at: u64,
    stored: u32,
    codec: Codec,
    checksum: u32,
}

/// Reads such a file.
pub struct PackedFile {
    media: Arc<dyn Media>,
    name: String,
    file_bytes: u64,
    plain_bytes: u64,
    pages: Vec<Page>,
    kept: Mutex<Cache<usize, Arc<Vec<u8>>>>,
}

impl PackedFile {
    /// Open the file `name`, of which `plain_bytes` are not compressed.
    pub fn open(
        media: Arc<dyn Media>,
        name: &str,
        plain_bytes: usize,
    ) -> Result<Self, ArchiveError> {
        let file_bytes = media.len()?;
        let plain_bytes = plain_bytes as u64;
        let footer_at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let corrupt = |problem: &str| ArchiveError::corrupt(name, footer_at, problem);
        if file_bytes < plain_bytes + FOOTER_BYTES as u64 {
            return Err(corrupt("it is too short"));
        }
        let mut footer = [0; FOOTER_BYTES];
        media.read(footer_at, &mut footer)?;
        let mut reader = checked(&footer).ok_or_else(|| corrupt("its end is damaged"))?;
        let fields = (|| {
            let magic: [u8; 8] = reader.array()?;
            Some((magic, reader.u64()?, reader.u32()?, reader.u32()?))
        })();
        let (table_at, count, sum) = match fields {
            Some((magic, table_at, count, sum)) if magic == *MAGIC => (table_at, count, sum),
            _ => return Err(corrupt("it does not end like a version")),
        };
        let table_bytes = u64::from(count) * ROW_BYTES as u64;
        if table_at < plain_bytes || table_at.checked_add(table_bytes) != Some(footer_at) {
            return Err(corrupt("its end does not fit its length"));
        }
        let mut table = vec![0; table_bytes as usize];
        media.read(table_at, &mut table)?;
        if crc32fast::hash(&table) != sum {
            return Err(corrupt("its table of pages is damaged"));
        }
        let pages = decode_table(&table, plain_bytes, table_at)
            .ok_or_else(|| corrupt("its table of pages has no meaning"))?;
        let kept = Mutex::new(Cache::new(KEPT_BYTES));
        Ok(Self { media, name: name.to_owned(), file_bytes, plain_bytes, pages, kept })
    }

    /// Bytes of the file.
    pub const fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes before they were compressed.
    pub fn len(&self) -> u64 {
        self.pages.last().map_or(self.plain_bytes, |page| page.end)
    }

    /// `len` bytes from `at`.
    pub fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, ArchiveError> {
        let mut out = Vec::new();
        self.read_into(at, len, &mut out)?;
        Ok(out)
    }

    /// Put `len` bytes from `at` in the place of what `out` holds.
    pub fn read_into(&self, at: u64, len: usize, out: &mut Vec<u8>) -> Result<(), ArchiveError> {
        out.clear();
        let end = at.checked_add(len as u64).filter(|&end| end <= self.len());
        let end =
            end.ok_or_else(|| ArchiveError::corrupt(&self.name, at, "it ends before that"))?;
        let mut at = at;
        if at < self.plain_bytes {
            out.resize((end.min(self.plain_bytes) - at) as usize, 0);
            self.media.read(at, out)?;
            at += out.len() as u64;
        }
        while at < end {
            let index = self.pages.partition_point(|page| page.end <= at);
            let page = self.pages[index];
            let data = self.page(index)?;
            let to = end.min(page.end);
            out.extend_from_slice(&data[(at - page.begin) as usize..(to - page.begin) as usize]);
            at = to;
        }
        Ok(())
    }

    /// The bytes of a page.
    fn page(&self, index: usize) -> Result<Arc<Vec<u8>>, ArchiveError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(data) = kept().get(&index) {
            return Ok(data);
        }
        let page = self.pages[index];
        let corrupt = |problem: String| ArchiveError::corrupt(&self.name, page.begin, problem);
        let mut stored = vec![0; page.stored as usize];
        self.media.read(page.at, &mut stored)?;
        if crc32fast::hash(&stored) != page.checksum {
            return Err(corrupt("a page of it is damaged".to_owned()));
        }
        let mut data = vec![0; (page.end - page.begin) as usize];
        Decompressor::new()
            .decompress_into(page.codec, &stored, &mut data)
            .map_err(|error| corrupt(error.to_string()))?;
        let data = Arc::new(data);
        kept().put(index, Arc::clone(&data), data.len() as u64);
        Ok(data)
    }
}

fn decode_table(bytes: &[u8], plain_bytes: u64, table_at: u64) -> Option<Vec<Page>> {
    let mut reader = Reader::new(bytes);
    let (mut begin, mut at) = (plain_bytes, plain_bytes);
    let mut pages = Vec::with_capacity(bytes.len() / ROW_BYTES);
    for _ in 0..bytes.len() / ROW_BYTES {
        let (len, packed, checksum) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let codec = Codec::from_id((packed >> STORED_BITS) as u8)?;
        let stored = packed & ((1 << STORED_BITS) - 1);
        let most = (stored as usize).saturating_mul(SHRINK_MAX).min(PAGE_BYTES_MAX);
        if len == 0 || len as usize > most {
            return None;
        }
        let end = begin + u64::from(len);
        pages.push(Page { begin, end, at, stored, codec, checksum });
        (begin, at) = (end, at + u64::from(stored));
    }
    (at == table_at).then_some(pages)
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder as _, SimFolder, SplitMix64};

    use super::*;

    fn some_bytes() -> Vec<u8> {
        let mut random = SplitMix64::new(3);
        let mut bytes = Vec::new();
        while bytes.len() < 200_000 {
            bytes.extend(random.bytes(20));
            bytes.extend([7; 60]);
        }
        bytes.extend(vec![0; 100_000]);
        bytes
    }

    fn written(compression: Compression, pieces: &[usize]) -> (SimFolder, Vec<u8>, u64) {
        let folder = SimFolder::new();
        let bytes = some_bytes();
        let media = folder.create("file").unwrap();
        let mut writer = PackedWriter::create(media, compression, &bytes[..100]).unwrap();
        let mut at = 100;
        for piece in pieces.iter().cycle() {
            let end = (at + piece).min(bytes.len());
            writer.write(&bytes[at..end]).unwrap();
            at = end;
            if at == bytes.len() {
                break;
            }
        }
        let len = writer.finish().unwrap();
        (folder, bytes, len)
    }

    fn open(folder: &SimFolder) -> Result<PackedFile, ArchiveError> {
        PackedFile::open(folder.open("file").unwrap(), "file", 100)
    }

    #[test]
    fn any_bytes_come_back_and_take_less_room() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
            let (folder, bytes, len) = written(compression, &[PAGE_BYTES, 1, 300_000, 5000]);
            let file = open(&folder).unwrap();
            assert_eq!((file.len(), file.file_bytes()), (bytes.len() as u64, len));
            assert_eq!(len < bytes.len() as u64 / 2, compression != Compression::None);
            let mut random = SplitMix64::new(8);
            for _ in 0..300 {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                let most = bytes.len() - at;
                let len = (random.below(90_000) as usize).min(most);
                assert!(file.read(at as u64, len).unwrap() == bytes[at..at + len]);
                assert!(file.read(at as u64, most + 1).unwrap_err().is_corruption());
            }
            assert!(file.read(0, 200).unwrap() == bytes[..200]);
            assert!(file.read(u64::MAX, 2).unwrap_err().is_corruption());
        }
    }

    #[test]
    fn damage_takes_along_its_page_and_is_never_read_as_data() {
        let (folder, bytes, len) = written(Compression::Zstd(3), &[PAGE_BYTES]);
        let (mut ends, mut pages) = (0, 0);
        // Behind what is not compressed, which says itself whether it is right.
        for at in (100..len - 300).step_by(101).chain(len - 300..len) {
            folder.flip_bit("file", at, 5).unwrap();
            match open(&folder) {
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    ends += 1;
                }
                Ok(file) => {
                    let bad = (100..bytes.len()).step_by(PAGE_BYTES).filter(|&at| {
                        match file.read(at as u64, 1) {
                            Ok(found) => {
                                assert_eq!(found, [bytes[at]]);
                                false
                            }
                            Err(error) => error.is_corruption(),
                        }
                    });
                    assert_eq!(bad.count(), 1, "byte {at}");
                    pages += 1;
                }
            }
            folder.flip_bit("file", at, 5).unwrap();
        }
        assert!(ends > 50 && pages > 200, "{ends} {pages}");
    }

    #[test]
    fn a_table_that_claims_more_than_there_can_be_is_refused() {
        let mut row = Writer::default();
        row.u32(PAGE_BYTES_MAX as u32);
        row.u32(10 + (2 << STORED_BITS));
        row.u32(0);
        assert!(decode_table(&row.0, 100, 110).is_none(), "ten bytes hold no page of that size");
        row.0[4..8].copy_from_slice(&(300_u32 + (2 << STORED_BITS)).to_le_bytes());
        assert!(decode_table(&row.0, 100, 400).is_some());
        assert!(decode_table(&row.0, 100, 401).is_none(), "pages end where the table begins");
    }

    /// Counts the reads of a file.
    struct Counted(Arc<dyn Media>, std::sync::atomic::AtomicU32);

    impl Media for Counted {
        fn len(&self) -> Result<u64, onefold_block::MediaError> {
            self.0.len()
        }
        fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), onefold_block::MediaError> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.read(offset, buf)
        }
        fn write(&self, offset: u64, data: &[u8]) -> Result<(), onefold_block::MediaError> {
            self.0.write(offset, data)
        }
        fn set_len(&self, len: u64) -> Result<(), onefold_block::MediaError> {
            self.0.set_len(len)
        }
        fn sync(&self) -> Result<(), onefold_block::MediaError> {
            self.0.sync()
        }
        fn reserve(&self, offset: u64, len: u64) -> Result<(), onefold_block::MediaError> {
            self.0.reserve(offset, len)
        }
        fn next_data(&self, offset: u64) -> Result<Option<u64>, onefold_block::MediaError> {
            self.0.next_data(offset)
        }
        fn allocated_bytes(&self) -> Result<u64, onefold_block::MediaError> {
            self.0.allocated_bytes()
        }
    }

    #[test]
    fn pages_are_read_once_while_there_is_room_and_no_more_of_them_than_is_needed() {
        let (folder, bytes, _) = written(Compression::Zstd(3), &[PAGE_BYTES]);
        let counted = Arc::new(Counted(folder.open("file").unwrap(), 0.into()));
        let media: Arc<dyn Media> = Arc::clone(&counted) as Arc<dyn Media>;
        let file = PackedFile::open(media, "file", 100).unwrap();
        let reads = |from: usize, len: usize| {
            let before = counted.1.load(std::sync::atomic::Ordering::Relaxed);
            assert!(file.read(from as u64, len).unwrap() == bytes[from..from + len]);
            counted.1.load(std::sync::atomic::Ordering::Relaxed) - before
        };
        assert_eq!(reads(0, 100), 1);
        assert_eq!(reads(90, 10), 1);
        assert_eq!(reads(100, PAGE_BYTES), 1);
        assert_eq!(reads(100, PAGE_BYTES), 0);
        assert_eq!(reads(100 + PAGE_BYTES, 1), 1);
        assert_eq!(reads(99, 2), 1);
        assert_eq!(reads(100 + 2 * PAGE_BYTES - 1, 2), 1);
        assert_eq!(reads(300, 0), 0);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named_with_its_place() {
        let folder = SimFolder::new();
        let media = folder.create("file").unwrap();
        let mut writer = PackedWriter::create(media, Compression::None, &[9; 100]).unwrap();
        assert_eq!(writer.finish().unwrap(), 128);
        let file = open(&folder).unwrap();
        assert_eq!((file.len(), file.file_bytes()), (100, 128));
        assert_eq!(file.read(40, 60).unwrap(), [9; 60]);
        let past = file.read(40, 61).unwrap_err().to_string();
        assert_eq!(past, "corrupt file at byte 40: it ends before that");
        let said = || open(&folder).err().unwrap().to_string();
        let media = folder.open("file").unwrap();
        let mut end = vec![0; 28];
        media.read(100, &mut end).unwrap();
        let put = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = end[..24].to_vec();
            change(&mut changed);
            changed.extend(crc32fast::hash(&changed).to_le_bytes());
            media.write(100, &changed).unwrap();
        };
        assert_eq!(end[..20], *b"OFPACKED\x64\0\0\0\0\0\0\0\0\0\0\0");
        put(&|end| end[0] = b'o');
        assert_eq!(said(), "corrupt file at byte 100: it does not end like a version");
        for at in [99, 101] {
            put(&|end| end[8] = at);
            assert_eq!(said(), "corrupt file at byte 100: its end does not fit its length");
        }
        put(&|end| end[20] ^= 1);
        assert_eq!(said(), "corrupt file at byte 100: its table of pages is damaged");
        put(&|end| end[8..16].fill(0xff));
        assert_eq!(said(), "corrupt file at byte 100: its end does not fit its length");
        put(&|_| {});
        assert!(open(&folder).is_ok());
        folder.flip_bit("file", 105, 0).unwrap();
        assert_eq!(said(), "corrupt file at byte 100: its end is damaged");
        folder.truncate("file", 127).unwrap();
        assert_eq!(said(), "corrupt file at byte 99: it is too short");
        // A page that is damaged, by its place before compression.
        let (folder, _, _) = written(Compression::Zstd(3), &[PAGE_BYTES]);
        folder.flip_bit("file", 100, 0).unwrap();
        let error = open(&folder).unwrap().read(200, 1).unwrap_err().to_string();
        assert_eq!(error, "corrupt file at byte 100: a page of it is damaged");
        assert!(open(&folder).unwrap().read(100 + PAGE_BYTES as u64, 1).is_ok());
    }

    #[test]
    fn rows_that_no_writer_makes_are_refused() {
        let row = |len: u32, stored: u32, codec: u32| {
            let mut row = Writer::default();
            for field in [len, stored | codec << STORED_BITS, 0] {
                row.u32(field);
            }
            row.0
        };
        let decoded = |row: &[u8], stored: u64| decode_table(row, 100, 100 + stored);
        assert!(decoded(&row(1024, 1, 2), 1).is_some());
        assert!(decoded(&row(1025, 1, 2), 1).is_none());
        assert!(decoded(&row(0, 1, 2), 1).is_none());
        assert!(decoded(&row(1, 0, 2), 0).is_none());
        assert!(decoded(&row(PAGE_BYTES_MAX as u32, 256, 2), 256).is_some());
        assert!(decoded(&row(PAGE_BYTES_MAX as u32 + 1, 257, 2), 257).is_none());
        assert!(decoded(&row(5, 5, 3), 5).is_none(), "no codec");
        let pages = decoded(&[row(10, 4, 0), row(6, 5, 1)].concat(), 9).unwrap();
        let places: Vec<_> = pages.iter().map(|p| (p.begin, p.end, p.at, p.stored)).collect();
        assert_eq!(places, [(100, 110, 100, 4), (110, 116, 104, 5)]);
        assert_eq!((pages[0].codec, pages[1].codec), (Codec::Raw, Codec::Lz4));
    }

    #[test]
    fn pages_are_stored_as_they_are_where_compressing_saves_too_little_or_too_much() {
        let random = SplitMix64::new(5).bytes(200);
        let (mut seen, mut ratios) = (Vec::new(), Vec::new());
        let mut check = |compression, data: &[u8]| {
            let mut out = Vec::new();
            Compressor::new(compression).compress_into(data, &mut out, data.len() + 500);
            let folder = SimFolder::new();
            let media = folder.create("file").unwrap();
            let mut writer = PackedWriter::create(media, compression, &[0; 100]).unwrap();
            writer.write(data).unwrap();
            writer.finish().unwrap();
            let page = open(&folder).unwrap().pages[0];
            let raw = out.len() >= data.len() || out.len() <= data.len() / 1024;
            assert_eq!(page.codec == Codec::Raw, raw, "{} of {}", out.len(), data.len());
            assert_eq!(page.stored as usize, if raw { data.len() } else { out.len() });
            seen.push(data.len() as i64 - out.len() as i64);
            ratios.push((out.len() as i64) - (data.len() / 1024) as i64);
        };
        for again in 0..40 {
            let data = [&random[..60], &random[..again], &random[60..100]].concat();
            check(Compression::Lz4, &data);
        }
        for noise in 0..100 {
            let mut data = vec![0; 65_600];
            data[..noise].copy_from_slice(&random[..noise]);
            check(Compression::Zstd(3), &data);
        }
        assert!(seen.contains(&0) && seen.contains(&1) && seen.contains(&-1), "{seen:?}");
        assert!(ratios.contains(&0) && ratios.contains(&1), "{ratios:?}");
    }
}
