//! The FTL's fields in a page's out-of-band area, with a checksum and a code of their own.
//! Room: onefold-flash.   In: `Oob` and what the array adds.   Out: 64 bytes, and back.
//! Invariants: a record is never all zeroes, which is what an erased page holds; a record that
//! decodes to other fields than were stored is reported, unless its CRC-32 collides.
//! Layout: docs/ssd-format.md.

use onefold_code::gf2::Poly;
use onefold_code::{Bch, Decoded};

use crate::nand::{Oob, PageKey};

/// Bytes of a record: 48 of fields, 16 of parity.
pub const RECORD_BYTES: usize = 64;

/// Set in the kind of a page whose content is lost.
const LOST: u8 = 0x80;
/// Set in the kind of a page that the scrambler has not touched on its way to the cells.
const PLAIN: u8 = 0x40;
/// Bytes of the fields.
const FIELDS: usize = 48;
/// Errors corrected in a record: 14 of 510 bits.
const T: usize = 14;
/// The field GF(2^9) of that code: x^9 + x^4 + 1.
const FIELD: u128 = 0x211;

const KIND: usize = 0;
const META_LEN: usize = KIND + 1;
const KEY: usize = META_LEN + 3;
const SEQ: usize = KEY + 4;
const SEED: usize = SEQ + 6;
const SCRAMBLER_SEED: usize = SEED + 6;
const TAG: usize = SCRAMBLER_SEED + 8;
const ERASES: usize = TAG + 8;
const PAGE_CRC: usize = ERASES + 4;
const CRC: usize = PAGE_CRC + 4;
const _: () = assert!(CRC + 4 == FIELDS);

/// Everything that is stored about a page beside its bytes and their parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the FTL says of the page.
    pub oob: Oob,
    /// Bytes of the FTL's own that the page holds, where it holds such.
    pub meta_len: u32,
    /// What the scrambler was loaded with.
    pub scrambler_seed: u64,
    /// Erases that the block had seen when the page was programmed; below 2^32.
    pub erases: u32,
    /// CRC-32 of the page as it is stored, scrambled.
    pub page_crc: u32,
    /// Whether the content could not be read any more when the page was moved here.
    pub lost: bool,
    /// Whether the cells hold plain data, because the host scrambled it ahead.
    pub plain: bool,
}

impl Record {
    /// Whether stored bytes without errors say that the cells hold plain data.
    pub(super) fn says_plain(stored: &[u8]) -> bool {
        stored.get(KIND).is_some_and(|kind| kind & PLAIN != 0)
    }
}

/// What 64 stored bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing was stored.
    Erased,
    /// A record.
    Record(Record),
    /// Neither: torn, or more bits are wrong than the code corrects.
    Unreadable,
}

impl Found {
    /// The record, if it is one.
    pub const fn record(self) -> Option<Record> {
        match self {
            Self::Record(record) => Some(record),
            Self::Erased | Self::Unreadable => None,
        }
    }
}

/// Writes and reads records.
#[derive(Clone, Debug)]
pub struct RecordCodec {
    bch: Bch,
}

impl Default for RecordCodec {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordCodec {
    /// The codec; its tables take a few KiB.
    pub fn new() -> Self {
        let field = Poly::from_bits(FIELD).expect("degree 9");
        let bch = Bch::new(field, T, FIELDS).expect("384 data and 126 parity bits fit in 511");
        assert_eq!(FIELDS + bch.parity_bytes(), RECORD_BYTES, "fields and parity fill a record");
        Self { bch }
    }

    /// The bytes of a record.
    pub fn encode(&self, record: &Record, out: &mut [u8; RECORD_BYTES]) {
        let (kind, number) = split(record.oob.key);
        assert!(record.oob.seq >> 48 == 0 && record.oob.seed >> 48 == 0, "sequence over 2^48");
        let (fields, parity) = out.split_at_mut(FIELDS);
        fields[KIND] =
            kind | if record.lost { LOST } else { 0 } | if record.plain { PLAIN } else { 0 };
        fields[META_LEN..KEY].copy_from_slice(&record.meta_len.to_le_bytes()[..3]);
        fields[KEY..SEQ].copy_from_slice(&number.to_le_bytes());
        fields[SEQ..SEED].copy_from_slice(&record.oob.seq.to_le_bytes()[..6]);
        fields[SEED..SCRAMBLER_SEED].copy_from_slice(&record.oob.seed.to_le_bytes()[..6]);
        fields[SCRAMBLER_SEED..TAG].copy_from_slice(&record.scrambler_seed.to_le_bytes());
        fields[TAG..ERASES].copy_from_slice(&record.oob.tag.to_le_bytes());
        fields[ERASES..PAGE_CRC].copy_from_slice(&record.erases.to_le_bytes());
        fields[PAGE_CRC..CRC].copy_from_slice(&record.page_crc.to_le_bytes());
        let crc = crc32fast::hash(&fields[..CRC]);
        fields[CRC..].copy_from_slice(&crc.to_le_bytes());
        self.bch.encode(fields, parity).expect("the lengths are those of the code");
    }

