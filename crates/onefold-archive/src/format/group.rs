//! Groups: chunks that lie side by side, compressed together.
//! Room: onefold-archive.
//! The content of a container is all its chunks one behind the other. It is stored in groups, each
//! behind a header of its own and once more in a table at the container's end, so that one that is
//! damaged does not take along what the other tells of.
//! Invariant: a table that was decoded is without gaps, and lies within its container.

use onefold_block::ContainerId;
use onefold_block::bytes::{Reader, Writer};
use onefold_content::Codec;

use super::bytes::{checked, checksum};
use super::container::HEADER_BYTES;

/// Bytes of content that are compressed together, unless one chunk has more. Whoever wants one
/// chunk reads all of its group and decodes it up to there; damage may take the chunks beside it
/// along.
pub const GROUP_BYTES: usize = 256 << 10;
/// The same for machine code of large files, which takes 6 % less for it and is mostly wanted as a
/// whole.
pub const CODE_GROUP_BYTES: usize = 2 << 20;
/// Bytes before the stored bytes of a group.
pub const GROUP_HEADER_BYTES: usize = 20;
/// Bytes of the table for each group.
pub const GROUP_ROW_BYTES: usize = 8;
/// Bits of the field that holds stored length and codec which are the length's.
const STORED_BITS: u32 = 30;

/// Whether a group of so many bytes need not be put together with others: smaller ones compress
/// less.
pub fn is_large(len: usize) -> bool {
    len >= GROUP_BYTES / 2
}

/// Where a group lies, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its first byte in the container's content.
    pub begin: u32,
    /// Its bytes there.
    pub len: u32,
    /// Its first stored byte in the container, behind its header.
    pub at: u32,
    /// Its stored bytes.
    pub stored: u32,
    /// How these are encoded.
    pub codec: Codec,
}

impl Group {
    /// Bytes of the group that takes some of its chunks.
    pub const fn bytes_max(&self) -> usize {
        if self.len as usize > GROUP_BYTES { CODE_GROUP_BYTES } else { GROUP_BYTES }
    }

    /// Its stored bytes' place in the container.
    pub fn place(&self) -> std::ops::Range<u64> {
        let at = u64::from(self.at);
        at..at + u64::from(self.stored)
    }

    /// The bytes that stand before it.
    pub fn header(&self, id: ContainerId) -> [u8; GROUP_HEADER_BYTES] {
        let mut out = Writer::default();
        out.u32(id.get());
        out.u32(self.begin);
        out.u32(self.len);
        out.u32(pack(self.stored, self.codec));
        checksum(&mut out);
        let mut header = [0; GROUP_HEADER_BYTES];
        header.copy_from_slice(&out.0);
        header
    }

    /// The group of container `id` whose header is `bytes` and whose stored bytes begin at `at`.
    pub fn from_header(bytes: &[u8], id: ContainerId, at: u32) -> Option<Self> {
        let mut reader = checked(bytes)?;
        let (number, begin, len) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (stored, codec) = unpack(reader.u32()?)?;
        let fits = begin.checked_add(len).is_some() && at.checked_add(stored).is_some();
        (number == id.get() && fits).then_some(Self { begin, len, at, stored, codec })
    }
}

fn pack(stored: u32, codec: Codec) -> u32 {
    stored | u32::from(codec.id()) << STORED_BITS
}

fn unpack(field: u32) -> Option<(u32, Codec)> {
    let codec = Codec::from_id((field >> STORED_BITS) as u8)?;
    Some((field & ((1 << STORED_BITS) - 1), codec))
}

/// The groups of a container, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTable {
    groups: Vec<Group>,
}

impl GroupTable {
    /// Put a group behind the others: `len` bytes of content in `stored` bytes.
    pub fn push(&mut self, len: u32, stored: u32, codec: Codec) -> Option<Group> {
        let (begin, end) = (self.content_bytes(), self.end());
        let group = Group { begin, len, at: end + GROUP_HEADER_BYTES as u32, stored, codec };
        begin.checked_add(len)?;
        group.at.checked_add(stored)?.checked_add(GROUP_HEADER_BYTES as u32)?;
        self.groups.push(group);
        Some(group)
    }

    /// Put in a group whose header was found in the container.
    pub fn push_found(&mut self, group: Group) {
        self.groups.push(group);
    }

    /// All of them.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Bytes of content.
    pub fn content_bytes(&self) -> u32 {
        self.groups.last().map_or(0, |last| last.begin + last.len)
    }

    /// Where the last group ends in the container.
    pub fn end(&self) -> u32 {
        self.groups.last().map_or(HEADER_BYTES as u32, |last| last.at + last.stored)
    }

    /// The index of the group that holds these bytes of the content; `None` if none does.
    pub fn find(&self, offset: u32, len: u32) -> Option<usize> {
        let after = self.groups.partition_point(|group| group.begin <= offset);
        let at = after.checked_sub(1)?;
        let group = &self.groups[at];
        let end = offset.checked_add(len)?;
        (end <= group.begin + group.len).then_some(at)
    }

