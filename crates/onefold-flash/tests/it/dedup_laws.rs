//! What policies promise beside being maps: closed forms, hot fingerprints, agreement of bytes and
//! identities, options, refusals.
//! Room: onefold-flash.   Source: docs/ssd-validation.md, V5; [ses-dedup] sec. III and IV.

use std::collections::BTreeSet;

use crate::validation::kinds::{Array, array, untimed};
use crate::validation::laws;
use onefold_block::SplitMix64;
use onefold_code::{
    PRESET_NAMES, PageCode, ParityFingerprint, ScramblerSpec, SeedSource, Truncation, ldpc_by_name,
    preset,
};
use onefold_content::{FingerprintKind, Fingerprinter};
use onefold_flash::dedup::{
    AnyPolicy, Bytes, Fingerprinting, Identities, Look, Offline, POLICIES, Policy, PolicyError,
    Prepared, Site, Verdict, check_policy,
};
use onefold_flash::nand::Identity;
use onefold_flash::op::Work;
use onefold_flash::{Ftl, FtlSettings, Geometry, OpKind, op::Cause};

fn geometry(blocks_per_plane: u32) -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 2,
        blocks_per_plane,
        pages_per_block: 32,
        page_bytes: 2048,
        oob_bytes: 128,
    }
}

fn site() -> Site {
    Site::new(geometry(64), None)
}

fn policy(name: &str, options: &str) -> Result<AnyPolicy<Identities>, PolicyError> {
    AnyPolicy::new::<Identity>(name, &options.parse().expect("TOML"), &site(), Identities)
}

#[test]
fn uniform_contents_follow_the_closed_forms() {
    for (logical, contents) in [(3000_u32, 2000_u64), (3000, 6000), (1500, 500)] {
        let (name, options) = ("caftl-online", "");
        let settings = FtlSettings { logical_pages: logical, ..FtlSettings::default() };
        let nand = array(geometry(64));
        let policy = policy(name, options).expect("accepted");
        let mut ftl = Ftl::format(nand, policy, settings).expect("fits");
        let mut random = SplitMix64::new(11);
        let mut write = |ftl: &mut Ftl<Array, AnyPolicy<Identities>>, lpn: u32| {
            let content = Identity(u128::from(random.below(contents)));
            ftl.write(lpn, &content, &mut untimed()).expect("written");
        };
        (0..logical).for_each(|lpn| write(&mut ftl, lpn));
        let mut places = SplitMix64::new(12);
        let mut at = |n: u32| places.below(u64::from(n)) as u32;
        (0..5 * logical).for_each(|_| write(&mut ftl, at(logical)));
        let before = *ftl.counters();
        let (mut live, rounds) = (0, 40);
        for _ in 0..rounds {
            (0..logical).for_each(|_| write(&mut ftl, at(logical)));
            live += (0..logical).filter_map(|l| ftl.locate(l)).collect::<BTreeSet<_>>().len();
        }
        let after = ftl.counters();
        let programmed = |c: &onefold_flash::ftl::Counters| c.ops.of(OpKind::Program, Cause::Host);
        let written = after.host_pages_written - before.host_pages_written;
        let unique = (programmed(after) - programmed(&before)) as f64 / written as f64;
        let expected = laws::dedup_unique_share(f64::from(logical), contents as f64);
        assert!((unique / expected - 1.0).abs() < 0.01, "{name} {unique} {expected}");
        let live = live as f64 / f64::from(rounds);
        let expected = laws::dedup_live_pages(f64::from(logical), contents as f64);
        assert!((live / expected - 1.0).abs() < 0.01, "{name} {live} {expected}");
        ftl.check_invariants();
    }
}

/// A drive that shows pages as they are and is idle.
struct Quiet;

impl Look for Quiet {
    fn is_live(&self, _ppn: u32) -> bool {
        true
    }

    fn is_idle(&self, _ppn: u32) -> bool {
        true
    }

    fn locate(&self, _lpn: u32) -> Option<u32> {
        None
    }

    fn read_ns(&self, _ppn: u32) -> u64 {
        0
    }

    fn program_ns(&self) -> u64 {
        0
    }

    fn work(&mut self, _work: Work) {}
}

