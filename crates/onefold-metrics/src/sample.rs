//! What is measured at one moment, by whoever has it.
//! Room: onefold-metrics.

use std::sync::Arc;

use onefold_block::wrappers::DeviceCounters;
use onefold_cache::tier::TierStatus;
#[cfg(feature = "drive")]
use onefold_flash::drive::SavedHealth;
use onefold_pool::PoolStatus;

/// One moment of a server.
#[derive(Clone, Default)]
pub struct Sample {
    /// The pool, if one is served.
    pub pool: Option<PoolStatus>,
    /// The cache before it, if it has one.
    pub cache: Option<CacheSample>,
    /// What clients can open and did open.
    pub exports: Vec<ExportSample>,
    /// Clients that are connected.
    pub connections: u64,
    /// The emulated drive, if one is served.
    #[cfg(feature = "drive")]
    pub drive: Option<SavedHealth>,
    /// The process.
    pub process: ProcessSample,
}

/// A cache on a fast device.
#[derive(Clone)]
pub struct CacheSample {
    /// What it holds and did, if it can be used.
    pub tier: Option<TierStatus>,
    /// Bytes that its device can take in its life, if that is known.
    pub endurance_bytes: Option<u64>,
}

/// An export, and what its clients asked.
#[derive(Clone)]
pub struct ExportSample {
    /// Its name.
    pub name: String,
    /// What was counted of it, over all clients.
    pub counters: Arc<DeviceCounters>,
}

/// The process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessSample {
    /// Its memory without programs and files, in bytes.
    pub memory_bytes: u64,
    /// Time of processors that it took, in seconds.
    pub cpu_seconds: f64,
    /// When it started, in seconds since 1970.
    pub started_s: f64,
}
