//! Deduplication by codeword: a slow twin of what is shared and programmed, laws, time, refusals.
//! Room: onefold-flash.

use std::collections::{BTreeMap, BTreeSet};

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, Policy, Site};
use onefold_flash::drive::DriveError;
use onefold_flash::ftl::{Durability, Pacing};
use onefold_flash::nand::{Identity, Sizes};
use onefold_flash::op::{Cause, OpKind};
use onefold_flash::run::{Completion, Report, RunError, RunOptions, attach, run};
use onefold_flash::spec::SpecBuilder;
use onefold_flash::{DriveSpec, Ftl, FtlSettings, Geometry};
use onefold_workload::{Identity as Content, Op, Request};

use crate::support;
use crate::validation::kinds::{Array, sized, untimed};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 1,
    dies_per_package: 1,
    planes_per_die: 2,
    blocks_per_plane: 24,
    pages_per_block: 8,
    page_bytes: 4096,
    oob_bytes: 128,
};
/// Codewords of a page, and of the drive.
const CODEWORDS: u32 = 4;
const LOGICAL: u32 = 1000;

type Drive = Ftl<Array, AnyPolicy<Identities>>;

fn drive(options: &str, pacing: Pacing, durability: Durability) -> Drive {
    let site = Site::new(GEOMETRY, None).of_codewords(CODEWORDS, 1);
    let options = options.parse().expect("TOML");
    let policy = AnyPolicy::new::<Identity>("codeword", &options, &site, Identities);
    let settings = FtlSettings {
        logical_pages: if durability == Durability::Volatile { LOGICAL } else { LOGICAL / 2 },
        gc_reserve_blocks: 2,
        pacing,
        durability,
        subpages: CODEWORDS,
        codewords: true,
        wear_spread: 3,
        ..FtlSettings::default()
    };
    let nand = sized(GEOMETRY, Some(Sizes::codewords(CODEWORDS)));
    Ftl::format(nand, policy.expect("accepted"), settings).expect("fits")
}

/// What a drive that finds every copy at once must do, the slow and obvious way.
#[derive(Default)]
struct Twin {
    /// Codewords in the flash. What waits for them to be replaced is not there yet.
    flash: BTreeMap<u32, u128>,
    /// Codewords that wait, for one flash page.
    waiting: BTreeMap<u32, u128>,
    shared: u64,
    stored: u64,
    programmed: u64,
}

impl Twin {
    fn get(&self, at: u32) -> Option<u128> {
        self.waiting.get(&at).or_else(|| self.flash.get(&at)).copied()
    }

    fn trim(&mut self, at: u32) {
        self.flash.remove(&at);
        self.waiting.remove(&at);
    }

    fn flush(&mut self) {
        self.programmed += u64::from(!self.waiting.is_empty());
        self.flash.append(&mut self.waiting);
    }

    fn write(&mut self, at: u32, content: u128) {
        let held = |map: &BTreeMap<u32, u128>, content| {
            map.values().filter(|&&held| held == content).count()
        };
        if held(&self.flash, content) > 0 {
            self.shared += 1;
            self.waiting.remove(&at);
            self.flash.insert(at, content);
        } else if held(&self.waiting, content) > 0 {
            self.shared += 1;
            self.waiting.insert(at, content);
        } else {
            self.stored += 1;
            let old = self.waiting.get(&at).copied();
            let gives_way = old.is_some_and(|old| held(&self.waiting, old) == 1);
            let waiting = self.waiting.values().collect::<BTreeSet<_>>().len();
            if waiting == CODEWORDS as usize && !gives_way {
                self.flush();
            }
            self.waiting.insert(at, content);
        }
    }
}

