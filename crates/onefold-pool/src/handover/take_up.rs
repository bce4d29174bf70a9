//! The flush that a process did not come to before it ended, done by the next one.
//! Room: onefold-pool.
//! Order, as for any flush: records into containers, these durable, then a journal frame. It comes
//! before recovery, which then finds a pool as after a power cut that took nothing. The regions go
//! last, so that a kill on the way changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onefold_block::handover::{Handover, Region, Unmarked};
use onefold_block::{ContainerId, ContainerStore, MediaError, StoreError};

use super::changes::Left;
use super::{CHANGES_NAME, Changes, SLOT_PREFIX, Slot, remove_all};
use crate::container::table::ContainerTable;
use crate::engine::Files;
use crate::error::PoolError;
use crate::format::container;
use crate::format::frame::{Change, Entries, decode_changes};
use crate::format::record;
use crate::format::superblock::Superblock;
use crate::journal::{self, Journal, Replay, Witness};
use crate::map::blocks_under;
use crate::pba::{MapEntry, Pba, UNIT_BYTES};

/// Longest payload of one frame that is written here.
const FRAME_BYTES: usize = 1 << 20;

/// What was found of a former process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenUp {
    /// Whether there was memory of this pool at all.
    pub found: bool,
    /// Map changes that were in memory alone, and are durable now.
    pub changes: u64,
    /// Why more than these may have been acknowledged, if that is so.
    pub lost: Option<String>,
}

/// A container that a former process had in memory.
struct InMemory {
    region: Region,
    /// Where its good records end.
    end: usize,
}

/// Take up what a former process left. The pool is opened to be written, and not recovered yet.
pub fn take_up(
    handover: &dyn Handover,
    (superblock, table): (&Superblock, &ContainerTable),
    files: &Files,
    store: &dyn ContainerStore,
) -> Result<TakenUp, PoolError> {
    let uuid = &superblock.identity.uuid;
    let mut region = match handover.open(CHANGES_NAME) {
        Ok(region) => region,
        Err(MediaError::NotFound { .. }) => return Ok(TakenUp::default()),
        Err(error) => return Ok(TakenUp::lost(format!("it cannot be opened: {error}"))),
    };
    match Changes::left(&region, uuid, handover.boot()) {
        Ok(_) => {}
        // A folder that is gone had the same number on this disk.
        Err(Unmarked::OtherOwner) => return Ok(TakenUp::default()),
        Err(why) => return Ok(TakenUp::lost(why.to_string())),
    }
    let newest = superblock.sequence;
    let bytes = superblock.encode();
    let witness = Witness::new(Arc::clone(&files.supers[newest as usize % 2]), bytes.len() as u64);
    if Changes::was_writing(&region, newest, Superblock::checksum_in(&bytes)) {
        begin_epoch(files, newest, witness.clone())?;
        Changes::has_written(&mut region, newest);
    }
    let Ok(left) = Changes::left(&region, uuid, handover.boot()) else {
        return Ok(TakenUp::lost(Unmarked::Damaged.to_string()));
    };
    drop(region);
    if left.epoch != newest {
        return Ok(if left.payloads.is_empty() && left.missing.is_none() {
            TakenUp { found: true, ..TakenUp::default() }
        } else {
            TakenUp::lost("the pool was opened since without taking it up")
        });
    }
    let replay = match journal::replay(&*files.journal, newest, &mut |_, _| Ok(())) {
        Ok(replay) => replay,
        // Recovery refuses the pool, and says why; what is in memory stays there.
        Err(error) if error.is_corruption() => return Ok(TakenUp::lost(error.to_string())),
        Err(error) => return Err(error),
    };
    let whole = replay.first_epoch == Some(newest)
        && witness.frames(newest).is_none_or(|frames| frames <= replay.next_number);
    if !whole {
        return Ok(TakenUp::lost("the journal that it follows is not whole"));
    }
    let sealed = sealed(table, &replay);
    let mut taking = Taking {
        superblock,
        slots: slots(handover, superblock, &sealed)?,
        sealed,
        store,
        on_disk: None,
        touched: BTreeSet::new(),
    };
    let (frames, taken) = taking.judge(left);
    if !frames.is_empty() {
        taking.store_containers()?;
        let media = Arc::clone(&files.journal);
        let mut journal = Journal::resume(media, newest, &replay, witness);
        for payload in frames {
            journal.append(&Entries::from_payload(payload))?;
        }
        tracing::info!("{} changes of the process before this one are durable now", taken.changes);
    }
    remove_all(handover)?;
    Ok(taken)
}

