//! The disk inside a qcow2 image, read at any place.
//! Room: onefold-image.   In: a file.   Out: extents and bytes of the disk.
//! Source: docs/interop/qcow2.rst of QEMU, whose names are used here. Differs: nothing is written,
//! reference counts, snapshots and bitmaps are not looked at; a disk whose clusters lie in another
//! file (backing or data file) and encrypted ones are refused.
//! Invariants: (1) no input panics; each read of the file lies inside it and is at most a cluster
//! or a table of bounded size  (2) a place that the tables put outside of the file is an error,
//! never zeroes.
//! Cost: the L1 table (at most 32 MiB), one L2 table and one decompressed cluster in memory.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use flate2::{Decompress, FlushDecompress, Status};

use crate::detect::Format;
use crate::error::ImageError;

/// Bytes of the header of version 2.
const HEADER_V2_BYTES: usize = 72;
/// Bytes of a header that any version has at most, extensions aside.
const HEADER_BYTES_MAX: usize = 112;
/// Powers of two that a cluster may measure.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// Largest L1 table that QEMU opens.
const L1_BYTES_MAX: u64 = 32 << 20;
/// Longest name of a backing file.
const BACKING_NAME_BYTES_MAX: u32 = 1023;
/// Where L1 and L2 entries hold an offset in the file.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const READS_AS_ZERO: u64 = 1;
/// Pieces of a cluster with their own state, where the image has them.
const SUBCLUSTERS: u64 = 32;

/// What a range of the disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Stored in the image.
    Data(u64),
    /// Reads as zeroes and takes no space.
    Hole(u64),
}

impl Extent {
    /// Its length in bytes.
    pub const fn len(self) -> u64 {
        match self {
            Self::Data(len) | Self::Hole(len) => len,
        }
    }

    /// Whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Deflate,
    Zstd,
}

/// Where a subcluster or cluster of the disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Zero,
    At(u64),
    Compressed { offset: u64, len: usize },
}

/// An open image.
#[derive(Debug)]
pub struct Qcow2 {
    file: File,
    file_bytes: u64,
    cluster_bits: u32,
    size_bytes: u64,
    extended: bool,
    compression: Compression,
    l1: Vec<u64>,
    /// The table last looked at: its offset, and its entries.
    l2: Option<(u64, Vec<u8>)>,
    /// The compressed cluster last read: its offset, and its bytes.
    cluster: Option<(u64, Vec<u8>)>,
    stored: Vec<u8>,
}

fn damaged(what: impl Into<String>) -> ImageError {
    ImageError::Damaged(what.into())
}

/// The big-endian numbers of a header.
struct Header<'a>(&'a [u8]);

impl Header<'_> {
    /// What lies past the end is 0, as the format says of fields that a version lacks.
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let found = self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
        found.unwrap_or([0; N])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }
}

impl Qcow2 {
    /// Open the image in a file.
    pub fn open(file: File) -> Result<Self, ImageError> {
        let mut file = file;
        let file_bytes = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut head = Vec::new();
        (&file).take(HEADER_BYTES_MAX as u64).read_to_end(&mut head)?;
        let header = Header(&head);
        let format = Format::detect(&head);
        if format != Format::Qcow2 {
            return Err(ImageError::NotQcow2(format));
        }
        let version = header.u32(4);
        if !(2..=3).contains(&version) {
            return Err(ImageError::Feature(format!("version {version} of qcow2")));
        }
        if head.len() < HEADER_V2_BYTES {
            return Err(damaged("its header is cut off"));
        }
        let (backing_offset, backing_len) = (header.u64(8), header.u32(16));
        if backing_offset != 0 {
            return Err(ImageError::Backing(backing_name(&file, backing_offset, backing_len)));
        }
        if header.u32(32) != 0 {
            return Err(ImageError::Encrypted);
        }
        let cluster_bits = header.u32(20);
        if !CLUSTER_BITS.contains(&cluster_bits) {
            return Err(damaged(format!("clusters of 2^{cluster_bits} bytes")));
        }
        let size_bytes = header.u64(24);
        if i64::try_from(size_bytes).is_err() {
            return Err(damaged(format!("a disk of {size_bytes} bytes")));
        }
        let (extended, compression) = features(version, &header)?;
        let mut image = Self {
            file,
            file_bytes,
            cluster_bits,
            size_bytes,
            extended,
            compression,
            l1: Vec::new(),
            l2: None,
            cluster: None,
            stored: Vec::new(),
        };
        image.read_l1(u64::from(header.u32(36)), header.u64(40))?;
        Ok(image)
    }

