//! Every key of a drive specification: what it means, its unit, what it accepts.
//! Room: onefold-flash.
//! Invariants: the keys are exactly those of [`super::DriveSpec`], a test says so; a unit is part
//! of the name wherever there is one.

pub use onefold_block::setting::{Accepts, Key};

use Accepts::{Number, Switch, Text, Whole, WholeOrPercent, Word};

const fn key(path: &'static str, accepts: Accepts, doc: &'static str) -> Key {
    Key { path, accepts, doc }
}

/// Longest time that a setting may name: 1000 s.
const TIME_NS_MAX: u64 = 1_000_000_000_000;
/// Largest whole number that TOML carries.
const TOML_MAX: u64 = i64::MAX as u64;
/// A time in nanoseconds, which may be zero.
const TIME: Accepts = Whole(0, TIME_NS_MAX);

/// What each table is about, in the order in which they are printed.
pub const TABLES: [(&str, &str); 10] = [
    ("", "A drive and what is done with it. Every key may be left out: the default stands here."),
    ("geometry", "How pages, blocks and planes are arranged."),
    ("timing", "How long the flash takes. Times are whole nanoseconds."),
    ("energy", "What an operation costs, in nanojoules."),
    ("media", "Cells, code and scrambler: for the emulated drive and for lifetimes."),
    ("ftl", "The flash translation layer."),
    ("controller", "Cores, engines, memory and buffers of the controller."),
    ("host", "The link to the host."),
    ("dedup", "Deduplication inside the drive."),
    ("workload", "What the host asks for, unless a trace is replayed."),
];

