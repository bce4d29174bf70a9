//! What a pool holds and uses.
//! Room: onefold-pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::Generation;

pub use crate::container::table::SpaceTotals;
use crate::deduplicate::DeduplicationStatus;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::container;
use crate::index::IndexStats;
use crate::map::MapStats;
use crate::pool::Pool;
use crate::settings::{Budgets, PoolSettings};

/// A volume in a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of blocks with stored data.
    pub mapped_bytes: u64,
    /// What a door keeps with it.
    pub note: Arc<[u8]>,
}

/// What was done since the pool was opened, in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Written by clients.
    pub written: u64,
    /// Of these, zeroes.
    pub zero: u64,
    /// Of these, duplicates.
    pub duplicate: u64,
    /// Of these, stored.
    pub stored: u64,
    /// Of those, without compression because it saved nothing.
    pub raw: u64,
    /// Index candidates that were another chunk.
    pub false_candidates: u64,
    /// Equal fingerprints with other bytes.
    pub collisions: u64,
    /// Read by clients.
    pub read: u64,
    /// Of these, from the read cache.
    pub cache_hits: u64,
    /// Partial chunks completed by reading.
    pub completed: u64,
    /// Flushes with something to do.
    pub flushes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes of records that were moved to win space back.
    pub moved_bytes: u64,
    /// Bytes of containers given back where they lie, on a disk too full to move anything.
    pub punched_bytes: u64,
}

/// What a pool holds and uses.
#[derive(Clone, Debug)]
pub struct PoolStatus {
    /// How it stores.
    pub settings: PoolSettings,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its generation, if it says so.
    pub generation: Option<Generation>,
    /// Its volumes.
    pub volumes: Vec<VolumeStatus>,
    /// Its snapshots, those that are being deleted among them.
    pub snapshots: u64,
    /// Bytes of all volumes' blocks with stored data; those of snapshots are not among them.
    pub logical_bytes: u64,
    /// Bytes of the chunks that blocks of volumes and snapshots refer to, each counted once and
    /// before compression. Where
    /// many blocks share chunks it may be less, until the maps were last counted.
    pub unique_bytes: u64,
    /// Bytes of these chunks as stored, record headers and padding included.
    pub compressed_bytes: u64,
    /// Bytes of all files of the pool.
    pub stored_bytes: u64,
    /// Of these, bytes of containers.
    pub container_bytes: u64,
    /// Of these, bytes of what blocks refer to, its part of headers and directories included.
    pub live_bytes: u64,
    /// The other bytes of containers: what was overwritten or given up.
    pub dead_bytes: u64,
    /// Of these, bytes in containers without any reference: the next checkpoint gives them back.
    pub removable_bytes: u64,
    /// Chunks that blocks refer to.
    pub chunks: u64,
    /// Chunks in containers, those among them that nothing refers to any more.
    pub stored_chunks: u64,
    /// Containers, and of these without any reference, waiting for the next checkpoint.
    pub containers: u64,
    /// Containers that nothing refers to any more.
    pub dead_containers: u64,
    /// Containers that a process left unfinished when it ended: no checkpoint and no journal frame
    /// knows them, and opening the pool for writing removes them.
    pub unfinished_containers: u64,
    /// Bytes of their files.
    pub unfinished_bytes: u64,
    /// Mean fill of a sealed container, from 0 to 1.
    pub container_fill: f64,
    /// Fingerprint index.
    pub index_entries: u64,
    /// Index entries let go because its memory was used up.
    pub index_let_go: u64,
    /// Containers whose fingerprints the index has yet to learn since the pool was opened, about: a
    /// copy of what is in them is stored once more.
    pub index_containers_left: u64,
    /// How far deduplication in the background is.
    pub deduplication: DeduplicationStatus,
    /// Memory of the index in use, its directories included.
    pub index_memory_bytes: u64,
    /// Of this, memory of the directories that its candidates are verified with.
    pub directory_memory_bytes: u64,
    /// Memory that the index may use.
    pub index_memory_max_bytes: u64,
    /// Memory of map pages in use.
    pub map_memory_bytes: u64,
    /// Memory that map pages may use.
    pub map_memory_max_bytes: u64,
    /// Distinct map pages, those of the container table and of the bitmap of slots among them. Of
    /// a pool opened read-only, which keeps no such bitmap, 1.
    pub map_pages: u64,
    /// Map pages read from the disk since it was opened.
    pub map_pages_read: u64,
    /// Passes over the leaves of all maps that came to their end since then.
    pub map_passes: u64,
    /// Memory of the read cache in use.
    pub cache_memory_bytes: u64,
    /// Memory that the read cache may use.
    pub cache_memory_max_bytes: u64,
    /// Memory of containers that are being filled or written out, of those kept for the next, and
    /// of what calls work in.
    pub buffer_memory_bytes: u64,
    /// Memory of the table of containers, and of map changes on their way to the journal.
    pub table_memory_bytes: u64,
    /// Journal length in bytes.
    pub journal_bytes: u64,
    /// Why nothing is written any more, if so.
    pub failure: Option<String>,
    /// What was done since it was opened.
    pub activity: Activity,
}

