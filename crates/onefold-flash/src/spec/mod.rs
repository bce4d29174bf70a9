//! What a drive is made of and what is done with it, as a TOML file says.
//! Room: onefold-flash.   In: TOML, presets, `KEY=VALUE`s.   Out: a checked [`DriveSpec`].
//! Invariants: a key that is not in [`keys::KEYS`] is refused with the nearest one; a value is
//! refused with what is accepted; a printed specification reads back as itself.

mod choices;
mod derive;
pub mod keys;
mod parse;
mod presets;
mod print;
#[cfg(test)]
mod tests;

pub use choices::{
    Allocation, ArrivalKind, BlockCount, CompressionPlace, ContentKind, IdleOrder, MediaCode,
    MediaWear, PacingName, ParallelUnit, PatternKind, Precondition, Suspend, ThinkKind,
    TraceTiming, VictimName, WriteBuffer,
};
pub use derive::SpecError;
pub use parse::{ParseError, Source, SpecBuilder};
pub use presets::PRESET_NAMES;

use serde::{Deserialize, Serialize};

/// A drive and a workload. The fields are documented once, in [`keys::KEYS`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Name for reports.
    pub name: String,
    /// Root of all random numbers.
    pub seed: u64,
    /// State before the first request.
    pub precondition: Precondition,
    /// `[geometry]`.
    pub geometry: crate::Geometry,
    /// `[timing]`.
    pub timing: TimingSpec,
    /// `[energy]`.
    pub energy: EnergySpec,
    /// `[media]`.
    pub media: MediaSpec,
    /// `[ftl]`.
    pub ftl: FtlSpec,
    /// `[controller]`.
    pub controller: ControllerSpec,
    /// `[host]`.
    pub host: HostSpec,
    /// `[dedup]`.
    pub dedup: DedupSpec,
    /// `[workload]`.
    pub workload: WorkloadTable,
}

/// `[timing]`: how long the flash takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct TimingSpec {
    pub read_latency_ns: u64,
    pub program_latency_ns: u64,
    pub erase_latency_ns: u64,
    pub bus_mb_per_s: u64,
    pub command_overhead_ns: u64,
    pub parallel_unit: ParallelUnit,
    pub cache_program: bool,
    pub copyback: bool,
    pub suspend: Suspend,
    pub suspend_latency_ns: u64,
}

/// `[energy]`: what an operation costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct EnergySpec {
    pub read_nj: u64,
    pub program_nj: u64,
    pub erase_nj: u64,
    pub transfer_nj: u64,
}

/// `[media]`: cells, code and scrambler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct MediaSpec {
    pub rated_pe_cycles: u64,
    pub factory_bad_blocks_ppm: u64,
    pub raw_bit_errors_ppb: u64,
    pub plain_raw_bit_errors_percent: u64,
    pub similar_raw_bit_errors_percent: u64,
    pub wear: MediaWear,
    pub read_retries: bool,
    pub worn_cycles: u64,
    pub data_age_s: u64,
    pub code: MediaCode,
    pub scrambler: String,
}

/// `[ftl]`: the flash translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct FtlSpec {
    pub over_provisioning: f64,
    pub gc_reserve_blocks: BlockCount,
    pub gc_idle_blocks: u32,
    pub victim: VictimName,
    pub victim_choices: u32,
    pub pacing: PacingName,
    pub wear_spread: u32,
    pub streams: u32,
    pub journal: bool,
    pub model_metadata: bool,
    pub checkpoint_pages: u32,
    pub map_cache_bytes: u64,
    pub allocation: Allocation,
    pub spread_patterns: bool,
    pub compression: CompressionPlace,
    pub subpages: u32,
    pub packing_pages: u32,
}

/// `[controller]`: cores, engines, memory and buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct ControllerSpec {
    pub cpu_cores: u32,
    pub request_ns: u64,
    pub lookup_ns: u64,
    pub hash_engines: u32,
    pub hash_ns: u64,
    pub light_hash_ns: u64,
    pub compare_ns: u64,
    pub ecc_engines: u32,
    pub ecc_decode_ns: u64,
    pub parity_correction_ns: u64,
    pub compression_engines: u32,
    pub compress_mb_per_s: u64,
    pub decompress_mb_per_s: u64,
    pub dram_bytes: u64,
    pub write_buffer: WriteBuffer,
    pub write_buffer_pages: u32,
    pub power_loss_protection: bool,
    pub read_priority: bool,
    pub idle_after_ns: u64,
    pub idle_hint: bool,
    pub idle_order: IdleOrder,
    pub idle_steps: u32,
}

/// `[host]`: the link to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct HostSpec {
    pub queue_entries: u32,
    pub link_mb_per_s: u64,
    pub link_latency_ns: u64,
    pub scrambler_cores: u32,
    pub scrambler_mb_per_s: u64,
}

/// `[dedup]`: the policy and whatever options it has, which the policy itself checks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DedupSpec {
    /// Name of the policy.
    pub policy: String,
    /// Its options.
    #[serde(flatten)]
    pub options: toml::Table,
}

/// `[workload]`: what the host asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct WorkloadTable {
    pub pattern: PatternKind,
    pub zipf_exponent: f64,
    pub hot_page_share: f64,
    pub hot_request_share: f64,
    pub footprint_share: f64,
    pub read_share: f64,
    pub requests: u64,
    pub request_pages: u32,
    pub arrivals: ArrivalKind,
    pub queue_depth: u32,
    pub think_time: ThinkKind,
    pub think_time_ns: u64,
    pub interarrival_ns: u64,
    pub content: ContentKind,
    pub content_values: u64,
    pub duplicate_ratio: f64,
    pub hot_fingerprint_ratio: f64,
    pub hot_share: f64,
    pub common_codewords_percent: u32,
    pub common_codewords: u64,
    pub compressed_percent: u32,
    pub compressed_spread_percent: u32,
    pub trace_timing: TraceTiming,
    pub wrap_addresses: bool,
    pub idle_hint_ns: u64,
    pub finish_offline: bool,
}