    fn read_l1(&mut self, entries: u64, offset: u64) -> Result<(), ImageError> {
        let covered = u128::from(self.l2_entries()) << self.cluster_bits;
        let needed = u128::from(self.size_bytes).div_ceil(covered);
        // Less than 2^63 bytes in clusters of at least 2^9.
        let needed = needed as u64;
        if needed > entries {
            return Err(damaged(format!("its L1 table has {entries} entries of {needed}")));
        }
        if needed * 8 > L1_BYTES_MAX {
            return Err(ImageError::Feature(format!("an L1 table of {needed} entries")));
        }
        let mut bytes = vec![0; self.inside(offset, needed * 8, "its L1 table")?];
        self.file.read_exact_at(&mut bytes, offset)?;
        self.l1 = bytes.chunks_exact(8).map(|entry| Header(entry).u64(0)).collect();
        Ok(())
    }

    /// Size of the disk in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    fn l2_entry_bytes(&self) -> u64 {
        if self.extended { 16 } else { 8 }
    }

    fn l2_entries(&self) -> u64 {
        self.cluster_bytes() / self.l2_entry_bytes()
    }

    /// The length, if so much lies in the file.
    fn inside(&self, offset: u64, len: u64, what: &str) -> Result<usize, ImageError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.file_bytes => Ok(len as usize),
            _ => Err(damaged(format!(
                "{what} is said to lie at {offset}, but the file ends at {}",
                self.file_bytes
            ))),
        }
    }

    /// Where the subcluster, or cluster, at `at` lies, and how far from its start `at` is.
    fn place(&mut self, at: u64) -> Result<(Place, u64), ImageError> {
        let cluster = at >> self.cluster_bits;
        let (first, second) = (cluster / self.l2_entries(), cluster % self.l2_entries());
        let table = self.l1.get(first as usize).copied().unwrap_or(0) & OFFSET_MASK;
        if table == 0 {
            return Ok((Place::Zero, at & (self.cluster_bytes() - 1)));
        }
        self.read_l2(table)?;
        let entry = match &self.l2 {
            Some((_, bytes)) => {
                let start = (second * self.l2_entry_bytes()) as usize;
                Header(bytes.get(start..).unwrap_or_default()).bytes::<16>(0)
            }
            None => [0; 16],
        };
        // The last entry of a table of 8-byte entries has no 16 bytes behind it.
        let word = match &self.l2 {
            Some((_, bytes)) => Header(bytes).u64((second * self.l2_entry_bytes()) as usize),
            None => 0,
        };
        let bitmap = Header(&entry).u64(8);
        let within = at & (self.cluster_bytes() - 1);
        if word & COMPRESSED != 0 {
            return Ok((self.compressed(word)?, within));
        }
        let offset = word & OFFSET_MASK;
        if offset & (self.cluster_bytes() - 1) != 0 {
            return Err(damaged(format!("the cluster of byte {at} lies at {offset}, between two")));
        }
        if self.extended {
            let part = self.cluster_bytes() / SUBCLUSTERS;
            let (number, into) = (within / part, within % part);
            let (allocated, zero) = (bitmap >> number & 1, bitmap >> (32 + number) & 1);
            let place = match (allocated, zero) {
                (1, 0) if offset != 0 => Place::At(offset + number * part),
                (1, _) => return Err(damaged(format!("byte {at} is stored, and nowhere"))),
                _ => Place::Zero,
            };
            return Ok((place, into));
        }
        let place =
            if offset == 0 || word & READS_AS_ZERO != 0 { Place::Zero } else { Place::At(offset) };
        Ok((place, within))
    }

    fn read_l2(&mut self, offset: u64) -> Result<(), ImageError> {
        if self.l2.as_ref().is_some_and(|(at, _)| *at == offset) {
            return Ok(());
        }
        if offset & (self.cluster_bytes() - 1) != 0 {
            return Err(damaged(format!("an L2 table at {offset}, between two clusters")));
        }
        let len = self.inside(offset, self.cluster_bytes(), "an L2 table")?;
        let mut bytes = self.l2.take().map(|(_, bytes)| bytes).unwrap_or_default();
        bytes.resize(len, 0);
        self.file.read_exact_at(&mut bytes, offset)?;
        self.l2 = Some((offset, bytes));
        Ok(())
    }

    fn compressed(&self, word: u64) -> Result<Place, ImageError> {
        let offset_bits = 62 - (self.cluster_bits - 8);
        let offset = word & ((1 << offset_bits) - 1);
        let sectors = (word & (COMPRESSED - 1)) >> offset_bits;
        let len = (sectors + 1) * 512 - (offset & 511);
        // The last sector need not be there as a whole.
        let len = len.min(self.file_bytes.saturating_sub(offset));
        if len == 0 {
            return Err(damaged(format!(
                "a compressed cluster is said to lie at {offset}, but the file ends at {}",
                self.file_bytes
            )));
        }
        Ok(Place::Compressed { offset, len: len as usize })
    }

    /// Bytes from a place to the end of its subcluster or cluster.
    fn rest(&self, place: Place, within: u64) -> u64 {
        let compressed = matches!(place, Place::Compressed { .. });
        let parts = if self.extended && !compressed { SUBCLUSTERS } else { 1 };
        (self.cluster_bytes() / parts).saturating_sub(within)
    }

    /// What begins at `at`, and how far it goes, at most to `end`; neighbours of one kind are one
    /// extent. At the end of the disk it is an empty hole.
    pub fn extent(&mut self, at: u64, end: u64) -> Result<Extent, ImageError> {
        let end = end.min(self.size_bytes);
        let mut kind = None;
        let mut to = at;
        while to < end {
            let table = (to >> self.cluster_bits) / self.l2_entries();
            let (is_hole, rest) =
                if self.l1.get(table as usize).is_none_or(|l1| l1 & OFFSET_MASK == 0) {
                    // No table: all that it would cover, at once.
                    let covered = u128::from(self.l2_entries()) << self.cluster_bits;
                    let until = (u128::from(table) + 1) * covered;
                    (true, until.min(u128::from(end)) as u64 - to)
                } else {
                    let (place, within) = self.place(to)?;
                    (place == Place::Zero, self.rest(place, within))
                };
            if *kind.get_or_insert(is_hole) != is_hole {
                break;
            }
            to = to.saturating_add(rest).min(end);
        }
        let len = to.saturating_sub(at);
        Ok(if kind == Some(false) { Extent::Data(len) } else { Extent::Hole(len) })
    }

    /// Fill `buf` with what the disk holds from `at` on; all of it must lie on the disk.
    pub fn read_at(&mut self, at: u64, buf: &mut [u8]) -> Result<(), ImageError> {
        let (mut at, mut buf) = (at, buf);
        if at.checked_add(buf.len() as u64).is_none_or(|end| end > self.size_bytes) {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        while !buf.is_empty() {
            let (place, within) = self.place(at)?;
            let len = self.rest(place, within).min(buf.len() as u64) as usize;
            let (piece, rest) = buf.split_at_mut(len);
            match place {
                Place::Zero => piece.fill(0),
                Place::At(offset) => {
                    let from = offset.saturating_add(within);
                    self.inside(from, len as u64, &format!("byte {at}"))?;
                    self.file.read_exact_at(piece, from)?;
                }
                Place::Compressed { offset, len } => {
                    self.decompress(offset, len)?;
                    let (_, bytes) = self.cluster.as_ref().expect("it was just decompressed");
                    piece.copy_from_slice(&bytes[within as usize..][..piece.len()]);
                }
            }
            at += len as u64;
            buf = rest;
        }
        Ok(())
    }

    fn decompress(&mut self, offset: u64, len: usize) -> Result<(), ImageError> {
        if self.cluster.as_ref().is_some_and(|(at, _)| *at == offset) {
            return Ok(());
        }
        self.stored.resize(len, 0);
        self.file.read_exact_at(&mut self.stored, offset)?;
        let mut bytes = self.cluster.take().map(|(_, bytes)| bytes).unwrap_or_default();
        bytes.clear();
        bytes.resize(1 << self.cluster_bits, 0);
        if inflate(self.compression, &self.stored, &mut bytes) {
            self.cluster = Some((offset, bytes));
            return Ok(());
        }
        Err(damaged(format!("the compressed cluster at {offset} cannot be decompressed")))
    }
}

