//! From a candidate of the index to a chunk that may be shared.
//! Room: onefold-pool.
//! Invariant: a [`Verified`] address holds a chunk with the full fingerprint asked for and, where
//! that is not collision resistant, with the same bytes. Nothing else can be shared.
//! Source: ARCHITECTURE.md, life of a write, step 4; [dm-vdo] verifies its index's advice likewise.

use std::sync::Arc;

use onefold_block::ContainerId;
use onefold_content::Fingerprint;

use crate::container::directories::Looked;
use crate::container::table::ContainerTable;
use crate::counters::count;
use crate::engine::{Inner, Scratch};
use crate::format::container::DirectoryEntry;
use crate::index::{Candidates, Place};
use crate::pba::Pba;

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
    /// Find a stored chunk equal to `chunk`, whose fingerprint is `fingerprint`, among what the
    /// index found for it.
    pub fn find_duplicate(
        &self,
        found: &Candidates,
        chunk: &[u8],
        fingerprint: &Fingerprint,
        scratch: &mut Scratch,
    ) -> Option<Verified> {
        let hash = fingerprint.prefix64();
        for place in found.iter() {
            match self.place_of(self.newest(), place, fingerprint) {
                Outcome::Stale => self.index.remove(hash, place),
                Outcome::Other => count(&self.counters.false_candidates, 1),
                Outcome::Same(pba) if self.settings.fingerprint.is_strong() => {
                    self.directories.was_of_use(pba.container);
                    return Some(Verified { pba, hash, place });
                }
                Outcome::Same(pba) => match self.holds(pba, chunk, scratch) {
                    Some(true) => return Some(Verified { pba, hash, place }),
                    Some(false) => count(&self.counters.collisions, 1),
                    None => {}
                },
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
                Some(container) => container.entry(place.ordinal()),
                None => self.directories.cached(id).and_then(|d| d.get(place.ordinal()).copied()),
            };
            let Some(entry) = entry.filter(|entry| entry.fingerprint == *fingerprint) else {
                continue;
            };
            let pba = Pba { container: id, location: entry.location };
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
    /// under the table's lock never stays behind.
    fn keep_directory(&self, id: ContainerId, entries: Arc<[DirectoryEntry]>) {
        let engine = self.engine();
        if engine.table.get(id).is_some() {
            self.directories.insert(id, entries);
        }
    }

    /// What is at a candidate's place.
    fn place_of(&self, newest: ContainerId, place: Place, fingerprint: &Fingerprint) -> Outcome {
        let Some(id) = place.container(newest) else { return Outcome::Stale };
        let entry = if let Some(entries) = self.directories.cached(id) {
            entries.get(place.ordinal()).copied()
        } else if let Some(container) = self.live(id) {
            container.entry(place.ordinal())
        } else {
            let info = self.engine().table.get(id).copied();
            let Some(info) = info.filter(|info| info.len_bytes > 0) else { return Outcome::Stale };
            let looked =
                self.directories.entry(&*self.plain, (id, &info), place.ordinal(), fingerprint);
            match looked {
                Ok(Looked { entry, whole }) => {
                    if let Some(whole) = whole {
                        self.keep_directory(id, whole);
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
        match entry {
            Some(entry) if entry.fingerprint == *fingerprint => {
                Outcome::Same(Pba { container: id, location: entry.location })
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
