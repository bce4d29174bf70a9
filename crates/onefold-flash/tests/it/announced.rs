//! What is announced or expected changes no decision, be it right or wrong.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, POLICIES, Policy, Site};
use onefold_flash::ftl::{Counters, Durability};
use onefold_flash::nand::Identity;
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::validation::kinds::{array, untimed};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 1,
    dies_per_package: 1,
    planes_per_die: 2,
    blocks_per_plane: 24,
    pages_per_block: 16,
    page_bytes: 256,
    oob_bytes: 96,
};
const LOGICAL: u32 = 340;

/// What a policy answers and counts after writes, trims and idle steps: of every batch the right
/// pages are announced, or others and pages that the drive does not have, or none.
fn outcome(name: &str, announced: Option<bool>) -> (Counters, Vec<u32>, Vec<(&'static str, u64)>) {
    let site = Site::new(GEOMETRY, None);
    let policy = AnyPolicy::new::<Identity>(name, &toml::Table::new(), &site, Identities);
    let settings = FtlSettings {
        logical_pages: LOGICAL,
        gc_reserve_blocks: 3,
        durability: Durability::Journal,
        map_cache_bytes: 1024,
        ..FtlSettings::default()
    };
    let policy = policy.expect("defaults are accepted");
    let mut ftl = Ftl::format(array(GEOMETRY), policy, settings).expect("fits");
    let (mut random, mut noise) = (SplitMix64::new(1), SplitMix64::new(2));
    let mut d = untimed();
    for _ in 0..300 {
        let content = |random: &mut SplitMix64| Identity::of_number(1 + random.below(300));
        let batch: Vec<(u32, Identity)> = (0..=random.below(40))
            .map(|_| (random.below(u64::from(LOGICAL)) as u32, content(&mut random)))
            .collect();
        match announced {
            Some(true) => ftl.announce_writes(&batch),
            Some(false) => {
                let wrong = |_| (noise.below(1 << 32) as u32 / 7, content(&mut noise));
                let wrong: Vec<(u32, Identity)> = (0..50).map(wrong).collect();
                ftl.announce_writes(&wrong);
                ftl.announce(&[0, LOGICAL - 1, LOGICAL, u32::MAX]);
            }
            None => {}
        }
        for (lpn, page) in &batch {
            ftl.write(*lpn, page, &mut d).expect("written");
        }
        ftl.trim(random.below(u64::from(LOGICAL)) as u32, &mut d).expect("trimmed");
        for _ in 0..random.below(12) {
            ftl.deduplicate_step(&mut d).expect("a step");
        }
    }
    ftl.check_invariants();
    let mut places = Vec::new();
    for lpn in 0..LOGICAL {
        ftl.load(lpn, &mut d).expect("loaded");
        places.push(ftl.locate(lpn).unwrap_or(u32::MAX));
    }
    let report = Policy::<Identity>::report(ftl.policy());
    (*ftl.counters(), places, report)
}

#[test]
fn announcements_change_no_decision() {
    for info in POLICIES {
        let plain = outcome(info.name, None);
        assert!(plain.0.ops.all(onefold_flash::OpKind::Erase) > 100, "{}: collection", info.name);
        assert_eq!(outcome(info.name, Some(true)), plain, "{}", info.name);
        assert_eq!(outcome(info.name, Some(false)), plain, "{}, wrong ones", info.name);
    }
}