/// Decompress exactly one cluster; what follows in the last sector is not looked at.
fn inflate(compression: Compression, stored: &[u8], cluster: &mut [u8]) -> bool {
    match compression {
        Compression::Deflate => {
            let mut inflater = Decompress::new(false);
            let status = inflater.decompress(stored, cluster, FlushDecompress::Finish);
            // QEMU takes a full cluster for the end, whether the stream says so or not.
            matches!(status, Ok(Status::StreamEnd | Status::BufError | Status::Ok))
                && inflater.total_out() == cluster.len() as u64
        }
        Compression::Zstd => {
            let Ok(mut decoder) = zstd::Decoder::with_buffer(stored) else { return false };
            decoder.read_exact(cluster).is_ok()
        }
    }
}

/// The features that change how the image is read: subclusters, and the compression.
fn features(version: u32, header: &Header<'_>) -> Result<(bool, Compression), ImageError> {
    const DIRTY: u64 = 1;
    const CORRUPT: u64 = 1 << 1;
    const DATA_FILE: u64 = 1 << 2;
    const COMPRESSION_TYPE: u64 = 1 << 3;
    const EXTENDED_L2: u64 = 1 << 4;
    if version < 3 {
        return Ok((false, Compression::Deflate));
    }
    let features = header.u64(72);
    if features & CORRUPT != 0 {
        return Err(damaged("QEMU has marked it as corrupt; see qemu-img check"));
    }
    if features & DATA_FILE != 0 {
        return Err(ImageError::Feature("an external data file".to_owned()));
    }
    // Reference counts, which reading does without, may be old in a dirty image.
    let known = DIRTY | COMPRESSION_TYPE | EXTENDED_L2;
    if features & !known != 0 {
        return Err(ImageError::Feature(format!("features {:#x}", features & !known)));
    }
    let [kind] = if features & COMPRESSION_TYPE == 0 { [0] } else { header.bytes::<1>(104) };
    let compression = match kind {
        0 => Compression::Deflate,
        1 => Compression::Zstd,
        other => return Err(ImageError::Feature(format!("compression of type {other}"))),
    };
    Ok((features & EXTENDED_L2 != 0, compression))
}

fn backing_name(file: &File, offset: u64, len: u32) -> String {
    let mut name = vec![0; len.min(BACKING_NAME_BYTES_MAX) as usize];
    match file.read_exact_at(&mut name, offset) {
        Ok(()) => String::from_utf8_lossy(&name).into_owned(),
        Err(_) => "?".to_owned(),
    }
}
