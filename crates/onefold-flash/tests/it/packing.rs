//! Compressed pages packed into flash pages: laws without time.
//! Room: onefold-flash.

use std::collections::BTreeMap;

use crate::support::none_of_bytes;
use crate::validation::kinds::{Array, array, none, sized, untimed};
use crate::validation::laws;
use crate::validation::perfect::PerfectTable;
use crate::validation::steady;
use onefold_block::SplitMix64;
use onefold_flash::dedup::Engine;
use onefold_flash::ftl::{Durability, FtlSettings, Pacing};
use onefold_flash::nand::bytes::{BCH_NAME, ChannelSpec};
use onefold_flash::nand::{ByteNand, Identity, PageBytes, Sizes, WearModel};
use onefold_flash::op::{Cause, OpKind};
use onefold_flash::{Ftl, Geometry};

fn sizes(subpages: u32, percent: u32, spread: u32) -> Sizes {
    Sizes { subpages, percent, spread, engine: Engine::BeforeScrambler, plain: None }
}

fn nand(geometry: Geometry, sizes: Sizes) -> Array {
    sized(geometry, Some(sizes))
}

/// Pages programmed for each page of the host in the steady state of uniform writes.
fn amplification(alpha: f64, sizes: Sizes) -> f64 {
    let geometry = steady::plane(256, 32);
    let settings = FtlSettings { gc_reserve_blocks: 3, ..FtlSettings::default() };
    let settings = steady::with_alpha(geometry, alpha, settings).expect("fits");
    let settings = FtlSettings { subpages: sizes.subpages, ..settings };
    let mut ftl = Ftl::format(nand(geometry, sizes), none(), settings).expect("fits");
    let logical = u64::from(settings.logical_pages);
    let mut random = SplitMix64::new(5);
    let mut number = 0;
    let scale = steady::Scale { blocks: 256, warm: 8, measured: 6 };
    let measured = steady::measure(&mut ftl, scale, &mut untimed(), &mut || {
        number += 1;
        let lpn = if number < logical { number } else { random.below(logical) };
        (lpn as u32, Identity::of_number(number))
    });
    ftl.check_invariants();
    measured.expect("writes")
}

/// As many pages as fill a flash page exactly make the drive one of smaller pages, of which there
/// are as many times more: the closed form for that drive holds.
#[test]
fn packed_drives_amplify_as_drives_of_smaller_pages_do() {
    for (alpha, percent, together) in [(1.1, 50, 2), (1.1, 25, 4), (1.03, 50, 2), (1.25, 12, 8)] {
        let measured = amplification(alpha, sizes(8, percent, 0));
        let expected = laws::packed(alpha, 32, together);
        assert!(
            (measured / expected - 1.0).abs() < 0.03,
            "{together} together at {alpha}: {measured} is not {expected}"
        );
    }
}

/// What fits into no flash page beside another one gains nothing, however much shorter it is.
#[test]
fn pages_that_fit_beside_no_other_gain_nothing() {
    for percent in [51, 75, 87] {
        let measured = amplification(1.15, sizes(8, percent, 0));
        let expected = laws::greedy(1.15, 32);
        assert!((measured / expected - 1.0).abs() < 0.03, "{percent} %: {measured}, {expected}");
    }
}

/// A drive with the engine behind its scrambler is the drive without one, operation by operation.
#[test]
fn behind_the_scrambler_nothing_changes() {
    let geometry = steady::plane(64, 16);
    let settings = FtlSettings { logical_pages: 700, ..FtlSettings::default() };
    let behind = Sizes { engine: Engine::AfterScrambler, ..sizes(8, 10, 5) };
    let packed = FtlSettings { subpages: 8, ..settings };
    let mut plain = Ftl::format(array(geometry), none(), settings).expect("fits");
    let mut after = Ftl::format(nand(geometry, behind), none(), packed).expect("fits");
    let mut random = SplitMix64::new(3);
    for number in 0..20_000 {
        let (lpn, page) = (random.below(700) as u32, Identity::of_number(number));
        plain.write(lpn, &page, &mut untimed()).expect("writes");
        after.write(lpn, &page, &mut untimed()).expect("writes");
    }
    after.check_invariants();
    assert_eq!(plain.counters(), after.counters());
    assert!(after.counters().ops.of(OpKind::Program, Cause::Gc) > 1000);
}

