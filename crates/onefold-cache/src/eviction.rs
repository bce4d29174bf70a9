//! Eviction policies, one per file.
//! Room: onefold-cache.

pub mod lru;
pub mod plc_clock;
