//! A checkpoint for a pool that has lost both: what containers say of themselves.
//! Room: onefold-pool.
//! In: the containers, the journal, and what a key is to be if the former one is lost. Out: a
//! checkpoint with a volume for each that a directory names as an owner, or the journal as changed,
//! in which every block is lost so far.
//! Cost: reads the directories of all containers.

use std::collections::BTreeMap;

use onefold_block::{ByteSize, ChunkSize, ContainerId, ContainerStore, Media};
use onefold_content::{Codec, Compression, Decompressor, FingerprintKind, Fingerprinter};

use super::containers::remnants;
use crate::container::directories;
use crate::engine::Files;
use crate::error::PoolError;
use crate::format::container::{self, DirectoryEntry, HEADER_BYTES};
use crate::format::frame::Change;
use crate::format::record;
use crate::format::superblock::{Features, KIND_VOLUME, LOST_BLOCKS, Superblock, VolumeRecord};
use crate::journal::{self, FoundFrame};
use crate::map::{PageRef, VOLUME_NUMBER_MAX, height_for};
use crate::pba::{CONTAINER_BYTES_MAX, Pba, RAW_HOLE, RAW_LOST};
use crate::settings::{PoolIdentity, PoolSettings};
use crate::volumes::BLOCKS_MAX;

/// Containers from which settings are learnt.
const SAMPLED_MAX: usize = 16;
/// Records of each of these.
const RECORDS_SAMPLED_MAX: usize = 64;

/// Owners that directories or the journal name, with one past the last block of each.
pub type Owners = BTreeMap<u32, u64>;

/// Note the owners of these records.
pub fn note_owners(owners: &mut Owners, entries: impl IntoIterator<Item = DirectoryEntry>) {
    for entry in entries {
        note(owners, entry.owner.volume, entry.owner.lba.get());
    }
}

fn note(owners: &mut Owners, volume: u32, block: u64) {
    if volume != 0 && volume <= VOLUME_NUMBER_MAX && block < BLOCKS_MAX {
        let end = owners.entry(volume).or_default();
        *end = (*end).max(block + 1);
    }
}

/// Note where these frames of the journal say that something is stored.
fn note_changes(owners: &mut Owners, media: &dyn Media, frames: &[FoundFrame]) {
    for frame in frames {
        for change in journal::changes_at(media, frame.at).unwrap_or_default() {
            let Change::Run { volume, first, entries } = change else { continue };
            if let Some(last) = entries.iter().rposition(|entry| entry.pba().is_some()) {
                note(owners, volume, first.get().saturating_add(last as u64));
            }
        }
    }
}

/// The record of a volume of which nothing is known but its blocks, all of them lost so far.
pub fn recovered(number: u32, blocks: u64, chunk_bytes: u64, birth: u64) -> VolumeRecord {
    VolumeRecord {
        number,
        name: format!("recovered-{number}"),
        size_bytes: blocks * chunk_bytes,
        height: height_for(blocks),
        root: PageRef::Uniform(RAW_LOST).raw(),
        mapped_chunks: 0,
        deleting: false,
        kind: KIND_VOLUME,
        origin: 0,
        birth,
        created_seconds: 0,
        parent: 0,
        held: false,
        dropped: 0,
        identity: 0,
        note: Vec::new(),
    }
}

/// A container's directory, or what is left of it.
pub fn owners_of(store: &dyn ContainerStore, id: ContainerId) -> Vec<DirectoryEntry> {
    let Ok(len) = store.len(id) else { return Vec::new() };
    if let Ok(entries) = directories::load(store, id, len) {
        return entries;
    }
    let mut bytes = vec![0; len.min(CONTAINER_BYTES_MAX as u64) as usize];
    if store.read(id, 0, &mut bytes).is_err() {
        return Vec::new();
    }
    remnants(&bytes, id).into_values().collect()
}

