//! Drives that the literature describes, and one of today.
//! Room: onefold-flash.
//! Source: `ses-*`: [ses-dedup] Tables I and II, 64 MiB of DRAM, garbage collection at 5 %, SHA-256
//! of 8 KiB 226.5 us, parity correction 14.5 us. The paper states no over-provisioning (7 % of the
//! physical pages, as its references have it), no bus (Table I is taken to include the transfer)
//! and no endurance (100,000, 10,000 and 3,000 erases, as such cells are sold for).
//! `park-shin`: [park-shin] section IV, for page, read, program, SHA-1, CRC-32 and comparison;
//! block, plane, erase and reserve from the simulator it used ([agrawal-08]: 64 pages of 4 KiB a
//! block, 2,048 blocks a plane, 8 planes a package, 1.5 ms, 15 %).
//! `tlc`: [tlc-21], a 176-layer die that programs 184 MB/s in four planes of 16 KiB (356 us a page)
//! and reads in 40 us; 1,600 MT/s as Micron's 176 layers; erase 3.5 ms, 3,000 erases and one
//! 256-GiB drive with a gigabyte of DRAM per terabyte are assumptions of ours.
//! `ses-paper`: the drive of `ses-slc` as Table IV of [ses-dedup] uses it: `ses-host` with tables
//! of 15 % of the data and a third of that for the offline pass, a data set of 3,670,016 pages
//! written once, package by package. Its clients are those of `experiments/ses-dedup/table-4`: 6
//! with an exponential pause of 180 us, fitted to that table.
//! `park-shin-paper`: `park-shin` with `crc-compare`, 90 % full; requests of one client with
//! pauses, as the mail server of the paper has idle moments.
//! Energy of all: 3.3 V and 25 mA (the active current that
//! data sheets name) for the array time, 82.5 mW; transfers are left out.

use crate::geometry::Geometry;
use crate::spec::{
    Allocation, ArrivalKind, BlockCount, CompressionPlace, ContentKind, ControllerSpec, DedupSpec,
    DriveSpec, EnergySpec, FtlSpec, HostSpec, IdleOrder, MediaCode, MediaSpec, MediaWear,
    PacingName, ParallelUnit, PatternKind, Precondition, Suspend, ThinkKind, TimingSpec,
    TraceTiming, VictimName, WorkloadTable, WriteBuffer,
};

/// Names that `--preset` knows; the first is the default.
pub const PRESET_NAMES: [&str; 7] =
    ["ses-slc", "ses-mlc1", "ses-mlc2", "park-shin", "tlc", "ses-paper", "park-shin-paper"];

/// The preset of this name.
pub(super) fn preset(name: &str) -> Option<DriveSpec> {
    Some(match name {
        "ses-slc" => ses(name, 23_400, 262_600, 100_000),
        "ses-mlc1" => ses(name, 33_500, 390_000, 10_000),
        "ses-mlc2" => ses(name, 43_300, 1_084_400, 3_000),
        "park-shin" => park_shin(),
        "tlc" => tlc(),
        "ses-paper" => ses_paper(),
        "park-shin-paper" => park_shin_paper(),
        _ => return None,
    })
}

impl DriveSpec {
    /// The preset of this name, one of [`PRESET_NAMES`].
    pub fn preset(name: &str) -> Option<Self> {
        preset(name)
    }
}

/// Array energy of a time: 3.3 V, 25 mA.
const fn energy_nj(ns: u64) -> u64 {
    ns * 825 / 10_000
}

const fn energy(read_ns: u64, program_ns: u64, erase_ns: u64) -> EnergySpec {
    EnergySpec {
        read_nj: energy_nj(read_ns),
        program_nj: energy_nj(program_ns),
        erase_nj: energy_nj(erase_ns),
        transfer_nj: 0,
    }
}

