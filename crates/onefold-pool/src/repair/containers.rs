//! What can be had of each container, whatever is damaged of it.
//! Room: onefold-pool.
//! In: a container's file, and what the container table says. Out: its good records with what is
//! known of them, and whether it must be written anew.
//! Invariant: a record counts as good if its checksum holds, at its place, and it decompresses.

use std::collections::BTreeMap;

use onefold_block::{ContainerId, StoreError};
use onefold_content::Decompressor;

use crate::container::directories;
use crate::container::table::ContainerInfo;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::container::{
    self, DirectoryEntry, ENTRY_BYTES, FOOTER_BYTES, HEADER_BYTES, Owner, directory_bytes,
};
use crate::format::record;
use crate::pba::{CHUNKS_PER_CONTAINER_MAX, Location, Pba, UNIT_BYTES};

/// Read in pieces of this where not all of a container can be read.
const PIECE_BYTES: usize = 4096;

/// What is known of a container that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The journal's epoch when it was made, or that of the one before if its header is damaged.
    pub epoch: u64,
    /// Its length when the repair is done.
    pub len_bytes: u32,
    /// Its records.
    pub chunks: u32,
    /// Pages of 4 KiB that may be gone.
    pub punched: u16,
    /// It must be written anew.
    pub rewrite: bool,
}

/// A container, looked at record by record.
pub struct Examined {
    /// Its bytes as far as they could be read, zeroes elsewhere.
    pub bytes: Vec<u8>,
    /// The epoch in its header, if that is good.
    pub epoch: Option<u64>,
    /// Its good records in order.
    pub entries: Vec<DirectoryEntry>,
    /// It is not as a sealed container must be.
    pub rewrite: bool,
}

impl Examined {
    /// Its length if it is written with the good records alone.
    pub fn sealed_len(&self) -> usize {
        records_end(&self.entries) + directory_bytes(self.entries.len())
    }

    /// Its bytes if it is written with the good records alone.
    pub fn sealed(mut self, id: ContainerId, uuid: &[u8; 16], epoch: u64) -> Vec<u8> {
        let end = records_end(&self.entries);
        self.bytes.resize(end, 0);
        let header = container::encode_header(id, uuid, self.epoch.unwrap_or(epoch));
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
        self.bytes.extend(container::encode_directory(id, &self.entries, end));
        self.bytes
    }
}

fn records_end(entries: &[DirectoryEntry]) -> usize {
    entries.last().map_or(HEADER_BYTES, |entry| entry.location.end_bytes())
}

/// Look at a container; `None` if there is no such, or it is another pool's.
pub fn examine(
    inner: &Inner,
    id: ContainerId,
    former: Option<&ContainerInfo>,
) -> Result<Option<Examined>, PoolError> {
    let Some((bytes, whole)) = read(inner, id)? else { return Ok(None) };
    let header = container::check_header(&bytes, id, &inner.identity.uuid);
    if header.is_err() && is_foreign(id, &bytes) {
        return Ok(None);
    }
    let punched = former.is_some_and(ContainerInfo::is_punched);
    let sealed_as_known =
        former.is_none_or(|info| !info.is_sealed() || info.len_bytes as usize == bytes.len());
    let directory = directories::of(&bytes, id).ok().filter(|_| whole && sealed_as_known);
    let mut rewrite = header.is_err() || directory.is_none();
    let mut judge = Judge::new(inner, id, &bytes);
    let entries = match directory {
        Some(directory) => {
            let mut good = Vec::with_capacity(directory.len());
            for entry in directory {
                match judge.fingerprinted(entry.location) {
                    Some(found) => {
                        rewrite |= found.fingerprint != entry.fingerprint;
                        good.push(DirectoryEntry { owner: entry.owner, ..found });
                    }
                    // Nothing refers to what was punched; if something does, it is lost.
                    None => rewrite |= !punched,
                }
            }
            good
        }
        None => judge.walk(&remnants(&bytes, id)),
    };
    let epoch = header.ok();
    let mut examined = Examined { bytes, epoch, entries, rewrite };
    let most = inner.settings.container_bytes as usize;
    while examined.entries.len() > CHUNKS_PER_CONTAINER_MAX
        || rewrite && examined.sealed_len() > most
    {
        examined.entries.pop();
    }
    Ok(Some(examined))
}

/// The bytes of a container, no more than one can have, and whether they are all that there is.
fn read(inner: &Inner, id: ContainerId) -> Result<Option<(Vec<u8>, bool)>, PoolError> {
    let len = match inner.plain.len(id) {
        Ok(len) => len,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        // Whoever may not open it must not take its blocks for lost.
        Err(error) => return Err(error.into()),
    };
    let most = u64::from(inner.settings.container_bytes);
    let mut bytes = vec![0; len.min(most) as usize];
    let mut whole = len <= most;
    if inner.plain.read(id, 0, &mut bytes).is_err() {
        whole = false;
        for (number, piece) in bytes.chunks_mut(PIECE_BYTES).enumerate() {
            if inner.plain.read(id, (number * PIECE_BYTES) as u64, piece).is_err() {
                piece.fill(0);
            }
        }
    }
    Ok(Some((bytes, whole)))
}