/// Containers that are sealed and durable: those of the checkpoint, and since.
fn sealed(table: &ContainerTable, replay: &Replay) -> BTreeSet<ContainerId> {
    let before = table.iter().filter(|(_, info)| info.is_sealed()).map(|(id, _)| id);
    before.chain(replay.sealed.iter().map(|sealed| sealed.id)).collect()
}

/// The dead process had written this checkpoint, and may not have come to the frame that begins its
/// epoch.
fn begin_epoch(files: &Files, epoch: u64, witness: Witness) -> Result<(), PoolError> {
    let media = Arc::clone(&files.journal);
    let replay = journal::replay(&*media, epoch, &mut |_, _| Ok(()))?;
    if replay.first_epoch == Some(epoch - 1) {
        Journal::resume(media, epoch, &replay, witness.clone()).restart(epoch, witness)?;
    }
    Ok(())
}

impl TakenUp {
    fn lost(why: impl Into<String>) -> Self {
        let why = why.into();
        tracing::warn!("what the process before this one left in memory is not used: {why}");
        Self { found: true, changes: 0, lost: Some(why) }
    }
}

/// Containers in memory that are not known as sealed. One whose memory is damaged
/// ends at the damage.
fn slots(
    handover: &dyn Handover,
    superblock: &Superblock,
    sealed: &BTreeSet<ContainerId>,
) -> Result<BTreeMap<ContainerId, InMemory>, PoolError> {
    let uuid = &superblock.identity.uuid;
    let chunk_bytes = superblock.settings.chunk_size.bytes();
    let mut slots = BTreeMap::new();
    for name in handover.list()?.iter().filter(|name| name.starts_with(SLOT_PREFIX)) {
        let Ok(region) = handover.open(name) else { continue };
        let found = match Slot::left(&region, uuid, handover.boot()) {
            Ok(Some((id, bytes))) => Some((id, good_end(bytes, id, uuid, chunk_bytes))),
            Ok(None) => None,
            Err(why) => {
                tracing::warn!("memory of a container is not used: {why}");
                None
            }
        };
        if let Some((id, end)) = found
            && !sealed.contains(&id)
        {
            slots.insert(id, InMemory { region, end });
        }
    }
    Ok(slots)
}

/// Where the good records of a container end; 0 if it does not even begin as one.
fn good_end(bytes: &[u8], id: ContainerId, uuid: &[u8; 16], chunk_bytes: usize) -> usize {
    let head = bytes.get(..container::HEADER_BYTES).unwrap_or_default();
    if container::check_header(head, id, uuid).is_err() {
        return 0;
    }
    let mut at = container::HEADER_BYTES;
    while let Some(location) = record::probe(bytes, at, id, chunk_bytes) {
        at = location.end_bytes();
    }
    at
}

/// What is needed to judge changes, and to make what they refer to durable.
struct Taking<'a> {
    superblock: &'a Superblock,
    /// Containers that are sealed and durable.
    sealed: BTreeSet<ContainerId>,
    store: &'a dyn ContainerStore,
    slots: BTreeMap<ContainerId, InMemory>,
    /// The bytes of the one that was looked at last of those that are in the store alone.
    on_disk: Option<(ContainerId, Vec<u8>)>,
    /// Containers that are referred to and not known to be durable.
    touched: BTreeSet<ContainerId>,
}