/// Random operations on packed drives with and without deduplication, against a plain map.
#[test]
fn packed_drives_are_maps() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let geometry = Geometry { planes_per_die: 2, ..steady::plane(24, 8) };
        let subpages = [2, 4, 8][seed as usize % 3];
        let settings = FtlSettings {
            logical_pages: 200,
            gc_reserve_blocks: 3,
            durability: Durability::Journal,
            pacing: if seed % 2 == 0 { Pacing::Incremental } else { Pacing::WholeBlock },
            wear_spread: if seed % 5 == 0 { 2 } else { 0 },
            subpages,
            packing_pages: 1 + seed as u32 % 3,
            ..FtlSettings::default()
        };
        let sizes = sizes(subpages, random.below(90) as u32, random.below(50) as u32);
        let table = PerfectTable::new(random.below(101), seed);
        let mut ftl = Ftl::format(nand(geometry, sizes), table, settings).expect("fits");
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let contents = 1 + random.below(400);
        for step in 0..3000 {
            let lpn = random.below(200) as u32;
            match random.below(20) {
                0 => {
                    ftl.trim_range(lpn, 1, &mut untimed()).expect("trims");
                    model.remove(&lpn);
                }
                1 => drop(ftl.deduplicate_step(&mut untimed()).expect("looks")),
                2 if random.chance(1, 4) => ftl.flush(&mut untimed()).expect("flushes"),
                3..6 => {
                    let read = ftl.read(lpn, &mut untimed()).expect("reads");
                    assert_eq!(read.map(|page| page.0 as u64), model.get(&lpn).copied());
                    assert_eq!(ftl.is_written(lpn), model.contains_key(&lpn));
                }
                _ => {
                    let content = random.below(contents);
                    // Now and then one that keeps its redundancy.
                    let asked = random.chance(1, 10).then_some(false);
                    let page = Identity::of_number(content);
                    ftl.write_asked(lpn, &page, asked, &mut untimed()).expect("writes");
                    model.insert(lpn, content);
                }
            }
            if step % 50 == 0 {
                ftl.check_invariants();
            }
        }
        assert_eq!(ftl.stored().logical_pages, model.len() as u64, "seed {seed}");
        ftl.flush(&mut untimed()).expect("flushes");
        // And the same again from what the flash holds.
        let table = PerfectTable::new(50, seed);
        let (mut ftl, report) = Ftl::open(ftl.into_nand(), table, settings).expect("opens");
        assert_eq!(report.lost_entries, 0);
        ftl.check_invariants();
        for lpn in 0..200 {
            let read = ftl.read(lpn, &mut untimed()).expect("reads");
            assert_eq!(read.map(|page| page.0 as u64), model.get(&lpn).copied(), "seed {seed}");
        }
    }
}

