//! The fields of a server description, as they are read.
//! Room: onefold-array.

use serde::{Deserialize, Serialize};

/// A choice of words, as TOML has it.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$item_doc])* $item),+ }
    };
}

words! {
    /// How fingerprints are found.
    TableKind {
        /// In the bucket that their bits say.
        Buckets,
        /// By a hook of their own, or in the directory that a neighbour's hook brought.
        Hooks,
    }
}

words! {
    /// When a write is answered.
    Acknowledge {
        /// Once its chunks are stored.
        Stored,
        /// Once they are in the client request buffer.
        Buffered,
    }
}
words! {
    /// Who computes fingerprints.
    HashPlace {
        /// Nobody: chunks are written where their addresses are, and drives may deduplicate.
        None,
        /// The host's cores.
        Cpu,
        /// The engines.
        Engine,
        /// The network cards.
        Nic,
    }
}
words! {
    /// Who compresses and decompresses.
    CompressionPlace {
        /// Nobody: chunks are stored as they are.
        None,
        /// The host's cores.
        Cpu,
        /// The engines.
        Engine,
    }
}
words! {
    /// Who looks fingerprints up.
    IndexPlace {
        /// The host's cores.
        Cpu,
        /// The cache engine.
        Engine,
    }
}
words! {
    /// Which way data takes.
    DataPath {
        /// Through the host's memory.
        Host,
        /// From device to device.
        Direct,
    }
}
words! {
    /// What says beforehand whether a chunk is unique.
    PredictorKind {
        /// Nothing: every chunk is looked up before it is compressed.
        None,
        /// Every chunk counts as unique.
        AllUnique,
        /// A filter of recent hashes by address.
        Recent,
        /// The truth.
        Oracle,
    }
}
words! {
    /// Off or on.
    Switch {
        /// Off.
        Off,
        /// On.
        On,
    }
}
words! {
    /// How requests arrive.
    LoadKind {
        /// A new one for each that is answered.
        Closed,
        /// Independent of each other.
        Poisson,
        /// The same, at a rate that goes up and down.
        Bursts,
        /// At the times of a trace.
        Timestamps,
    }
}

words! {
    /// What the addresses of a trace held before it.
    Before {
        /// Nothing.
        Nothing,
        /// Data of their own.
        Data,
    }
}

/// A server and its load. The fields are documented once, in [`super::keys::KEYS`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct ServerSpec {
    pub name: String,
    pub seed: u64,
    pub chunk_bytes: u64,
    pub acknowledge: Acknowledge,
    pub place: PlaceSpec,
    pub cpu: CpuSpec,
    pub memory: MemorySpec,
    pub nic: NicSpec,
    pub link: LinkSpec,
    pub engine: EngineSpec,
    pub batch: BatchSpec,
    pub predictor: PredictorSpec,
    pub buffer: BufferSpec,
    pub schedule: ScheduleSpec,
    pub table: TableSpec,
    pub ssd: SsdSpec,
    pub table_ssd: TableSsdSpec,
    pub price: PriceSpec,
    pub power: PowerSpec,
    pub workload: WorkloadSpec,
}

/// `[place]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct PlaceSpec {
    pub hash: HashPlace,
    pub compression: CompressionPlace,
    pub index: IndexPlace,
    pub data: DataPath,
}

/// `[cpu]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct CpuSpec {
    pub sockets: u32,
    pub cores_per_socket: u32,
    pub nic_ns_per_byte: f64,
    pub nic_ns_per_chunk: f64,
    pub hash_ns_per_byte: f64,
    pub compress_ns_per_byte: f64,
    pub decompress_ns_per_byte: f64,
    pub predict_ns_per_chunk: f64,
    pub index_ns_per_chunk: f64,
    pub schedule_ns_per_chunk: f64,
    pub metadata_ns_per_chunk: f64,
    pub store_ns_per_chunk: f64,
    pub duplicate_ns_per_chunk: f64,
    pub submit_ns_per_byte: f64,
}

/// `[memory]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct MemorySpec {
    pub gb_per_s_per_socket: f64,
}

/// `[nic]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct NicSpec {
    pub count: u32,
    pub gb_per_s: f64,
    pub latency_ns: u64,
    pub hash_units: u32,
}

/// `[link]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct LinkSpec {
    pub generation: u32,
    pub lanes: u32,
    pub efficiency: f64,
    pub latency_ns: u64,
    pub queue_transfers: u32,
    pub transfer_ns: u64,
}

/// `[engine]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct EngineSpec {
    pub count: u32,
    pub clock_mhz: f64,
    pub hash_bytes_per_cycle: f64,
    pub compress_bytes_per_cycle: f64,
    pub decompress_bytes_per_cycle: f64,
    pub hash_units: u32,
    pub compress_units: u32,
    pub decompress_units: u32,
    pub queue_batches: u32,
    pub luts: u64,
    pub hash_unit_luts: u64,
    pub compress_unit_luts: u64,
    pub decompress_unit_luts: u64,
    pub usable_share: f64,
}

/// `[batch]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct BatchSpec {
    pub chunks: u32,
}

/// `[predictor]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct PredictorSpec {
    pub kind: PredictorKind,
    pub entries: u64,
}

/// `[buffer]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct BufferSpec {
    pub client_bytes: u64,
    pub delayed_bytes: u64,
}

/// `[schedule]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct ScheduleSpec {
    pub short_term: Switch,
    pub deadline_ns: u64,
    pub long_term: Switch,
    pub window_ns: u64,
    pub downtime_ns: u64,
}

/// `[table]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct TableSpec {
    pub kind: TableKind,
    pub entries: u64,
    pub entry_bytes: u64,
    pub bucket_bytes: u64,
    pub cache_bytes: u64,
    pub touched_bytes: u64,
    pub sample_one_in: u64,
    pub follow_chunks: u64,
    pub filter_bits: f64,
    pub policy: String,
    pub engine_lookups_per_s: f64,
    pub engine_latency_ns: u64,
}

/// `[ssd]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct SsdSpec {
    pub count: u32,
    pub model: String,
    pub container_bytes: u64,
    pub read_gb_per_s: f64,
    pub write_gb_per_s: f64,
    pub latency_ns: u64,
}

/// `[table_ssd]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct TableSsdSpec {
    pub count: u32,
    pub model: String,
    pub reads_per_s: f64,
    pub latency_ns: u64,
}

/// `[price]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct PriceSpec {
    pub core_usd: f64,
    pub dram_usd_per_gb: f64,
    pub engine_usd: f64,
    pub ssd_usd_per_tb: f64,
}

/// `[power]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct PowerSpec {
    pub core_idle_w: f64,
    pub core_busy_w: f64,
    pub engine_idle_w: f64,
    pub engine_busy_w: f64,
}

/// `[workload]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented in keys::KEYS, which a test holds complete")]
pub struct WorkloadSpec {
    pub load: LoadKind,
    pub outstanding: u64,
    pub gb_per_s: f64,
    pub burst_ns: u64,
    pub burst_share: f64,
    pub requests: u64,
    pub warm_requests: u64,
    pub request_bytes: u64,
    pub read_share: f64,
    pub duplicate_share: f64,
    pub compressed_share: f64,
    pub compressed_spread: f64,
    pub clustering: f64,
    pub locality: f64,
    pub run_chunks: u64,
    pub addresses: u64,
    pub trace: String,
    pub speed: f64,
    pub trace_before: Before,
    pub trace_requests: u64,
    pub trace_warm_requests: u64,
}
