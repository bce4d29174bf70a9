//! What opening does after the checkpoint is read: the journal, open containers, strays, index.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, section 6.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::{ContainerId, Lba};
use onefold_content::Decompressor;

use crate::commit::Tally;
use crate::container::directories;
use crate::engine::{Engine, Inner};
use crate::error::PoolError;
use crate::format::container::{self, DirectoryEntry, Owner};
use crate::format::frame::Change;
use crate::format::record;
use crate::journal::{self, Journal, Replay};
use crate::pba::{CONTAINER_ID_MAX, Pba, UNIT_BYTES};

/// More containers than are made between two checkpoints. The table has a place for every number
/// up to the greatest: one that was made up would take gigabytes of memory.
const CONTAINERS_OF_AN_EPOCH: u32 = 1 << 24;

/// For which blocks records were written.
type Owners = HashMap<Pba, Owner>;

impl Inner {
    /// Bring memory to the state that is durable, and unless read-only the media too.
    pub fn recover(&self, sequence: u64, damage: Option<PoolError>) -> Result<(), PoolError> {
        let mut flusher = self.flusher();
        let mut engine = self.engine();
        let mut seen = Seen { first_unknown: engine.next_container, ..Seen::default() };
        let replay = journal::replay(&*self.files.journal, sequence, &mut |at, change| {
            self.redo(&mut engine, change, at, &mut seen)
        })?;
        refuse_other_epoch(&replay, sequence, damage)?;
        for sealed in &replay.sealed {
            engine.know(sealed.id, seen.first_unknown)?;
            engine.table.seal(sealed.id, sealed.len_bytes, sealed.chunks);
        }
        let witness = flusher.journal.witness();
        refuse_lost_frames(&replay, witness.frames(sequence))?;
        if let Some(at) = replay.torn_at
            && witness.is_damaged(sequence)
        {
            let problem = "a frame is not whole, and the note of how many were durable is damaged \
                           too: no power cut leaves both";
            return Err(PoolError::corrupt("journal", at, problem));
        }
        self.refuse_lost_journal(&replay, sequence, seen.first_unknown)?;
        if let Some(at) = replay.torn_at {
            tracing::warn!("the journal ends at byte {at} in a frame that is not whole");
        }
        if seen.orphans > 0 {
            tracing::debug!("{} journal entries of deleted volumes were skipped", seen.orphans);
        }
        self.newest.store(engine.next_container - 1, Ordering::Release);
        flusher.journal =
            Journal::resume(Arc::clone(&self.files.journal), sequence, &replay, witness.clone());
        if self.read_only {
            return Ok(());
        }
        let ends = self.files.journal.len()? == replay.end_bytes;
        if replay.next_number == 1 && replay.torn_at.is_none() && ends {
            // A clean stop cut it here, and held space past its end. Where it is longer there was
            // none, and its only frame may not be durable: cut, it would seem to be damaged.
            flusher.journal.give_back()?;
        }
        drop(flusher);
        engine.space.journal_took(replay.end_bytes);
        let sealed = self.seal_left_open(&mut engine, &seen, replay.end_bytes)?;
        self.remove_strays(&mut engine)?;
        self.begin_index_filling(self.newest(), engine.table.len());
        drop(engine);
        if replay.next_number == 0 {
            // The power went before the epoch's first frame was written, or it is in doubt whether
            // the checkpoint is durable.
            self.affirm_checkpoint(sequence)?;
            self.flusher().journal.restart(sequence, witness)?;
        }
        if replay.next_number != 1 || sealed {
            self.checkpoint()?;
        }
        self.finish_deletions()
    }

    /// The frame that begins an epoch is durable before any container of the epoch is made: without
    /// the one, the other shows that the journal is damaged and not just new. Containers that were
    /// made while the checkpoint was written are of the epoch before.
    fn refuse_lost_journal(
        &self,
        replay: &Replay,
        sequence: u64,
        first_unknown: u32,
    ) -> Result<(), PoolError> {
        if replay.next_number > 0 {
            return Ok(());
        }
        for id in self.plain.list()?.into_iter().filter(|id| id.get() >= first_unknown) {
            let mut header = [0; container::HEADER_BYTES];
            let readable = self.plain.read(id, 0, &mut header).is_ok();
            let epoch = container::check_header(&header, id, &self.identity.uuid);
            if readable && epoch.is_ok_and(|epoch| epoch >= sequence) {
                let problem =
                    format!("there is no good frame, but {id} was made after the checkpoint");
                return Err(PoolError::corrupt_whole("journal", problem));
            }
        }
        Ok(())
    }