impl PoolStatus {
    /// Logical bytes per unique byte; 1 for an empty pool. Below 1 where snapshots hold much that
    /// volumes hold no more.
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.logical_bytes, self.unique_bytes)
    }

    /// Unique bytes per compressed byte.
    pub fn compression_ratio(&self) -> f64 {
        ratio(self.unique_bytes, self.compressed_bytes)
    }

    /// Bytes of containers per byte of what blocks refer to; 1 if nothing is stored.
    pub fn stored_over_live(&self) -> f64 {
        ratio(self.container_bytes, self.live_bytes)
    }

    /// Memory of all parts of the pool together.
    pub fn memory_bytes(&self) -> u64 {
        self.index_memory_bytes
            + self.map_memory_bytes
            + self.cache_memory_bytes
            + self.buffer_memory_bytes
            + self.table_memory_bytes
    }

    /// Logical bytes per byte of all files: what the pool really saves.
    pub fn total_ratio(&self) -> f64 {
        ratio(self.logical_bytes, self.stored_bytes)
    }
}

fn ratio(over: u64, under: u64) -> f64 {
    if over == 0 || under == 0 { 1.0 } else { over as f64 / under as f64 }
}

impl Pool {
    /// What was done since it was opened; cheap.
    pub fn activity(&self) -> Activity {
        activity(&self.inner)
    }

    /// Use so much memory for decompressed blocks from now on, in bytes.
    pub fn set_cache_memory(&self, bytes: u64) -> Result<(), PoolError> {
        Budgets { cache_bytes: bytes, ..self.inner.budgets }.check()?;
        self.inner.cache.set_budget(bytes);
        Ok(())
    }

    /// What sealed containers take, and how much of that is alive; cheap.
    pub fn space(&self) -> SpaceTotals {
        self.inner.engine().table.totals()
    }