fn ses(name: &str, read_ns: u64, program_ns: u64, rated_pe_cycles: u64) -> DriveSpec {
    let erase_ns = 1_800_000;
    DriveSpec {
        name: name.to_owned(),
        seed: 1,
        precondition: Precondition::Steady,
        geometry: Geometry {
            channels: 8,
            packages: 8,
            dies_per_package: 1,
            planes_per_die: 8,
            blocks_per_plane: 256,
            pages_per_block: 256,
            page_bytes: 8192,
            oob_bytes: 320,
        },
        timing: TimingSpec {
            read_latency_ns: read_ns,
            program_latency_ns: program_ns,
            erase_latency_ns: erase_ns,
            bus_mb_per_s: 0,
            command_overhead_ns: 0,
            parallel_unit: ParallelUnit::Plane,
            cache_program: false,
            copyback: false,
            suspend: Suspend::None,
            suspend_latency_ns: 0,
        },
        energy: energy(read_ns, program_ns, erase_ns),
        media: MediaSpec {
            rated_pe_cycles,
            factory_bad_blocks_ppm: 0,
            raw_bit_errors_ppb: 0,
            plain_raw_bit_errors_percent: 100,
            similar_raw_bit_errors_percent: 100,
            wear: if rated_pe_cycles > 10_000 { MediaWear::Slc } else { MediaWear::Mlc },
            read_retries: false,
            worn_cycles: 0,
            data_age_s: 0,
            code: MediaCode::QcLdpc,
            scrambler: "lba-prbs31".to_owned(),
        },
        ftl: ftl(0.07, BlockCount::Percent(5.0)),
        controller: controller(64 << 20, 226_500, 14_500),
        host: HostSpec {
            queue_entries: 1024,
            link_mb_per_s: 0,
            link_latency_ns: 0,
            scrambler_cores: 1,
            scrambler_mb_per_s: 0,
        },
        dedup: DedupSpec { policy: "none".to_owned(), options: toml::Table::new() },
        workload: workload(),
    }
}

fn ftl(over_provisioning: f64, gc_reserve_blocks: BlockCount) -> FtlSpec {
    FtlSpec {
        over_provisioning,
        gc_reserve_blocks,
        gc_idle_blocks: 0,
        victim: VictimName::Greedy,
        victim_choices: 10,
        pacing: PacingName::Incremental,
        wear_spread: 0,
        streams: 1,
        journal: true,
        model_metadata: false,
        checkpoint_pages: 0,
        map_cache_bytes: 0,
        allocation: Allocation::RoundRobin,
        spread_patterns: false,
        compression: CompressionPlace::None,
        subpages: 8,
        packing_pages: 2,
    }
}

fn controller(dram_bytes: u64, hash_ns: u64, parity_correction_ns: u64) -> ControllerSpec {
    ControllerSpec {
        cpu_cores: 1,
        request_ns: 0,
        lookup_ns: 0,
        hash_engines: 1,
        hash_ns,
        light_hash_ns: 0,
        compare_ns: 0,
        ecc_engines: 1,
        ecc_decode_ns: 0,
        parity_correction_ns,
        compression_engines: 1,
        compress_mb_per_s: 1_000,
        decompress_mb_per_s: 2_000,
        dram_bytes,
        write_buffer: WriteBuffer::Through,
        write_buffer_pages: 256,
        power_loss_protection: false,
        read_priority: true,
        idle_after_ns: 10_000_000,
        idle_hint: true,
        idle_order: IdleOrder::ByPolicy,
        idle_steps: 8,
    }
}

fn workload() -> WorkloadTable {
    WorkloadTable {
        pattern: PatternKind::Uniform,
        zipf_exponent: 1.0,
        hot_page_share: 0.2,
        hot_request_share: 0.8,
        footprint_share: 1.0,
        read_share: 0.0,
        requests: 1_000_000,
        request_pages: 1,
        arrivals: ArrivalKind::Closed,
        queue_depth: 64,
        think_time: ThinkKind::None,
        think_time_ns: 100_000,
        interarrival_ns: 100_000,
        content: ContentKind::Unique,
        content_values: 1_000_000,
        duplicate_ratio: 0.2,
        hot_fingerprint_ratio: 0.15,
        hot_share: 0.8,
        common_codewords_percent: 0,
        common_codewords: 10_000,
        compressed_percent: 50,
        compressed_spread_percent: 0,
        trace_timing: TraceTiming::Timestamps,
        wrap_addresses: false,
        idle_hint_ns: 0,
        finish_offline: true,
    }
}