#[test]
fn hot_fingerprints_stay_under_a_flood_of_unique_pages() {
    let found = |name: &str, options: &str| {
        let mut policy = policy(name, options).expect("accepted");
        let (mut hits, mut seen) = (0, 0);
        for n in 0..40_000_u32 {
            // One page in ten is one of forty hot ones.
            let hot = n % 10 == 0;
            let content = if hot { n / 10 % 40 } else { 1000 + n };
            let verdict = policy.inspect(n, &Identity(u128::from(content)), &mut Quiet);
            if hot && n > 1000 {
                seen += 1;
                hits += u32::from(matches!(verdict, Verdict::Verify { .. }));
            }
            match verdict {
                Verdict::Verify { candidate, .. } => {
                    Policy::<Identity>::compared(&mut policy, candidate, true);
                }
                Verdict::Program { tag, .. } | Verdict::Share { tag, .. } => {
                    Policy::<Identity>::stored(&mut policy, n % 4096, tag);
                }
            }
        }
        f64::from(hits) / f64::from(seen)
    };
    let forgetful = found("ses-device", "table_share = 0.1\nretention = 'fifo'");
    let retentive = found("ses-device", "table_share = 0.1");
    let compact = found("gleaner", "table_share = 0.1");
    println!("{forgetful} {retentive} {compact}");
    assert!(retentive > 0.9 && compact > 0.9 && forgetful < 0.7, "{retentive} {forgetful}");
}

fn bytes() -> Bytes {
    let code = PageCode::Ldpc(ldpc_by_name("ses-33x256").expect("known"));
    let linear = PRESET_NAMES.iter().find(|name| {
        let spec = preset(name).expect("listed");
        spec.seed_source == SeedSource::Lba
    });
    let scrambler = ScramblerSpec::compile(&preset(linear.expect("one")).expect("known"));
    let scrambler = scrambler.expect("compiles");
    Bytes::new(ParityFingerprint::new(code, scrambler, 2048, Truncation::Crc64).expect("2 KiB"))
}

/// The verdicts of a policy on the same pages as bytes and as identities made of fingerprints.
#[test]
fn bytes_and_identities_lead_to_the_same_decisions() {
    for info in POLICIES {
        let mut of_bytes =
            AnyPolicy::new::<Vec<u8>>(info.name, &toml::Table::new(), &site(), bytes())
                .expect("accepted");
        let mut of_identities = policy(info.name, "").expect("accepted");
        let strong = Fingerprinter::new(FingerprintKind::Sha256);
        let (mut page_bytes, mut random) = (bytes(), SplitMix64::new(4));
        let mut shared = 0;
        for n in 0..600_u32 {
            let mut page = vec![0_u8; 2048];
            SplitMix64::new(random.below(200)).fill(&mut page);
            let parity = Fingerprinting::<Vec<u8>>::plain_parity(&mut page_bytes, &page);
            let rest = strong.hash(&page).prefix64();
            let identity = Identity(u128::from(parity) | u128::from(rest) << 64);
            assert_eq!(Fingerprinting::<Vec<u8>>::parity(&mut page_bytes, n, &page), parity);
            let strip = |verdict| match verdict {
                // Tags of CRC and SHA are other numbers than those of identities.
                Verdict::Program { apart, .. } => (0, u32::MAX, apart),
                Verdict::Verify { candidate, apart, .. } => (1, candidate, apart),
                Verdict::Share { same, .. } => (2, same.ppn(), false),
            };
            let one = of_bytes.inspect(n, &page, &mut Quiet);
            let other = of_identities.inspect(n, &identity, &mut Quiet);
            assert_eq!(strip(one), strip(other), "{} page {n}", info.name);
            shared += u32::from(strip(one).0 > 0 || strip(one).2);
            let stored = |verdict| match verdict {
                Verdict::Program { tag, .. } => Some(tag),
                _ => None,
            };
            if let (Some(one), Some(other)) = (stored(one), stored(other)) {
                Policy::<Vec<u8>>::stored(&mut of_bytes, n, one);
                Policy::<Identity>::stored(&mut of_identities, n, other);
            }
        }
        assert!(shared > 200 || ["none", "caftl-offline"].contains(&info.name), "{}", info.name);
    }
}

#[test]
fn mistakes_are_named_with_the_nearest_word() {
    let error = |name: &str, options: &str| {
        check_policy(name, &options.parse().expect("TOML")).unwrap_err().to_string()
    };
    assert_eq!(
        error("ses-devise", ""),
        "unknown deduplication policy 'ses-devise'; did you mean 'ses-device'?: accepted are none, \
         caftl-online, caftl-offline, block-separation, crc-compare, ses-host, ses-device, \
         gleaner, codeword"
    );
    assert!(error("gleaner", "tableshare = 1").contains("did you mean 'table_share'?"));
    assert_eq!(
        error("gleaner", "table_share = 0"),
        "option 'table_share' of policy 'gleaner' is 0: expected a number above 0 and at most 4"
    );
    assert!(error("none", "x = 1").contains("accepted are none"));
    for info in POLICIES {
        for option in info.options {
            let text = format!("{} = {}", option.key, option.default_text());
            check_policy(info.name, &text.parse().expect("TOML")).expect("defaults are accepted");
            assert!(!option.doc.is_empty());
        }
    }
}

