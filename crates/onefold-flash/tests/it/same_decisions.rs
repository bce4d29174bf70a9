//! Bytes and identities: the same requests lead to the same decisions, operation by operation.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_code::{ParityFingerprint, Truncation};
use onefold_flash::dedup::{AnyPolicy, Bytes, Engine, Fingerprinting, POLICIES, Policy};
use onefold_flash::ftl::Durability;
use onefold_flash::nand::bytes::PageBytes;
use onefold_flash::nand::{ByteNand, Identity, Nand, WearModel};
use onefold_flash::op::{Cause, Driver, FlashOp, OpKind, Work};
use onefold_flash::spec::DriveSpec;
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::fingerprints::{self, Prints};
use crate::validation::kinds::{array, timed};

const PAGE: usize = 1024;

fn spec(policy: &str) -> DriveSpec {
    let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
    spec.geometry = Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 2,
        blocks_per_plane: 24,
        pages_per_block: 16,
        page_bytes: PAGE as u32,
        oob_bytes: 96,
    };
    // Strong hashes are trusted where a policy may.
    spec.controller.hash_ns = 0;
    policy.clone_into(&mut spec.dedup.policy);
    spec
}

/// Everything that is asked of time, in order; planes are busy for a while after each operation,
/// so that policies meet idle and busy ones.
#[derive(Default)]
struct Log {
    ops: Vec<FlashOp>,
    work: Vec<(Work, bool)>,
    busy: [u64; 2],
}

impl Driver for Log {
    fn issue(&mut self, op: FlashOp) {
        let plane = usize::from(op.ppn >= 24 * 16);
        let ns = match op.kind {
            OpKind::Read => 20,
            OpKind::Program => 250,
            OpKind::Erase => 1000,
        };
        self.busy[plane] = self.busy[plane].max(self.now_ns()) + ns;
        self.ops.push(op);
    }

    fn work(&mut self, work: Work, foreground: bool) {
        self.work.push((work, foreground));
    }

    fn is_idle(&self, plane: u32) -> bool {
        self.busy[plane as usize] <= self.now_ns()
    }

    fn read_ns(&self, plane: u32) -> u64 {
        self.busy[plane as usize].saturating_sub(self.now_ns()) + 20
    }

    fn program_ns(&self) -> u64 {
        250
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        None
    }

    fn now_ns(&self) -> u64 {
        (self.ops.len() + self.work.len()) as u64 * 100
    }
}