    /// What it holds and uses now.
    pub fn status(&self) -> Result<PoolStatus, PoolError> {
        let inner = &*self.inner;
        let chunk = inner.chunk_bytes() as u64;
        let volumes: Vec<VolumeStatus> = inner
            .visible_volumes()
            .iter()
            .map(|volume| VolumeStatus {
                name: volume.name(),
                size_bytes: volume.size_bytes(),
                mapped_bytes: volume.mapped_bytes(chunk),
                note: volume.note(),
            })
            .collect();
        let stored = stored(inner)?;
        let index: IndexStats = inner.index.stats();
        let map: MapStats = inner.map.stats();
        Ok(PoolStatus {
            settings: inner.settings,
            uuid: inner.identity.uuid,
            generation: self.generation(),
            snapshots: inner.all_volumes().iter().filter(|v| v.is_snapshot).count() as u64,
            logical_bytes: volumes
                .iter()
                .fold(0, |sum, volume| volume.mapped_bytes.saturating_add(sum)),
            volumes,
            unique_bytes: stored.live_chunks * chunk,
            compressed_bytes: stored.record_bytes,
            stored_bytes: stored.container_bytes + stored.file_bytes + stored.unfinished_bytes,
            container_bytes: stored.container_bytes,
            live_bytes: stored.live_bytes,
            dead_bytes: stored.container_bytes - stored.live_bytes,
            removable_bytes: stored.removable_bytes,
            chunks: stored.live_chunks,
            stored_chunks: stored.chunks,
            containers: stored.containers,
            dead_containers: stored.dead,
            unfinished_containers: stored.unfinished,
            unfinished_bytes: stored.unfinished_bytes,
            container_fill: if stored.sealed == 0 {
                0.0
            } else {
                let room = stored.sealed * u64::from(inner.settings.container_bytes);
                stored.sealed_bytes as f64 / room as f64
            },
            index_entries: index.entries,
            index_let_go: index.let_go,
            index_containers_left: inner.index_filling.containers_left(),
            deduplication: inner.deduplication_status(),
            index_memory_bytes: index.bytes
                + inner.directories.bytes() as u64
                + inner.ask_runs.lookup().bytes(),
            directory_memory_bytes: inner.directories.bytes() as u64,
            index_memory_max_bytes: inner.index_memory(),
            map_memory_bytes: map.bytes,
            map_memory_max_bytes: inner.budgets.map_bytes,
            map_pages: map.pages,
            map_pages_read: map.pages_read,
            map_passes: inner.counters.map_passes.load(Ordering::Relaxed),
            cache_memory_bytes: inner.cache.bytes(),
            cache_memory_max_bytes: inner.cache.budget_bytes(),
            buffer_memory_bytes: inner.buffer_bytes() as u64,
            table_memory_bytes: inner.table_bytes() as u64,
            journal_bytes: stored.journal_bytes,
            failure: inner.poison.get().cloned(),
            activity: activity(inner),
        })
    }
}

#[derive(Default)]
struct Stored {
    chunks: u64,
    live_chunks: u64,
    live_bytes: u64,
    removable_bytes: u64,
    record_bytes: u64,
    containers: u64,
    dead: u64,
    sealed: u64,
    sealed_bytes: u64,
    container_bytes: u64,
    file_bytes: u64,
    unfinished: u64,
    unfinished_bytes: u64,
    journal_bytes: u64,
}

fn stored(inner: &Inner) -> Result<Stored, PoolError> {
    let mut stored = Stored::default();
    let left_open: Vec<_> = {
        let engine = inner.engine();
        stored.containers = engine.table.len() as u64;
        stored.dead = engine.table.dead();
        for (_, info) in engine.table.iter().filter(|(_, info)| info.is_sealed()) {
            let (len, chunks) = (u64::from(info.len_bytes), u64::from(info.chunks));
            let around = container::HEADER_BYTES + container::directory_bytes(info.chunks as usize);
            stored.sealed += 1;
            stored.sealed_bytes += len;
            stored.container_bytes += info.stored_bytes();
            stored.chunks += chunks;
            stored.live_chunks += u64::from(info.live());
            stored.record_bytes += part(len - around as u64, info.live().into(), chunks);
        }
        let totals = engine.table.totals();
        stored.live_bytes = totals.live_bytes;
        stored.removable_bytes = totals.dead_bytes;
        let open = engine.table.iter().filter(|(_, info)| !info.is_sealed());
        open.map(|(id, info)| (id, info.references)).collect()
    };
    for (id, references) in left_open {
        if let Some(open) = inner.live(id) {
            let (bytes, chunks) = open.fill();
            let (bytes, chunks) = (bytes as u64, chunks as u64);
            let live = references.min(chunks);
            stored.container_bytes += bytes;
            stored.live_bytes += part(bytes, live, chunks);
            stored.record_bytes +=
                part(bytes.saturating_sub(container::HEADER_BYTES as u64), live, chunks);
            stored.chunks += chunks;
            stored.live_chunks += live;
        } else if let Ok(len) = inner.store.len(id) {
            stored.container_bytes += len;
            stored.live_bytes += len;
            stored.record_bytes += len;
        }
    }
    // Who opens a pool for writing removes them first, and makes new ones before others know them.
    if inner.read_only {
        let listed = inner.plain.list()?;
        let engine = inner.engine();
        for id in listed.into_iter().filter(|&id| engine.table.get(id).is_none()) {
            stored.unfinished += 1;
            stored.unfinished_bytes += inner.plain.len(id)?;
        }
    }
    let files = &inner.files;
    stored.journal_bytes = inner.flusher().journal.len_bytes();
    for media in [&files.supers[0], &files.supers[1], &files.journal, &files.map] {
        stored.file_bytes += media.len()?;
    }
    Ok(stored)
}