    /// The table as it stands at a container's end.
    pub fn encode(&self, out: &mut Writer) {
        for group in &self.groups {
            out.u32(group.len);
            out.u32(pack(group.stored, group.codec));
        }
    }

    /// The table of a container whose groups end at `end`.
    pub fn decode(bytes: &[u8], end: u32) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut table = Self::default();
        for _ in 0..bytes.len() / GROUP_ROW_BYTES {
            let len = reader.u32()?;
            let (stored, codec) = unpack(reader.u32()?)?;
            table.push(len, stored, codec)?;
        }
        (table.end() == end).then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> GroupTable {
        let mut table = GroupTable::default();
        for n in 1..4 {
            table.push(n * 1000, n * 300, Codec::Zstd).unwrap();
        }
        table
    }

    #[test]
    fn what_a_group_holds_is_found_and_what_none_holds_is_not() {
        let table = table();
        assert_eq!((table.content_bytes(), table.groups().len()), (6000, 3));
        assert_eq!(table.end() as usize, HEADER_BYTES + 3 * GROUP_HEADER_BYTES + 1800);
        for (offset, len, found) in [
            (0, 1000, Some(0)),
            (999, 1, Some(0)),
            (999, 2, None),
            (1000, 2000, Some(1)),
            (3000, 3000, Some(2)),
            (3001, 3000, None),
            (6000, 1, None),
            (5, u32::MAX, None),
        ] {
            assert_eq!(table.find(offset, len), found, "{offset} + {len}");
        }
        assert_eq!(GroupTable::default().find(0, 1), None);
    }

    #[test]
    fn tables_and_headers_come_back_and_what_is_forged_does_not() {
        let (table, id) = (table(), ContainerId::new(9));
        let mut out = Writer::default();
        table.encode(&mut out);
        assert_eq!(out.0.len(), 3 * GROUP_ROW_BYTES);
        assert_eq!(GroupTable::decode(&out.0, table.end()), Some(table.clone()));
        assert_eq!(GroupTable::decode(&out.0, table.end() + 1), None);
        // Lengths that add up to more than a number holds.
        let large = [0xFF; 2 * GROUP_ROW_BYTES];
        assert_eq!(GroupTable::decode(&large, 0), None);
        for group in table.groups() {
            let header = group.header(id);
            assert_eq!(Group::from_header(&header, id, group.at), Some(*group));
            assert_eq!(Group::from_header(&header, ContainerId::new(8), group.at), None);
            for bit in 0..8 * header.len() {
                let mut damaged = header;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Group::from_header(&damaged, id, group.at), None, "bit {bit}");
            }
        }
    }

    /// A header of these numbers with the right checksum.
    fn header(id: u32, begin: u32, len: u32, packed: u32) -> Vec<u8> {
        let mut out = Writer::default();
        for field in [id, begin, len, packed] {
            out.u32(field);
        }
        checksum(&mut out);
        out.0
    }

    #[test]
    fn a_group_that_no_container_can_hold_is_none() {
        let id = ContainerId::new(9);
        let most = u32::MAX;
        for (begin, len, stored, at, fits) in [
            (most - 5, 5, 100, 60, true),
            (most - 5, 6, 100, 60, false),
            (0, 5, 100, most - 100, true),
            (0, 5, 100, most - 99, false),
        ] {
            let found = Group::from_header(&header(9, begin, len, stored), id, at);
            assert_eq!(found.is_some(), fits, "{begin} {len} {stored} {at}");
        }
        assert_eq!(Group::from_header(&header(9, 0, 5, 3 << 30 | 5), id, 60), None, "no codec");
        let group = Group::from_header(&header(9, 7, 5, 1 << 30 | 4), id, 60).unwrap();
        let expected = Group { begin: 7, len: 5, at: 60, stored: 4, codec: Codec::Lz4 };
        assert_eq!((group, group.place()), (expected, 60..64));
        assert_eq!(group.header(id).as_slice(), header(9, 7, 5, 1 << 30 | 4));
        let mut table = GroupTable::default();
        let at = (HEADER_BYTES + GROUP_HEADER_BYTES) as u32;
        // Behind it there is to be room for one more header.
        let stored = most - at - GROUP_HEADER_BYTES as u32;
        assert_eq!(table.push(5, stored + 1, Codec::Raw), None);
        assert_eq!(table.push(most, stored, Codec::Raw).map(|group| group.at), Some(at));
        assert_eq!((table.content_bytes(), table.end()), (most, most - 20));
        assert_eq!(table.push(1, 0, Codec::Raw), None);
    }

    #[test]
    fn half_a_group_is_large() {
        assert_eq!([131_071, 131_072, 262_144].map(is_large), [false, true, true]);
    }
}