/// A checkpoint made up from containers and the journal.
pub fn superblock(
    files: &Files,
    store: &dyn ContainerStore,
    fresh: PoolIdentity,
) -> Result<Superblock, PoolError> {
    let ids = store.list()?;
    let uuid = uuid(store, &ids)?;
    let (mut sequence, mut longest) = (1, 0);
    let (mut owners, mut samples) = (Owners::new(), Vec::new());
    for &id in &ids {
        let mut header = [0; HEADER_BYTES];
        if store.read(id, 0, &mut header).is_err() {
            continue;
        }
        let Ok(epoch) = container::check_header(&header, id, &uuid) else { continue };
        sequence = sequence.max(epoch);
        longest = longest.max(store.len(id)?.min(CONTAINER_BYTES_MAX as u64));
        let entries = owners_of(store, id);
        note_owners(&mut owners, entries.iter().copied());
        if samples.len() < SAMPLED_MAX && !entries.is_empty() {
            samples.push((id, entries));
        }
    }
    let journal = &*files.journal;
    let frames = journal::good_frames(journal, sequence).unwrap_or_default();
    sequence = frames.last().map_or(sequence, |frame| frame.epoch);
    let newest = frames.partition_point(|frame| frame.epoch < sequence);
    note_changes(&mut owners, journal, &frames[newest..]);
    let learnt = learn(store, &samples, fresh.key)?;
    let smallest = u64::from(PoolSettings::CONTAINER_BYTES_MIN);
    let container_bytes = longest.next_power_of_two().max(smallest) as u32;
    let settings = PoolSettings { container_bytes, ..learnt };
    let chunk = settings.chunk_size.bytes64();
    let volumes: Vec<VolumeRecord> = owners
        .iter()
        .map(|(&number, &blocks)| recovered(number, blocks, chunk, sequence))
        .collect();
    Ok(Superblock {
        sequence,
        identity: PoolIdentity { uuid, key: fresh.key },
        features: Features { may_only_read: LOST_BLOCKS, ..Features::default() },
        settings,
        next_container: 1,
        next_volume: volumes.last().map_or(1, |last| last.number + 1),
        volumes,
        table: PageRef::Uniform(RAW_HOLE).raw(),
        slots: PageRef::Uniform(RAW_HOLE).raw(),
        slot_pages: 0,
        unseen: 0,
    })
}

/// The pool that most containers say they belong to.
fn uuid(store: &dyn ContainerStore, ids: &[ContainerId]) -> Result<[u8; 16], PoolError> {
    let mut votes: BTreeMap<[u8; 16], usize> = BTreeMap::new();
    for &id in ids {
        let mut header = [0; HEADER_BYTES];
        if store.read(id, 0, &mut header).is_err() {
            continue;
        }
        let uuid = header[12..28].try_into().expect("sixteen bytes");
        match container::check_header(&header, id, &uuid) {
            Ok(_) => *votes.entry(uuid).or_default() += 1,
            Err(error) if error.is_other_format() => return Err(error),
            Err(_) => {}
        }
    }
    let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
    if ids.is_empty() {
        return Err(PoolError::NoPool);
    }
    most.map(|(uuid, _)| uuid).ok_or_else(|| {
        let problem = "neither checkpoint can be read, and no container is left that says to which \
                       pool it belongs: there is nothing to repair from";
        PoolError::corrupt_whole("super.0 and super.1", problem)
    })
}

/// What records say of how they were stored.
fn learn(
    store: &dyn ContainerStore,
    samples: &[(ContainerId, Vec<DirectoryEntry>)],
    key: [u8; 32],
) -> Result<PoolSettings, PoolError> {
    let mut decompressor = Decompressor::new();
    let mut votes: BTreeMap<(usize, u8), usize> = BTreeMap::new();
    let mut zstd = false;
    for (id, entries) in samples {
        for entry in entries.iter().take(RECORDS_SAMPLED_MAX) {
            let mut bytes = vec![0; entry.location.len_bytes()];
            let at = entry.location.offset_bytes() as u64;
            let pba = Pba { container: *id, location: entry.location };
            if store.read(*id, at, &mut bytes).is_err() {
                continue;
            }
            let Ok((codec, payload)) = record::verify(&bytes, pba) else { continue };
            zstd |= codec == Codec::Zstd;
            for bits in 12..=16 {
                let mut chunk = vec![0; 1 << bits];
                if decompressor.decompress_into(codec, payload, &mut chunk).is_err() {
                    continue;
                }
                let told = (1 << bits, kind_of(&chunk, entry, key).id());
                *votes.entry(told).or_default() += 1;
                break;
            }
        }
    }
    let Some(((chunk_bytes, kind), _)) = votes.into_iter().max_by_key(|(_, votes)| *votes) else {
        let problem = "neither checkpoint can be read, and no record of the containers can be";
        return Err(PoolError::corrupt_whole("super.0 and super.1", problem));
    };
    // Where nothing was compressed, nothing says that nothing is to be.
    let compression = if zstd { Compression::Zstd(3) } else { Compression::Lz4 };
    let chunk_size = ChunkSize::new(ByteSize(chunk_bytes as u64)).expect("4 KiB to 64 KiB");
    let fingerprint = FingerprintKind::from_id(kind).expect("it is one's number");
    Ok(PoolSettings { chunk_size, fingerprint, compression, ..PoolSettings::default() })
}