fn park_shin() -> DriveSpec {
    let (read_ns, program_ns, erase_ns) = (25_000, 200_000, 1_500_000);
    let mut spec = ses("park-shin", read_ns, program_ns, 100_000);
    spec.geometry = Geometry {
        channels: 8,
        packages: 8,
        dies_per_package: 1,
        planes_per_die: 8,
        blocks_per_plane: 2048,
        pages_per_block: 64,
        page_bytes: 4096,
        oob_bytes: 192,
    };
    spec.timing.erase_latency_ns = erase_ns;
    spec.timing.parallel_unit = ParallelUnit::Package;
    spec.energy = energy(read_ns, program_ns, erase_ns);
    spec.ftl = ftl(0.15, BlockCount::Percent(5.0));
    spec.controller = controller(128 << 20, 100_000, 0);
    spec.controller.light_hash_ns = 13_000;
    spec.controller.compare_ns = 10_000;
    spec
}

fn tlc() -> DriveSpec {
    let (read_ns, program_ns, erase_ns) = (40_000, 356_000, 3_500_000);
    let mut spec = ses("tlc", read_ns, program_ns, 3_000);
    spec.geometry = Geometry {
        channels: 8,
        packages: 8,
        dies_per_package: 1,
        planes_per_die: 4,
        blocks_per_plane: 400,
        pages_per_block: 1344,
        page_bytes: 16_384,
        oob_bytes: 1_952,
    };
    spec.media.wear = MediaWear::Tlc;
    spec.timing.erase_latency_ns = erase_ns;
    spec.timing.bus_mb_per_s = 1600;
    spec.timing.command_overhead_ns = 200;
    spec.timing.cache_program = true;
    spec.timing.suspend = Suspend::EraseAndProgram;
    spec.timing.suspend_latency_ns = 20_000;
    spec.energy = energy(read_ns, program_ns, erase_ns);
    spec.ftl = ftl(0.09, BlockCount::Blocks(4));
    spec.controller = controller(512 << 20, 10_000, 5_000);
    spec.controller.cpu_cores = 4;
    spec.controller.request_ns = 1_000;
    spec.controller.ecc_decode_ns = 0;
    spec.host = HostSpec { link_mb_per_s: 7_000, link_latency_ns: 2_000, ..spec.host };
    spec
}

/// Pages of the data set that fills the drive of [ses-dedup] Table II.
const SES_DATA_PAGES: u32 = 3_670_016;

fn ses_paper() -> DriveSpec {
    let mut spec = ses("ses-paper", 23_400, 262_600, 100_000);
    let pages = f64::from(spec.geometry.pages());
    let data = f64::from(SES_DATA_PAGES);
    spec.precondition = Precondition::None;
    spec.timing.parallel_unit = ParallelUnit::Package;
    spec.ftl = ftl(pages / data - 1.0, BlockCount::Blocks(4));
    spec.ftl.journal = false;
    spec.ftl.allocation = Allocation::IdleFirst;
    "ses-host".clone_into(&mut spec.dedup.policy);
    let share = |of_data: f64| toml::Value::Float(of_data * data / pages);
    spec.dedup.options.insert("table_share".to_owned(), share(0.15));
    spec.dedup.options.insert("scratch_share".to_owned(), share(0.05));
    spec.workload = WorkloadTable {
        pattern: PatternKind::Sequential,
        requests: SES_DATA_PAGES.into(),
        queue_depth: 6,
        think_time: ThinkKind::Exponential,
        think_time_ns: 180_000,
        content: ContentKind::Desktop4,
        ..workload()
    };
    spec
}

fn park_shin_paper() -> DriveSpec {
    let mut spec = park_shin();
    "park-shin-paper".clone_into(&mut spec.name);
    spec.precondition = Precondition::Prefill;
    spec.ftl.gc_idle_blocks = spec.gc_reserve_blocks() + 4;
    "crc-compare".clone_into(&mut spec.dedup.policy);
    // The paper does not say how much memory its CRC tables may take; they are in full.
    spec.controller.dram_bytes = 256 << 20;
    spec.workload = WorkloadTable {
        footprint_share: 0.9,
        queue_depth: 1,
        think_time: ThinkKind::Exponential,
        think_time_ns: 400_000,
        content: ContentKind::Profile,
        duplicate_ratio: 0.3,
        finish_offline: false,
        ..workload()
    };
    spec.controller.idle_after_ns = 200_000;
    spec
}
