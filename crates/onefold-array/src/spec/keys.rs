//! Every key of a server description: what it means, its unit, its default and where that is from.
//! Room: onefold-array.
//! Source: [ajdari-talk] for what is published; the rest is marked as derived or assumed.
//! Invariants: the keys are exactly those of [`super::ServerSpec`], a test says so; a unit is part
//! of the name wherever there is one.

pub use super::key::{Key, Origin};
use onefold_block::setting;
pub use onefold_block::setting::Accepts;

use Accepts::{Number, Text, Whole, Word};
use Origin::{Assumed, Derived, Outside, Published};

const fn key(
    path: &'static str,
    accepts: Accepts,
    default: &'static str,
    origin: Origin,
    doc: &'static str,
) -> Key {
    Key { setting: setting::Key { path, accepts, doc }, default, origin }
}

/// Most of what is counted: servers, units, drives.
const COUNT: Accepts = Whole(1, 4096);
/// The same where none is possible.
const COUNT_OR_NONE: Accepts = Whole(0, 4096);
/// A rate in 10^9 bytes a second.
const GB_PER_S: Accepts = Number(0.001, 100_000.0);
/// A time of one chunk or byte, in ns.
const NS: Accepts = Number(0.0, 1e9);
/// A share of a whole.
const SHARE: Accepts = Number(0.0, 1.0);
/// A time in ns, which may be zero: at most 1000 s.
const TIME: Accepts = Whole(0, 1_000_000_000_000);
/// A number of bytes.
const BYTES: Accepts = Whole(1, 1 << 50);
/// A price or a power.
const AMOUNT: Accepts = Number(0.0, 1e9);

/// What each table is about, in the order in which they are printed.
pub const TABLES: [(&str, &str); 17] = [
    ("", "A data reduction server and what clients ask of it. Every key may be left out."),
    ("place", "Where each piece of work is done: the three ideas of FIDR, one by one."),
    ("cpu", "Cores, and what each task takes of one core."),
    ("memory", "The host's memory."),
    ("nic", "Network cards; a smart one hashes and holds data."),
    ("link", "PCIe between host or NIC and each engine."),
    ("engine", "Engines: boards with arrays of hash, compression and decompression units."),
    ("batch", "The opportunistic batch maker."),
    ("predictor", "The unique-chunk predictor."),
    ("buffer", "The client request buffer and the delayed chunk buffer."),
    ("schedule", "Short-term scheduling and long-term reconfiguration."),
    ("table", "The table from hash to place, its cache, and the engine that may index it."),
    ("ssd", "The drives that hold data."),
    ("table_ssd", "The drives that hold the table."),
    ("price", "What parts cost. No price is published: every one is assumed."),
    ("power", "What parts draw. No power is published: every one is assumed."),
    ("workload", "What clients ask for."),
];

const XEON: &str = "24 cores of two 12-core Xeon E5-2650 v4";
const PROFILE: &str = "Heavy Computations on CPUs";

