//! What the array knows of each block, and how that is stored.
//! Room: onefold-flash.   In: 32 bytes.   Out: a block's history.
//! Layout: docs/ssd-format.md.

/// Bytes of a stored entry.
pub const ENTRY_BYTES: usize = 32;

const FLAGS: usize = 0;
const ERASES: usize = 4;
const READS: usize = ERASES + 4;
const FILLED_S: usize = READS + 8;
const CRC: usize = ENTRY_BYTES - 4;
const _: () = assert!(FILLED_S + 8 <= CRC);

/// Flag: the entry was written at least once.
const WRITTEN: u8 = 1;
/// Flag: the block takes neither program nor erase.
const BAD: u8 = 2;

/// One block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockEntry {
    /// Erases so far. Pages that say another count are left over from before an erase.
    pub erases: u32,
    /// Pages programmed since the last erase; not stored, the pages tell.
    pub programmed: u32,
    /// Of these, pages that were there when the array was opened: they may be torn.
    pub found: u32,
    /// Readings since the last erase.
    pub reads: u64,
    /// When its first page was programmed, in seconds of the array's clock.
    pub filled_s: u64,
    /// Whether it takes neither program nor erase.
    pub bad: bool,
    /// Whether it is erased, but its cells still have to be cleared.
    pub pending: bool,
}

impl BlockEntry {
    /// The bytes to store.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[FLAGS] = if self.bad { WRITTEN | BAD } else { WRITTEN };
        bytes[ERASES..READS].copy_from_slice(&self.erases.to_le_bytes());
        bytes[READS..FILLED_S].copy_from_slice(&self.reads.to_le_bytes());
        bytes[FILLED_S..FILLED_S + 8].copy_from_slice(&self.filled_s.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..CRC]);
        bytes[CRC..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// This entry, or its second copy if that has seen more.
    #[must_use]
    pub fn or_copy(self, copy: Self) -> Self {
        let newer = if copy.erases > self.erases { copy } else { self };
        Self { bad: self.bad || copy.bad, ..newer }
    }

    /// What is stored; zeroes are a block never erased, `None` is damage.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Some(Self::default());
        }
        let word = |at: usize| {
            let part: [u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(part))
        };
        let crc = u32::from_le_bytes(bytes.get(CRC..)?.try_into().ok()?);
        if crc32fast::hash(&bytes[..CRC]) != crc || bytes[FLAGS] & WRITTEN == 0 {
            return None;
        }
        Some(Self {
            erases: word(ERASES)? as u32,
            reads: word(READS)?,
            filled_s: word(FILLED_S)?,
            bad: bytes[FLAGS] & BAD != 0,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_damage_does_not() {
        let entry = BlockEntry {
            erases: 77,
            reads: 1 << 40,
            filled_s: 1_700_000_000,
            bad: true,
            ..BlockEntry::default()
        };
        let bytes = entry.encode();
        assert_eq!(BlockEntry::decode(&bytes), Some(entry));
        assert_eq!(BlockEntry::decode(&[0; ENTRY_BYTES]), Some(BlockEntry::default()));
        for bit in 0..ENTRY_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockEntry::decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn an_entry_with_the_right_checksum_that_nobody_wrote_is_none() {
        let mut bytes = BlockEntry { erases: 1, ..BlockEntry::default() }.encode();
        for (flags, expected) in [(0, None), (1, Some(false)), (2, None), (3, Some(true))] {
            bytes[FLAGS] = flags;
            let crc = crc32fast::hash(&bytes[..CRC]);
            bytes[CRC..].copy_from_slice(&crc.to_le_bytes());
            let found = BlockEntry::decode(&bytes).map(|entry| entry.bad);
            assert_eq!(found, expected, "flags {flags}");
        }
    }

    #[test]
    fn of_two_copies_the_one_that_saw_more_counts_and_bad_in_either_is_bad() {
        let entry = |erases, bad| BlockEntry { erases, bad, ..BlockEntry::default() };
        for (first, second, expected) in [
            (entry(5, false), entry(4, false), entry(5, false)),
            (entry(5, false), entry(6, false), entry(6, false)),
            (entry(5, true), entry(6, false), entry(6, true)),
            (entry(5, false), entry(4, true), entry(5, true)),
            (entry(5, true), entry(5, true), entry(5, true)),
        ] {
            assert_eq!(first.or_copy(second), expected, "{first:?} and {second:?}");
        }
        let read = BlockEntry { reads: 9, ..entry(5, false) };
        assert_eq!(read.or_copy(entry(5, false)), read, "the first of equal ones");
    }
}
