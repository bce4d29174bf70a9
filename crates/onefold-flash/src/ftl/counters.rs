//! What the FTL counts, and what follows from it.
//! Room: onefold-flash.

use crate::op::{Cause, OpCounts, OpKind};

/// Counts since the drive was made, or since they were last taken apart by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that the host wrote.
    pub host_pages_written: u64,
    /// Pages that the host read.
    pub host_pages_read: u64,
    /// Pages that the host trimmed.
    pub host_pages_trimmed: u64,
    /// Flash operations by kind and cause.
    pub ops: OpCounts,
    /// Host pages that were shared instead of programmed.
    pub inline_pages: u64,
    /// Stored pages that were merged into another one later.
    pub offline_pages: u64,
    /// Comparisons that found the pages equal.
    pub compared_equal: u64,
    /// Comparisons that found the pages different.
    pub compared_different: u64,
    /// Flushes.
    pub flushes: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Accesses to the map that found its page in DRAM, where not all of it is.
    pub map_hits: u64,
    /// Accesses that did not.
    pub map_misses: u64,
    /// Host pages that were compressed and had to wait for others.
    pub fragments: u64,
    /// Those of them that were replaced or trimmed before they were in the flash.
    pub fragments_dropped: u64,
    /// Flash pages programmed with compressed pages, for whatever reason.
    pub packed_pages: u64,
    /// Flash pages of compressed pages programmed for the host.
    pub packed_host_pages: u64,
    /// Sub-pages of those flash pages that hold something.
    pub packed_subpages: u64,
    /// Host reads answered from the packing buffer.
    pub waiting_reads: u64,
    /// Programs that failed and were made elsewhere, and erases that failed.
    pub block_failures: u64,
}

impl Counters {
    /// What was counted after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_pages_written: self.host_pages_written - earlier.host_pages_written,
            host_pages_read: self.host_pages_read - earlier.host_pages_read,
            host_pages_trimmed: self.host_pages_trimmed - earlier.host_pages_trimmed,
            ops: self.ops.since(&earlier.ops),
            inline_pages: self.inline_pages - earlier.inline_pages,
            offline_pages: self.offline_pages - earlier.offline_pages,
            compared_equal: self.compared_equal - earlier.compared_equal,
            compared_different: self.compared_different - earlier.compared_different,
            flushes: self.flushes - earlier.flushes,
            checkpoints: self.checkpoints - earlier.checkpoints,
            map_hits: self.map_hits - earlier.map_hits,
            map_misses: self.map_misses - earlier.map_misses,
            fragments: self.fragments - earlier.fragments,
            fragments_dropped: self.fragments_dropped - earlier.fragments_dropped,
            packed_pages: self.packed_pages - earlier.packed_pages,
            packed_host_pages: self.packed_host_pages - earlier.packed_host_pages,
            packed_subpages: self.packed_subpages - earlier.packed_subpages,
            waiting_reads: self.waiting_reads - earlier.waiting_reads,
            block_failures: self.block_failures - earlier.block_failures,
        }
    }

    /// Pages programmed over pages written by the host, for one cause or all.
    pub fn waf(&self, cause: Option<Cause>) -> f64 {
        let programmed = match cause {
            Some(cause) => self.ops.of(OpKind::Program, cause),
            None => self.ops.all(OpKind::Program),
        };
        programmed as f64 / self.host_pages_written as f64
    }
}