#[test]
fn what_is_shared_and_programmed_is_what_a_slow_twin_says() {
    let mut collected = 0;
    for seed in 0..24 {
        let pacing = if seed % 2 == 0 { Pacing::Incremental } else { Pacing::WholeBlock };
        let durability = if seed % 3 == 0 { Durability::Journal } else { Durability::Volatile };
        let options = ["", "hash = 'sha1'"][seed as usize / 2 % 2];
        let mut drive = drive(options, pacing, durability);
        let logical = u64::from(drive.settings().logical_pages);
        let (mut twin, mut random) = (Twin::default(), SplitMix64::new(seed));
        let contents = [30, 400, 100_000][seed as usize % 3];
        for step in 0..6_000 {
            let at = random.below(logical) as u32;
            match random.below(40) {
                0 => {
                    drive.trim(at, &mut untimed()).expect("trims");
                    twin.trim(at);
                }
                1 => {
                    drive.flush(&mut untimed()).expect("flushes");
                    twin.flush();
                }
                2 => {
                    let plane = random.below(2) as u32;
                    drive.collect_idle(plane, &mut untimed()).expect("collects");
                }
                3..6 => {
                    let read = drive.read(at, &mut untimed()).expect("reads");
                    assert_eq!(read.map(|page| page.0), twin.get(at), "seed {seed} at {at}");
                }
                _ => {
                    let content = 1 + u128::from(random.below(contents));
                    drive.write(at, &Identity(content), &mut untimed()).expect("writes");
                    twin.write(at, content);
                }
            }
            let found = drive.counters();
            let host = found.ops.of(OpKind::Program, Cause::Host);
            let said = (twin.shared, twin.stored, twin.programmed);
            assert_eq!((found.inline_pages, found.fragments, host), said, "seed {seed} {step}");
            if step % 60 == 0 {
                drive.check_invariants();
            }
        }
        drive.flush(&mut untimed()).expect("flushes");
        twin.flush();
        drive.check_invariants();
        let places = (0..logical as u32).filter_map(|at| drive.locate(at));
        let places = places.collect::<BTreeSet<_>>().len();
        let distinct = twin.flash.values().collect::<BTreeSet<_>>().len();
        assert_eq!(places, distinct, "seed {seed}: each content is there once");
        collected += drive.counters().ops.of(OpKind::Program, Cause::Gc);
    }
    assert!(collected > 5_000, "{collected} pages moved");
}

/// A codeword fits anywhere: what a flush leaves of a flash page is there for collection to win.
#[test]
fn the_rest_of_a_flash_page_that_a_flush_programs_is_dead() {
    let mut drive = drive("", Pacing::Incremental, Durability::Volatile);
    let live = |drive: &Drive| {
        (0..GEOMETRY.planes()).map(|plane| drive.blocks().live_of_plane(plane)).sum::<u32>()
    };
    for at in 0..20 {
        drive.write(at, &Identity(7 + u128::from(at)), &mut untimed()).expect("writes");
        drive.flush(&mut untimed()).expect("flushes");
        assert_eq!(live(&drive), at + 1, "one flash page each");
    }
    assert_eq!(drive.counters().ops.of(OpKind::Program, Cause::Host), 20);
    drive.check_invariants();
}

#[test]
fn tables_are_as_large_as_there_are_codewords() {
    let drive = drive("", Pacing::Incremental, Durability::Volatile);
    let of = |all: &[(&str, u64)], name: &str| {
        all.iter().find(|(item, _)| *item == name).map(|&(_, bytes)| bytes)
    };
    let tables = drive.dram();
    assert_eq!(of(&tables, "map"), Some(4 * u64::from(LOGICAL)));
    let places = u64::from(GEOMETRY.pages() * CODEWORDS);
    assert_eq!(of(&tables, "reverse_map"), Some(4 * places));
    let slots = places + places / 3 + 1;
    let store = Policy::<Identity>::dram(drive.policy());
    assert_eq!(of(&store, "fingerprint store"), Some(slots * (32 + 4 + 1)));
}

const DRIVE: &str = "\
precondition = \"none\"
[geometry]
channels = 2
packages = 2
dies_per_package = 1
planes_per_die = 1
blocks_per_plane = 64
pages_per_block = 32
page_bytes = 4096
oob_bytes = 0
[timing]
read_latency_ns = 25_000
program_latency_ns = 200_000
erase_latency_ns = 1_500_000
[ftl]
over_provisioning = 0.25
gc_reserve_blocks = 2
[controller]
idle_after_ns = 0
write_buffer = \"back\"
hash_ns = 8_000
compare_ns = 4_000
lookup_ns = 1_000
dram_bytes = 1_000_000_000
[dedup]
policy = \"codeword\"
[workload]
requests = 20_000
";
const LOOKUP: u64 = 1_000;
const READ: u64 = 25_000;
const PROGRAM: u64 = 200_000;
const SECOND: u64 = 1_000_000_000;

fn at(second: u64, op: Op, offset: u64, length: u64, content: u8) -> Request {
    Request {
        time_ns: second * SECOND,
        op,
        offset,
        length,
        identity: (op == Op::Write).then(|| Content::from_bytes([content; 16])),
        stream: None,
        pid: None,
        deduplicate: None,
    }
}

