//! Wear, bad blocks, the mapping cache and the end of life, on drives of a few blocks.
//! Room: onefold-flash.

use crate::validation::kinds::{array, none, untimed};
use crate::validation::steady;
use onefold_block::SplitMix64;
use onefold_flash::dedup::NoDedup;
use onefold_flash::ftl::Durability;
use onefold_flash::nand::{BlankNand, Faults, Identity, IdentityNand, PowerCut};
use onefold_flash::{Cause, Ftl, FtlError, FtlSettings, OpKind, Untimed};

/// Half of the data is written once, the other half all the time.
fn wear_with(wear_spread: u32) -> (u32, u32, u64) {
    let geometry = steady::plane(128, 16);
    let settings = FtlSettings { logical_pages: 1500, wear_spread, ..FtlSettings::default() };
    let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings).expect("fits");
    for lpn in 0..1500 {
        ftl.write(lpn, &(), &mut Untimed).expect("writes");
    }
    let mut random = SplitMix64::new(3);
    for _ in 0..60_000 {
        ftl.write(random.below(750) as u32, &(), &mut Untimed).expect("writes");
    }
    ftl.check_invariants();
    let (low, high) = ftl.blocks().wear_range();
    let histogram = ftl.blocks().erase_histogram();
    assert_eq!(histogram.values().sum::<u32>(), 128);
    assert_eq!((histogram.keys().min(), histogram.keys().max()), (Some(&low), Some(&high)));
    (low, high, ftl.counters().ops.of(OpKind::Program, Cause::Wear))
}

#[test]
fn static_wear_levelling_bounds_the_spread_of_erases() {
    let (low, high, moved) = wear_with(0);
    assert!(low == 0 && high > 60 && moved == 0, "{low} to {high}");
    let (low, high, moved) = wear_with(8);
    assert!(high - low <= 12 && moved > 0, "{low} to {high}");
}

#[test]
fn failing_blocks_lose_nothing_until_the_drive_is_read_only() {
    let geometry = steady::plane(64, 16);
    let faults = Faults { program_ppm: 500, erase_ppm: 2_000, blocks_max: u32::MAX, seed: 5 };
    let settings = FtlSettings {
        logical_pages: 500,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let nand = PowerCut::new(IdentityNand::new(geometry), faults);
    let mut ftl = Ftl::format(nand, none(), settings).expect("fits");
    let mut random = SplitMix64::new(9);
    let mut model = vec![None; 500];
    let error = loop {
        let lpn = random.below(500) as usize;
        let page = Identity::of_number(random.next_u64());
        match ftl.write(lpn as u32, &page, &mut untimed()) {
            Ok(_) => model[lpn] = Some(page),
            Err(error) => break error,
        }
    };
    let FtlError::NoSpace { bad_blocks, blocks: 64 } = error else { panic!("{error}") };
    assert!(bad_blocks > 5, "{bad_blocks}");
    assert!(error.to_string().ends_with("the drive is read-only"), "{error}");
    ftl.check_invariants();
    for (lpn, page) in model.iter().enumerate() {
        assert_eq!(ftl.read(lpn as u32, &mut untimed()).expect("reads"), *page);
    }
    let (mut again, report) = Ftl::open(ftl.into_nand(), none(), settings).expect("opens");
    assert_eq!(report.lost_entries, 0);
    again.check_invariants();
    for (lpn, page) in model.iter().enumerate() {
        assert_eq!(again.read(lpn as u32, &mut untimed()).expect("reads"), *page);
    }
}

#[test]
fn a_small_mapping_cache_costs_reads_and_programs() {
    let geometry = onefold_flash::Geometry { page_bytes: 512, ..steady::plane(256, 16) };
    let traffic = |map_cache_bytes| {
        let settings =
            FtlSettings { logical_pages: 2500, map_cache_bytes, ..FtlSettings::default() };
        let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings).expect("fits");
        let mut random = SplitMix64::new(1);
        for _ in 0..20_000 {
            ftl.write(random.below(2500) as u32, &(), &mut Untimed).expect("writes");
        }
        ftl.check_invariants();
        let counters = *ftl.counters();
        (
            counters.map_misses,
            counters.ops.of(OpKind::Read, Cause::Map),
            counters.waf(Some(Cause::Map)),
        )
    };
    let whole = traffic(0);
    assert!(whole.0 == 0 && whole.1 == 0 && whole.2 < 1e-9, "{whole:?}");
    let (half, fifth) = (traffic(10 * 512), traffic(4 * 512));
    // Uniform writes miss as often as the cache is smaller than the map of 20 pages.
    assert!(
        half.0 > 8_000 && fifth.0 > 14_000 && fifth.2 > half.2 && half.2 > 0.4,
        "{half:?} {fifth:?}"
    );
}

#[test]
fn what_cannot_work_is_refused_and_says_why() {
    let geometry = steady::plane(64, 16);
    let format = |settings| Ftl::format(BlankNand::new(geometry), NoDedup, settings).err();
    let base = FtlSettings { logical_pages: 500, ..FtlSettings::default() };
    assert!(format(base).is_none());
    for (settings, word) in [
        (FtlSettings { logical_pages: 1000, ..base }, "do not fit"),
        (FtlSettings { logical_pages: 0, ..base }, "logical_pages"),
        (FtlSettings { gc_reserve_blocks: 1, ..base }, "gc_reserve_blocks must be at least 2"),
    ] {
        let message = format(settings).expect("refused").to_string();
        assert!(message.contains(word), "{message}");
    }
    let blank = Ftl::open(BlankNand::new(geometry), NoDedup, base).expect_err("volatile");
    assert!(blank.to_string().contains("volatile"), "{blank}");
    let journal = FtlSettings { durability: Durability::Journal, ..base };
    let error = Ftl::open(array(geometry), none(), journal).expect_err("nothing there").to_string();
    assert!(error.contains("no root"), "{error}");
    let drive = Ftl::format(array(geometry), none(), journal).expect("fits");
    let other = FtlSettings { logical_pages: 400, ..journal };
    let error = Ftl::open(drive.into_nand(), none(), other).expect_err("other").to_string();
    assert!(error.contains("500 logical pages"), "{error}");
}
