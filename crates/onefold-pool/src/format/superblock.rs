//! A checkpoint: everything needed to open the pool, but for map pages and the journal's frames.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Checkpoint".
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `ONEFOLD` and a line feed |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32 of bytes 8..12 and 16..40+n |
//! | 16 | 8 | sequence number, one more at every checkpoint |
//! | 24 | 8 | n, the payload's length in bytes |
//! | 32 | 8 | references given up that may have left records dead that nothing tells of |
//! | 40 | n | payload: features, settings, counters, container table, slots, volumes, notes |

use std::collections::BTreeMap;

use onefold_block::{ByteSize, ChunkSize, Media};
use onefold_content::{Compression, FingerprintKind};

use super::{FORMAT_VERSION, SEQUENCE_MAX, check_version};
use crate::error::PoolError;
use crate::map::{BITMAP_PAGES_MAX, HEIGHT_MAX, VOLUME_NUMBER_MAX, height_for};
use crate::pba::CONTAINER_ID_MAX;
use crate::settings::{PoolIdentity, PoolSettings};
use onefold_block::bytes::{Reader, Writer};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 40;
/// A volume that can be written.
pub const KIND_VOLUME: u8 = 0;
/// What one was at a moment: it is never written.
pub const KIND_SNAPSHOT: u8 = 1;
/// Longest payload that is believed: 780,000 volumes with the longest names.
pub const PAYLOAD_BYTES_MAX: u64 = 256 << 20;

const MAGIC: &[u8; 8] = b"ONEFOLD\n";

/// A map page's slot (48 bits, from the lowest up), birth (48) and CRC-32. Without slot and birth:
/// the entry that a whole absent subtree has, in place of the CRC-32.
pub type RawPageRef = u128;

/// Features without which a pool is refused, by bit, for the message that refuses it.
const MUST_REFUSE: [(u64, &str); 1] = [(1, "forwarding containers")];
/// Of those bits, the one of snapshots and clones.
pub const SNAPSHOTS: u64 = 2;
/// And the one of journals that tell which containers are sealed and durable.
pub const SEALED_IN_JOURNAL: u64 = 4;
/// And the one of notes that doors keep with volumes: who may use one may stand there.
pub const NOTES: u64 = 8;
/// Those that this onefold has.
const KNOWN: u64 = SNAPSHOTS | SEALED_IN_JOURNAL | NOTES;
/// Longest note of a volume, in bytes.
pub const NOTE_BYTES_MAX: usize = 16 << 10;
/// Bytes of a note in a checkpoint besides its own.
pub const NOTE_HEAD_BYTES: usize = 8;
/// Of the bits without which a pool may only be read: a repair marked blocks as lost.
pub const LOST_BLOCKS: u64 = 1;

/// What a pool uses that not every onefold of this version knows, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whoever does not know these may ignore them.
    pub may_ignore: u64,
    /// Whoever does not know these may read the pool, and must not change it.
    pub may_only_read: u64,
    /// Whoever does not know these must refuse the pool.
    pub must_refuse: u64,
}

impl Features {
    /// Refuse what cannot be done without features that are not known here: all of them, so far.
    pub fn check(&self, what: &str, to_change: bool) -> Result<(), PoolError> {
        let refuse = |bits: u64, names: &[(u64, &str)], action| {
            let known = names.iter().filter(|(bit, _)| bits & bit != 0);
            let names: Vec<&str> = known.flat_map(|(_, name)| [": ", *name]).collect();
            let names = names.concat();
            let what = what.to_owned();
            let error = PoolError::UnknownFeatures { what, bits, names, action };
            if bits == 0 { Ok(()) } else { Err(error) }
        };
        refuse(self.must_refuse & !KNOWN, &MUST_REFUSE, "read")?;
        refuse(if to_change { self.may_only_read & !LOST_BLOCKS } else { 0 }, &[], "changed")
    }
}