/// As much of `bytes` as `live` is of `all`.
fn part(bytes: u64, live: u64, all: u64) -> u64 {
    (u128::from(bytes) * u128::from(live)).checked_div(all.into()).unwrap_or(0) as u64
}

fn activity(inner: &Inner) -> Activity {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &inner.counters;
    Activity {
        written: get(&counters.written),
        zero: get(&counters.zero),
        duplicate: get(&counters.duplicate),
        stored: get(&counters.stored),
        raw: get(&counters.raw),
        false_candidates: get(&counters.false_candidates),
        collisions: get(&counters.collisions),
        read: get(&counters.read),
        cache_hits: get(&counters.cache_hits),
        completed: get(&counters.completed),
        flushes: get(&counters.flushes),
        checkpoints: get(&counters.checkpoints),
        moved_bytes: get(&counters.moved_bytes),
        punched_bytes: get(&counters.punched_bytes),
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder, SplitMix64};

    use super::*;

    fn status() -> PoolStatus {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("v", ByteSize(8 << 20)).unwrap();
        for n in 0..64 {
            volume.write_at(n * 65_536, &SplitMix64::new(n % 16).bytes(65_536), false).unwrap();
        }
        volume.flush().unwrap();
        pool.status().unwrap()
    }

    #[test]
    fn memory_is_that_of_each_part_and_ratios_are_those_of_their_bytes() {
        let mut status = status();
        let parts = |status: &mut PoolStatus, each: [u64; 5]| {
            status.index_memory_bytes = each[0];
            status.map_memory_bytes = each[1];
            status.cache_memory_bytes = each[2];
            status.buffer_memory_bytes = each[3];
            status.table_memory_bytes = each[4];
            status.memory_bytes()
        };
        assert_eq!(parts(&mut status, [1, 20, 300, 4000, 50_000]), 54_321);
        assert_eq!(parts(&mut status, [0; 5]), 0);
        (status.logical_bytes, status.unique_bytes) = (4000, 1000);
        (status.compressed_bytes, status.stored_bytes) = (500, 800);
        (status.container_bytes, status.live_bytes) = (900, 600);
        let ratios = [
            status.dedup_ratio(),
            status.compression_ratio(),
            status.total_ratio(),
            status.stored_over_live(),
        ];
        assert_eq!(ratios.map(|ratio| ratio.to_string()), ["4", "2", "5", "1.5"]);
        (status.logical_bytes, status.live_bytes) = (0, 0);
        let ratios = [status.dedup_ratio(), status.total_ratio(), status.stored_over_live()];
        assert_eq!(ratios.map(|ratio| ratio.to_string()), ["1"; 3], "of nothing");
    }

    #[test]
    fn whatever_a_checkpoint_says_of_volumes_can_be_told() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        for name in ["one", "two"] {
            drop(pool.create_volume(name, ByteSize(1 << 20)).unwrap());
            pool.snapshot(&format!("{name}@then"), 1, false).unwrap();
        }
        for volume in pool.inner.all_volumes() {
            volume.mapped_chunks.store(u64::MAX - 1, Ordering::Relaxed);
        }
        assert_eq!(pool.status().unwrap().logical_bytes, u64::MAX);
        let snapshots = pool.snapshots(None).unwrap();
        assert_eq!((snapshots.len(), snapshots[0].mapped_bytes), (2, u64::MAX));
    }

    #[test]
    fn what_is_stored_once_is_counted_so() {
        let status = status();
        let chunk = status.settings.chunk_size.bytes64();
        assert_eq!((status.logical_bytes, status.unique_bytes), (4 << 20, 1 << 20));
        assert_eq!((status.chunks * chunk, status.stored_chunks * chunk), (1 << 20, 1 << 20));
        assert_eq!((status.dead_bytes, status.dead_containers), (0, 0));
        let done = status.activity;
        let sum = done.stored + done.duplicate + done.zero;
        assert_eq!((done.written * chunk, sum), (4 << 20, done.written));
        assert_eq!(status.volumes[0].mapped_bytes, 4 << 20);
    }
}
