//! Eviction policies, one per file.
//! Room: onefold-cache.

pub mod arc;
pub mod clock;
pub mod fifo;
pub mod flashield;
pub mod lfu;
pub mod lirs;
pub mod lru;
pub mod opt;
pub mod plc_clock;
pub mod s3_fifo;
pub mod score_queue;
pub mod sieve;
pub mod staged;
pub mod two_q;
pub mod w_tiny_lfu;
pub mod window_share;