/// A volume as a checkpoint records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Its number, never reused.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Number of map levels above the leaves.
    pub height: u8,
    /// The root of its map.
    pub root: RawPageRef,
    /// Blocks with stored data.
    pub mapped_chunks: u64,
    /// The volume was deleted, and its references are still being given up.
    pub deleting: bool,
    /// What it is.
    pub kind: u8,
    /// The volume or snapshot that it was made from; 0 if none.
    pub origin: u32,
    /// The checkpoint in which it appeared first.
    pub birth: u64,
    /// When it was made, in seconds since 1970, as its maker said; 0 if nobody did.
    pub created_seconds: u64,
    /// The snapshot whose pages it has as long as they are not changed; 0 if none.
    pub parent: u32,
    /// A snapshot that is not to be deleted.
    pub held: bool,
    /// Of a snapshot that is being deleted: blocks from the first on whose pages are given up.
    pub dropped: u64,
    /// Of a snapshot: what it and every copy of it in other pools is known by; 0 if it is of this
    /// pool alone.
    pub identity: u64,
    /// What a door keeps with a volume, and pools do not look into. A snapshot has none.
    pub note: Vec<u8>,
}

impl VolumeRecord {
    /// Refuse what is neither a volume nor a snapshot, by name.
    fn refuse_unknown(&self) -> Result<(), PoolError> {
        if self.kind == KIND_VOLUME || self.kind == KIND_SNAPSHOT {
            return Ok(());
        }
        let kind = format!("of kind {}", self.kind);
        Err(PoolError::UnknownKind { what: format!("volume '{}'", self.name), kind })
    }

    /// Whether only a pool with snapshots can have it.
    pub const fn is_of_snapshots(&self) -> bool {
        self.kind != KIND_VOLUME || self.origin != 0 || self.parent != 0
    }
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// One more at every checkpoint; also the epoch of the journal frames that follow.
    pub sequence: u64,
    /// Who this pool is.
    pub identity: PoolIdentity,
    /// What it uses beyond what every version of the format has.
    pub features: Features,
    /// How it stores.
    pub settings: PoolSettings,
    /// The next container number.
    pub next_container: u32,
    /// The next volume number.
    pub next_volume: u32,
    /// All volumes, in the order in which they were made.
    pub volumes: Vec<VolumeRecord>,
    /// The root of the container table.
    pub table: RawPageRef,
    /// The root of the bitmap of slots.
    pub slots: RawPageRef,
    /// Pages of that bitmap, aside from those above.
    pub slot_pages: u32,
    /// References given up that may have left records dead without anybody seeing it: a hint.
    pub unseen: u64,
}

impl Superblock {
    /// Length of the encoded form.
    pub fn len_bytes(&self) -> usize {
        self.encode().len()
    }

