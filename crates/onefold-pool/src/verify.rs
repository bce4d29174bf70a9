//! From a candidate of the index to a chunk that may be shared.
//! Room: onefold-pool.
//! Invariant: a [`Verified`] address holds a chunk with the full fingerprint asked for and, where
//! that is not collision resistant, with the same bytes. Nothing else can be shared.
//! Source: ARCHITECTURE.md, life of a write, step 4; [dm-vdo] verifies its index's advice likewise.

use std::sync::Arc;

use onefold_block::ContainerId;
use onefold_content::Fingerprint;

use crate::container::directories::{self, Known, Looked};
use crate::container::misses::{Miss, Worth};
use crate::container::table::{ContainerInfo, ContainerTable};
use crate::counters::count;
use crate::engine::{Inner, Scratch};
use crate::index::{Candidates, Place};
use crate::pba::Pba;
use crate::plan::Named;

/// Containers after one that is followed among which the next is looked for: those that are being
/// filled, or were removed, are passed over.
const NEXT_AMONG: usize = 4;

/// The address of a chunk that was compared with the one at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    pba: Pba,
    /// What the index was asked, and the answer that led here.
    hash: u64,
    place: Place,
}

impl Verified {
    /// The address.
    pub const fn pba(self) -> Pba {
        self.pba
    }
}

impl Inner {
    /// Find a stored chunk equal to the one at hand among what the index found for it.
    pub fn find_duplicate(
        &self,
        found: &Candidates,
        wanted: &Named<'_>,
        scratch: &mut Scratch,
    ) -> Option<Verified> {
        let hash = wanted.fingerprint.prefix64();
        for place in found.iter() {
            match self.place_of(self.newest(), place, wanted, scratch) {
                Outcome::Stale => self.index.remove(hash, place),
                Outcome::Other => count(&self.counters.false_candidates, 1),
                Outcome::Same(pba) => {
                    let strong = self.settings.fingerprint.is_strong();
                    let same =
                        if strong { Some(true) } else { self.holds(pba, wanted.chunk, scratch) };
                    match same {
                        Some(true) => {
                            self.was_found(pba.container, place, scratch);
                            return Some(Verified { pba, hash, place });
                        }
                        Some(false) => count(&self.counters.collisions, 1),
                        None => {}
                    }
                }
            }
        }
        None
    }

    /// A chunk with this fingerprint that another thread has just stored, looked for only in
    /// memory: this runs under the engine's lock, which guards `table`. Where bytes must be
    /// compared, only in containers that are there too.
    pub fn find_just_stored(
        &self,
        table: &ContainerTable,
        found: &Candidates,
        chunk: &[u8],
        fingerprint: &Fingerprint,
        scratch: &mut Scratch,
    ) -> Option<Verified> {
        for place in found.iter() {
            let known = place.container(self.newest()).filter(|&id| table.is_shareable(id));
            let Some(id) = known else { continue };
            let entry = match self.live(id) {
                Some(container) => container
                    .entry(place.ordinal())
                    .filter(|entry| entry.fingerprint == *fingerprint)
                    .map(|entry| entry.location),
                None => self
                    .directories
                    .cached(id)
                    .and_then(|known| known.get(place.ordinal()).copied())
                    .filter(|known| known.is(fingerprint))
                    .map(|known| known.location),
            };
            let Some(location) = entry else { continue };
            let pba = Pba { container: id, location };
            let is_same = self.settings.fingerprint.is_strong()
                || (self.live(id).is_some() && self.holds(pba, chunk, scratch) == Some(true));
            if is_same {
                return Some(Verified { pba, hash: fingerprint.prefix64(), place });
            }
        }
        None
    }

    /// The commit refused this address, because its container is gone: nobody else shall be led
    /// there.
    pub fn forget(&self, refused: Verified) {
        self.index.remove(refused.hash, refused.place);
        self.directories.remove(refused.pba.container);
    }

    /// Keep a directory that was read without any lock, if its container is still there. A
    /// container leaves the table before its directory leaves the memory, so that what is put there
    /// under the table's lock never stays behind. What is followed is what the next chunks will be
    /// found with: the index is told of all of it.
    fn keep_directory(
        &self,
        id: ContainerId,
        entries: Arc<[Known]>,
        worth: Worth,
        scratch: &mut Scratch,
    ) {
        if worth == Worth::Followed && !self.index_knows_all() {
            scratch.places.clear();
            scratch.places.extend(
                (0..).zip(&*entries).filter_map(|(ordinal, known)| {
                    Some((known.prefix64(), Place::new(id, ordinal)?))
                }),
            );
            self.index.insert_ahead(&scratch.places);
            scratch.learnt = true;
        }
        let engine = self.engine();
        if engine.table.get(id).is_some() {
            self.directories.insert(id, entries, worth);
        }
    }