/// Counts of the FTL, by name.
type Counts = Vec<(&'static str, u64)>;

/// Puts a drive through the requests of a seed; what it did.
fn run<N: Nand, P: Policy<N::Page>>(
    nand: N,
    policy: P,
    durability: Durability,
    seed: u64,
    mut page: impl FnMut(u64) -> N::Page,
) -> (Log, Vec<Option<u32>>, Counts) {
    let settings = FtlSettings {
        logical_pages: 300,
        gc_reserve_blocks: 4,
        seed,
        durability,
        ..FtlSettings::default()
    };
    let mut ftl = Ftl::format(nand, policy, settings).expect("fits");
    let mut log = Log::default();
    let d = &mut timed(&mut log);
    let mut random = SplitMix64::new(seed);
    let mut words = SplitMix64::new(!seed);
    for step in 0..3000u64 {
        let lpn = random.below(300) as u32;
        match random.below(20) {
            0 => ftl.trim(lpn, d).expect("trimmed"),
            1 => drop(ftl.read(lpn, d).expect("read")),
            2 => ftl.flush(d).expect("flushed"),
            3 | 4 => drop(ftl.deduplicate_step(d).expect("done")),
            _ => {
                let id = if random.chance(2, 5) { random.below(40) } else { 1000 + step };
                let word = [None, None, Some(true), Some(false)][words.below(4) as usize];
                ftl.write_asked(lpn, &page(id), word, d).expect("written");
            }
        }
    }
    while ftl.deduplicate_step(d).expect("done") {}
    ftl.check_invariants();
    let places = (0..300).map(|lpn| ftl.locate(lpn)).collect();
    let counters = ftl.counters();
    let counts = vec![
        ("inline", counters.inline_pages),
        ("offline", counters.offline_pages),
        ("equal", counters.compared_equal),
        ("different", counters.compared_different),
        ("programs", counters.ops.of(OpKind::Program, Cause::Gc)),
    ];
    (log, places, counts)
}

fn bytes(id: u64) -> PageBytes {
    fingerprints::bytes(id, PAGE)
}

#[test]
fn bytes_and_identities_decide_alike_under_every_policy() {
    for info in POLICIES {
        for (seed, durability) in [(1, Durability::Volatile), (2, Durability::Journal)] {
            let spec = spec(info.name);
            let what = format!("{}, seed {seed}", info.name);
            let channel = spec.channel().expect("a preset");
            let nand = ByteNand::in_memory(spec.geometry, &channel, WearModel::none());
            let policy = spec.bytes_policy().expect("known");
            let real = run(nand.expect("fits"), policy, durability, seed, bytes);

            let seed_source = channel.scrambler.as_ref().map(|s| s.seed_source);
            let site = spec.site(seed_source);
            let fingerprints = Prints::Behind(Box::new(fingerprints(&spec)), PAGE);
            let options = &spec.dedup.options;
            let policy = AnyPolicy::new(info.name, options, &site, fingerprints).expect("known");
            let nand = array(spec.geometry);
            let ideal = run(nand, policy, durability, seed, Identity::of_number);
            assert_eq!(real.2, ideal.2, "{what}: counts");
            let differ = real.0.ops.iter().zip(&ideal.0.ops).position(|(a, b)| a != b);
            assert_eq!(differ, None, "{what}: the first operation that differs");
            assert_eq!(real.0.ops.len(), ideal.0.ops.len(), "{what}");
            assert_eq!(real.0.work, ideal.0.work, "{what}: controller work");
            assert_eq!(real.1, ideal.1, "{what}: places");
            let shared = real.2[0].1 + real.2[1].1;
            assert_eq!(shared > 50, info.name != "none", "{what}: {:?}", real.2);
        }
    }
}

/// Half of the pages are text, so that an engine has something to do.
fn compressible(id: u64) -> PageBytes {
    if id % 2 == 1 {
        return bytes(id);
    }
    let mut page = format!("line {id} of a text; ").repeat(PAGE / 10).into_bytes();
    page.truncate(PAGE);
    PageBytes::from(page)
}

#[test]
fn a_compression_engine_changes_no_decision() {
    let each = ["ses-device", "ses-host", "gleaner"].into_iter().flat_map(|n| [(n, 1), (n, 2)]);
    for (name, seed) in each {
        let mut plain = None;
        for place in ["none", "before-scrambler", "after-scrambler"] {
            let what = format!("{name}, {place}, seed {seed}");
            let mut spec = spec(name);
            spec.dedup.options.insert("compression".to_owned(), place.into());
            // Which entry a full table gives up depends on the numbers that fingerprints are.
            for share in ["table_share", "scratch_share"] {
                spec.dedup.options.insert(share.to_owned(), 1.into());
            }
            let channel = spec.channel().expect("a preset");
            let nand = ByteNand::in_memory(spec.geometry, &channel, WearModel::none());
            let policy = spec.bytes_policy().expect("known");
            let page = |id| compressible(id % 150);
            let run = run(nand.expect("fits"), policy, Durability::Journal, seed, page);
            assert!(run.2[0].1 + run.2[1].1 > 50, "{what}: {:?}", run.2);
            let Some((log, places, counts)) = &plain else {
                plain = Some(run);
                continue;
            };
            assert_eq!(counts, &run.2, "{what}");
            assert!(log.ops == run.0.ops && log.work == run.0.work, "{what}");
            assert_eq!(places, &run.1, "{what}");
        }
    }
}

/// Which bytes have the parity that is the fingerprint, with an engine and without.
#[test]
fn an_engine_ahead_of_the_code_changes_what_the_parity_is_of() {
    let made = |engine| {
        let mut made = fingerprints(&spec("ses-device"));
        Fingerprinting::<PageBytes>::compress(&mut made, engine);
        made
    };
    let mut none = made(Engine::None);
    let mut before = made(Engine::BeforeScrambler);
    let mut after = made(Engine::AfterScrambler);
    for id in 0..40 {
        let page = compressible(id);
        let plain = none.plain_parity(&page);
        // The device: what is scrambled and encoded is compressed first, or afterwards.
        assert_eq!(after.parity(id as u32, &page), plain, "page {id}");
        let compressed = before.parity(id as u32, &page);
        assert_eq!(compressed == plain, id % 2 == 1, "page {id}: noise is left as it is");
        assert_eq!(before.parity(7, &page), compressed, "page {id}: the address is out of it");
        // The host: what the drive's scrambler puts out is plain, and is compressed then.
        assert_eq!(after.plain_parity(&page), compressed, "page {id}");
    }
}

/// Fingerprints of bytes as the policy under test takes them.
fn fingerprints(spec: &DriveSpec) -> Bytes {
    let channel = spec.channel().expect("a preset");
    let code = onefold_flash::nand::bytes::page_code(&channel.code).expect("a code");
    let scrambler = channel.scrambler.expect("a scrambler").compile().expect("compiles");
    let made = ParityFingerprint::new(code, scrambler, PAGE, Truncation::Crc64);
    Bytes::new(made.expect("one codeword"))
}