impl Taking<'_> {
    /// The changes that stand, up to the first that does not, as payloads of frames.
    fn judge(&mut self, left: Left) -> (Vec<Vec<u8>>, TakenUp) {
        let mut taken = TakenUp { found: true, changes: 0, lost: left.missing.map(str::to_owned) };
        let (mut frames, mut entries) = (Vec::new(), Vec::new());
        for payload in left.payloads {
            let changes = decode_changes(&payload).unwrap_or_default();
            if changes.is_empty() || !changes.iter().all(|change| self.stands(change)) {
                taken.lost = Some("a change refers to what is not there".to_owned());
                break;
            }
            taken.changes += changes.len() as u64;
            if entries.len() + payload.len() > FRAME_BYTES {
                frames.push(std::mem::take(&mut entries));
            }
            entries.extend_from_slice(&payload);
        }
        frames.push(entries);
        frames.retain(|frame| !frame.is_empty());
        (frames, taken)
    }

    /// Whether all that a change refers to is there.
    fn stands(&mut self, change: &Change) -> bool {
        let (number, end) = match change {
            Change::Run { volume, first, entries } => {
                (*volume, first.checked_add(entries.len() as u64))
            }
            Change::Fill { volume, first, count, .. } => (*volume, first.checked_add(*count)),
        };
        // Those of a volume that is deleted by now are skipped by recovery.
        let volume = self.superblock.volumes.iter().find(|volume| volume.number == number);
        let inside = volume
            .is_none_or(|volume| end.is_some_and(|end| end.get() <= blocks_under(volume.height)));
        let Change::Run { entries, .. } = change else { return inside };
        inside && entries.iter().filter_map(|entry| MapEntry::pba(*entry)).all(|pba| self.has(pba))
    }

    fn has(&mut self, pba: Pba) -> bool {
        let id = pba.container;
        if self.sealed.contains(&id) {
            return true;
        }
        let is_there = self.has_in_memory(pba) || self.has_on_disk(pba);
        if is_there {
            self.touched.insert(id);
        }
        is_there
    }

    fn has_in_memory(&self, pba: Pba) -> bool {
        let slot = self.slots.get(&pba.container);
        slot.is_some_and(|slot| pba.location.end_bytes() <= slot.end)
    }

    fn has_on_disk(&mut self, pba: Pba) -> bool {
        let id = pba.container;
        let bytes = match &mut self.on_disk {
            Some((here, bytes)) if *here == id => bytes,
            other => {
                let len = self.store.len(id).unwrap_or(0) as usize;
                let mut bytes = vec![0; len.min(self.superblock.settings.container_bytes as usize)];
                let read = self.store.read(id, 0, &mut bytes);
                &mut other.insert((id, read.map(|()| bytes).unwrap_or_default())).1
            }
        };
        let (from, upto) = (pba.location.offset_bytes(), pba.location.end_bytes());
        let record = bytes.get(from..upto);
        debug_assert!(from.is_multiple_of(UNIT_BYTES));
        record.is_some_and(|record| record::verify(record, pba).is_ok())
    }

    /// Bring containers to the store as far as they were in memory, and make all that changes refer
    /// to durable.
    fn store_containers(&self) -> Result<(), PoolError> {
        for (&id, slot) in &self.slots {
            if !self.touched.contains(&id) || slot.end == 0 {
                continue;
            }
            let bytes = &slot.region.bytes()[..slot.end];
            let len = match self.store.len(id) {
                Ok(len) => (len as usize).min(slot.end),
                Err(StoreError::NotFound { .. }) => {
                    self.store.create(id, self.superblock.settings.container_bytes.into())?;
                    0
                }
                Err(error) => return Err(error.into()),
            };
            let mut there = vec![0; len];
            self.store.read(id, 0, &mut there)?;
            let same = there.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            if same < slot.end {
                self.store.append(id, same as u64, &bytes[same..])?;
            }
        }
        for &id in &self.touched {
            self.store.sync(id)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