    /// A duplicate was found here. Where what is written follows the container to its end, the next
    /// one is read ahead.
    fn was_found(&self, id: ContainerId, place: Place, scratch: &mut Scratch) {
        if !self.directories.was_of_use(id, place.ordinal()) {
            return;
        }
        let next = {
            let engine = self.engine();
            let after = engine.table.after(id).take(NEXT_AMONG);
            let mut sealed = after.filter(|(_, info)| info.is_sealed() && !info.is_punched());
            sealed.next().map(|(id, info)| (id, *info))
        };
        let Some((next, info)) = next else { return };
        let there = self.live(next).is_some() || self.directories.cached(next).is_some();
        if there || !self.directories.has_room_for(info.chunks as usize) {
            return;
        }
        match directories::load(&*self.plain, next, info.len_bytes.into()) {
            Ok(entries) => {
                self.keep_directory(next, Known::all(&entries), Worth::Followed, scratch);
            }
            Err(error) => tracing::debug!("what may follow cannot be read: {error}"),
        }
    }

    /// What is at a candidate's place.
    fn place_of(
        &self,
        newest: ContainerId,
        place: Place,
        wanted: &Named<'_>,
        scratch: &mut Scratch,
    ) -> Outcome {
        let Some(id) = place.container(newest) else { return Outcome::Stale };
        let fingerprint = wanted.fingerprint;
        let known = if let Some(entries) = self.directories.cached(id) {
            entries.get(place.ordinal()).copied()
        } else if let Some(container) = self.live(id) {
            container.entry(place.ordinal()).as_ref().map(Known::of)
        } else {
            let info = self.engine().table.get(id).copied();
            let Some(info) = info.filter(ContainerInfo::is_sealed) else { return Outcome::Stale };
            let at = (place.ordinal(), Miss::new(id, place.ordinal(), wanted.lba));
            match self.directories.entry(&*self.plain, (id, &info), at, fingerprint) {
                Ok(Looked { entry, whole }) => {
                    if let Some((whole, worth)) = whole {
                        self.keep_directory(id, whole, worth, scratch);
                    }
                    entry
                }
                // It was removed in the midst of it.
                Err(_) if self.engine().table.get(id).is_none() => return Outcome::Stale,
                Err(error) => {
                    // The write goes on without sharing; a read of that container will say so.
                    tracing::warn!("cannot verify a duplicate: {error}");
                    return Outcome::Other;
                }
            }
        };
        match known {
            Some(known) if known.is(fingerprint) => {
                Outcome::Same(Pba { container: id, location: known.location })
            }
            _ => Outcome::Other,
        }
    }

    /// Whether the stored chunk has these very bytes; none if it cannot be read.
    fn holds(&self, pba: Pba, chunk: &[u8], scratch: &mut Scratch) -> Option<bool> {
        let mut stored = std::mem::take(&mut scratch.chunk);
        stored.resize(chunk.len(), 0);
        let read = self.read_one(pba, &mut stored, scratch);
        let equal = read.map(|()| stored == chunk);
        scratch.chunk = stored;
        equal.inspect_err(|error| tracing::warn!("cannot verify a duplicate: {error}")).ok()
    }
}

enum Outcome {
    /// There is no such container any more.
    Stale,
    /// Another chunk.
    Other,
    /// A chunk with the same fingerprint.
    Same(Pba),
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder, SplitMix64};

    use super::*;
    use crate::{OpenOptions, Pool, PoolSettings};

    #[test]
    fn who_writes_what_a_container_holds_has_the_next_ones_directory_read_ahead() {
        let folder = SimFolder::new();
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        let pool = crate::empty_pool::new(&folder, &settings);
        let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
        let write = |volume: &crate::Volume, at: u64, seeds: std::ops::Range<u64>| {
            for seed in seeds {
                let bytes = SplitMix64::new(seed).bytes(4096);
                volume.write_at((at + seed) * 4096, &bytes, false).unwrap();
            }
        };
        write(&volume, 0, 0..200);
        drop(volume);
        pool.close().unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        let all: Vec<_> =
            pool.inner.engine().table.iter().map(|(id, info)| (id, info.chunks)).collect();
        let (first, second) = (all[0], all[1]);
        let is_cached = |id| pool.inner.directories.cached(id).is_some();
        let volume = pool.volume("main").unwrap();
        write(&volume, 1000, 0..u64::from(first.1) / 4);
        assert!(is_cached(first.0) && !is_cached(second.0), "the end is far");
        write(&volume, 1000, u64::from(first.1) / 4..u64::from(first.1));
        assert!(is_cached(second.0) && !is_cached(all[2].0));
        assert_eq!(pool.activity().stored, 0, "all of it is there");
    }

    #[test]
    fn what_led_to_a_container_that_holds_nothing_yet_leads_nowhere_any_more() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let inner = &pool.inner;
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let id = {
            let mut engine = inner.engine();
            engine.ready.clear();
            let id = ContainerId::new(engine.next_container);
            engine.next_container += 1;
            engine.table.open(id);
            id
        };
        let chunk = [7; 4096];
        let hash = inner.fingerprinter.hash(&chunk).prefix64();
        volume.write_at(0, &[9; 4096], false).unwrap();
        inner.index.insert_many(&[(hash, Place::new(id, 0).unwrap())]);
        volume.write_at(4096, &chunk, false).unwrap();
        assert_eq!(pool.activity().false_candidates, 0, "nobody looks into it");
        let mut found = Vec::new();
        inner.index.lookup_many(&[hash], &mut found);
        let places: Vec<_> = found[0].iter().map(|place| place.container(inner.newest())).collect();
        assert!(places.len() == 1 && places[0] > Some(id), "{places:?}");
    }
}
