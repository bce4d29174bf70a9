//! What is to become of each chunk of a batch, worked out without any lock held.
//! Room: onefold-pool.
//! In: chunks. Out: a plan per chunk, and drafted records of those to be stored.
//! Source: ARCHITECTURE.md, life of a write, steps 3 to 5.

use std::ops::Range;
use std::sync::atomic::Ordering;

use onefold_block::Lba;
use onefold_block::spent::{self, Part};
use onefold_content::{Fingerprint, is_zero};

use crate::counters::count;
use crate::engine::{Inner, Scratch};
use crate::format::container::kept;
use crate::format::record;
use crate::index::Candidates;
use crate::pba::{MapEntry, UNIT_BYTES};
use crate::verify::Verified;

/// Chunks in a batch: four rounds of the widest hash kernel, and small enough that the data of
/// 4 KiB chunks stays in a second-level cache between hashing and compressing.
pub(crate) const BATCH_CHUNKS: usize = 64;

/// Whether chunks may share what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Where the same chunk is found.
    Wanted,
    /// Not with what was stored before the batch: such a plan never meets a container that is gone.
    Off,
}

/// One chunk to be written.
#[derive(Clone, Copy)]
pub(crate) struct ChunkWrite<'a> {
    pub lba: Lba,
    pub data: &'a [u8],
    /// The map entry that `data` was completed from; the write must start again if it changed.
    pub expected: Option<MapEntry>,
}

/// What becomes of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// All zeroes.
    Hole,
    /// Equal to a stored chunk.
    Shared(Verified),
    /// Equal to an earlier chunk of the batch.
    SameAs(usize),
    /// To be stored: the number of its draft.
    Draft(usize),
}

/// A drafted record.
pub(crate) struct Draft {
    /// The chunk's number in the batch.
    pub chunk: usize,
    pub fingerprint: Fingerprint,
    /// Its bytes in the scratch buffer.
    pub range: Range<usize>,
}

/// Plans for a whole batch.
pub(crate) struct Batch {
    pub plans: Vec<Plan>,
    pub drafts: Vec<Draft>,
    /// What [`Inner::stores`] was before the index was asked.
    pub stores: u64,
}

impl Inner {
    /// Hash, look up and compress a batch of at most [`BATCH_CHUNKS`].
    pub fn plan(
        &self,
        writes: &[ChunkWrite<'_>],
        sharing: Sharing,
        scratch: &mut Scratch,
    ) -> Batch {
        assert!(writes.len() <= BATCH_CHUNKS);
        let zero: Vec<bool> = writes.iter().map(|write| is_zero(write.data)).collect();
        let blocks: Vec<&[u8]> =
            writes.iter().zip(&zero).filter(|&(_, zero)| !zero).map(|(w, _)| w.data).collect();
        let mut fingerprints = std::mem::take(&mut scratch.fingerprints);
        fingerprints.resize(blocks.len(), Fingerprint::from_bytes([0; 32]));
        spent::on(Part::Hash, || self.fingerprinter.hash_many(&blocks, &mut fingerprints));
        for fingerprint in &mut fingerprints {
            *fingerprint = kept(fingerprint);
        }

        scratch.records.clear();
        scratch.learnt = false;
        let mut batch = Batch {
            plans: Vec::with_capacity(writes.len()),
            drafts: Vec::with_capacity(blocks.len()),
            stores: self.stores.load(Ordering::Acquire),
        };
        scratch.hashes.clear();
        scratch.hashes.extend(fingerprints.iter().map(Fingerprint::prefix64));
        let mut candidates = std::mem::take(&mut scratch.candidates);
        candidates.clear();
        match sharing {
            Sharing::Wanted => {
                self.index.lookup_many(&scratch.hashes, &mut candidates);
                self.ask_runs(scratch, &mut candidates);
            }
            Sharing::Off => candidates.resize(scratch.hashes.len(), Candidates::default()),
        }
        let mut seen = Seen::default();
        let mut next = fingerprints.iter().zip(&candidates);
        for (number, write) in writes.iter().enumerate() {
            if zero[number] {
                batch.plans.push(Plan::Hole);
                continue;
            }
            let (fingerprint, found) =
                next.next().expect("one fingerprint per chunk that is not zero");
            let strong = self.settings.fingerprint.is_strong();
            let same = |other: usize| strong || writes[other].data == write.data;
            let plan = if let Some(first) = seen.find_or_insert(fingerprint, number, same) {
                Plan::SameAs(first)
            } else {
                let named = Named { number, chunk: write.data, fingerprint, lba: write.lba };
                let learnt = self.look_again(fingerprint, found, scratch);
                self.plan_one(&named, learnt.as_ref().unwrap_or(found), &mut batch.drafts, scratch)
            };
            batch.plans.push(plan);
        }
        scratch.fingerprints = fingerprints;
        scratch.candidates = candidates;
        batch
    }

    /// What the index has for a chunk since it was told of neighbours, for one that was not found.
    fn look_again(
        &self,
        fingerprint: &Fingerprint,
        found: &Candidates,
        scratch: &Scratch,
    ) -> Option<Candidates> {
        if !scratch.learnt || !found.is_empty() {
            return None;
        }
        let mut again = Vec::with_capacity(1);
        self.index.lookup_many(&[fingerprint.prefix64()], &mut again);
        again.pop()
    }

    fn plan_one(
        &self,
        named: &Named<'_>,
        found: &Candidates,
        drafts: &mut Vec<Draft>,
        scratch: &mut Scratch,
    ) -> Plan {
        let &Named { number, chunk, fingerprint, .. } = named;
        if let Some(verified) = self.find_duplicate(found, named, scratch) {
            return Plan::Shared(verified);
        }
        let from = scratch.records.len();
        let Scratch { compressor, records, .. } = scratch;
        let units = spent::on(Part::Compress, || record::draft(chunk, compressor, records));
        if units == record::raw_units(chunk.len()) {
            count(&self.counters.raw, 1);
        }
        let range = from..from + units * UNIT_BYTES;
        drafts.push(Draft { chunk: number, fingerprint: *fingerprint, range });
        Plan::Draft(drafts.len() - 1)
    }
}

/// A chunk of a batch and its fingerprint.
pub(crate) struct Named<'a> {
    pub number: usize,
    pub chunk: &'a [u8],
    pub fingerprint: &'a Fingerprint,
    pub lba: Lba,
}

/// The fingerprints of a batch so far: a table of twice the batch's size.
struct Seen {
    slots: [u8; 2 * BATCH_CHUNKS],
    fingerprints: Vec<(Fingerprint, usize)>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { slots: [u8::MAX; 2 * BATCH_CHUNKS], fingerprints: Vec::with_capacity(BATCH_CHUNKS) }
    }
}

const _: () = assert!(BATCH_CHUNKS < u8::MAX as usize, "a chunk's number fits into a slot");

impl Seen {
    /// The first chunk with this fingerprint that is the same, if there is one; else remember it.
    fn find_or_insert(
        &mut self,
        fingerprint: &Fingerprint,
        number: usize,
        same: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut slot = fingerprint.prefix64() as usize % self.slots.len();
        loop {
            match self.fingerprints.get(usize::from(self.slots[slot])) {
                None => {
                    self.slots[slot] = self.fingerprints.len() as u8;
                    self.fingerprints.push((*fingerprint, number));
                    return None;
                }
                Some((other, first)) if other == fingerprint && same(*first) => {
                    return Some(*first);
                }
                Some(_) => slot = (slot + 1) % self.slots.len(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
