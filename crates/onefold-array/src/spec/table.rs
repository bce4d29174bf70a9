//! What the memory of the table's index is divided into.
//! Room: onefold-array.

use super::{TableKind, TableSpec};

/// Bytes of a hook: 32 bits of its fingerprint and the number of its directory, 8 bytes, in a hash
/// table that is nine tenths full.
const HOOK_BYTES: u64 = 9;
/// Bytes for each fingerprint of a cached directory, on top: which one it is, by its bits.
const CACHED_ENTRY_BYTES: u64 = 4;

impl TableSpec {
    /// Fingerprints of a bucket or directory.
    pub fn page_entries(&self) -> u64 {
        (self.bucket_bytes / self.entry_bytes).max(1)
    }

    /// Buckets that the table is laid out in.
    pub fn pages(&self) -> u64 {
        self.entries.div_ceil(self.page_entries())
    }

    /// Most hooks.
    pub fn hooks_max(&self) -> u64 {
        self.entries.div_ceil(self.sample_one_in)
    }

    /// Bytes of memory that a cached page takes.
    pub fn cached_page_bytes(&self) -> u64 {
        match self.kind {
            TableKind::Buckets => self.bucket_bytes,
            TableKind::Hooks => self.bucket_bytes + CACHED_ENTRY_BYTES * self.page_entries(),
        }
    }

    /// Bytes of memory that hooks or a filter leave for pages.
    pub fn page_cache_bytes(&self) -> u64 {
        let taken = match self.kind {
            TableKind::Buckets => (self.entries as f64 * self.filter_bits / 8.0).ceil() as u64,
            TableKind::Hooks => self.hooks_max() * HOOK_BYTES,
        };
        self.cache_bytes.saturating_sub(taken)
    }

    /// What fits alone and not together.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.kind == TableKind::Hooks && self.filter_bits > 0.0 {
            return Err("table.filter_bits is of buckets, and table.kind is hooks".into());
        }
        let own = self.kind == TableKind::Hooks || self.filter_bits > 0.0;
        if own && self.page_cache_bytes() < self.cached_page_bytes() {
            return Err(format!(
                "table.cache_bytes = {}: hooks or the filter leave no room for a page",
                self.cache_bytes
            ));
        }
        onefold_cache::Choice::parse(&self.policy).map_err(|error| error.to_string())?;
        Ok(())
    }
}