/// Which kind of fingerprint of a chunk its directory has: what none of those is that need no key
/// had one that is lost.
fn kind_of(chunk: &[u8], entry: &DirectoryEntry, key: [u8; 32]) -> FingerprintKind {
    let unkeyed = [FingerprintKind::Sha256, FingerprintKind::Sha1, FingerprintKind::Crc32];
    let is = |kind: &FingerprintKind| {
        let found = Fingerprinter::with_key(*kind, key).hash(chunk);
        container::kept(&found) == entry.fingerprint
    };
    unkeyed.into_iter().find(is).unwrap_or(FingerprintKind::Blake3)
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, Lba};
    use onefold_content::Fingerprint;

    use super::*;
    use crate::format::container::{ENTRY_BYTES, Owner};
    use crate::pba::{Location, UNIT_BYTES};

    #[test]
    fn owners_are_volumes_and_blocks_that_there_can_be() {
        let mut owners = Owners::new();
        for (volume, block) in [
            (0, 5),
            (1, 0),
            (2, 9),
            (2, 4),
            (VOLUME_NUMBER_MAX, BLOCKS_MAX - 1),
            (VOLUME_NUMBER_MAX + 1, 3),
            (3, BLOCKS_MAX),
        ] {
            note(&mut owners, volume, block);
        }
        assert_eq!(owners, Owners::from([(1, 1), (2, 10), (VOLUME_NUMBER_MAX, BLOCKS_MAX)]));
    }

    #[test]
    fn of_what_is_recovered_nothing_is_known_but_how_long_it_is() {
        let found = recovered(7, 513, 8192, 11);
        assert_eq!((found.number, found.name.as_str(), found.birth), (7, "recovered-7", 11));
        assert_eq!((found.size_bytes, found.height), (513 * 8192, 1));
        assert_eq!(found.root, PageRef::Uniform(RAW_LOST).raw());
        assert_eq!((found.mapped_chunks, found.origin, found.parent), (0, 0, 0));
        assert_eq!((found.created_seconds, found.dropped, found.identity), (0, 0, 0));
        assert!(!found.deleting && !found.held && found.note.is_empty());
        assert_eq!(found.kind, KIND_VOLUME);
    }

    #[test]
    fn of_a_directory_that_is_damaged_what_is_left_says_whose_its_records_are() {
        let folder = onefold_block::SimFolder::new();
        let store = onefold_block::FolderContainerStore::new(std::sync::Arc::new(folder));
        let id = ContainerId::new(3);
        let entry = |number: usize| DirectoryEntry {
            fingerprint: container::kept(&Fingerprint::from_bytes([number as u8; 32])),
            location: Location::new(3 + number, 1),
            owner: Owner { volume: 1, lba: Lba::new(number as u64) },
        };
        let all: Vec<DirectoryEntry> = (0..5).map(entry).collect();
        let mut bytes = container::encode_header(id, &[4; 16], 3);
        bytes.resize(HEADER_BYTES + 5 * UNIT_BYTES, 7);
        bytes.extend(container::encode_directory(id, &all, bytes.len()));
        store.create(id, 1 << 18).unwrap();
        store.append(id, 0, &bytes).unwrap();
        assert_eq!(owners_of(&store, id), all);
        store.remove(id).unwrap();
        bytes[HEADER_BYTES + 5 * UNIT_BYTES + 2 * ENTRY_BYTES] ^= 1;
        store.create(id, 1 << 18).unwrap();
        store.append(id, 0, &bytes).unwrap();
        assert_eq!(owners_of(&store, id), [0, 1, 3, 4].map(entry));
        assert_eq!(owners_of(&store, ContainerId::new(4)), []);
    }

    #[test]
    fn what_is_stored_says_how_and_for_whom_it_was() {
        let fresh = PoolIdentity { uuid: [7; 16], key: [8; 32] };
        // Nothing says at which level, nor whether there was any where nothing was compressed.
        for (bits, fingerprint, compression, learnt) in [
            (12, FingerprintKind::Crc32, Compression::Zstd(1), Compression::Zstd(3)),
            (13, FingerprintKind::Sha256, Compression::Lz4, Compression::Lz4),
            (16, FingerprintKind::Blake3, Compression::None, Compression::Lz4),
        ] {
            let folder = onefold_block::SimFolder::new();
            let chunk_size = ChunkSize::new(ByteSize(1 << bits)).unwrap();
            let container_bytes = 256 << 10;
            let settings = PoolSettings { chunk_size, fingerprint, compression, container_bytes };
            let pool = crate::empty_pool::new(&folder, &settings);
            drop(pool.create_volume("empty", ByteSize(1 << 20)).unwrap());
            let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
            let text = b"what compresses well ".repeat(4096);
            for block in 0..9 {
                let at = block << bits;
                volume.write_at(at, &text[block as usize..][..1 << bits], false).unwrap();
            }
            let inner = &pool.inner;
            inner.close().unwrap();
            let found = superblock(&inner.files, &*inner.plain, fresh).unwrap();
            assert_eq!(found.settings, PoolSettings { compression: learnt, ..settings });
            assert_eq!((found.identity.uuid, found.identity.key), ([1; 16], [8; 32]));
            let counted = (found.sequence, found.next_container, found.next_volume, found.unseen);
            assert_eq!(counted, (5, 1, 3, 0));
            let volumes = found.volumes.iter().map(|volume| (&*volume.name, volume.size_bytes));
            assert_eq!(volumes.collect::<Vec<_>>(), [("recovered-2", 9 << bits)]);
        }
    }

    #[test]
    fn chunks_of_a_size_that_no_pool_has_tell_nothing() {
        let folder = onefold_block::SimFolder::new();
        let store = onefold_block::FolderContainerStore::new(std::sync::Arc::new(folder));
        let id = ContainerId::new(3);
        let mut compressor = onefold_content::Compressor::new(Compression::Lz4);
        for (bits, is_told) in [(11, false), (12, true), (16, true), (17, false)] {
            let mut bytes = vec![0; HEADER_BYTES];
            let units = record::draft(&vec![7; 1 << bits], &mut compressor, &mut bytes);
            let location = Location::new(HEADER_BYTES / UNIT_BYTES, units);
            record::place(&mut bytes[HEADER_BYTES..], Pba { container: id, location });
            store.create(id, 1 << 18).unwrap();
            store.append(id, 0, &bytes).unwrap();
            let fingerprint = container::kept(&Fingerprint::from_bytes([1; 32]));
            let entry = DirectoryEntry { fingerprint, location, owner: Owner::UNKNOWN };
            let learnt = learn(&store, &[(id, vec![entry])], [8; 32]);
            let bytes = learnt.ok().map(|settings| settings.chunk_size.bytes());
            assert_eq!(bytes, is_told.then_some(1 << bits), "{bits} bits");
            store.remove(id).unwrap();
        }
    }

    #[test]
    fn the_pool_is_the_one_that_most_containers_say() {
        let folder = onefold_block::SimFolder::new();
        let store = onefold_block::FolderContainerStore::new(std::sync::Arc::new(folder));
        let put = |number: u32, uuid: [u8; 16]| {
            let id = ContainerId::new(number);
            store.create(id, 1 << 18).unwrap();
            store.append(id, 0, &container::encode_header(id, &uuid, 3)).unwrap();
            id
        };
        let ids = [put(1, [9; 16]), put(2, [4; 16]), put(3, [4; 16])];
        assert_eq!(uuid(&store, &ids).unwrap(), [4; 16]);
        assert_eq!(uuid(&store, &ids[..1]).unwrap(), [9; 16]);
        assert!(matches!(uuid(&store, &[]), Err(PoolError::NoPool)));
        // One that cannot be read says nothing.
        let gone = uuid(&store, &[ContainerId::new(77)]).unwrap_err();
        assert!(gone.to_string().contains("nothing to repair from"), "{gone}");
    }
}