/// Whether a header that is none of this pool's is intact, and another's.
fn is_foreign(id: ContainerId, bytes: &[u8]) -> bool {
    let Some(uuid) = bytes.get(12..28).and_then(|uuid| <[u8; 16]>::try_from(uuid).ok()) else {
        return false;
    };
    container::check_header(bytes, id, &uuid).is_ok()
}

/// Entries of a directory that are good by themselves, by the place of their records. They end
/// where the footer is, good or not.
pub fn remnants(bytes: &[u8], id: ContainerId) -> BTreeMap<Location, DirectoryEntry> {
    let mut found = BTreeMap::new();
    let mut end = bytes.len().saturating_sub(FOOTER_BYTES);
    for _ in 0..CHUNKS_PER_CONTAINER_MAX {
        let Some(start) = end.checked_sub(ENTRY_BYTES).filter(|&start| start >= HEADER_BYTES)
        else {
            break;
        };
        if let Some(entry) = container::decode_entry(&bytes[start..end], id) {
            found.insert(entry.location, entry);
        }
        end = start;
    }
    found
}

/// Tells good records from others.
struct Judge<'a> {
    inner: &'a Inner,
    id: ContainerId,
    bytes: &'a [u8],
    decompressor: Decompressor,
    chunk: Vec<u8>,
}

impl<'a> Judge<'a> {
    fn new(inner: &'a Inner, id: ContainerId, bytes: &'a [u8]) -> Self {
        let chunk = vec![0; inner.chunk_bytes()];
        Self { inner, id, bytes, decompressor: Decompressor::new(), chunk }
    }

    /// The record at this place with the fingerprint of its chunk, without an owner, if it is good.
    fn fingerprinted(&mut self, location: Location) -> Option<DirectoryEntry> {
        let record = self.bytes.get(location.offset_bytes()..location.end_bytes())?;
        let pba = Pba { container: self.id, location };
        record::decode(record, pba, &mut self.decompressor, &mut self.chunk).ok()?;
        let fingerprint = container::kept(&self.inner.fingerprinter.hash(&self.chunk));
        Some(DirectoryEntry { fingerprint, location, owner: Owner::UNKNOWN })
    }

