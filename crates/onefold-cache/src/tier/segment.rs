//! What a segment looks like on the fast device: a header, extents, and a table of them.
//! Room: onefold-cache.
//! Each block of 4 KiB of an extent is followed by its checksum, which also covers whose block it
//! is, of which container, and in which turn of the log it was written: a block that was torn, went
//! astray or is of an older turn is told.
//! Invariant: bytes are handed out only if the checksum of their block is right.

use super::extent::{ALIGN, BLOCK_BYTES, Extent, SUM_BYTES};

/// Bytes before the first extent.
pub const HEADER_BYTES: u32 = 512;
/// Bytes of an extent in the table: container, start, length, place in the segment, stamp.
pub const TABLE_ENTRY_BYTES: u32 = 24;
const MAGIC: &[u8; 8] = b"1FEXTENT";
/// Bytes of the header that mean something, its checksum included.
const HEADER_USED: usize = 52;

/// What a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Number of the segment, in the order of all that were ever opened.
    pub sequence: u64,
    /// What the container is known by.
    pub stamp: u64,
}

fn checksum(extent: &Extent, seal: Seal, block: u32, data: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seal.sequence.to_le_bytes());
    hasher.update(&seal.stamp.to_le_bytes());
    hasher.update(&extent.container.to_le_bytes());
    hasher.update(&(extent.start + block * BLOCK_BYTES).to_le_bytes());
    hasher.update(&extent.len.to_le_bytes());
    hasher.update(data);
    hasher.finalize()
}

/// Append an extent to a segment that is being filled, at `offset` of it.
pub fn put(segment: &mut Vec<u8>, offset: u32, extent: &Extent, seal: Seal, data: &[u8]) {
    segment.resize(offset as usize, 0);
    for (block, bytes) in (0..).zip(data.chunks(BLOCK_BYTES as usize)) {
        segment.extend_from_slice(bytes);
        segment.extend_from_slice(&checksum(extent, seal, block, bytes).to_le_bytes());
    }
    segment.resize((offset + extent.flash_bytes()) as usize, 0);
}

/// The bytes of an extent on the device, from its first, that hold the blocks of `from..upto`.
pub fn blocks_of(extent: &Extent, from: u32, upto: u32) -> std::ops::Range<u32> {
    let stride = BLOCK_BYTES + SUM_BYTES;
    let (first, last) = (from / BLOCK_BYTES, (upto - 1) / BLOCK_BYTES);
    let end = extent.len.min((last + 1) * BLOCK_BYTES) + (last + 1) * SUM_BYTES;
    first * stride..end
}

/// Fill `out` from `from` of an extent. `blocks` are the bytes of [`blocks_of`]. `false`: they are
/// not what they should be.
pub fn take(extent: &Extent, seal: Seal, from: u32, blocks: &[u8], out: &mut [u8]) -> bool {
    let stride = (BLOCK_BYTES + SUM_BYTES) as usize;
    let first = from / BLOCK_BYTES;
    let mut skip = (from % BLOCK_BYTES) as usize;
    let mut done = 0;
    for (block, bytes) in (first..).zip(blocks.chunks(stride)) {
        let Some((data, sum)) = bytes.split_last_chunk::<4>() else { return false };
        if checksum(extent, seal, block, data) != u32::from_le_bytes(*sum) {
            return false;
        }
        let wanted = data.len().saturating_sub(skip).min(out.len() - done);
        out[done..done + wanted].copy_from_slice(&data[skip..skip + wanted]);
        done += wanted;
        skip = 0;
    }
    done == out.len()
}

/// An extent of a segment's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is of.
    pub extent: Extent,
    /// Its first byte in the segment.
    pub offset: u32,
    /// What its container was known by.
    pub stamp: u64,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the segment, in the order of all that were ever opened.
    pub sequence: u64,
    /// Bytes that a segment takes at most.
    pub segment_bytes: u32,
    /// Where the table begins.
    table: u32,
    /// Extents in it.
    count: u32,
}