    /// Repeat a map change.
    fn redo(
        &self,
        engine: &mut Engine,
        change: Change,
        frame_at: u64,
        seen: &mut Seen,
    ) -> Result<(), PoolError> {
        let (Change::Run { volume: number, first, .. }
        | Change::Fill { volume: number, first, .. }) = change;
        let volume = self.volume_by_number(number);
        let Some(volume) = volume else {
            seen.orphans += 1;
            return Ok(());
        };
        let blocks = match &change {
            Change::Run { entries, .. } => entries.len() as u64,
            Change::Fill { count, .. } => *count,
        };
        let end = self.map.blocks_max(number)?;
        if first.get() + blocks > end {
            let problem = format!("{first} and {blocks} blocks lie past the end of the volume");
            return Err(PoolError::corrupt_whole("journal", problem));
        }
        let mut tally = Tally::default();
        match change {
            Change::Run { entries, .. } => {
                for entry in &entries {
                    tally.gained(*entry);
                    if let Some(pba) = entry.pba()
                        && engine.know(pba.container, seen.first_unknown)?
                    {
                        seen.begun.insert(pba.container, frame_at);
                    }
                }
                tally.reference(engine)?;
                self.map.set(number, first, &entries, &mut tally)?;
            }
            Change::Fill { count, entry, .. } => {
                self.map.fill(number, first, count, entry, usize::MAX, &mut tally)?;
            }
        }
        tally.release(engine, &volume)
    }