    /// All good records, from one to the next, with the owners that are known.
    fn walk(&mut self, known: &BTreeMap<Location, DirectoryEntry>) -> Vec<DirectoryEntry> {
        let (mut entries, mut at) = (Vec::new(), HEADER_BYTES);
        while at < self.bytes.len() {
            let probed = record::probe(self.bytes, at, self.id, self.chunk.len());
            let Some(found) = probed.and_then(|location| self.fingerprinted(location)) else {
                at += UNIT_BYTES;
                continue;
            };
            let owner = known.get(&found.location).map_or(Owner::UNKNOWN, |entry| entry.owner);
            at = found.location.end_bytes();
            entries.push(DirectoryEntry { owner, ..found });
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, FaultKind, Lba, OpKind, SimFolder};
    use onefold_content::Fingerprint;

    use super::*;
    use crate::PoolSettings;

    #[test]
    fn a_container_stays_only_if_all_of_it_was_read_and_is_as_long_as_is_known() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        for block in 0..10u8 {
            volume.write_at(u64::from(block) << 12, &[block + 1; 4096], false).unwrap();
        }
        drop(volume);
        pool.close().unwrap();
        let pool = crate::Pool::open(&folder, &crate::OpenOptions::default()).unwrap();
        let id = ContainerId::new(1);
        let info = *pool.inner.engine().table.get(id).unwrap();
        let rewrites = |former: Option<&ContainerInfo>| {
            let examined = examine(&pool.inner, id, former).unwrap().unwrap();
            let owners: Vec<u64> = examined.entries.iter().map(|e| e.owner.lba.get()).collect();
            assert_eq!(owners, (0..10).collect::<Vec<_>>());
            examined.rewrite
        };
        let of_len = |len_bytes| ContainerInfo { len_bytes, ..info };
        assert!(!rewrites(Some(&info)) && !rewrites(None) && !rewrites(Some(&of_len(0))));
        assert!(rewrites(Some(&of_len(info.len_bytes + 16))));
        assert!(rewrites(Some(&of_len(info.len_bytes - 16))));
        // It can be had in pieces, but for the disk that is read from.
        for former in [info, ContainerInfo { punched: 1, ..info }] {
            folder.fail_once(&[OpKind::Read], 1, FaultKind::Eio);
            assert!(rewrites(Some(&former)));
        }
        // Of what cannot be read nothing is made up.
        folder.fail_from(&[OpKind::Read], 1, FaultKind::Eio);
        let examined = examine(&pool.inner, id, None).unwrap().unwrap();
        assert!(examined.entries.is_empty() && examined.rewrite);
        assert!(examined.bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn of_more_records_than_a_container_can_have_the_last_go() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let (inner, id) = (&pool.inner, ContainerId::new(77));
        let most = inner.settings.container_bytes as usize;
        let mut compressor = onefold_content::Compressor::new(inner.settings.compression);
        // So many records of such a chunk, and no directory.
        let mut kept = |chunk: &[u8], records: usize| {
            let mut bytes = container::encode_header(id, &inner.identity.uuid, 3);
            for _ in 0..records {
                let from = bytes.len();
                let units = record::draft(chunk, &mut compressor, &mut bytes);
                let location = Location::new(from / UNIT_BYTES, units);
                record::place(&mut bytes[from..], Pba { container: id, location });
            }
            inner.store.create(id, most as u64).unwrap();
            inner.store.append(id, 0, &bytes).unwrap();
            let examined = examine(inner, id, None).unwrap().unwrap();
            inner.store.remove(id).unwrap();
            assert!(examined.rewrite && examined.sealed_len() <= most);
            (examined.entries.len(), bytes.len())
        };
        let (alike, random) = ([7; 4096], onefold_block::SplitMix64::new(1).bytes(4096));
        let max = CHUNKS_PER_CONTAINER_MAX;
        assert_eq!([max - 1, max, max + 3].map(|n| kept(&alike, n).0), [max - 1, max, max]);
        // As many as there is room for, beside the directory.
        let each = record::raw_units(4096) * UNIT_BYTES;
        let full = (most - HEADER_BYTES - directory_bytes(0)) / (each + ENTRY_BYTES);
        let (found, len) = kept(&random, full + 8);
        assert!(found == full && len <= most, "{found} of {full} in {len} bytes");
    }

    #[test]
    fn records_that_fill_a_container_to_its_last_byte_all_stay() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let (inner, id) = (&pool.inner, ContainerId::new(77));
        let most = inner.settings.container_bytes as usize;
        let mut compressor = onefold_content::Compressor::new(inner.settings.compression);
        // So many that the rest is whole units, each as long as it is stored or one unit less.
        let raw = record::raw_units(4096);
        let units = |records: usize| (most - HEADER_BYTES - directory_bytes(records)) / UNIT_BYTES;
        let records = (1..most).find(|&n| n % 4 == 0 && units(n) <= n * raw).unwrap();
        let shorter = records * raw - units(records);
        let random = onefold_block::SplitMix64::new(1).bytes(4096);
        let mut draft = |zeroes: usize| {
            let (mut chunk, mut bytes) = (random.clone(), Vec::new());
            chunk[4096 - zeroes..].fill(0);
            let units = record::draft(&chunk, &mut compressor, &mut bytes);
            (units, bytes)
        };
        let [long, short] = [raw, raw - 1]
            .map(|units| (0..100).map(&mut draft).find(|(found, _)| *found == units).unwrap().1);
        let mut bytes = container::encode_header(id, &inner.identity.uuid, 3);
        for number in 0..records {
            let (record, from) = (if number < shorter { &short } else { &long }, bytes.len());
            bytes.extend(record);
            let location = Location::new(from / UNIT_BYTES, record.len() / UNIT_BYTES);
            record::place(&mut bytes[from..], Pba { container: id, location });
        }
        inner.store.create(id, most as u64).unwrap();
        inner.store.append(id, 0, &bytes).unwrap();
        let examined = examine(inner, id, None).unwrap().unwrap();
        assert_eq!((examined.entries.len(), examined.sealed_len()), (records, most));
        assert!(examined.rewrite, "it has no directory");
        let sealed = examined.sealed(id, &inner.identity.uuid, 3);
        inner.store.remove(id).unwrap();
        inner.store.create(id, most as u64).unwrap();
        inner.store.append(id, 0, &sealed).unwrap();
        let examined = examine(inner, id, None).unwrap().unwrap();
        assert_eq!((examined.entries.len(), examined.rewrite), (records, false));
    }

    #[test]
    fn entries_that_are_good_by_themselves_are_known_wherever_the_others_are_not() {
        let id = ContainerId::new(3);
        let entry = |number: usize| DirectoryEntry {
            fingerprint: container::kept(&Fingerprint::from_bytes([number as u8; 32])),
            location: Location::new(3 + number, 1),
            owner: Owner { volume: 1, lba: Lba::new(number as u64) },
        };
        let all: Vec<DirectoryEntry> = (0..5).map(entry).collect();
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend(container::encode_directory(id, &all, HEADER_BYTES));
        let found = |bytes: &[u8]| remnants(bytes, id).into_values().collect::<Vec<_>>();
        // The first begins where a header ends, and nothing can be before that.
        assert_eq!(found(&bytes), all);
        assert_eq!(found(&bytes[1..]), all[1..]);
        assert_eq!(remnants(&bytes, ContainerId::new(4)).len(), 0);
        for damaged in 0..5 {
            let mut bytes = bytes.clone();
            bytes[HEADER_BYTES + damaged * ENTRY_BYTES + 30] ^= 1;
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            let left: Vec<_> = (0..5).filter(|&number| number != damaged).map(entry).collect();
            assert_eq!(found(&bytes), left);
        }
        for len in [0, 1, FOOTER_BYTES, HEADER_BYTES + FOOTER_BYTES] {
            assert_eq!(found(&bytes[..len]), [], "{len} bytes");
        }
    }
}