/// Every key but the options of deduplication policies, in the order in which they are printed.
pub const KEYS: &[Key] = &[
    key("name", Text, "Name of the drive, for reports"),
    key("seed", Whole(0, TOML_MAX), "Root of all random numbers: same seed, same result"),
    key(
        "precondition",
        Word(&["none", "steady", "prefill"]),
        "State before the first request: none (empty), steady (as after endless writes of the \
         workload's kind) or prefill (what it addresses written once, and looked at)",
    ),
    // geometry
    key("geometry.channels", Whole(1, 256), "Buses between the controller and the packages"),
    key("geometry.packages", Whole(1, 4096), "Packages, dealt to the channels in turn"),
    key("geometry.dies_per_package", Whole(1, 64), "Dies of a package"),
    key("geometry.planes_per_die", Whole(1, 256), "Planes of a die"),
    key("geometry.blocks_per_plane", Whole(8, 1 << 24), "Erase blocks of a plane"),
    key("geometry.pages_per_block", Whole(1, 65_535), "Pages of an erase block"),
    key("geometry.page_bytes", Whole(512, 1 << 20), "Data bytes of a page"),
    key("geometry.oob_bytes", Whole(0, 1 << 16), "Out-of-band bytes of a page, on top"),
    // timing
    key("timing.read_latency_ns", TIME, "Array time of a page read"),
    key("timing.program_latency_ns", TIME, "Array time of a page program"),
    key("timing.erase_latency_ns", TIME, "Array time of a block erase"),
    key(
        "timing.bus_mb_per_s",
        Whole(0, 1_000_000),
        "Rate of a channel in 10^6 bytes a second; 0: transfers take no time",
    ),
    key(
        "timing.command_overhead_ns",
        TIME,
        "Time that command and address cycles hold the channel, per operation",
    ),
    key(
        "timing.parallel_unit",
        Word(&["plane", "die", "package"]),
        "What does one operation at a time: every plane, every die or every package",
    ),
    key(
        "timing.cache_program",
        Switch,
        "Whether the next page is transferred while the array still programs",
    ),
    key(
        "timing.copyback",
        Switch,
        "Whether garbage collection copies inside the flash, without the channel",
    ),
    key(
        "timing.suspend",
        Word(&["none", "erase", "erase-and-program"]),
        "What a host read interrupts",
    ),
    key("timing.suspend_latency_ns", TIME, "Time until the array is free for the read"),
    // energy
    key("energy.read_nj", Whole(0, TOML_MAX), "Energy of a page read"),
    key("energy.program_nj", Whole(0, TOML_MAX), "Energy of a page program"),
    key("energy.erase_nj", Whole(0, TOML_MAX), "Energy of a block erase"),
    key("energy.transfer_nj", Whole(0, TOML_MAX), "Energy of moving one page over the channel"),
    // media
    key("media.rated_pe_cycles", Whole(1, 10_000_000), "Erases that a block is rated for"),
    key(
        "media.factory_bad_blocks_ppm",
        Whole(0, 200_000),
        "Blocks that are bad from the start, of a million",
    ),
    key(
        "media.raw_bit_errors_ppb",
        Whole(0, 500_000_000),
        "Wrong bits of a fresh page, of 10^9; wear, age and reads add to them",
    ),
    key(
        "media.plain_raw_bit_errors_percent",
        Whole(100, 100_000),
        "Raw bit errors of a page whose plain data lies on flash (ses-host, emulated drive), \
         percent of those of a scrambled one",
    ),
    key(
        "media.similar_raw_bit_errors_percent",
        Whole(100, 100_000),
        "Raw bit errors of a page between two that hold the same bits (emulated drive), percent of \
         those between noise; less alike neighbours add their share",
    ),
    key(
        "media.wear",
        Word(&["none", "slc", "mlc", "tlc"]),
        "How raw bit errors grow with erases, age and reads; emulated drive: how blocks fail",
    ),
    key(
        "media.read_retries",
        Switch,
        "Whether `ssd run` reads a page again until the wear model lets the code correct it",
    ),
    key(
        "media.worn_cycles",
        Whole(0, 10_000_000),
        "Erases that every block has seen when a run starts (read_retries)",
    ),
    key(
        "media.data_age_s",
        Whole(0, 10_000_000_000),
        "Seconds for which data that a run finds has been there (read_retries)",
    ),
    key(
        "media.code",
        Word(&["none", "qc-ldpc", "bch"]),
        "Error-correcting code of a 1,024-byte codeword",
    ),
    key("media.scrambler", Text, "none, or a name that `onefold scrambler list` knows"),
    // ftl
    key(
        "ftl.over_provisioning",
        Number(0.0, 100.0),
        "(T - U) / U: physical pages T beyond the logical pages U, the reserve not taken off",
    ),
    key(
        "ftl.gc_reserve_blocks",
        WholeOrPercent(2, 1 << 24),
        "Free blocks of a plane at which garbage collection starts, or a percentage of its blocks",
    ),
    key(
        "ftl.gc_idle_blocks",
        Whole(0, 1 << 24),
        "Free blocks of a plane up to which idle moments collect; 0: one more than the reserve",
    ),
    key(
        "ftl.victim",
        Word(&["greedy", "fifo", "d-choices", "cost-benefit"]),
        "Which full block is collected first",
    ),
    key("ftl.victim_choices", Whole(1, 10_000), "Blocks drawn by d-choices"),
    key(
        "ftl.pacing",
        Word(&["incremental", "whole-block"]),
        "Whether collection moves a few pages with each host page, or a whole block at once",
    ),
    key(
        "ftl.wear_spread",
        Whole(0, 10_000_000),
        "Erases between the most and the least worn block at which cold data moves; 0: never",
    ),
    key(
        "ftl.streams",
        Whole(1, 2),
        "Pools of blocks: 2 keeps the hot pages of a hot-cold workload apart",
    ),
    key("ftl.journal", Switch, "Whether map changes are journalled; off loses shared pages"),
    key(
        "ftl.model_metadata",
        Switch,
        "Whether simulated runs write mapping pages, checkpoints and journal; emulated drives \
         always do",
    ),
    key(
        "ftl.checkpoint_pages",
        Whole(0, 1 << 30),
        "Host pages from one checkpoint to the next; 0: half of the drive",
    ),
    key(
        "ftl.map_cache_bytes",
        Whole(0, TOML_MAX),
        "DRAM for mapping pages that live in flash; 0: the whole mapping is in DRAM",
    ),
    key(
        "ftl.allocation",
        Word(&["round-robin", "idle-first"]),
        "Where the next host page goes: next unit in turn, or one that is idle",
    ),
    key(
        "ftl.spread_patterns",
        Switch,
        "Whether a plain page goes to a unit whose last page is not like it (emulated drive)",
    ),
    key(
        "ftl.compression",
        Word(&["none", "before-scrambler", "after-scrambler"]),
        "Where pages are compressed, to be packed into flash pages: nowhere, or on which side of \
         the scrambler",
    ),
    key(
        "ftl.subpages",
        Whole(2, 64),
        "compression: equal parts of a flash page; a compressed page takes whole ones",
    ),
    key(
        "ftl.packing_pages",
        Whole(1, 64),
        "compression: flash pages that are filled side by side, for each stream of the host and \
         for collection in each plane",
    ),
    // controller
    key("controller.cpu_cores", Whole(1, 1024), "Cores that handle requests"),
    key("controller.request_ns", TIME, "Core time of a request, whatever its length"),
    key("controller.lookup_ns", TIME, "Core time of a mapping look-up, per page"),
    key("controller.hash_engines", Whole(1, 1024), "Engines for fingerprints"),
    key("controller.hash_ns", TIME, "Strong fingerprint (SHA-1, SHA-256) of a page"),
    key("controller.light_hash_ns", TIME, "Light fingerprint (CRC-32) of a page"),
    key("controller.compare_ns", TIME, "Comparing two pages in memory"),
    key("controller.ecc_engines", Whole(1, 1024), "Engines of the error-correcting code"),
    key("controller.ecc_decode_ns", TIME, "Decoding a page that was read"),
    key(
        "controller.parity_correction_ns",
        TIME,
        "Correcting the parity of a page for its scrambler",
    ),
    key("controller.compression_engines", Whole(1, 1024), "Engines that compress and decompress"),
    key(
        "controller.compress_mb_per_s",
        Whole(0, 1_000_000),
        "What one of them compresses in 10^6 bytes a second; 0: no time",
    ),
    key(
        "controller.decompress_mb_per_s",
        Whole(0, 1_000_000),
        "What one of them decompresses in 10^6 bytes a second; 0: no time",
    ),
    key(
        "controller.dram_bytes",
        Whole(0, TOML_MAX),
        "Memory for mapping, fingerprints and buffers: they must fit",
    ),
    key(
        "controller.write_buffer",
        Word(&["through", "back"]),
        "When a write is done: when it is programmed, or when it is buffered",
    ),
    key("controller.write_buffer_pages", Whole(1, 1 << 24), "Pages of the write-back buffer"),
    key(
        "controller.power_loss_protection",
        Switch,
        "Whether buffers survive a power cut, so that a flush has nothing to wait for",
    ),
    key("controller.read_priority", Switch, "Whether host reads go before everything else"),
    key(
        "controller.idle_after_ns",
        TIME,
        "Time without requests after which background work starts by itself; 0: never in between",
    ),
    key(
        "controller.idle_hint",
        Switch,
        "Whether background work starts at once when the host says that it is idle",
    ),
    key(
        "controller.idle_order",
        Word(&["by-policy", "by-need", "dedup-first", "gc-first"]),
        "Which background work goes first: collection as far as the load needs it, deduplication, \
         or collection; by-policy: by-need with gleaner, deduplication with all others",
    ),
    key("controller.idle_steps", Whole(1, 65_536), "Background steps under way at a time"),
    // host
    key("host.queue_entries", Whole(1, 65_536), "Requests that the drive takes at a time"),
    key(
        "host.link_mb_per_s",
        Whole(0, 1_000_000),
        "Rate of the link in each direction in 10^6 bytes a second; 0: no time",
    ),
    key("host.link_latency_ns", TIME, "Time of a command and its completion on the link"),
    key("host.scrambler_cores", Whole(1, 1024), "ses-host: cores of the host that scramble pages"),
    key(
        "host.scrambler_mb_per_s",
        Whole(0, 1_000_000),
        "ses-host: what one of them scrambles in 10^6 bytes a second, as `onefold ssd calibrate` \
         measures it; 0: no time",
    ),
    // dedup
    key(
        "dedup.policy",
        Text,
        "Policy; its options stand beside it in this table, behind # where they are not set",
    ),
    // workload
    key(
        "workload.pattern",
        Word(&["uniform", "zipf", "hot-cold", "sequential"]),
        "Which pages requests go to",
    ),
    key("workload.zipf_exponent", Number(0.0, 10.0), "zipf: weight of rank r is 1 / r^exponent"),
    key("workload.hot_page_share", Number(0.0, 1.0), "hot-cold: share of the pages that is hot"),
    key("workload.hot_request_share", Number(0.0, 1.0), "hot-cold: share of requests to them"),
    key("workload.footprint_share", Number(0.0, 1.0), "Share of the drive that is addressed"),
    key("workload.read_share", Number(0.0, 1.0), "Share of reads; the rest are writes"),
    key("workload.requests", Whole(1, TOML_MAX), "Number of requests"),
    key("workload.request_pages", Whole(1, 65_536), "Pages of a request"),
    key(
        "workload.arrivals",
        Word(&["closed", "poisson", "constant"]),
        "closed: a request follows the end of another; poisson, constant: open, by the clock",
    ),
    key("workload.queue_depth", Whole(1, 65_536), "closed: requests outstanding"),
    key(
        "workload.think_time",
        Word(&["none", "constant", "exponential"]),
        "closed: pause between the end of a request and the next",
    ),
    key("workload.think_time_ns", TIME, "closed: the pause, or its mean"),
    key("workload.interarrival_ns", TIME, "poisson, constant: (mean) time between requests"),
    key(
        "workload.content",
        Word(&[
            "unique", "uniform", "profile", "laptop1", "laptop2", "desktop1", "desktop2",
            "desktop3", "desktop4",
        ]),
        "What is written: never the same twice, drawn from content_values values, the duplicates \
         of the three numbers below, or those of a data set of SES-Dedup",
    ),
    key("workload.content_values", Whole(1, TOML_MAX), "uniform: number of different contents"),
    key("workload.duplicate_ratio", Number(0.0, 1.0), "profile: redundant pages, of all pages"),
    key(
        "workload.hot_fingerprint_ratio",
        Number(0.0, 0.999),
        "profile: contents with over two copies, of those with more than one",
    ),
    key(
        "workload.hot_share",
        Number(0.0, 1.0),
        "profile: redundant pages that are of hot contents",
    ),
    key(
        "workload.common_codewords_percent",
        Whole(0, 100),
        "codeword: share of the codewords that are common to many pages, wherever they lie in them",
    ),
    key(
        "workload.common_codewords",
        Whole(1, TOML_MAX),
        "codeword: number of different common ones; the same content always has the same",
    ),
    key(
        "workload.compressed_percent",
        Whole(0, 100),
        "compression in simulated runs: length of a compressed page, of a page",
    ),
    key(
        "workload.compressed_spread_percent",
        Whole(0, 100),
        "How far that is off at most, either way, evenly spread; the same content always gets as \
         short",
    ),
    key(
        "workload.trace_timing",
        Word(&["timestamps", "closed"]),
        "When the requests of a trace come: by its clock, or after each other by queue_depth and \
         think_time",
    ),
    key(
        "workload.wrap_addresses",
        Switch,
        "Whether addresses of a trace beyond the drive start again at 0, instead of an error",
    ),
    key(
        "workload.idle_hint_ns",
        TIME,
        "A trace's host says that it is idle wherever the next request is so far away; 0: only \
         where the trace has it",
    ),
    key(
        "workload.finish_offline",
        Switch,
        "Whether background deduplication goes on after the last request until it finds no more",
    ),
];

/// Words as the sentence that says what is accepted.
pub(super) fn one_of(words: &'static [&'static str]) -> String {
    Word(words).to_string()
}
