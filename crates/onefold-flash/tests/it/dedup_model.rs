//! Every policy against a plain map and naive reference counts.
//! Room: onefold-flash.

use std::collections::{BTreeMap, BTreeSet};

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, POLICIES, Policy, Site};
use onefold_flash::nand::Identity;
use onefold_flash::op::Work;
use onefold_flash::{Driver, FlashOp, Ftl, FtlSettings, Geometry, OpKind};
use proptest::prelude::*;

use crate::fingerprints::Prints;
use crate::validation::kinds::{Array, array, timed};

/// Units that are busy at random.
#[derive(Debug)]
struct Fickle(SplitMix64, u64);

impl Driver for Fickle {
    fn issue(&mut self, op: FlashOp) {
        self.1 = self.1.wrapping_mul(31) ^ u64::from(op.ppn) ^ u64::from(op.kind == OpKind::Read);
    }

    fn work(&mut self, _work: Work, _foreground: bool) {}

    fn is_idle(&self, plane: u32) -> bool {
        (self.1 >> (plane % 8)) & 1 == 0
    }

    fn read_ns(&self, plane: u32) -> u64 {
        self.1 >> (plane % 3) & 255
    }

    fn program_ns(&self) -> u64 {
        200
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        self.0.chance(1, 2).then(|| self.0.below(2) as u32)
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

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
const LOGICAL: u32 = 180;

/// Options that make things happen on a small drive; policies with several ways have several rows.
pub(crate) const CASES: &[(&str, &str)] = &[
    ("none", ""),
    ("caftl-online", ""),
    ("caftl-online", "store_share = 0.05\nbackground = true"),
    ("caftl-online", "sample_one_in = 3\nbackground = true"),
    ("caftl-online", "prehash = true\nhash = 'sha1'"),
    ("caftl-offline", ""),
    ("caftl-offline", "store_share = 0.05"),
    ("caftl-online", "prehash = true\ntable_share = 0.06"),
    ("block-separation", ""),
    ("block-separation", "table_share = 0.06"),
    ("block-separation", "hash_unique = false\ncrc_hidden = false"),
    ("crc-compare", ""),
    ("crc-compare", "order = 'first-come'\ncrc_hidden = false"),
    ("crc-compare", "table_share = 0.06"),
    ("crc-compare", "without_unique = 'leave'"),
    (
        "crc-compare",
        "predict = 'overwrites'\nregion_pages = 4\nepoch_share = 0.05\noverwrites_percent = 50",
    ),
    ("ses-host", ""),
    ("ses-host", "lba_ranges = [[10, 90]]\ncompression = 'before-scrambler'"),
    ("ses-device", ""),
    ("ses-device", "table_share = 0.04\nscratch_share = 0.05\ndeferred_entries = 2"),
    ("ses-device", "inline = false\ntruncation = 'byte8'"),
    ("ses-device", "retention = 'fifo'\ncorrection = 'hidden'"),
    ("gleaner", ""),
    ("gleaner", "table_share = 0.04\nscratch_share = 0.05\nrounds = 'whole'"),
    ("gleaner", "scratch_share = 0.04\ncompare = 'when-idle'\ndeferred_entries = 0"),
    ("gleaner", "table_share = 1.0\ndigest_share = 2.0"),
    ("gleaner", "trust = 'never'"),
    // Of pages here; of codewords in `codeword` and `dedup_every_step`.
    ("codeword", "codeword_bytes = 8192"),
];

/// Whether everything is found in the end with these options.
pub(crate) fn is_exact(name: &str, options: &str) -> bool {
    let leaves_out = ["store_share", "leave", "lba_ranges", "predict"];
    let bounded = name == "crc-compare" && options.contains("table_share");
    name != "none" && !bounded && !leaves_out.iter().any(|word| options.contains(word))
}

const OWN: Prints = Prints::Own(Identities);

type Drive = Ftl<Array, AnyPolicy<Prints>>;

fn drive(name: &str, options: &str, fingerprints: Prints) -> Drive {
    // Where policies may trust strong hashes, they do.
    let site = Site { hash_outruns_read: true, ..Site::new(GEOMETRY, None) };
    let options = options.parse().expect("TOML");
    let policy = AnyPolicy::new::<Identity>(name, &options, &site, fingerprints).expect("accepted");
    let settings =
        FtlSettings { logical_pages: LOGICAL, gc_reserve_blocks: 2, ..Default::default() };
    Ftl::format(array(GEOMETRY), policy, settings).expect("fits")
}

/// Every logical page reads as it was written, and pages that share hold the same.
fn compare(drive: &mut Drive, model: &BTreeMap<u32, u128>, d: &mut impl Driver) {
    let mut contents: BTreeMap<u32, u128> = BTreeMap::new();
    for lpn in 0..LOGICAL {
        let expected = model.get(&lpn).copied();
        let got = drive.read(lpn, d).expect("readable").map(|page| page.0);
        assert_eq!(got, expected, "logical page {lpn}");
        if let (Some(ppn), Some(content)) = (drive.locate(lpn), expected) {
            assert_eq!(*contents.entry(ppn).or_insert(content), content, "shared page {ppn}");
        }
    }
}

fn stored(drive: &Drive) -> usize {
    (0..LOGICAL).filter_map(|lpn| drive.locate(lpn)).collect::<BTreeSet<_>>().len()
}

fn run(mut drive: Drive, seed: u64, contents: u64, exact: bool) {
    let mut units = Fickle(SplitMix64::new(seed), 0);
    let d = &mut timed(&mut units);
    let mut random = SplitMix64::new(seed ^ 0xabc);
    let mut model = BTreeMap::new();
    for step in 0..1500 {
        let lpn = random.below(u64::from(LOGICAL)) as u32;
        match random.below(10) {
            0 => {
                drive.trim(lpn, d).expect("trimmed");
                model.remove(&lpn);
            }
            1 | 2 => {
                drive.deduplicate_step(d).expect("a step");
            }
            3 => {
                drive.collect_idle(random.below(2) as u32, d).expect("collected");
            }
            _ => {
                let content = u128::from(random.below(contents));
                drive.write(lpn, &Identity(content), d).expect("written");
                model.insert(lpn, content);
            }
        }
        if step % 7 == 0 {
            drive.check_invariants();
        }
        if step % 300 == 0 {
            compare(&mut drive, &model, d);
        }
    }
    let mut steps = 0;
    while drive.deduplicate_step(d).expect("a step") {
        steps += 1;
        assert!(steps < 200_000, "background work ends");
    }
    drive.check_invariants();
    compare(&mut drive, &model, d);
    if exact {
        let distinct: BTreeSet<_> = model.values().collect();
        assert_eq!(stored(&drive), distinct.len(), "one page for each content");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_policy_is_a_map_and_finds_everything_in_the_end(
        seed in any::<u64>(),
        contents in prop_oneof![Just(3_u64), Just(30), Just(120), Just(100_000)],
    ) {
        for &(name, options) in CASES {
            println!("{name} {options:?} seed {seed} contents {contents}");
            run(drive(name, options, OWN), seed, contents, is_exact(name, options));
        }
    }

    #[test]
    fn equal_fingerprints_of_other_content_are_never_shared(
        seed in any::<u64>(),
        contents in prop_oneof![Just(7_u64), Just(40), Just(100_000)],
    ) {
        for &(name, options) in CASES {
            println!("{name} {options:?} seed {seed} contents {contents}");
            // A scratch table cannot hold hundreds of contents of one fingerprint.
            let exact = contents < 100 && is_exact(name, options);
            run(drive(name, options, Prints::Weak), seed, contents, exact);
        }
    }
}

#[test]
fn every_policy_has_a_case() {
    for info in POLICIES {
        assert!(CASES.iter().any(|(name, _)| *name == info.name), "{}", info.name);
    }
}

#[test]
fn a_page_number_that_comes_back_with_other_content_is_not_taken_for_the_old_one() {
    for info in POLICIES {
        let mut drive = drive(info.name, "", OWN);
        let mut units = Fickle(SplitMix64::new(5), 0);
        let d = &mut timed(&mut units);
        let mut model = BTreeMap::new();
        // One content a round under one logical page; all others push it out of its block.
        for round in 0..2000_u32 {
            for lpn in [round % LOGICAL, 3] {
                let content = u128::from(round / 3);
                drive.write(lpn, &Identity(content), d).expect("written");
                model.insert(lpn, content);
            }
        }
        drive.check_invariants();
        compare(&mut drive, &model, d);
    }
}

#[test]
fn tables_stay_within_their_dram() {
    for &(name, options) in CASES {
        let drive = drive(name, options, OWN);
        let bytes = |drive: &Drive| -> Vec<_> { Policy::<Identity>::dram(drive.policy()) };
        let before = bytes(&drive);
        let mut drive = drive;
        let mut units = Fickle(SplitMix64::new(5), 0);
        let d = &mut timed(&mut units);
        for n in 0..3000_u32 {
            drive.write(n % LOGICAL, &Identity(u128::from(n / 2)), d).expect("written");
        }
        assert_eq!(before, bytes(&drive), "{name}");
    }
}
