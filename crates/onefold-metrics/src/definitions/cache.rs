//! The cache on a fast device before a pool.
//! Room: onefold-metrics.

use onefold_cache::tier::TierStatus;

use super::rows;
use crate::definition::Definition;
use crate::sample::Sample;

fn tier(sample: &Sample) -> Option<&TierStatus> {
    sample.cache.as_ref()?.tier.as_ref()
}

/// Of the cache.
pub static METRICS: &[Definition] = rows! { tier;
    Gauge "onefold_cache_capacity_bytes" [status "cache.capacity_bytes"]
        "Bytes of the fast device that the cache may take" => |tier| tier.capacity_bytes;
    Gauge "onefold_cache_cached_bytes" [status "cache.cached_bytes"]
        "Bytes of extents on the fast device" => |tier| tier.cached_bytes;
    Gauge "onefold_cache_cached_extents" [status "cache.cached_extents"]
        "Extents on the fast device" => |tier| tier.cached_extents;
    Counter "onefold_cache_reads_total" [status "cache.reads"]
        "Reads of containers" => |tier| tier.totals.requests;
    Counter "onefold_cache_hits_total" [status "cache.hits"]
        "Reads of these that the fast device served as a whole" => |tier| tier.totals.hits;
    Counter "onefold_cache_read_bytes_total" [status "cache.read_bytes"]
        "Bytes of all reads" => |tier| tier.totals.bytes;
    Counter "onefold_cache_hit_bytes_total" [status "cache.hit_bytes"]
        "Bytes of these that the fast device served" => |tier| tier.totals.hit_bytes;
    Counter "onefold_cache_slow_bytes_total" [status "cache.slow_bytes"]
        "Bytes read from the pool's own disk" => |tier| tier.totals.slow_bytes;
    Counter "onefold_cache_written_bytes_total" [status "cache.written_bytes"]
        "Bytes written to the fast device" => |tier| tier.totals.written_bytes;
    Counter "onefold_cache_admitted_bytes_total" [status "cache.admitted_bytes"]
        "Bytes of extents that were put on the fast device" => |tier| tier.totals.admitted_bytes;
    Counter "onefold_cache_new_bytes_total" [status "cache.new_bytes"]
        "Bytes of these, of new data that nobody had read" => |tier| tier.totals.new_bytes;
    Counter "onefold_cache_moved_bytes_total" [status "cache.moved_bytes"]
        "Bytes of extents that were written there once more" => |tier| tier.totals.moved_bytes;
    Counter "onefold_cache_dropped_extents_total" [status "cache.dropped_extents"]
        "Extents let go because their segment was written over" => |tier| tier.totals.dropped;
    Counter "onefold_cache_bad_extents_total" [status "cache.bad_extents"]
        "Extents that were damaged, stale or unreadable" => |tier| tier.totals.bad_copies;
    Counter "onefold_cache_failed_writes_total" [status "cache.failed_writes"]
        "Segments that could not be written" => |tier| tier.totals.failed_writes;
    Gauge "onefold_cache_written_last_day_bytes" [status "cache.written_last_day_bytes"]
        "Bytes written to the fast device in the last day" => |tier| tier.written_last_day;
    Gauge "onefold_cache_writes_per_day_max_bytes"
        "Bytes that may be written there in a day, 0 without a limit"
        => |tier| tier.writes_per_day.unwrap_or(0);
    Gauge "onefold_cache_memory_bytes"
        "Memory of the cache's index and policy, and of extents that wait there to be judged"
        => |tier| tier.index_bytes + tier.policy_bytes + tier.waiting_bytes;
};