/// Real bytes through a real engine, scrambler and code, and identities whose sizes are given: the
/// same operations, the same live pages.
#[test]
fn bytes_and_identities_are_packed_alike() {
    let geometry = Geometry { page_bytes: 1024, oob_bytes: 96, ..steady::plane(32, 8) };
    let settings = FtlSettings {
        logical_pages: 160,
        subpages: 4,
        packing_pages: 2,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let scrambler = onefold_code::preset("lba-prbs31").expect("a preset");
    let channel = ChannelSpec { code: BCH_NAME.into(), scrambler: Some(scrambler) };
    let bytes = ByteNand::in_memory(geometry, &channel, WearModel::none()).expect("fits");
    let bytes = bytes.with_engine(Engine::BeforeScrambler, 4);
    let mut real = Ftl::format(bytes, none_of_bytes(), settings).expect("fits");
    let mut model = Ftl::format(nand(geometry, sizes(4, 50, 0)), none(), settings).expect("fits");
    // A third of a page is noise: half a page with its head.
    let page = |n: u64| [&SplitMix64::new(n).bytes(400)[..], &[0; 1024 - 400]].concat();
    let mut random = SplitMix64::new(9);
    let mut latest = BTreeMap::new();
    for n in 1..8000 {
        let lpn = random.below(160) as u32;
        real.write(lpn, &PageBytes::from(page(n)), &mut untimed()).expect("writes");
        model.write(lpn, &Identity::of_number(n), &mut untimed()).expect("writes");
        latest.insert(lpn, n);
        let lpn = random.below(160) as u32;
        let read = real.read(lpn, &mut untimed()).expect("reads");
        let identity = model.read(lpn, &mut untimed()).expect("reads");
        assert_eq!(read.map(|read| read.to_vec()), latest.get(&lpn).map(|&n| page(n)));
        assert_eq!(identity, latest.get(&lpn).map(|&n| Identity::of_number(n)));
        if n % 100 == 0 {
            real.flush(&mut untimed()).expect("flushes");
            model.flush(&mut untimed()).expect("flushes");
        }
    }
    assert_eq!(real.counters(), model.counters());
    assert_eq!(real.stored(), model.stored());
    assert!(real.counters().ops.of(OpKind::Program, Cause::Gc) > 50, "{:?}", real.counters());
}

/// Nothing of a flash page is left over where pages fit, and what waits takes no flash.
#[test]
fn flash_pages_are_filled_and_what_waits_is_not_programmed() {
    let geometry = steady::plane(32, 16);
    let settings = FtlSettings { logical_pages: 200, subpages: 8, ..FtlSettings::default() };
    let mut ftl = Ftl::format(nand(geometry, sizes(8, 25, 0)), none(), settings).expect("fits");
    let programs = |ftl: &Ftl<_, _>| ftl.counters().ops.all(OpKind::Program);
    for lpn in 0..4 {
        ftl.write(lpn, &Identity::of_number(lpn.into()), &mut untimed()).expect("writes");
    }
    assert_eq!((programs(&ftl), ftl.stored().logical_pages), (0, 4), "they wait");
    // A page that is written again while it waits is not programmed twice.
    ftl.write(3, &Identity::of_number(30), &mut untimed()).expect("writes");
    assert_eq!((programs(&ftl), ftl.counters().fragments_dropped), (0, 1));
    ftl.trim(2, &mut untimed()).expect("trims");
    assert_eq!(ftl.read(2, &mut untimed()).expect("reads"), None);
    for lpn in 4..100 {
        ftl.write(lpn, &Identity::of_number(lpn.into()), &mut untimed()).expect("writes");
    }
    ftl.flush(&mut untimed()).expect("flushes");
    // 99 pages, four of which fill one.
    assert_eq!((programs(&ftl), ftl.counters().packed_subpages), (25, 198));
    let stored = ftl.stored();
    assert_eq!((stored.logical_pages, stored.data_pages, stored.data_subpages), (99, 25, 198));
    let before = ftl.counters().ops.all(OpKind::Read);
    assert_eq!(ftl.read(3, &mut untimed()).expect("reads"), Some(Identity::of_number(30)));
    assert_eq!(ftl.counters().ops.all(OpKind::Read), before + 1, "a page of the flash for one");
    ftl.check_invariants();
}

/// A drive is opened as it was packed, or not at all.
#[test]
fn a_drive_is_opened_as_it_was_packed() {
    let geometry = steady::plane(32, 16);
    let settings = |subpages| FtlSettings {
        logical_pages: 200,
        subpages,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let made = Ftl::format(nand(geometry, sizes(8, 25, 0)), none(), settings(8)).expect("fits");
    let refused = Ftl::open(made.into_nand(), none(), settings(4)).map(drop);
    let refused = refused.expect_err("other sub-pages").to_string();
    assert!(refused.contains("8 sub-pages, the settings say 4"), "{refused}");
    for wrong in [
        FtlSettings { map_cache_bytes: 4096 * 4, ..settings(8) },
        FtlSettings { packing_pages: 0, ..settings(8) },
        settings(3),
        settings(128),
    ] {
        let refused = Ftl::format(nand(geometry, sizes(8, 25, 0)), none(), wrong).map(drop);
        assert!(refused.is_err(), "{wrong:?}");
    }
}
