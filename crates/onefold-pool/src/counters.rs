//! What the pool has done since it was opened.
//! Room: onefold-pool.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds one event, or several.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Events since the pool was opened, in chunks unless the name says otherwise.
#[derive(Default)]
pub(crate) struct Counters {
    /// Written by clients.
    pub written: AtomicU64,
    /// Of these: zeroes, which became holes.
    pub zero: AtomicU64,
    /// Of these: duplicates, which became references.
    pub duplicate: AtomicU64,
    /// Of these: stored.
    pub stored: AtomicU64,
    /// Of those: found to be stored already in the background, and stored once from then on.
    pub found_later: AtomicU64,
    /// Of those: raw, because compression saved nothing.
    pub raw: AtomicU64,
    /// Index candidates that turned out to be another chunk.
    pub false_candidates: AtomicU64,
    /// Candidates with an equal fingerprint but other bytes: collisions.
    pub collisions: AtomicU64,
    /// Read by clients.
    pub read: AtomicU64,
    /// Of these: from the read cache.
    pub cache_hits: AtomicU64,
    /// Partial chunks that were completed by reading.
    pub completed: AtomicU64,
    /// Flushes that had something to do.
    pub flushes: AtomicU64,
    /// Checkpoints.
    pub checkpoints: AtomicU64,
    /// Bytes of records that were moved to win space back.
    pub moved_bytes: AtomicU64,
    /// Bytes of containers that were given back where they lie.
    pub punched_bytes: AtomicU64,
    /// Snapshots and volumes whose pages were all given up.
    pub snapshots_gone: AtomicU64,
    /// Times that pages came to be another volume's or snapshot's own.
    pub lineage_changes: AtomicU64,
    /// Passes over the leaves of all maps that came to their end.
    pub map_passes: AtomicU64,
}