    /// The record in `bytes`, after correction.
    pub fn decode(&self, bytes: &[u8; RECORD_BYTES]) -> Found {
        if bytes.iter().all(|&byte| byte == 0) {
            return Found::Erased;
        }
        let mut bytes = *bytes;
        let (fields, parity) = bytes.split_at_mut(FIELDS);
        let said = self.bch.decode(fields, parity).expect("the lengths are those of the code");
        if said == Decoded::Failed {
            return Found::Unreadable;
        }
        parse(fields).map_or(Found::Unreadable, Found::Record)
    }
}

fn parse(fields: &[u8]) -> Option<Record> {
    let number = |range: std::ops::Range<usize>| {
        fields.get(range)?.iter().rev().try_fold(0, |sum: u64, &b| Some(sum << 8 | u64::from(b)))
    };
    let crc = number(CRC..FIELDS)?;
    if u64::from(crc32fast::hash(fields.get(..CRC)?)) != crc {
        return None;
    }
    let kind = *fields.first()?;
    let key = join(kind & !(LOST | PLAIN), number(KEY..SEQ)? as u32)?;
    let oob = Oob {
        key,
        seq: number(SEQ..SEED)?,
        seed: number(SEED..SCRAMBLER_SEED)?,
        tag: number(TAG..ERASES)?,
    };
    Some(Record {
        oob,
        meta_len: number(META_LEN..KEY)? as u32,
        scrambler_seed: number(SCRAMBLER_SEED..TAG)?,
        erases: number(ERASES..PAGE_CRC)? as u32,
        page_crc: number(PAGE_CRC..CRC)? as u32,
        lost: kind & LOST != 0,
        plain: kind & PLAIN != 0,
    })
}

/// Kind and number of a key; kinds begin at 1.
pub(super) const fn split(key: PageKey) -> (u8, u32) {
    match key {
        PageKey::Data(lpn) => (1, lpn),
        PageKey::Shared(vpn) => (2, vpn),
        PageKey::Map(index) => (3, index),
        PageKey::Journal(index) => (4, index),
        PageKey::Directory(index) => (5, index),
        PageKey::Root(index) => (6, index),
        PageKey::Kept(lpn) => (7, lpn),
        PageKey::Packed(count) => (8, count),
    }
}

pub(super) const fn join(kind: u8, number: u32) -> Option<PageKey> {
    Some(match kind {
        1 => PageKey::Data(number),
        2 => PageKey::Shared(number),
        3 => PageKey::Map(number),
        4 => PageKey::Journal(number),
        5 => PageKey::Directory(number),
        6 => PageKey::Root(number),
        7 => PageKey::Kept(number),
        8 => PageKey::Packed(number),
        _ => return None,
    })
}

/// The bit of a key's kind; data is one kind, shared or not.
pub(super) const fn kind_bit(key: PageKey) -> u8 {
    match key {
        PageKey::Data(_) | PageKey::Kept(_) | PageKey::Shared(_) | PageKey::Packed(_) => 1,
        PageKey::Map(_) => 1 << 1,
        PageKey::Journal(_) => 1 << 2,
        PageKey::Directory(_) => 1 << 3,
        PageKey::Root(_) => 1 << 4,
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    fn some(random: &mut SplitMix64) -> Record {
        let key = join(random.below(8) as u8 + 1, random.next_u64() as u32).expect("eight kinds");
        Record {
            oob: Oob {
                key,
                seq: random.next_u64() >> 16,
                seed: random.next_u64() >> 16,
                tag: random.next_u64(),
            },
            meta_len: random.below(1 << 24) as u32,
            scrambler_seed: random.next_u64(),
            erases: random.next_u64() as u32,
            page_crc: random.next_u64() as u32,
            lost: random.chance(1, 2),
            plain: random.chance(1, 2),
        }
    }

    #[test]
    fn records_come_back_with_up_to_fourteen_bits_wrong() {
        let codec = RecordCodec::new();
        let mut random = SplitMix64::new(5);
        for errors in 0..=T {
            let record = some(&mut random);
            let mut bytes = [0; RECORD_BYTES];
            codec.encode(&record, &mut bytes);
            let mut places: Vec<usize> = (0..510).collect();
            for at in 0..errors {
                let other = at + random.below((510 - at) as u64) as usize;
                places.swap(at, other);
                bytes[places[at] / 8] ^= 1 << (places[at] % 8);
            }
            assert_eq!(codec.decode(&bytes), Found::Record(record), "{errors} errors");
        }
    }

    /// What a decoder that goes to the wrong codeword hands over.
    #[test]
    fn a_codeword_of_other_fields_is_no_record() {
        let codec = RecordCodec::new();
        let mut right = [0; RECORD_BYTES];
        codec.encode(&some(&mut SplitMix64::new(7)), &mut right);
        for bit in 0..8 * FIELDS {
            let mut other = right;
            let (fields, parity) = other.split_at_mut(FIELDS);
            fields[bit / 8] ^= 1 << (bit % 8);
            codec.bch.encode(fields, parity).expect("the lengths are those of the code");
            assert_eq!(codec.decode(&other), Found::Unreadable, "bit {bit}");
        }
    }

    #[test]
    fn noise_is_no_record_and_zeroes_are_an_erased_page() {
        let codec = RecordCodec::new();
        assert_eq!(codec.decode(&[0; RECORD_BYTES]), Found::Erased);
        assert_eq!(codec.decode(&[0xff; RECORD_BYTES]), Found::Unreadable);
        let mut random = SplitMix64::new(6);
        for _ in 0..1000 {
            let mut noise = [0; RECORD_BYTES];
            random.fill(&mut noise);
            assert_eq!(codec.decode(&noise), Found::Unreadable);
        }
        // A sector of a torn write: one half new, the other still erased.
        let mut torn = [0; RECORD_BYTES];
        codec.encode(&some(&mut random), &mut torn);
        torn[32..].fill(0);
        assert_eq!(codec.decode(&torn), Found::Unreadable);
    }
}
