//! Servers that have been published, and the one that they are measured against.
//! Room: onefold-array.
//! Source: [ajdari-talk]. What differs from a preset's parent stands here, each with its origin;
//! all else is the parent's, or the default of [`super::keys::KEYS`].

use super::keys::Origin::{self, Assumed, Derived, Outside, Published};

/// A named set of values.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name that people choose it by.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// What it is laid over.
    pub parent: Option<&'static str>,
    /// Keys, values as TOML, origins.
    pub values: &'static [(&'static str, &'static str, Origin)],
}

const CAL17: &str = "Overview of My Data Reduction Research: CAL'17 deduplicates only";
const OFFLOAD: &str = "Our Solution for Scalable Deduplication: offload hash & metadata";
const IDEAS: &str = "CIDR: Key Ideas";
const MEASURED: &str = "`onefold array calibrate`, threads of an AMD EPYC (family 26), 2026-11-23";
const EPYC: &str = "AMD EPYC 9555 data sheet";
const SCALE: &str = "CIDR's High Throughput Scalability";
const FIDR: &str = "Three Key Ideas of FIDR";
const HOOKS: &str = "calibrated on copied files, `onefold reproduce beyond/table-index`";

macro_rules! engines {
    ($($name:literal = $count:literal),+ $(,)?) => {
        [$(Preset {
            name: $name,
            doc: concat!("CIDR with ", $count, " engines on PCIe 4, for scaling"),
            parent: Some("cidr"),
            values: &[
                ("engine.count", $count, Published(SCALE)),
                ("link.generation", "4", Published("CIDR's High Throughput Scalability: \"Assume \
                    PCIe Gen. 4\"")),
                ("cpu.sockets", "4", Published(SCALE)),
                ("nic.count", "16", Assumed("not what stops it")),
                ("ssd.count", "64", Assumed("not what stops it")),
                ("buffer.client_bytes", "2147483648", Assumed("not what stops it")),
                ("buffer.delayed_bytes", "536870912", Assumed("not what stops it")),
                ("workload.outstanding", "32768", Assumed("enough to saturate")),
            ],
        }),+]
    };
}