    /// The bytes of a `super` file.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Writer(Vec::with_capacity(1024));
        payload.u64(self.features.may_ignore);
        payload.u64(self.features.may_only_read);
        payload.u64(self.features.must_refuse);
        payload.bytes(&self.identity.uuid);
        payload.bytes(&self.identity.key);
        payload.u32(self.settings.chunk_size.get());
        payload.u8(self.settings.fingerprint.id());
        let (codec, level) = self.settings.compression.numbers();
        payload.u8(codec);
        payload.u16(level as u16);
        payload.u32(self.settings.container_bytes);
        payload.u32(self.next_container);
        payload.u32(self.next_volume);
        payload.u128(self.table);
        payload.u128(self.slots);
        payload.u32(self.slot_pages);
        payload.u32(self.volumes.len() as u32);
        for volume in &self.volumes {
            payload.u32(volume.number);
            payload.text(&volume.name);
            payload.u64(volume.size_bytes);
            payload.u128(volume.root);
            payload.u64(volume.mapped_chunks);
            payload.u8(volume.height);
            payload.u8(u8::from(volume.deleting));
            payload.u8(volume.kind);
            payload.u32(volume.origin);
            payload.u64(volume.birth);
            payload.u64(volume.created_seconds);
            payload.u32(volume.parent);
            payload.u32(u32::from(volume.held));
            payload.u64(volume.dropped);
            payload.u64(volume.identity);
        }
        self.encode_notes(&mut payload);
        let payload = payload.0;
        let mut writer = Writer(Vec::with_capacity(HEADER_BYTES + payload.len()));
        writer.bytes(MAGIC);
        writer.u32(FORMAT_VERSION);
        writer.u32(0);
        writer.u64(self.sequence);
        writer.u64(payload.len() as u64);
        writer.u64(self.unseen);
        writer.bytes(&payload);
        let mut bytes = writer.0;
        let check = checksum(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn encode_notes(&self, payload: &mut Writer) {
        if self.features.must_refuse & NOTES == 0 {
            return;
        }
        let noted = || self.volumes.iter().filter(|volume| !volume.note.is_empty());
        payload.u32(noted().count() as u32);
        for volume in noted() {
            payload.u32(volume.number);
            payload.u32(volume.note.len() as u32);
            payload.bytes(&volume.note);
        }
    }

    /// The checksum that the bytes of a `super` file bear.
    pub fn checksum_in(bytes: &[u8]) -> u32 {
        u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]])
    }

    /// Read the file `name`; `None` if it is empty. Of a file that is longer than its checkpoint,
    /// no more is read.
    pub fn read(media: &dyn Media, name: &str) -> Result<Option<Self>, PoolError> {
        let file_bytes = media.len()?;
        let mut bytes = vec![0; file_bytes.min(HEADER_BYTES as u64) as usize];
        media.read(0, &mut bytes)?;
        let len =
            bytes.get(24..32).and_then(|len| len.try_into().ok()).map_or(0, u64::from_le_bytes);
        let whole = HEADER_BYTES as u64 + len.min(PAYLOAD_BYTES_MAX);
        bytes.resize(file_bytes.min(whole) as usize, 0);
        media.read(0, &mut bytes)?;
        if bytes.is_empty() { Ok(None) } else { Self::decode(name, &bytes).map(Some) }
    }

    /// Verify and read the bytes of the file `name`; bytes past the payload are ignored.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, PoolError> {
        let corrupt = |offset: usize, problem: &str| {
            Err(PoolError::corrupt(name, offset as u64, problem.to_owned()))
        };
        let mut reader = Reader::new(bytes);
        let head = (|| {
            let magic = reader.array::<8>()?;
            let (version, check) = (reader.u32()?, reader.u32()?);
            Some((magic, version, check, reader.u64()?, reader.u64()?, reader.u64()?))
        })();
        let Some((magic, version, check, sequence, len, unseen)) = head else {
            return corrupt(bytes.len(), "the file ends inside of its header");
        };
        if &magic != MAGIC {
            return corrupt(0, "not a onefold checkpoint: the magic does not match");
        }
        if len > PAYLOAD_BYTES_MAX {
            return corrupt(24, "the length is larger than any checkpoint's");
        }
        let Some(payload) = reader.bytes(len as usize) else {
            return corrupt(bytes.len(), "the file ends inside of its payload");
        };
        let found = checksum(&bytes[..HEADER_BYTES + len as usize]);
        if found != check {
            let problem = format!("checksum is {found:08x}, but {check:08x} was expected");
            return corrupt(12, &problem);
        }
        check_version(name, version)?;
        let mut fields = Reader::new(payload);
        let Some(features) = decode_features(&mut fields) else {
            return corrupt(HEADER_BYTES, "the payload has no features");
        };
        features.check(name, false)?;
        let Some(superblock) = Self::decode_payload(sequence, features, &mut fields) else {
            return corrupt(HEADER_BYTES + fields.position(), "a field makes no sense here");
        };
        let superblock = Self { unseen, ..superblock };
        superblock.volumes.iter().try_for_each(VolumeRecord::refuse_unknown)?;
        if let Some(stray) = superblock.misfit() {
            let problem = format!("'{}' is made from a snapshot that cannot be", stray.name);
            return corrupt(HEADER_BYTES, &problem);
        }
        Ok(superblock)
    }

    /// A volume or snapshot that snapshots cannot have led to.
    fn misfit(&self) -> Option<&VolumeRecord> {
        let known = self.features.must_refuse & SNAPSHOTS != 0;
        let snapshots = self.births();
        let fits = |record: &VolumeRecord| {
            let parent = snapshots.get(&record.parent);
            let is_older = |birth: &u64| {
                record.kind == KIND_VOLUME || record.parent < record.number && *birth < record.birth
            };
            (known || !record.is_of_snapshots())
                && record.birth <= self.sequence
                && (record.parent == 0 || parent.is_some_and(is_older))
        };
        self.volumes.iter().find(|record| !fits(record))
    }

    /// The checkpoints that snapshots were made with, by the snapshots' numbers.
    pub fn births(&self) -> BTreeMap<u32, u64> {
        let snapshots = self.volumes.iter().filter(|record| record.kind == KIND_SNAPSHOT);
        snapshots.map(|record| (record.number, record.birth)).collect()
    }

    fn decode_payload(sequence: u64, features: Features, reader: &mut Reader<'_>) -> Option<Self> {
        let is_numbered = (1..=SEQUENCE_MAX).contains(&sequence);
        let identity = PoolIdentity { uuid: reader.array()?, key: reader.array()? };
        let chunk_size = ChunkSize::new(ByteSize(u64::from(reader.u32()?))).ok()?;
        let fingerprint = FingerprintKind::from_id(reader.u8()?)?;
        let (codec, level) = (reader.u8()?, reader.u16()? as i16);
        let compression = Compression::from_numbers(codec, level.into())?;
        let container_bytes = reader.u32()?;
        let settings = PoolSettings { chunk_size, fingerprint, compression, container_bytes };
        settings.check().ok()?;
        let (next_container, next_volume) = (reader.u32()?, reader.u32()?);
        // One past the last where all of them are used up; none is 0.
        if !is_numbered || next_volume == 0 || !(1..=CONTAINER_ID_MAX + 1).contains(&next_container)
        {
            return None;
        }
        let (table, slots, slot_pages) = (reader.u128()?, reader.u128()?, reader.u32()?);
        let count = reader.u32()?;
        let volumes: Option<Vec<_>> =
            (0..count).map(|_| decode_volume(reader, chunk_size)).collect();
        let mut volumes = volumes?;
        if features.must_refuse & NOTES != 0 {
            decode_notes(reader, &mut volumes)?;
        }
        if reader.remaining() > 0 || slot_pages > BITMAP_PAGES_MAX {
            return None;
        }
        Some(Self {
            sequence,
            identity,
            features,
            settings,
            next_container,
            next_volume,
            volumes,
            table,
            slots,
            slot_pages,
            unseen: 0,
        })
    }
}

