//! What deduplication by codeword would find, against a count of all codewords in all live pages.
//! Room: onefold-flash.

use std::collections::BTreeSet;

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Bytes, Identities, Policy, Site};
use onefold_flash::ftl::Durability;
use onefold_flash::nand::bytes::{MemStore, PageBytes};
use onefold_flash::nand::{ByteNand, Identity, Nand as _, WearModel};
use onefold_flash::spec::DriveSpec;
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::validation::kinds::{array, untimed};

const PAGE: usize = 4096;
const CODEWORD: usize = 1024;

type Drive = Ftl<ByteNand<MemStore>, AnyPolicy<Bytes>>;

fn spec(policy: &str) -> DriveSpec {
    let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
    spec.geometry = Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 2,
        blocks_per_plane: 14,
        pages_per_block: 8,
        page_bytes: PAGE as u32,
        oob_bytes: 192,
    };
    policy.clone_into(&mut spec.dedup.policy);
    spec.dedup.options = "count_codewords = true".parse().expect("TOML");
    spec
}

fn settings() -> FtlSettings {
    FtlSettings {
        logical_pages: 90,
        gc_reserve_blocks: 3,
        durability: Durability::Journal,
        ..FtlSettings::default()
    }
}

fn counted(drive: &Drive) -> [u64; 4] {
    let report = Policy::<PageBytes>::report(drive.policy());
    let of = |name| report.iter().find(|(key, _)| *key == name).expect("counted").1;
    ["codeword_contents", "codewords_held", "codewords_repeated", "codeword_pages_unknown"].map(of)
}

/// The same by reading every live page: contents, their codewords, and those found before.
fn recounted(drive: &mut Drive) -> [u64; 3] {
    let places: BTreeSet<u32> = (0..90).filter_map(|lpn| drive.locate(lpn)).collect();
    let read = |ppn| drive.nand().read(ppn).expect("readable").to_vec();
    let contents: BTreeSet<Vec<u8>> = places.into_iter().map(read).collect();
    let all: Vec<&[u8]> = contents.iter().flat_map(|page| page.chunks(CODEWORD)).collect();
    let distinct: BTreeSet<&[u8]> = all.iter().copied().collect();
    [contents.len(), all.len(), all.len() - distinct.len()].map(|count| count as u64)
}

/// A page of codewords: of a small pool, of its own, or all of one kind.
fn page(random: &mut SplitMix64) -> PageBytes {
    let mut page = Vec::new();
    let kinds = if random.chance(1, 6) { 1 } else { 9 };
    while page.len() < PAGE {
        let own = random.chance(1, 5);
        let seed = if own { random.next_u64() } else { random.below(kinds) };
        page.extend(SplitMix64::new(seed).bytes(CODEWORD));
    }
    PageBytes::from(page)
}

#[test]
fn codewords_are_counted_as_a_count_of_all_live_pages_counts_them() {
    for name in ["ses-device", "ses-host"] {
        let spec = spec(name);
        let channel = spec.channel().expect("a preset");
        let nand = ByteNand::in_memory(spec.geometry, &channel, WearModel::none()).expect("fits");
        let policy = spec.bytes_policy().expect("known");
        let mut drive = Ftl::format(nand, policy, settings()).expect("fits");
        let mut random = SplitMix64::new(3);
        let mut found = 0;
        let mut last: Option<PageBytes> = None;
        for step in 0..1500 {
            let lpn = random.below(90) as u32;
            match random.below(12) {
                0 | 1 => drive.trim(lpn, &mut untimed()).expect("trimmed"),
                2 => drop(drive.deduplicate_step(&mut untimed()).expect("done")),
                3 => drop(drive.collect_idle(step % 2, &mut untimed()).expect("done")),
                4 if last.is_some() => {
                    drive
                        .write(lpn, last.as_ref().expect("some"), &mut untimed())
                        .expect("written");
                }
                _ => {
                    let page = page(&mut random);
                    drive.write(lpn, &page, &mut untimed()).expect("written");
                    last = Some(page);
                }
            }
            if step % 5 == 0 {
                let counts = counted(&drive);
                assert_eq!(counts[..3], recounted(&mut drive), "{name}, step {step}");
                assert_eq!(counts[3], 0);
                found += counts[2];
            }
        }
        let counters = *drive.counters();
        assert!(counters.inline_pages > 20 && found > 1000, "{name}: {counters:?} {found}");
        let moved = drive.nand().health().copies_as_stored;
        assert!(moved > 20, "{name}: {moved} pages moved");

        // After a loss of power nothing is known of what was there, and everything of what comes.
        drive.flush(&mut untimed()).expect("flushed");
        let live: BTreeSet<u32> = (0..90).filter_map(|lpn| drive.locate(lpn)).collect();
        let policy = spec.bytes_policy().expect("known");
        let mut drive = Ftl::open(drive.into_nand(), policy, settings()).expect("recovered").0;
        assert_eq!(counted(&drive), [0, 0, 0, live.len() as u64], "{name}");
        for lpn in 0..90 {
            drive.write(lpn, &page(&mut random), &mut untimed()).expect("written");
        }
        let counts = counted(&drive);
        let all = recounted(&mut drive);
        assert_eq!((counts[3], &counts[..3]), (0, &all[..]), "{name}");
    }
}

#[test]
fn identities_have_no_codewords_to_count() {
    let spec = spec("ses-device");
    let site = Site::new(spec.geometry, None);
    let options = &spec.dedup.options;
    let policy = AnyPolicy::new::<Identity>("ses-device", options, &site, Identities);
    let nand = array(spec.geometry);
    let mut drive = Ftl::format(nand, policy.expect("accepted"), settings()).expect("fits");
    for lpn in 0..50 {
        drive.write(lpn, &Identity(u128::from(lpn)), &mut untimed()).expect("written");
    }
    let report = Policy::<Identity>::report(drive.policy());
    for (name, count) in
        [("codewords_held", 0), ("codewords_repeated", 0), ("codeword_pages_unknown", 50)]
    {
        assert!(report.contains(&(name, count)), "{report:?}");
    }
}