    /// Seal the containers that were open when the pool stopped, or were sealed after the last
    /// frame. True if there were any.
    fn seal_left_open(
        &self,
        engine: &mut Engine,
        seen: &Seen,
        journal_end: u64,
    ) -> Result<bool, PoolError> {
        let left: Vec<(ContainerId, u64)> = engine
            .table
            .iter()
            .filter(|(_, info)| !info.is_sealed())
            .map(|(id, info)| (id, info.references))
            .collect();
        let owners = self.owners_since(&left, seen, journal_end)?;
        for &(id, references) in &left {
            if references == 0 {
                self.store.remove(id)?;
                engine.table.remove(id);
                continue;
            }
            match self.seal_one(id, &owners) {
                Ok((len, chunks)) => engine.table.seal(id, len, chunks),
                Err(error) if error.is_corruption() || matches!(error, PoolError::Store(_)) => {
                    // What can be read of it still is; what cannot is named when it is asked for.
                    tracing::error!("container left open cannot be sealed: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(!left.is_empty())
    }

    /// For which blocks the records of containers without a directory were written, as far as the
    /// journal tells.
    fn owners_since(
        &self,
        left: &[(ContainerId, u64)],
        seen: &Seen,
        journal_end: u64,
    ) -> Result<Owners, PoolError> {
        let without = |id: &ContainerId| {
            let len = self.plain.len(*id);
            len.is_ok_and(|len| directories::load(&*self.plain, *id, len).is_err())
        };
        let without: BTreeSet<ContainerId> =
            left.iter().map(|(id, _)| *id).filter(without).collect();
        let mut owners = Owners::new();
        // One that the checkpoint knows may be in any frame.
        let begun = |id: &ContainerId| seen.begun.get(id).copied().unwrap_or(0);
        let Some(first) = without.iter().map(begun).min() else { return Ok(owners) };
        let part = first..journal_end;
        journal::replay_part(&*self.files.journal, part, &mut |_, change| {
            if let Change::Run { volume, first, entries } = change {
                for (lba, entry) in (first.get()..).zip(&entries) {
                    if let Some(pba) = entry.pba().filter(|pba| without.contains(&pba.container)) {
                        // Whoever came later shares it.
                        owners.entry(pba).or_insert(Owner { volume, lba: Lba::new(lba) });
                    }
                }
            }
            Ok(())
        })?;
        Ok(owners)
    }

    /// Give a container its directory, by walking its records. Returns length and records.
    fn seal_one(&self, id: ContainerId, owners: &Owners) -> Result<(usize, usize), PoolError> {
        let len = self.plain.len(id)?;
        let mut bytes = vec![0; (len as usize).min(self.settings.container_bytes as usize)];
        self.plain.read(id, 0, &mut bytes)?;
        container::check_header(&bytes, id, &self.identity.uuid)?;
        let mut entries = self.walk(id, &bytes)?;
        // It may have been sealed after the checkpoint. A directory alone proves nothing: it may
        // have reached the media when a record before it did not.
        let what = |entry: &DirectoryEntry| (entry.fingerprint, entry.location);
        let found = directories::load(&*self.plain, id, len).unwrap_or_default();
        let sealed = !found.is_empty() && found.iter().map(what).eq(entries.iter().map(what));
        if !sealed {
            let known: BTreeMap<_, _> = found.iter().map(|e| (what(e).1, e.owner)).collect();
            for entry in &mut entries {
                let pba = Pba { container: id, location: entry.location };
                let owner = known.get(&entry.location).or_else(|| owners.get(&pba));
                entry.owner = owner.copied().unwrap_or(Owner::UNKNOWN);
            }
            let at =
                entries.last().map_or(container::HEADER_BYTES, |entry| entry.location.end_bytes());
            bytes.truncate(at);
            bytes.extend(container::encode_directory(id, &entries, at));
        }
        // All of it, as it was read: if its sync failed once, what the sync was for may be lost
        // with the power, however often it is synced after that.
        self.store.append(id, 0, &bytes)?;
        self.store.seal(id, bytes.len() as u64)?;
        self.store.sync(id)?;
        Ok((bytes.len(), entries.len()))
    }

    /// All good records in a container's bytes.
    pub fn walk(&self, id: ContainerId, bytes: &[u8]) -> Result<Vec<DirectoryEntry>, PoolError> {
        let chunk_bytes = self.chunk_bytes();
        let (mut entries, mut at) = (Vec::new(), container::HEADER_BYTES);
        let mut chunk = vec![0; chunk_bytes];
        let mut decompressor = Decompressor::new();
        while at < bytes.len() {
            // A damaged record hides its length: go on at the next good one, because what lies
            // past it may be referred to and must not be written over.
            let Some(location) = record::probe(bytes, at, id, chunk_bytes) else {
                at += UNIT_BYTES;
                continue;
            };
            let pba = Pba { container: id, location };
            record::decode(&bytes[at..location.end_bytes()], pba, &mut decompressor, &mut chunk)
                .map_err(|e| PoolError::corrupt(id.to_string(), at as u64, e.to_string()))?;
            let fingerprint = container::kept(&self.fingerprinter.hash(&chunk));
            entries.push(DirectoryEntry { fingerprint, location, owner: Owner::UNKNOWN });
            at = location.end_bytes();
        }
        Ok(entries)
    }

    /// Remove containers of this pool that nothing refers to: made or given up just before the
    /// power went. Their numbers are not given out again: a removal may be undone by a power cut,
    /// and a container whose number the next checkpoint does not know shows a lost journal.
    fn remove_strays(&self, engine: &mut Engine) -> Result<(), PoolError> {
        for id in self.plain.list()? {
            if engine.table.get(id).is_some() {
                continue;
            }
            let mut header = [0; container::HEADER_BYTES];
            let readable = self.plain.read(id, 0, &mut header).is_ok();
            let ours = container::check_header(&header, id, &self.identity.uuid).is_ok();
            let unfinished = !readable || header == [0; container::HEADER_BYTES];
            if ours || unfinished {
                if id.get() < CONTAINER_ID_MAX {
                    engine.next_container = engine.next_container.max(id.get() + 1);
                }
                self.store.remove(id)?;
            } else {
                tracing::warn!("{id} is not part of this pool and was left alone");
            }
        }
        Ok(())
    }
}

/// What recovery sees in the journal, beside what it repeats.
#[derive(Default)]
struct Seen {
    /// The first container that the checkpoint does not know.
    first_unknown: u32,
    /// Where the frame begins that refers to a container first.
    begun: BTreeMap<ContainerId, u64>,
    /// Changes of volumes that are deleted by now.
    orphans: u64,
}

impl Engine {
    /// A container that the journal refers to but the checkpoint does not know was made since. True
    /// if this is the first that is heard of it.
    fn know(&mut self, id: ContainerId, first_unknown: u32) -> Result<bool, PoolError> {
        let new = id.get() >= first_unknown && self.table.get(id).is_none();
        if new {
            if id.get() - first_unknown >= CONTAINERS_OF_AN_EPOCH {
                let problem =
                    format!("it refers to {id}, but the next one was number {first_unknown}");
                return Err(PoolError::corrupt_whole("journal", problem));
            }
            self.table.open(id);
            self.next_container = self.next_container.max(id.get() + 1);
        }
        Ok(new)
    }
}

/// The witness knows of no frame that was not durable.
fn refuse_lost_frames(replay: &Replay, witnessed: Option<u64>) -> Result<(), PoolError> {
    let there = replay.next_number;
    match witnessed {
        Some(frames) if frames > there => {
            let problem = format!(
                "its frames end before frame {there}, but {frames} of them were durable: the last \
                 ones are damaged or missing"
            );
            Err(PoolError::corrupt("journal", replay.end_bytes, problem))
        }
        _ => Ok(()),
    }
}

/// The journal never runs ahead of the checkpoints, unless the newest one is lost, and is never
/// more than one behind, unless it comes from an older copy of the pool.
fn refuse_other_epoch(
    replay: &Replay,
    sequence: u64,
    damage: Option<PoolError>,
) -> Result<(), PoolError> {
    match replay.first_epoch {
        Some(epoch) if epoch > sequence => {
            let why = damage.map_or_else(String::new, |error| format!(": {error}"));
            let newest = format!("the newest readable one is {sequence}{why}");
            let problem = format!("the journal follows checkpoint {epoch}, but {newest}");
            Err(PoolError::corrupt_whole("checkpoint", problem))
        }
        Some(epoch) if epoch + 1 < sequence => {
            let problem = format!(
                "it follows checkpoint {epoch}, but the newest one is {sequence}: it is older than \
                 the rest of the pool"
            );
            Err(PoolError::corrupt_whole("journal", problem))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