fn replay(assignments: &[&str], requests: Vec<Request>) -> (Report, Vec<Completion>) {
    let (report, mut log) = support::replay(&support::drive(DRIVE, assignments), requests);
    log.sort_unstable_by_key(|done| done.request.number);
    (report, log)
}

/// Two pages, then one that begins with the first codeword of each.
fn patchwork() -> Vec<Request> {
    vec![
        at(0, Op::Write, 0, 4096, 1),
        at(1, Op::Write, 4096, 4096, 2),
        at(2, Op::Flush, 0, 0, 0),
        at(3, Op::Write, 8192, 1024, 1),
        at(4, Op::Write, 9216, 1024, 2),
        at(5, Op::Read, 8192, 4096, 0),
        at(6, Op::Read, 0, 4096, 0),
        at(7, Op::Read, 0, 8192, 0),
    ]
}

#[test]
fn look_ups_hashes_and_readings_take_what_they_should() {
    let (report, log) = replay(&[], patchwork());
    let took: Vec<u64> = log.iter().map(|one| one.answered_ns - one.request.arrival_ns).collect();
    // Writes are answered from the buffer, and the second one sends what the first left to the
    // flash, so that one page is left to the flush.
    assert_eq!(took[..5], [0, 0, PROGRAM, 0, 0]);
    // The one core looks codewords up one after the other. The page in two flash pages is there
    // when the second one is; one that lies in a flash page of its own takes one reading.
    assert_eq!(took[5..], [2 * LOOKUP + READ, LOOKUP + READ, 5 * LOOKUP + READ]);
    let reads = &report.flash_operations["read"];
    assert_eq!((reads.host, reads.dedup), (2 + 1 + 2, 0));
    assert_eq!(report.flash_operations["program"].host, 2);
    let servers = &report.utilisation.servers;
    assert_eq!((servers["hash"].jobs, servers["cpu"].jobs), (10, 10 + 16));
    let busy = servers["hash"].mean * report.elapsed_ns as f64;
    assert!((busy / 20_000.0 - 1.0).abs() < 1e-6, "a quarter of a page each: {busy}");
    assert!(!servers.contains_key("compression"));
    // Counted in codewords is what deduplication found, and in pages what the host did.
    assert_eq!((report.dedup.inline_pages, report.requests.pages_written), (2, 4));
    assert_eq!((log[3].request.lpn, log[3].request.end_byte), (2, 1024));
    let map = report.dram.items.iter().find(|item| item.name == "map").expect("there is one");
    assert_eq!(map.bytes, 4 * 4 * u64::from(report.logical_pages));
}

#[test]
fn hashes_that_prove_nothing_cost_a_reading_and_a_comparison() {
    let (report, _) = replay(&["dedup.hash=sha1"], patchwork());
    assert_eq!((report.flash_operations["read"].dedup, report.dedup.compared_equal), (2, 2));
    let servers = &report.utilisation.servers;
    assert_eq!(servers["cpu"].jobs, 10 + 16 + 2);
    let busy = servers["cpu"].mean * report.elapsed_ns as f64;
    let expected = (26 * LOOKUP + 2 * 1_000) as f64;
    assert!((busy / expected - 1.0).abs() < 1e-6, "a quarter of a page each: {busy}");
}

#[test]
fn only_the_codewords_that_a_request_touches_are_read_and_written() {
    let requests = vec![
        at(0, Op::Write, 0, 4096, 1),
        at(1, Op::Flush, 0, 0, 0),
        // Half of one codeword, and two others whole.
        at(2, Op::Write, 512, 512 + 2048, 2),
        at(3, Op::Flush, 0, 0, 0),
        at(4, Op::Trim, 1024, 3072, 0),
        at(5, Op::Read, 0, 4096, 0),
    ];
    let (report, log) = replay(&[], requests);
    assert_eq!(report.requests.partial_pages, 1);
    assert_eq!(report.utilisation.servers["hash"].jobs, 4 + 3);
    assert_eq!(log[4].request.pages, 1);
    // For the half, and for the one codeword that is left.
    assert_eq!(report.flash_operations["read"].host, 2);
}

fn waf(assignments: &[&str]) -> (f64, f64) {
    let spec = support::drive(DRIVE, assignments);
    let report = run(&spec, RunOptions::default()).unwrap_or_else(|error| panic!("{error}")).report;
    let waf = report.waf;
    (waf.total.expect("there are writes"), waf.host.expect("there are writes"))
}

