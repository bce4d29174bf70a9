//! What a pool holds, saves, uses and does.
//! Room: onefold-metrics.

use onefold_pool::PoolStatus;

use super::{point, rows};
use crate::definition::{Definition, Kind};
use crate::sample::Sample;

/// Volumes that have values of their own; the others are in the pool's sums alone.
const VOLUMES_MAX: usize = 1000;

fn pool(sample: &Sample) -> Option<&PoolStatus> {
    sample.pool.as_ref()
}

/// Of the pool as a whole.
pub static METRICS: &[Definition] = rows! { pool;
    Gauge "onefold_pool_logical_bytes" [status "logical_bytes"]
        "Bytes of blocks with stored data, of all volumes" => |pool| pool.logical_bytes;
    Gauge "onefold_pool_unique_bytes" [status "unique_bytes"]
        "Bytes of these after deduplication, each chunk counted once" => |pool| pool.unique_bytes;
    Gauge "onefold_pool_compressed_bytes" [status "compressed_bytes"]
        "Bytes of these chunks after compression" => |pool| pool.compressed_bytes;
    Gauge "onefold_pool_stored_bytes" [status "stored_bytes"]
        "Bytes of all files of the pool" => |pool| pool.stored_bytes;
    Gauge "onefold_pool_container_bytes" [status "space.container_bytes"]
        "Bytes of containers" => |pool| pool.container_bytes;
    Gauge "onefold_pool_live_bytes" [status "space.live_bytes"]
        "Bytes of containers that blocks refer to" => |pool| pool.live_bytes;
    Gauge "onefold_pool_dead_bytes" [status "space.dead_bytes"]
        "Bytes of containers that were overwritten or given up, and are not yet won back"
        => |pool| pool.dead_bytes;
    Gauge "onefold_pool_removable_bytes" [status "space.removable_bytes"]
        "Bytes of containers that the next checkpoint gives back" => |pool| pool.removable_bytes;
    Gauge "onefold_pool_dedup_ratio" [status "dedup_ratio"]
        "Logical bytes for each unique byte" => PoolStatus::dedup_ratio;
    Gauge "onefold_pool_compression_ratio" [status "compression_ratio"]
        "Unique bytes for each compressed byte" => PoolStatus::compression_ratio;
    Gauge "onefold_pool_reduction_ratio" [status "total_ratio"]
        "Logical bytes for each byte of the pool's files" => PoolStatus::total_ratio;
    Gauge "onefold_pool_live_chunks" [status "live_chunks"]
        "Chunks that blocks refer to" => |pool| pool.chunks;
    Gauge "onefold_pool_stored_chunks" [status "stored_chunks"]
        "Chunks in containers" => |pool| pool.stored_chunks;
    Gauge "onefold_pool_containers" [status "containers.total"]
        "Containers" => |pool| pool.containers;
    Gauge "onefold_pool_dead_containers" [status "containers.dead"]
        "Containers that nothing refers to any more" => |pool| pool.dead_containers;
    Gauge "onefold_pool_container_fill_ratio" [status "containers.fill"]
        "How full sealed containers are" => |pool| pool.container_fill;
    Gauge "onefold_pool_index_entries" [status "index.entries"]
        "Fingerprints that the index knows" => |pool| pool.index_entries;
    Gauge "onefold_pool_index_let_go" [status "index.let_go"]
        "Fingerprints that the index let go for lack of room" => |pool| pool.index_let_go;
    Gauge "onefold_pool_index_containers_left" [status "index.containers_left"]
        "Containers that the index has still to read" => |pool| pool.index_containers_left;
    Gauge "onefold_pool_journal_bytes" [status "journal_bytes"]
        "Bytes of the journal" => |pool| pool.journal_bytes;
    Gauge "onefold_pool_failed"
        "1 if the pool refuses writes until it is opened again" => |pool| pool.failure.is_some();
    Gauge "onefold_pool_volumes" "Volumes" => |pool| pool.volumes.len() as u64;
    Counter "onefold_pool_chunks_written_total"
        "Chunks written by clients" => |pool| pool.activity.written;
    Counter "onefold_pool_chunks_zero_total"
        "Chunks of zeroes among these, which take no space" => |pool| pool.activity.zero;
    Counter "onefold_pool_chunks_duplicate_total" [status "deduplication.found_at_once"]
        "Chunks that were stored already when they were written" => |pool| pool.activity.duplicate;
    Counter "onefold_pool_chunks_stored_total"
        "Chunks that were stored because they were new" => |pool| pool.activity.stored;
    Counter "onefold_pool_chunks_raw_total"
        "Chunks of these that did not get smaller by compression" => |pool| pool.activity.raw;
    Counter "onefold_pool_chunks_read_total"
        "Chunks read by clients" => |pool| pool.activity.read;
    Counter "onefold_pool_chunks_read_from_cache_total"
        "Chunks of these that were in the read cache" => |pool| pool.activity.cache_hits;
    Counter "onefold_pool_chunks_completed_total"
        "Chunks written in part and completed by reading" => |pool| pool.activity.completed;
    Counter "onefold_pool_flushes_total"
        "Flushes with something to do" => |pool| pool.activity.flushes;
    Counter "onefold_pool_checkpoints_total" "Checkpoints" => |pool| pool.activity.checkpoints;
    Counter "onefold_pool_moved_bytes_total" [status "space.moved_bytes"]
        "Bytes of records that were moved to win space back" => |pool| pool.activity.moved_bytes;
    Counter "onefold_pool_punched_bytes_total"
        "Bytes of containers given back where they lie" => |pool| pool.activity.punched_bytes;
    Counter "onefold_pool_deduplicated_later_total" [status "deduplication.found_later"]
        "Chunks found stored twice in the background, and then once"
        => |pool| pool.deduplication.found;
    Gauge "onefold_pool_uncompared_new_chunks" [status "deduplication.uncompared_new"]
        "Chunks that the background has not looked at yet" => |pool| pool.deduplication.new;
    Gauge "onefold_pool_uncompared_apart_chunks" [status "deduplication.uncompared_apart"]
        "Chunks that the background has not yet compared with all others"
        => |pool| pool.deduplication.apart;
    Gauge "onefold_pool_runs" [status "deduplication.runs"]
        "Runs of fingerprints that the background has made" => |pool| pool.deduplication.runs;
    Gauge "onefold_pool_run_bytes" [status "deduplication.run_bytes"]
        "Bytes of their files" => |pool| pool.deduplication.run_bytes;
    Gauge "onefold_pool_merged_pairs"
        "Fingerprints that the merge under way has merged, 0 if there is none"
        => |pool| pool.deduplication.merging.map_or(0, |(merged, _)| merged);
    Gauge "onefold_pool_merge_pairs"
        "Fingerprints that it has to merge in all, 0 if there is none"
        => |pool| pool.deduplication.merging.map_or(0, |(_, all)| all);
    Gauge "onefold_pool_index_memory_bytes" [status "memory.index_bytes"]
        "Memory of the fingerprint index and of the directories that verify what it finds"
        => |pool| pool.index_memory_bytes;
    Gauge "onefold_pool_index_memory_max_bytes" [status "memory.index_max_bytes"]
        "Memory that these may use" => |pool| pool.index_memory_max_bytes;
    Gauge "onefold_pool_directory_memory_bytes" [status "memory.directory_bytes"]
        "Memory of the directories alone" => |pool| pool.directory_memory_bytes;
    Gauge "onefold_pool_map_memory_bytes" [status "memory.map_bytes"]
        "Memory of map pages" => |pool| pool.map_memory_bytes;
    Gauge "onefold_pool_map_memory_max_bytes" [status "memory.map_max_bytes"]
        "Memory that map pages may use" => |pool| pool.map_memory_max_bytes;
    Gauge "onefold_pool_cache_memory_bytes" [status "memory.cache_bytes"]
        "Memory of the read cache" => |pool| pool.cache_memory_bytes;
    Gauge "onefold_pool_cache_memory_max_bytes" [status "memory.cache_max_bytes"]
        "Memory that the read cache may use" => |pool| pool.cache_memory_max_bytes;
    Gauge "onefold_pool_buffer_memory_bytes" [status "memory.buffer_bytes"]
        "Memory of containers that are being filled or written out"
        => |pool| pool.buffer_memory_bytes;
    Gauge "onefold_pool_table_memory_bytes" [status "memory.table_bytes"]
        "Memory of the table of containers and of changes not yet in the journal"
        => |pool| pool.table_memory_bytes;
};

/// Of each volume.
pub static LABELLED: &[Definition] = &[
    Definition {
        name: "onefold_volume_size_bytes",
        kind: Kind::Gauge,
        help: "Size of a volume; of the first 1,000 volumes",
        labels: &["volume"],
        status: Some("volumes[].size_bytes"),
        read: |sample| of_volumes(sample, |volume| volume.size_bytes),
    },
    Definition {
        name: "onefold_volume_mapped_bytes",
        kind: Kind::Gauge,
        help: "Bytes of a volume's blocks with stored data; of the first 1,000 volumes",
        labels: &["volume"],
        status: Some("volumes[].mapped_bytes"),
        read: |sample| of_volumes(sample, |volume| volume.mapped_bytes),
    },
];

fn of_volumes(sample: &Sample, read: fn(&onefold_pool::VolumeStatus) -> u64) -> Vec<crate::Point> {
    let volumes = pool(sample).map_or(&[][..], |pool| &pool.volumes);
    volumes.iter().take(VOLUMES_MAX).map(|volume| point([&volume.name], read(volume))).collect()
}