/// The checksum of a checkpoint: of everything but the magic and itself. Every version keeps it
/// where it is, so that a damaged version number is not taken for a newer format.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[8..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

fn decode_volume(reader: &mut Reader<'_>, chunk_size: ChunkSize) -> Option<VolumeRecord> {
    let number = reader.u32()?;
    let name = reader.text()?;
    let (size_bytes, root, mapped_chunks) = (reader.u64()?, reader.u128()?, reader.u64()?);
    let (height, deleting, kind) = (reader.u8()?, reader.u8()? != 0, reader.u8()?);
    let (origin, birth, created_seconds) = (reader.u32()?, reader.u64()?, reader.u64()?);
    let (parent, held, dropped) = (reader.u32()?, reader.u32()?, reader.u64()?);
    let identity = reader.u64()?;
    if held > 1 || identity != 0 && kind == KIND_VOLUME {
        return None;
    }
    let blocks = size_bytes.div_ceil(chunk_size.bytes64());
    if height > HEIGHT_MAX || height < height_for(blocks) || number > VOLUME_NUMBER_MAX {
        return None;
    }
    Some(VolumeRecord {
        number,
        name,
        size_bytes,
        height,
        root,
        mapped_chunks,
        deleting,
        kind,
        origin,
        birth,
        created_seconds,
        parent,
        held: held == 1,
        dropped,
        identity,
        note: Vec::new(),
    })
}

/// Notes of volumes, in the order of the volumes' numbers; each of one that is there.
fn decode_notes(reader: &mut Reader<'_>, volumes: &mut [VolumeRecord]) -> Option<()> {
    let mut rest = volumes.iter_mut();
    for _ in 0..reader.u32()? {
        let (number, len) = (reader.u32()?, reader.u32()? as usize);
        let note = reader.bytes(len)?;
        // Each looks on from the one before, so that none is looked at twice.
        let volume = rest.find(|volume| volume.number == number)?;
        if note.is_empty() || len > NOTE_BYTES_MAX || volume.kind == KIND_SNAPSHOT {
            return None;
        }
        volume.note = note.to_vec();
    }
    Some(())
}