impl Header {
    /// Where the table lies, its checksum included.
    pub const fn table(&self) -> std::ops::Range<u64> {
        let bytes = self.count as u64 * TABLE_ENTRY_BYTES as u64 + SUM_BYTES as u64;
        self.table as u64..self.table as u64 + bytes
    }
}

/// Put header and table around the extents of a segment.
pub fn finish(segment: &mut Vec<u8>, owner: &[u8; 16], shape: (u64, u32), entries: &[Entry]) {
    let (sequence, segment_bytes) = shape;
    let table = segment.len();
    for entry in entries {
        let Extent { container, start, len } = entry.extent;
        for value in [container, start, len, entry.offset] {
            segment.extend(value.to_le_bytes());
        }
        segment.extend(entry.stamp.to_le_bytes());
    }
    let sum = table_sum(&segment[table..], sequence);
    segment.extend(sum.to_le_bytes());
    let mut header = MAGIC.to_vec();
    header.extend(owner);
    header.extend(sequence.to_le_bytes());
    for value in [segment_bytes, table as u32, entries.len() as u32, 0] {
        header.extend(value.to_le_bytes());
    }
    header.extend(crc32fast::hash(&header).to_le_bytes());
    segment[..header.len()].copy_from_slice(&header);
}

fn table_sum(table: &[u8], sequence: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&sequence.to_le_bytes());
    hasher.update(table);
    hasher.finalize()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// The highest number of a segment: no device lasts so long, and what is written next has one, too.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;

/// The header of one of this owner's segments.
pub fn header(bytes: &[u8], owner: &[u8; 16]) -> Option<Header> {
    let body = bytes.get(..HEADER_USED)?;
    let (body, sum) = body.split_last_chunk::<4>()?;
    let ours = body.starts_with(MAGIC) && body[8..24] == owner[..];
    if !ours || crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let header = Header {
        sequence: number(body, 24),
        segment_bytes: word(body, 32),
        table: word(body, 36),
        count: word(body, 40),
    };
    let most = header.segment_bytes / TABLE_ENTRY_BYTES;
    let fits = header.count <= most && header.table().end <= header.segment_bytes.into();
    let is_numbered = (1..=SEQUENCE_MAX).contains(&header.sequence);
    (fits && header.table >= HEADER_BYTES && is_numbered).then_some(header)
}