const SINGLE: [Preset; 13] = [
    Preset {
        name: "software",
        doc: "deduplication and compression on 24 cores",
        parent: None,
        values: &[],
    },
    Preset {
        name: "software-today",
        doc: "the pool of this project on a processor of today, at the costs measured of it",
        parent: Some("software"),
        values: &[
            ("chunk_bytes", "4096", Assumed("the pool's default")),
            ("workload.request_bytes", "4096", Assumed("a chunk")),
            ("workload.outstanding", "32768", Assumed("enough to saturate")),
            ("cpu.sockets", "1", Assumed("to be counted")),
            ("cpu.cores_per_socket", "128", Outside("AMD EPYC 9555: 64 cores, 128 threads")),
            ("cpu.nic_ns_per_byte", "0.0612", Derived(MEASURED)),
            ("cpu.nic_ns_per_chunk", "2844.9", Derived(MEASURED)),
            ("cpu.hash_ns_per_byte", "0.1342", Derived(MEASURED)),
            ("cpu.compress_ns_per_byte", "0.2793", Derived(MEASURED)),
            ("cpu.decompress_ns_per_byte", "0.118", Derived(MEASURED)),
            ("cpu.index_ns_per_chunk", "0.0", Derived("counted with the metadata")),
            ("cpu.metadata_ns_per_chunk", "118.7", Derived(MEASURED)),
            ("cpu.store_ns_per_chunk", "0.0", Derived(MEASURED)),
            ("cpu.duplicate_ns_per_chunk", "213.0", Derived(MEASURED)),
            ("cpu.submit_ns_per_byte", "0.2929", Derived(MEASURED)),
            ("memory.gb_per_s_per_socket", "576.0", Outside(EPYC)),
            ("nic.count", "16", Assumed("not what stops it")),
            ("ssd.count", "64", Assumed("not what stops it")),
            ("table.entry_bytes", "16", Assumed("the least of a description; the pool's has 10")),
            ("table.touched_bytes", "64", Derived("a line of the pool's index")),
            ("price.core_usd", "77.0", Assumed("list price of the EPYC 9555 by thread, 2024")),
        ],
    },
    Preset {
        name: "cal17-baseline",
        doc: "deduplication of slow drives on three processors",
        parent: Some("software"),
        values: &[
            ("cpu.sockets", "3", Published("Evaluation (at 4.5 GB/s)")),
            ("chunk_bytes", "4096", Assumed("the talk's choice is 64 KB to 4 KB")),
            ("workload.request_bytes", "4096", Assumed("a chunk")),
            ("place.compression", "\"none\"", Published(CAL17)),
            ("workload.compressed_share", "1.0", Published(CAL17)),
            ("workload.compressed_spread", "0.0", Published(CAL17)),
            ("ssd.count", "10", Published("Evaluation: ten 512 GB 850 Pro")),
            ("ssd.read_gb_per_s", "0.55", Outside("Samsung 850 Pro data sheet")),
            ("ssd.write_gb_per_s", "0.52", Outside("Samsung 850 Pro data sheet")),
        ],
    },
    Preset {
        name: "cal17",
        doc: "CAL'17: the same with an engine that hashes and keeps the tables",
        parent: Some("cal17-baseline"),
        values: &[
            ("cpu.sockets", "1", Published("Evaluation (at 4.5 GB/s)")),
            ("place.hash", "\"engine\"", Published(OFFLOAD)),
            ("place.index", "\"engine\"", Published(OFFLOAD)),
            ("cpu.metadata_ns_per_chunk", "0.0", Published(OFFLOAD)),
            ("engine.count", "1", Published("Prototype on real machine")),
            ("engine.compress_units", "0", Published(CAL17)),
            ("engine.decompress_units", "0", Published(CAL17)),
            ("power.engine_idle_w", "58.0", Derived("40 % less power, calibrated on the slide")),
            ("power.engine_busy_w", "78.0", Derived("40 % less power, calibrated on the slide")),
        ],
    },
    Preset {
        name: "cidr",
        doc: "CIDR: one engine hashes and compresses, software predicts and batches",
        parent: Some("software"),
        values: &[
            ("place.hash", "\"engine\"", Published(IDEAS)),
            ("place.compression", "\"engine\"", Published(IDEAS)),
            ("engine.count", "1", Published("CIDR's High Throughput (Single FPGA)")),
            (
                "link.efficiency",
                "0.935",
                Derived("12.8 GB/s write-only, calibrated: some chunks go to the engine twice"),
            ),
            ("predictor.kind", "\"recent\"", Published("CIDR SW Support")),
            ("schedule.short_term", "\"on\"", Published("Key Idea #4")),
            ("schedule.long_term", "\"on\"", Published("Key Idea #3")),
        ],
    },
    Preset {
        name: "dedicated",
        doc: "fixed hardware, provisioned for the worst case of each kind of work",
        parent: Some("cidr"),
        values: &[
            ("schedule.short_term", "\"off\"", Published("Dedicated HW Acceleration")),
            ("schedule.long_term", "\"off\"", Published("Dedicated HW Acceleration")),
            ("predictor.kind", "\"none\"", Published("Dedicated HW Acceleration")),
        ],
    },
    Preset {
        name: "cidr+",
        doc: "CIDR with chunks of 4 KiB and a cache of the table in the host's memory",
        parent: Some("cidr"),
        values: &[
            ("chunk_bytes", "4096", Published("CIDR+: As the New Baseline")),
            ("workload.request_bytes", "4096", Assumed("a chunk")),
            ("workload.outstanding", "32768", Assumed("enough to saturate")),
            ("engine.count", "8", Assumed("not what stops it")),
            ("cpu.metadata_ns_per_chunk", "750.0", Derived("as much a byte as at 32 KiB")),
            (
                "cpu.index_ns_per_chunk",
                "8380.0",
                Derived(
                    "52 % of CPU time, \
                calibrated on the slide",
                ),
            ),
            (
                "cpu.schedule_ns_per_chunk",
                "4800.0",
                Derived(
                    "33 % of CPU time, \
                calibrated on the slide",
                ),
            ),
            ("link.generation", "4", Published(SCALE)),
            ("cpu.sockets", "1", Published("FIDR Prototype: one E5-2650 v4")),
            ("nic.count", "8", Assumed("not what stops it")),
            ("ssd.count", "32", Assumed("not what stops it")),
            ("table_ssd.count", "16", Assumed("not what stops it")),
            ("table.entries", "4000000", Assumed("1.2 times what is stored at first")),
            ("table.cache_bytes", "67108864", Assumed("0.44 of the table")),
            ("workload.addresses", "3000000", Assumed("larger than the cache covers")),
        ],
    },
    Preset {
        name: "fidr-index",
        doc: "CIDR+ and the first idea of FIDR: an engine indexes the table's cache",
        parent: Some("cidr+"),
        values: &[("place.index", "\"engine\"", Published(FIDR))],
    },
    Preset {
        name: "fidr-nic",
        doc: "CIDR+ and the third idea of FIDR: network cards hash",
        parent: Some("cidr+"),
        values: &[
            ("place.hash", "\"nic\"", Published(FIDR)),
            ("nic.hash_units", "53", Assumed("a card hashes what it receives")),
        ],
    },
    Preset {
        name: "fidr-direct",
        doc: "the second and third idea: hashed in the card, and from device to device",
        parent: Some("fidr-nic"),
        values: &[("place.data", "\"direct\"", Published(FIDR))],
    },
    Preset {
        name: "fidr",
        doc: "FIDR: all three ideas",
        parent: Some("fidr-direct"),
        values: &[("place.index", "\"engine\"", Published(FIDR))],
    },
    Preset {
        name: "intra-ssd",
        doc: "a server that only stores, before drives that deduplicate alone if ssd.model says so",
        parent: Some("software"),
        values: &[
            ("place.hash", "\"none\"", Published("Intra-SSD Deduplication")),
            ("place.compression", "\"none\"", Assumed("drives deduplicate only")),
            ("chunk_bytes", "4096", Assumed("a small page")),
            ("cpu.metadata_ns_per_chunk", "750.0", Derived("6000 ns for 32 KiB")),
            ("ssd.count", "4", Assumed("to be set")),
            ("workload.compressed_share", "1.0", Assumed("nobody compresses")),
            ("workload.compressed_spread", "0.0", Assumed("nobody compresses")),
        ],
    },
    Preset {
        name: "fidr-hooks",
        doc: "FIDR with hooks and directories, as nobody has published it, in the same memory",
        parent: Some("fidr"),
        values: &[
            ("table.kind", "\"hooks\"", Assumed("ours")),
            ("table.sample_one_in", "4", Derived(HOOKS)),
            ("table.follow_chunks", "4", Derived(HOOKS)),
            ("table.policy", "\"sieve\"", Derived(HOOKS)),
        ],
    },
];

const SCALED: [Preset; 10] = engines![
    "cidr-1" = "1",
    "cidr-2" = "2",
    "cidr-3" = "3",
    "cidr-4" = "4",
    "cidr-5" = "5",
    "cidr-6" = "6",
    "cidr-7" = "7",
    "cidr-8" = "8",
    "cidr-9" = "9",
    "cidr-10" = "10",
];

/// Every preset.
pub const PRESETS: &[Preset] = &{
    let mut all = [SINGLE[0]; SINGLE.len() + SCALED.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < SINGLE.len() { SINGLE[at] } else { SCALED[at - SINGLE.len()] };
        at += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Given, SpecBuilder};

    #[test]
    fn every_preset_is_a_server_and_says_where_its_values_come_from() {
        for preset in PRESETS {
            let builder = SpecBuilder::preset(preset.name).unwrap();
            let spec = builder.build().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            assert_eq!(spec.name, preset.name);
            for (path, ..) in preset.values {
                assert!(matches!(builder.given(path), Some(Given::Known(_))), "{path}");
            }
            assert!(builder.assumed().contains(&"price.core_usd"));
        }
    }
}