/// Every key, in the order in which they are printed.
pub const KEYS: &[Key] = &[
    key("name", Text, "\"server\"", Assumed("a name"), "Name of the server, for reports"),
    key(
        "seed",
        Whole(0, i64::MAX as u64),
        "1",
        Assumed("any"),
        "Root of all random numbers: same seed, same result",
    ),
    key(
        "chunk_bytes",
        Whole(4096, 65_536),
        "32768",
        Published("Small chunking against CIDR's 32 KB"),
        "Bytes of a chunk, the unit of deduplication: a power of two",
    ),
    key(
        "acknowledge",
        Word(&["stored", "buffered"]),
        "\"stored\"",
        Assumed("the stricter reading"),
        "When a write is answered: once its chunks are stored, or once they are in the buffer",
    ),
    // place
    key(
        "place.hash",
        Word(&["none", "cpu", "engine", "nic"]),
        "\"cpu\"",
        Published(PROFILE),
        "Who computes fingerprints; with none chunks go to drives by their addresses, and drives \
        deduplicate alone or nobody does",
    ),
    key(
        "place.compression",
        Word(&["none", "cpu", "engine"]),
        "\"cpu\"",
        Published(PROFILE),
        "Who compresses and decompresses; none stores chunks as they are",
    ),
    key(
        "place.index",
        Word(&["cpu", "engine"]),
        "\"cpu\"",
        Published("Three Key Ideas of FIDR: 1"),
        "Who looks fingerprints up in the cache of the table",
    ),
    key(
        "place.data",
        Word(&["host", "direct"]),
        "\"host\"",
        Published("Three Key Ideas of FIDR: 2"),
        "Whether data between NIC, engines and drives goes through the host's memory",
    ),
    // cpu
    key("cpu.sockets", COUNT, "2", Outside(XEON), "Processors"),
    key("cpu.cores_per_socket", COUNT, "12", Outside(XEON), "Cores of a processor"),
    key(
        "cpu.nic_ns_per_byte",
        NS,
        "0.19",
        Derived("a third of 3 cores at 5.18 GB/s"),
        "Network stack and driver, for each byte to or from clients",
    ),
    key("cpu.nic_ns_per_chunk", NS, "0.0", Assumed("counted by byte"), "The same, for each chunk"),
    key("cpu.hash_ns_per_byte", NS, "1.351", Derived("7 cores at 5.18 GB/s"), "Fingerprints"),
    key(
        "cpu.compress_ns_per_byte",
        NS,
        "5.405",
        Derived("14 cores at 5.18 GB/s of which half is unique"),
        "Compression of what is unique",
    ),
    key(
        "cpu.decompress_ns_per_byte",
        NS,
        "2.73",
        Derived("7 cores of the mixed profile, with reads at half of 5.18 GB/s"),
        "Decompression, for each byte that it yields",
    ),
    key(
        "cpu.predict_ns_per_chunk",
        NS,
        "100.0",
        Assumed("one look into a Bloom filter"),
        "The unique-chunk predictor",
    ),
    key(
        "cpu.index_ns_per_chunk",
        NS,
        "500.0",
        Assumed("a bucket of 107 entries is searched"),
        "A look-up in the cache of the table",
    ),
    key(
        "cpu.schedule_ns_per_chunk",
        NS,
        "300.0",
        Assumed("descriptors, batches and completions"),
        "Feeding an engine",
    ),
    key(
        "cpu.metadata_ns_per_chunk",
        NS,
        "6000.0",
        Derived("a third of 3 cores at 5.18 GB/s in chunks of 32 KiB"),
        "Map from address to place, containers, buffers",
    ),
    key(
        "cpu.store_ns_per_chunk",
        NS,
        "0.0",
        Assumed("counted with the metadata of all chunks"),
        "Records and index entries, for each chunk that is new, on top",
    ),
    key(
        "cpu.duplicate_ns_per_chunk",
        NS,
        "0.0",
        Assumed("counted with the metadata of all chunks"),
        "What confirms that a chunk is there, for each chunk that is not new, on top",
    ),
    key(
        "cpu.submit_ns_per_byte",
        NS,
        "0.772",
        Derived("a third of 3 cores at 5.18 GB/s, of which a quarter is stored"),
        "Submission to drives, for each byte moved to or from them",
    ),
    // memory
    key(
        "memory.gb_per_s_per_socket",
        GB_PER_S,
        "76.8",
        Outside("4 channels of DDR4-2400, data sheet of the E5-2650 v4"),
        "Rate of a socket's memory in 10^9 bytes a second",
    ),
    // nic
    key("nic.count", COUNT, "2", Assumed("the host's lanes after engines and drives"), "Cards"),
    key("nic.gb_per_s", GB_PER_S, "12.5", Assumed("100 Gb/s Ethernet"), "Rate of a card"),
    key("nic.latency_ns", TIME, "2000", Assumed("wire, card and driver"), "Latency of a card"),
    key(
        "nic.hash_units",
        COUNT_OR_NONE,
        "0",
        Published("Three Key Ideas of FIDR: 3"),
        "Hash units of a smart card",
    ),
    // link
    key(
        "link.generation",
        Whole(3, 6),
        "3",
        Published(
            "High Throughput Scalability: \"Assume \
        PCIe Gen. 4\" there, so 3 before",
        ),
        "PCIe generation",
    ),
    key("link.lanes", Whole(1, 32), "16", Outside("VCU9P boards are x16"), "PCIe lanes"),
    key(
        "link.efficiency",
        SHARE,
        "0.8125",
        Derived(
            "12.8 GB/s of 15.754 GB/s raw, the published \
        rate of one engine",
        ),
        "Share of the raw rate that data gets",
    ),
    key("link.latency_ns", TIME, "1000", Assumed("a DMA round trip"), "Latency of a transfer"),
    key(
        "link.queue_transfers",
        COUNT,
        "256",
        Assumed("more than batches are on their way, so that it is never waited for"),
        "Transfers that a DMA queue of an engine, one each way, has on their way at a time",
    ),
    key(
        "link.transfer_ns",
        TIME,
        "0",
        Assumed("the published rate of an engine has it in"),
        "What a DMA queue takes for each transfer, one after the other: descriptor and completion",
    ),
    // engine
    key("engine.count", COUNT_OR_NONE, "0", Published(PROFILE), "Engines"),
    key(
        "engine.clock_mhz",
        Number(1.0, 10_000.0),
        "250.0",
        Assumed("usual for this FPGA family"),
        "Clock of the units",
    ),
    key(
        "engine.hash_bytes_per_cycle",
        Number(0.001, 4096.0),
        "0.969",
        Derived("rtl/results.toml: sha256_unit takes 4225 cycles for 4 KiB"),
        "Bytes a hash unit takes a cycle",
    ),
    key(
        "engine.compress_bytes_per_cycle",
        Number(0.001, 4096.0),
        "1.399",
        Derived("rtl/results.toml: lz4_enc, mean of half noise and text"),
        "Bytes a compression unit takes a cycle",
    ),
    key(
        "engine.decompress_bytes_per_cycle",
        Number(0.001, 4096.0),
        "4.944",
        Derived("rtl/results.toml: lz4_dec, mean of half noise and text"),
        "Bytes a decompression unit yields a cycle",
    ),
    key(
        "engine.hash_units",
        COUNT_OR_NONE,
        "53",
        Derived("12.8 GB/s at 242 MB/s a unit"),
        "Hash units of an engine",
    ),
    key(
        "engine.compress_units",
        COUNT_OR_NONE,
        "37",
        Derived("12.8 GB/s at 350 MB/s a unit"),
        "Compression units of an engine",
    ),
    key(
        "engine.decompress_units",
        COUNT_OR_NONE,
        "11",
        Derived("12.8 GB/s at 1.24 GB/s a unit"),
        "Decompression units of an engine",
    ),
    key(
        "engine.queue_batches",
        COUNT,
        "32",
        Assumed("hides the link's latency"),
        "Batches that an engine's command queue and metadata buffer hold",
    ),
    key(
        "engine.luts",
        Whole(1, 100_000_000),
        "1182000",
        Outside("AMD, VU9P product table"),
        "Look-up tables of the board",
    ),
    key(
        "engine.hash_unit_luts",
        Whole(1, 100_000_000),
        "1572",
        Derived("rtl/results.toml: a quarter of hash_array, with its buffer and crossbar"),
        "Look-up tables of a hash unit",
    ),
    key(
        "engine.compress_unit_luts",
        Whole(1, 100_000_000),
        "2582",
        Derived("rtl/results.toml: a quarter of compress_array, with its buffers and crossbar"),
        "Look-up tables of a compression unit",
    ),
    key(
        "engine.decompress_unit_luts",
        Whole(1, 100_000_000),
        "3539",
        Derived("rtl/results.toml: a half of decompress_array, with its buffers and crossbar"),
        "Look-up tables of a decompression unit",
    ),
    key(
        "engine.usable_share",
        SHARE,
        "0.6",
        Assumed("what routes at this clock"),
        "Share of the board's look-up tables that units may take",
    ),
    // batch
    key(
        "batch.chunks",
        Whole(1, 4096),
        "64",
        Assumed("2 MiB of 32 KiB chunks hide a DMA's cost"),
        "Most chunks of a batch",
    ),
    // predictor
    key(
        "predictor.kind",
        Word(&["none", "all-unique", "recent", "oracle"]),
        "\"none\"",
        Published("CIDR SW Support"),
        "What says beforehand whether a chunk is unique: nothing \
        (hash, look up, then compress), all are, the last chunks of the neighbourhood were, or \
        the truth",
    ),
    key(
        "predictor.entries",
        Whole(1024, 1 << 32),
        "1048576",
        Assumed("1 MiB of counters"),
        "Neighbourhoods of 64 chunks that `recent` tells apart",
    ),
    // buffer
    key(
        "buffer.client_bytes",
        BYTES,
        "268435456",
        Assumed("20 ms at 12.8 GB/s"),
        "Client request buffer: what has arrived and is not stored",
    ),
    key(
        "buffer.delayed_bytes",
        BYTES,
        "67108864",
        Assumed("a quarter of the client buffer"),
        "Delayed chunk buffer: unique chunks that wait for compression",
    ),
    // schedule
    key(
        "schedule.short_term",
        Word(&["off", "on"]),
        "\"off\"",
        Published("Key Idea #4"),
        "Whether batches go to the engine that is free first, and compression is put off while \
        compression units are the ones waited for",
    ),
    key(
        "schedule.deadline_ns",
        TIME,
        "20000000",
        Assumed("20 ms"),
        "Longest time that compression is put off",
    ),
    key(
        "schedule.long_term",
        Word(&["off", "on"]),
        "\"off\"",
        Published("Key Idea #3"),
        "Whether engines are reconfigured to the mix of the last window",
    ),
    key(
        "schedule.window_ns",
        TIME,
        "100000000",
        Assumed("short, so that runs can be"),
        "Window over which the mix is averaged",
    ),
    key(
        "schedule.downtime_ns",
        TIME,
        "10000000",
        Assumed("partial reconfiguration"),
        "Time that an engine is away while it is reconfigured",
    ),
    // table
    key(
        "table.kind",
        Word(&["buckets", "hooks"]),
        "\"buckets\"",
        Published("CIDR+: As the New Baseline"),
        "How fingerprints are found: in the bucket that their bits say, or, of one in so many, by \
        a hook in memory that brings the directory of what was stored beside it",
    ),
    key(
        "table.entries",
        Whole(1, 1 << 40),
        "1000000",
        Assumed("runs are short"),
        "Fingerprints that the table is laid out for",
    ),
    key(
        "table.entry_bytes",
        Whole(16, 256),
        "38",
        Assumed("SHA-256 and a 6 B place"),
        "Bytes of an entry",
    ),
    key(
        "table.bucket_bytes",
        Whole(512, 65_536),
        "4096",
        Assumed("a page"),
        "Bytes of a bucket, the unit that is read and cached",
    ),
    key(
        "table.cache_bytes",
        BYTES,
        "1073741824",
        Assumed("holds the whole table by default"),
        "Memory for buckets",
    ),
    key(
        "table.touched_bytes",
        Whole(0, 65_536),
        "4096",
        Assumed("a bucket is read whole"),
        "Bytes of a cached bucket that a look-up reads",
    ),
    key(
        "table.sample_one_in",
        Whole(1, 65_536),
        "1",
        Assumed("every bucket that is not in memory is read"),
        "hooks: one fingerprint in so many has a hook; buckets: of those that are not in memory, \
        one fingerprint's in so many is read, and the others are taken for new",
    ),
    key(
        "table.follow_chunks",
        Whole(0, 4096),
        "0",
        Assumed("what was found says nothing of what comes"),
        "hooks: a directory of which so many were found, one of them among its last so many, \
        brings the next; buckets: after a chunk was found, all are read for so many look-ups",
    ),
    key(
        "table.filter_bits",
        Number(0.0, 64.0),
        "0.0",
        Assumed("not published"),
        "buckets: bits of memory an entry for a Bloom filter that says which chunks are new, so \
        that nothing is read for them",
    ),
    key(
        "table.policy",
        Text,
        "\"lru\"",
        Assumed("not published"),
        "Eviction policy of the bucket cache: any of `onefold cache policies`",
    ),
    key(
        "table.engine_lookups_per_s",
        Number(1.0, 1e12),
        "250000000.0",
        Derived("rtl/results.toml: index_unit takes one a cycle, at 250 MHz"),
        "Look-ups that the cache engine completes",
    ),
    key(
        "table.engine_latency_ns",
        TIME,
        "1000",
        Assumed("a few dependent memory reads"),
        "Latency of the cache engine",
    ),
    // ssd
    key("ssd.count", COUNT, "16", Assumed("enough not to be what stops the rest"), "Data drives"),
    key(
        "ssd.model",
        Text,
        "\"\"",
        Assumed("rate and latency are what is published"),
        "Drive that each of them is, simulated whole: a preset or a file of `onefold ssd spec`; \
        empty for one of the rates and the latency below",
    ),
    key(
        "ssd.container_bytes",
        Whole(0, 1 << 40),
        "4194304",
        Assumed("that of this project's pool"),
        "What a drive that is simulated whole is told to be unused before it is written over: a \
        container of the log on it; 0 for nothing",
    ),
    key(
        "ssd.read_gb_per_s",
        GB_PER_S,
        "3.5",
        Outside("Samsung 970 Pro data sheet"),
        "Sequential read rate of a drive",
    ),
    key(
        "ssd.write_gb_per_s",
        GB_PER_S,
        "2.3",
        Outside("Samsung 970 Pro data sheet"),
        "Sequential write rate of a drive",
    ),
    key(
        "ssd.latency_ns",
        TIME,
        "20000",
        Published("Storage Device Trend: over 20 us"),
        "Latency of a drive",
    ),
    // table_ssd
    key("table_ssd.count", COUNT, "4", Assumed("not published"), "Table drives"),
    key(
        "table_ssd.model",
        Text,
        "\"\"",
        Assumed("rate and latency are what is published"),
        "Drive that each of them is, simulated whole, as for `ssd.model`; empty for one of the \
        rate and the latency below",
    ),
    key(
        "table_ssd.reads_per_s",
        Number(1.0, 1e9),
        "500000.0",
        Outside("Samsung 970 Pro data sheet"),
        "Random bucket reads a drive completes",
    ),
    key(
        "table_ssd.latency_ns",
        TIME,
        "80000",
        Assumed("a random 4 KiB read of MLC flash"),
        "Latency of a bucket read",
    ),
    // price
    key("price.core_usd", AMOUNT, "100.0", Assumed("list price of the E5-2650 v4, 2016"), "A core"),
    key("price.dram_usd_per_gb", AMOUNT, "8.0", Assumed("server DDR4, 2019"), "A GB of memory"),
    key("price.engine_usd", AMOUNT, "4500.0", Assumed("VCU1525 at volume, 2019"), "An engine"),
    key(
        "price.ssd_usd_per_tb",
        AMOUNT,
        "300.0",
        Assumed("data-centre NVMe, 2019"),
        "A TB of flash",
    ),
    // power
    key(
        "power.core_idle_w",
        AMOUNT,
        "2.0",
        Assumed("105 W for 12 cores, a quarter idle"),
        "An idle core",
    ),
    key("power.core_busy_w", AMOUNT, "8.75", Assumed("105 W for 12 cores"), "A busy core"),
    key("power.engine_idle_w", AMOUNT, "15.0", Assumed("static power of a VU9P"), "An idle engine"),
    key(
        "power.engine_busy_w",
        AMOUNT,
        "45.0",
        Assumed("vendor's estimator at half the board"),
        "An engine at full load",
    ),
    // workload
    key(
        "workload.load",
        Word(&["closed", "poisson", "bursts", "timestamps"]),
        "\"closed\"",
        Assumed("what saturates a server"),
        "Closed loop, Poisson arrivals, Poisson arrivals at a rate that goes on and off, or the \
        times of a trace",
    ),
    key(
        "workload.outstanding",
        Whole(1, 1 << 20),
        "4096",
        Assumed("enough to saturate"),
        "Requests at a time of the closed loop",
    ),
    key(
        "workload.gb_per_s",
        GB_PER_S,
        "1.0",
        Assumed("to be set"),
        "Mean offered rate of `poisson` and `bursts`",
    ),
    key(
        "workload.burst_ns",
        TIME,
        "10000000",
        Assumed("Key Idea #4 draws no scale"),
        "Length of a burst, and of the pause after it",
    ),
    key(
        "workload.burst_share",
        SHARE,
        "0.9",
        Assumed("Key Idea #4 draws no scale"),
        "Share of what is offered that comes in bursts",
    ),
    key(
        "workload.requests",
        Whole(1, 1 << 40),
        "200000",
        Assumed("seconds of computing"),
        "Requests of a run",
    ),
    key(
        "workload.warm_requests",
        Whole(0, 1 << 40),
        "20000",
        Assumed("a tenth"),
        "Requests before measuring begins, on top",
    ),
    key(
        "workload.request_bytes",
        Whole(512, 1 << 26),
        "32768",
        Assumed("a chunk"),
        "Bytes of a request",
    ),
    key("workload.read_share", SHARE, "0.0", Published("Write-only Workload"), "Share of reads"),
    key(
        "workload.duplicate_share",
        SHARE,
        "0.5",
        Assumed("\"dedup opportunity\" is not stated"),
        "Share of written chunks that equal a stored one",
    ),
    key(
        "workload.compressed_share",
        Number(0.01, 1.0),
        "0.5",
        Assumed(
            "60 to 90 % reduction in \
        all is published",
        ),
        "Mean size of a compressed chunk, as a share of the chunk",
    ),
    key(
        "workload.compressed_spread",
        Number(0.0, 1.0),
        "0.3",
        Assumed("real data varies"),
        "Half the width of the uniform distribution of that share, cut at 0.01 and 1",
    ),
    key(
        "workload.clustering",
        SHARE,
        "0.5",
        Assumed("copies are made of files, not of chunks"),
        "Share of chunks for which their neighbourhood of 64 decides whether they are copies",
    ),
    key(
        "workload.locality",
        Number(0.0, 10.0),
        "0.8",
        Assumed("Zipf over recency"),
        "Zipf exponent of how far back the original of a duplicate lies, in unique chunks",
    ),
    key(
        "workload.run_chunks",
        Whole(1, 65_536),
        "1",
        Assumed("the talk says nothing of what duplicates were stored with"),
        "Mean length of runs of duplicates whose originals were written one after the other",
    ),
    key(
        "workload.addresses",
        Whole(1, 1 << 36),
        "1000000",
        Assumed("runs are short"),
        "Chunks that clients can address; with a trace, chunks that the server holds before it",
    ),
    key(
        "workload.trace",
        Text,
        "\"\"",
        Assumed("requests are drawn"),
        "Trace to replay instead of drawing requests, in any format of `onefold trace`; empty for \
        none",
    ),
    key(
        "workload.speed",
        Number(1e-6, 1e9),
        "1.0",
        Assumed("as recorded"),
        "How many times as fast as recorded requests come with `timestamps`",
    ),
    key(
        "workload.trace_before",
        Word(&["nothing", "data"]),
        "\"data\"",
        Assumed("most traces begin in the middle of a volume's life"),
        "What the addresses of a trace held before it: nothing, so that reads find zeros and a \
        partial write reads nothing; or data of their own",
    ),
    key(
        "workload.trace_requests",
        Whole(0, 1 << 40),
        "0",
        Assumed("all that there are"),
        "At most so many requests of the trace, beyond those to warm up; 0 for all",
    ),
    key(
        "workload.trace_warm_requests",
        Whole(0, 1 << 40),
        "0",
        Assumed("traces may be short"),
        "Requests of the trace before measuring begins",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_table_and_every_table_a_key() {
        for key in KEYS {
            assert!(TABLES.iter().any(|(name, _)| *name == key.table()), "{}", key.path);
            assert!(!key.doc.ends_with('.'), "{}", key.path);
        }
        for (table, _) in TABLES {
            assert!(KEYS.iter().any(|key| key.table() == table), "{table}");
        }
    }
}