/// Codewords of a page that has none in common with others come and go with it: the drive programs
/// what one programs that maps pages.
#[test]
fn pages_with_nothing_in_common_amplify_as_if_pages_were_mapped() {
    let steady = ["precondition=steady"];
    let (pages, _) = waf(&[&steady[..], &["dedup.policy=none"]].concat());
    let (codewords, host) = waf(&steady);
    assert!((codewords / pages - 1.0).abs() < 0.03, "{codewords} and {pages}");
    assert!((host - 1.0).abs() < 0.005, "{host}");
}

/// As many pages are programmed for the host as are left when what is common is there already.
#[test]
fn what_is_common_is_not_programmed_again() {
    for percent in [25, 50, 75] {
        let share = format!("common_codewords_percent={percent}");
        let set = ["precondition=steady", "common_codewords=100", share.as_str()];
        let (total, host) = waf(&set);
        let expected = 1.0 - f64::from(percent) / 100.0;
        assert!((host / expected - 1.0).abs() < 0.02, "{percent} %: {host}");
        assert!(total < 1.3, "{percent} %: {total}");
        let pages = [&set[..], &["dedup.policy=caftl-online"]].concat();
        let (_, host) = waf(&pages);
        assert!((host - 1.0).abs() < 1e-9, "pages have none in common: {host}");
    }
}

/// One codeword to a page is the drive that maps pages, request by request.
#[test]
fn one_codeword_to_a_page_is_a_page() {
    let load = ["content=profile", "duplicate_ratio=0.4", "precondition=steady"];
    let report = |policy: &[&str]| {
        let spec = support::drive(DRIVE, &[&load[..], policy].concat());
        run(&spec, RunOptions::default()).expect("runs").report
    };
    let one = report(&["dedup.codeword_bytes=4096"]);
    let page = report(&["dedup.policy=caftl-online"]);
    assert_eq!((one.result_hash, one.flash_operations), (page.result_hash, page.flash_operations));
    assert!(one.dedup.inline_pages > 1_000);
}

#[test]
fn what_a_map_of_codewords_cannot_be_had_with_is_named() {
    let refused = |assignments: &[&str]| {
        let error = support::try_drive(DRIVE, assignments).expect_err("refused");
        error.to_string()
    };
    let size = refused(&["dedup.codeword_bytes=1000"]);
    assert!(size.contains("divides geometry.page_bytes = 4096"), "{size}");
    let engine = refused(&["ftl.compression=before-scrambler"]);
    assert!(engine.contains("ftl.compression must be"), "{engine}");
    let cache = refused(&["ftl.map_cache_bytes=100000"]);
    assert!(cache.contains("ftl.map_cache_bytes must be 0"), "{cache}");
    let large = "blocks_per_plane=8000000";
    for set in [&[large][..], &[large, "policy=none", "ftl.compression=before-scrambler"]] {
        let many = refused(set);
        assert!(many.contains("more than a mapping entry can name"), "{many}");
    }
    let blocks = refused(&["pages_per_block=1"]);
    assert!(blocks.contains("pages_per_block must be 2"), "{blocks}");

    let through = support::drive(DRIVE, &["write_buffer=through"]);
    let error = run(&through, RunOptions::default()).expect_err("refused");
    assert!(matches!(error, RunError::PackingThrough), "{error}");
    assert_eq!(error.remedy(&through).as_deref(), Some("controller.write_buffer=back"));
    let error = attach(&support::drive(DRIVE, &[])).err().expect("refused");
    assert!(matches!(error, RunError::CodewordsAttached), "{error}");
    // Real bytes: an emulated drive maps pages.
    let error = support::drive(DRIVE, &[]).bytes_policy().expect_err("refused");
    assert!(matches!(error, DriveError::Codewords), "{error}");
    assert!(error.to_string().contains("onefold ssd run"), "{error}");
}

#[test]
fn the_default_is_the_codeword_of_the_codes() {
    let codewords = |set: &[&str]| -> u32 {
        let start = SpecBuilder::preset("ses-slc").expect("a preset");
        let built = set.iter().try_fold(start, |builder, text| builder.set(text));
        let spec: DriveSpec = built.and_then(SpecBuilder::build).expect("a drive");
        spec.codewords()
    };
    assert_eq!(codewords(&["dedup.policy=codeword"]), 8, "1 KiB of 8");
    assert_eq!(codewords(&["dedup.policy=codeword", "dedup.codeword_bytes=512"]), 16);
    assert_eq!(codewords(&["dedup.policy=caftl-online"]), 1);
}