#[test]
fn the_host_design_needs_a_seed_that_the_host_knows() {
    let site = Site { seed_source: Some(SeedSource::PhysicalPageInBlock), ..site() };
    let build = |name: &str, options: &str| {
        let options = options.parse().expect("TOML");
        AnyPolicy::new::<Identity>(name, &options, &site, Identities).map(drop)
    };
    let refused = build("ses-host", "").unwrap_err().to_string();
    assert!(refused.contains("physical-page-in-block"), "{refused}");
    build("ses-device", "").expect("the device knows its own seed");
    build("ses-host", "compression = 'before-scrambler'").expect("needs no scrambler of the host");
}

#[test]
fn the_host_chooses_by_range_and_by_request() {
    let mut policy = policy("ses-host", "lba_ranges = [[10, 19]]").expect("accepted");
    let mut tag = |lpn: u32, word: Option<bool>| match policy.decide(
        lpn,
        &Identity(77),
        Prepared::asked(word),
        &mut Quiet,
    ) {
        Verdict::Program { tag, .. } => tag,
        other => panic!("nothing is stored: {other:?}"),
    };
    assert_eq!([9, 10, 20].map(|lpn| tag(lpn, None)), [0, 77, 0]);
    assert_eq!((tag(9, Some(true)), tag(10, Some(false)), tag(10, None)), (77, 0, 77));
}

#[test]
fn the_bucket_with_most_duplicates_goes_first_and_partners_are_promoted() {
    let mut ftl = {
        let settings = FtlSettings { logical_pages: 3000, ..FtlSettings::default() };
        let policy = policy("crc-compare", "").expect("accepted");
        Ftl::format(array(geometry(64)), policy, settings).expect("fits")
    };
    let mut d = untimed();
    let write = |ftl: &mut Ftl<_, _>, lpn: u32, content: u128| {
        ftl.write(lpn, &Identity(content), &mut untimed()).expect("written");
    };
    // Content 1 has found a duplicate before; then both have one undetermined page.
    (0..2).for_each(|lpn| write(&mut ftl, lpn, 1));
    ftl.deduplicate_step(&mut d).expect("a step");
    assert_eq!(ftl.counters().offline_pages, 1);
    write(&mut ftl, 10, 2);
    write(&mut ftl, 11, 2);
    write(&mut ftl, 2, 1);
    let expected = ftl.locate(0);
    ftl.deduplicate_step(&mut d).expect("a step");
    assert_eq!(ftl.locate(2), expected, "the bucket with a duplicate found goes first");
    // The partner of page 11 is overwritten: page 11 is unique without a comparison.
    write(&mut ftl, 10, 3);
    let reads = ftl.counters().ops.of(OpKind::Read, Cause::Dedup);
    while ftl.deduplicate_step(&mut d).expect("a step") {}
    assert_eq!(ftl.counters().ops.of(OpKind::Read, Cause::Dedup), reads);
    let report = Policy::<Identity>::report(ftl.policy());
    assert!(report.contains(&("undetermined_promoted", 1)), "{report:?}");
}

#[test]
fn offline_work_is_asked_for_only_while_there_is_some() {
    for info in POLICIES {
        let mut policy = policy(info.name, "").expect("accepted");
        assert_eq!(Policy::<Identity>::next_offline(&mut policy, &mut Quiet), None::<Offline>);
    }
}

#[test]
fn ses_tables_take_what_the_paper_says() {
    let drive = Geometry {
        channels: 8,
        packages: 8,
        dies_per_package: 1,
        planes_per_die: 8,
        blocks_per_plane: 256,
        pages_per_block: 256,
        page_bytes: 8192,
        oob_bytes: 320,
    };
    let site = Site::new(drive, Some(SeedSource::Lba));
    let dram = |name: &str| {
        let policy = AnyPolicy::new::<Identity>(name, &toml::Table::new(), &site, Identities);
        Policy::<Identity>::dram(&policy.expect("accepted"))
    };
    let fingerprints = dram("ses-device")[0];
    // 15 % of 4 Mi entries of 8 bytes: 4.8 MiB, of 64 MiB.
    assert_eq!(fingerprints.0, "fingerprints");
    assert!((fingerprints.1 as f64 / f64::from(1 << 20) - 4.8).abs() < 0.001);
    let total = |name: &str| dram(name).iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert!(total("gleaner") <= total("ses-device"), "ours takes no more");
}