/// The extents of a table, which lie inside of the segment and nowhere else; `None`: it is torn.
pub fn entries(bytes: &[u8], header: &Header) -> Option<Vec<Entry>> {
    let (table, sum) = bytes.split_last_chunk::<4>()?;
    if table_sum(table, header.sequence) != u32::from_le_bytes(*sum) {
        return None;
    }
    let entry = |bytes: &[u8]| {
        let [container, start, len, offset] = [0, 4, 8, 12].map(|at| word(bytes, at));
        Entry { extent: Extent { container, start, len }, offset, stamp: number(bytes, 16) }
    };
    let found = table.chunks_exact(TABLE_ENTRY_BYTES as usize).map(entry);
    let sound = |entry: &Entry| {
        let inside = |offset: u32| offset >= HEADER_BYTES && offset.is_multiple_of(ALIGN);
        entry.extent.is_valid()
            && inside(entry.offset)
            && entry
                .offset
                .checked_add(entry.extent.flash_bytes())
                .is_some_and(|end| end <= header.table)
    };
    Some(found.filter(sound).collect())
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    const OWNER: [u8; 16] = [7; 16];
    const SEAL: Seal = Seal { sequence: 5, stamp: 99 };

    fn extent() -> (Extent, Vec<u8>) {
        let extent = Extent { container: 3, start: 128, len: 4096 * 2 + 192 };
        (extent, SplitMix64::new(3).bytes(extent.len as usize))
    }

    #[test]
    fn any_part_of_an_extent_is_read_and_any_flipped_bit_is_noticed() {
        let (extent, data) = extent();
        let mut segment = vec![0; HEADER_BYTES as usize];
        put(&mut segment, 1024, &extent, SEAL, &data);
        assert_eq!(segment.len() as u32, 1024 + extent.flash_bytes());
        let stored = &segment[1024..];
        for (from, upto) in [(0, 1), (0, 8384), (4095, 4097), (8383, 8384), (5000, 8300)] {
            let range = blocks_of(&extent, from, upto);
            let blocks = &stored[range.start as usize..range.end as usize];
            let mut out = vec![0; (upto - from) as usize];
            assert!(take(&extent, SEAL, from, blocks, &mut out));
            assert!(out == data[from as usize..upto as usize], "{from}..{upto}");
            for bit in (0..blocks.len() * 8).step_by(13) {
                let mut damaged = blocks.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(!take(&extent, SEAL, from, &damaged, &mut out), "bit {bit}");
            }
            for other in [Seal { sequence: 4, ..SEAL }, Seal { stamp: 98, ..SEAL }] {
                assert!(!take(&extent, other, from, blocks, &mut out), "of another turn");
            }
            for other in [
                Extent { container: 4, ..extent },
                Extent { start: 64, ..extent },
                Extent { len: extent.len - 64, ..extent },
            ] {
                assert!(!take(&other, SEAL, from, blocks, &mut out), "of something else");
            }
            assert!(!take(&extent, SEAL, from, &blocks[..blocks.len() - 1], &mut out), "cut");
        }
    }

    #[test]
    fn a_table_is_read_and_any_flipped_bit_or_cut_is_noticed() {
        let (extent, data) = extent();
        let mut segment = vec![0; HEADER_BYTES as usize];
        put(&mut segment, HEADER_BYTES, &extent, SEAL, &data);
        let listed = vec![Entry { extent, offset: HEADER_BYTES, stamp: SEAL.stamp }; 3];
        finish(&mut segment, &OWNER, (5, 1 << 18), &listed);
        let found = header(&segment, &OWNER).unwrap();
        assert_eq!((found.sequence, found.segment_bytes), (5, 1 << 18));
        let table = found.table();
        let table = &segment[table.start as usize..table.end as usize];
        assert_eq!(table.as_ptr_range().end, segment.as_ptr_range().end, "nothing follows");
        assert_eq!(entries(table, &found), Some(listed));
        assert!(header(&segment, &[8; 16]).is_none(), "another owner's");
        for bit in 0..HEADER_USED * 8 {
            let mut damaged = segment.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(header(&damaged, &OWNER).is_none(), "bit {bit}");
        }
        for bit in 0..table.len() * 8 {
            let mut damaged = table.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(entries(&damaged, &found).is_none(), "bit {bit}");
        }
        for cut in 0..table.len() {
            assert!(entries(&table[..cut], &found).is_none(), "cut to {cut}");
        }
    }

    #[test]
    fn what_a_forged_table_says_lies_inside_of_the_segment() {
        let (extent, _) = extent();
        let mut segment = vec![0; 16384];
        let wrong = [
            (extent, 0),
            (extent, 100),
            (extent, 16384 - 512),
            (extent, u32::MAX - 511),
            (Extent { len: 0, ..extent }, 512),
            (Extent { start: 1, ..extent }, 512),
            (Extent { start: u32::MAX - 63, ..extent }, 512),
            (Extent { len: 1 << 20, ..extent }, 512),
        ];
        let listed: Vec<Entry> =
            wrong.map(|(extent, offset)| Entry { extent, offset, stamp: 0 }).to_vec();
        finish(&mut segment, &OWNER, (5, 1 << 18), &listed);
        let found = header(&segment, &OWNER).unwrap();
        let table = found.table();
        assert_eq!(entries(&segment[table.start as usize..], &found), Some(Vec::new()));
        // A count that no segment can have.
        finish(&mut segment, &OWNER, (5, 8192), &[]);
        assert!(header(&segment, &OWNER).is_none());
    }

    #[test]
    fn a_segment_lies_on_the_device_as_it_always_did() {
        let extent = Extent { container: 3, start: 128, len: 4096 + 64 };
        let data = vec![9; 4160];
        let mut segment = vec![0; HEADER_BYTES as usize];
        put(&mut segment, 512, &extent, SEAL, &data);
        assert_eq!(segment.len(), 512 + 4608);
        let sum = |block: u32, data: &[u8]| {
            let mut bytes = Vec::new();
            bytes.extend(5_u64.to_le_bytes());
            bytes.extend(99_u64.to_le_bytes());
            for word in [3, 128 + block * 4096, 4160_u32] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(data);
            crc32fast::hash(&bytes).to_le_bytes()
        };
        assert_eq!(segment[512 + 4096..][..4], sum(0, &data[..4096]));
        assert_eq!(segment[512 + 4100 + 64..][..4], sum(1, &data[..64]));
        assert!(segment[512 + 4168..].iter().all(|&byte| byte == 0));
        let listed = [Entry { extent, offset: 512, stamp: 99 }];
        finish(&mut segment, &OWNER, (5, 1 << 18), &listed);
        let words = |at: usize| -> Vec<u32> {
            let words = segment[at..].chunks_exact(4).map(|word| word.try_into().unwrap());
            words.map(u32::from_le_bytes).collect()
        };
        assert_eq!(words(5120)[..6], [3, 128, 4160, 512, 99, 0]);
        assert_eq!(segment.len(), 5120 + 24 + 4);
        assert_eq!(segment[..24], [&b"1FEXTENT"[..], &OWNER].concat());
        assert_eq!(words(24)[..6], [5, 0, 1 << 18, 5120, 1, 0]);
        assert_eq!(words(48)[0], crc32fast::hash(&segment[..48]));
    }

    #[test]
    fn a_header_counts_only_if_its_table_fits_and_its_segment_has_a_number() {
        let forged = |sequence: u64, segment_bytes: u32, table: u32, count: u32| {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(OWNER);
            bytes.extend(sequence.to_le_bytes());
            for word in [segment_bytes, table, count, 0] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
            header(&bytes, &OWNER).is_some()
        };
        assert!(forged(1, 10_000, 512, 3) && !forged(0, 10_000, 512, 3));
        let most = SEQUENCE_MAX;
        assert!(forged(most, 10_000, 512, 3) && !forged(most + 1, 10_000, 512, 3));
        assert!(!forged(1, 10_000, 511, 3));
        assert!(forged(1, 512 + 76, 512, 3) && !forged(1, 512 + 75, 512, 3));
        assert!(forged(1, 24_000, 512, 978) && !forged(1, 24_000, 512, 979));
        assert!(!forged(1, 24_000, 512, u32::MAX));
        // Of a table, those that end before it.
        let extent = Extent { container: 1, start: 0, len: 64 };
        for (offset, sound) in [(512, true), (1024, true), (1536, false), (0, false), (600, false)]
        {
            let mut segment = vec![0; 1536];
            finish(&mut segment, &OWNER, (1, 1 << 18), &[Entry { extent, offset, stamp: 7 }]);
            let found = header(&segment, &OWNER).unwrap();
            let table = found.table();
            let table = &segment[table.start as usize..table.end as usize];
            assert_eq!(entries(table, &found).unwrap().len(), usize::from(sound), "{offset}");
        }
    }

    #[test]
    fn blocks_are_those_that_the_bytes_lie_in() {
        let extent = Extent { container: 1, start: 0, len: 4096 * 2 + 64 };
        for (from, upto, range) in [
            (0, 1, 0..4100),
            (0, 4096, 0..4100),
            (0, 4097, 0..8200),
            (4095, 4096, 0..4100),
            (4096, 4097, 4100..8200),
            (8192, 8256, 8200..8268),
            (0, 8256, 0..8268),
        ] {
            assert_eq!(blocks_of(&extent, from, upto), range, "{from}..{upto}");
        }
    }
}