fn decode_features(reader: &mut Reader<'_>) -> Option<Features> {
    let (may_ignore, may_only_read) = (reader.u64()?, reader.u64()?);
    Some(Features { may_ignore, may_only_read, must_refuse: reader.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            sequence: 12,
            identity: PoolIdentity { uuid: [1; 16], key: [2; 32] },
            features: Features { may_ignore: 5, may_only_read: 6, must_refuse: 0 },
            settings: PoolSettings {
                compression: Compression::Zstd(-3),
                ..PoolSettings::default()
            },
            next_container: 9,
            next_volume: 4,
            volumes: vec![VolumeRecord {
                number: 3,
                name: "main".to_owned(),
                size_bytes: 64 << 30,
                height: 2,
                root: 0x1234_5678_9abc_def0_0fed_cba9_8765_4321,
                mapped_chunks: 99,
                deleting: false,
                kind: KIND_VOLUME,
                origin: 0,
                birth: 11,
                created_seconds: 1_700_000_000,
                parent: 0,
                held: false,
                dropped: 0,
                identity: 0,
                note: Vec::new(),
            }],
            table: 0x0fed_cba9_8765_4321_1234_5678_9abc_def0,
            slots: 0x1111_2222_3333_4444_5555_6666_7777_8888,
            slot_pages: 77,
            unseen: 0x2222_3333_4444_5555,
        }
    }

    #[test]
    fn a_checkpoint_comes_back_and_any_flipped_bit_or_cut_is_noticed() {
        let bytes = sample().encode();
        assert_eq!(Superblock::decode("super.0", &bytes).unwrap(), sample());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode("super.0", &damaged).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Superblock::decode("super.0", &bytes[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn notes_come_back_and_those_of_nobody_are_refused() {
        let plain = sample().volumes.remove(0);
        let other = VolumeRecord { number: 5, name: "b".to_owned(), ..plain.clone() };
        let noted = VolumeRecord { note: b"who may".to_vec(), ..other.clone() };
        let mut pool = Superblock { volumes: vec![plain.clone(), noted.clone()], ..sample() };
        pool.features.must_refuse = NOTES;
        let bytes = pool.encode();
        assert_eq!(Superblock::decode("super.0", &bytes).unwrap(), pool);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode("super.0", &damaged).is_err(), "bit {bit}");
        }
        // The number, the length and the bytes of the note are last: forge them one by one.
        let at = bytes.len() - 7;
        for (place, forged) in [(at - 8, 4_u32), (at - 4, 8), (at - 4, u32::MAX), (at - 12, 2)] {
            let mut forgery = bytes.clone();
            forgery[place..place + 4].copy_from_slice(&forged.to_le_bytes());
            let check = checksum(&forgery);
            forgery[12..16].copy_from_slice(&check.to_le_bytes());
            assert!(Superblock::decode("super.0", &forgery).is_err(), "{forged} at {place}");
        }
        let long = VolumeRecord { note: vec![1; NOTE_BYTES_MAX + 1], ..other.clone() };
        let snapshot = VolumeRecord { kind: KIND_SNAPSHOT, parent: 0, birth: 9, ..noted };
        for wrong in [long, snapshot] {
            let mut pool = Superblock { volumes: vec![plain.clone(), wrong], ..pool.clone() };
            pool.features.must_refuse |= SNAPSHOTS;
            assert!(Superblock::decode("super.0", &pool.encode()).is_err());
        }
        pool.features.must_refuse = 0;
        let without = Superblock::decode("super.0", &pool.encode()).unwrap();
        assert!(without.volumes[1].note.is_empty(), "it does not say that it has notes");
    }

    #[test]
    fn settings_that_no_pool_can_have_and_lengths_that_no_checkpoint_has_are_refused() {
        for (container_bytes, fits) in [(1 << 20, true), (3 << 18, false), (1 << 30, false)] {
            let settings = PoolSettings { container_bytes, ..sample().settings };
            let bytes = Superblock { settings, ..sample() }.encode();
            assert_eq!(Superblock::decode("super.0", &bytes).is_ok(), fits, "{container_bytes}");
        }
        let sample_with = |sequence, next_container, next_volume| {
            Superblock { sequence, next_container, next_volume, ..sample() }.encode()
        };
        for (sequence, next_container, next_volume, fits) in [
            (SEQUENCE_MAX, 1, 1, true),
            (SEQUENCE_MAX, CONTAINER_ID_MAX + 1, u32::MAX, true),
            (SEQUENCE_MAX + 1, 9, 4, false),
            (12, 0, 4, false),
            (12, CONTAINER_ID_MAX + 2, 4, false),
            (12, 9, 0, false),
        ] {
            let bytes = sample_with(sequence, next_container, next_volume);
            assert_eq!(Superblock::decode("super.0", &bytes).is_ok(), fits, "{next_container}");
        }
        let mut first = Superblock { sequence: 0, ..sample() };
        first.volumes.clear();
        assert!(Superblock::decode("super.0", &first.encode()).is_err(), "the first one is 1");
        let mut longer = sample().encode();
        longer.push(0);
        let len = (longer.len() - HEADER_BYTES) as u64;
        longer[24..32].copy_from_slice(&len.to_le_bytes());
        let check = checksum(&longer);
        longer[12..16].copy_from_slice(&check.to_le_bytes());
        let error = Superblock::decode("super.0", &longer).unwrap_err().to_string();
        assert!(error.contains("a field makes no sense"), "{error}");
        for (len, said) in [
            (PAYLOAD_BYTES_MAX, "ends inside of its payload"),
            (PAYLOAD_BYTES_MAX + 1, "larger than any checkpoint's"),
        ] {
            let mut bytes = sample().encode();
            bytes[24..32].copy_from_slice(&len.to_le_bytes());
            let error = Superblock::decode("super.0", &bytes).unwrap_err().to_string();
            assert!(error.contains(said), "{len}: {error}");
        }
    }

    #[test]
    fn another_version_is_refused_by_name() {
        for (version, words) in [(3, "reads up to version 2"), (1, "reads version 2: copy")] {
            let mut bytes = sample().encode();
            bytes[8] = version;
            let check = checksum(&bytes);
            bytes[12..16].copy_from_slice(&check.to_le_bytes());
            let error = Superblock::decode("super.0", &bytes).unwrap_err().to_string();
            let start = format!("super.0 has format version {version}; this onefold {words}");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn unknown_features_are_refused_as_far_as_they_ask() {
        let mut newer = sample();
        assert!(newer.features.check("super.0", false).is_ok(), "it may be read");
        let error = newer.features.check("super.0", true).unwrap_err().to_string();
        assert!(error.contains("bits 0x6") && error.ends_with("cannot be changed"), "{error}");
        newer.features.must_refuse = 1 << 63;
        let error = Superblock::decode("super.0", &newer.encode()).unwrap_err().to_string();
        assert!(error.contains("0x8000000000000000") && error.ends_with("be read"), "{error}");
        newer.features.must_refuse = 1;
        let error = Superblock::decode("super.0", &newer.encode()).unwrap_err().to_string();
        assert!(error.contains("forwarding containers") && error.ends_with("be read"), "{error}");
    }

    #[test]
    fn snapshots_come_back_and_what_cannot_be_is_refused_by_name() {
        let plain = sample().volumes.remove(0);
        let snapshot = VolumeRecord {
            number: 2,
            name: "main@monday".to_owned(),
            kind: KIND_SNAPSHOT,
            origin: 3,
            birth: 9,
            held: true,
            dropped: 512,
            identity: 0xfeed_0123_4567_89ab,
            ..plain.clone()
        };
        let child = VolumeRecord { parent: 2, ..plain.clone() };
        let mut pool = Superblock { volumes: vec![snapshot.clone(), child.clone()], ..sample() };
        pool.features.must_refuse = SNAPSHOTS;
        let decode = |pool: &Superblock| Superblock::decode("super.0", &pool.encode());
        assert_eq!(decode(&pool).unwrap(), pool);
        assert_eq!(pool.births(), BTreeMap::from([(2, 9)]));
        for wrong in [
            VolumeRecord { parent: 7, ..child.clone() },
            VolumeRecord { birth: 13, ..child.clone() },
            VolumeRecord { kind: KIND_SNAPSHOT, birth: 9, ..child.clone() },
            VolumeRecord { kind: KIND_SNAPSHOT, number: 1, ..child.clone() },
            VolumeRecord { parent: 3, ..child.clone() },
        ] {
            let volumes = vec![snapshot.clone(), wrong];
            let error = decode(&Superblock { volumes, ..pool.clone() }).unwrap_err().to_string();
            assert!(error.contains("'main'"), "{error}");
        }
        let volumes = vec![snapshot, VolumeRecord { identity: 1, ..child }];
        assert!(decode(&Superblock { volumes, ..pool.clone() }).is_err(), "no snapshot");
        pool.features.must_refuse = 0;
        assert!(decode(&pool).is_err(), "it does not say that it has snapshots");
        let other = Superblock { volumes: vec![VolumeRecord { kind: 9, ..plain }], ..sample() };
        let error = decode(&other).unwrap_err();
        assert!(error.is_other_format() && error.to_string().contains("of kind 9"), "{error}");
    }
}
