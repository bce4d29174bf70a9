//! What a new drive accepts, and what it says of itself.
//! Room: onefold-flash.

use crate::dedup::NoDedup;
use crate::ftl::format::check_packing;
use crate::ftl::{Counters, Durability, Ftl, FtlError, FtlSettings, Pacing, Temperature};
use crate::geometry::Geometry;
use crate::nand::{BlankNand, IdentityNand};
use crate::op::{Cause, OpKind};
use crate::testing::plane::plane;

fn made(geometry: Geometry, settings: FtlSettings) -> Result<Ftl<IdentityNand, NoDedup>, FtlError> {
    Ftl::format(IdentityNand::new(geometry), NoDedup, settings)
}

/// Why a drive of one plane of 64 blocks of 16 pages is refused, if it is.
fn refusal(change: impl Fn(&mut FtlSettings, &mut Geometry)) -> Option<String> {
    let mut settings = FtlSettings { logical_pages: 200, ..FtlSettings::default() };
    let mut geometry = plane(64, 16);
    change(&mut settings, &mut geometry);
    made(geometry, settings).err().map(|error| error.to_string())
}

#[track_caller]
fn refused(part: &str, change: impl Fn(&mut FtlSettings, &mut Geometry)) {
    let refusal = refusal(change).expect("refused");
    assert!(refusal.contains(part), "{refusal}");
}

#[track_caller]
fn accepted(change: impl Fn(&mut FtlSettings, &mut Geometry)) {
    assert_eq!(refusal(change), None);
}

#[test]
fn settings_are_refused_just_beyond_their_limits() {
    refused("gc_reserve_blocks", |s, _| s.gc_reserve_blocks = 1);
    accepted(|s, _| s.gc_reserve_blocks = 2);
    refused("logical_pages", |s, _| s.logical_pages = 0);
    accepted(|s, _| s.logical_pages = 1);
    refused("page_bytes", |_, g| g.page_bytes = 63);
    accepted(|_, g| g.page_bytes = 64);
    let hot =
        |hot_pages, hot_writes_permille| Temperature::HotRange { hot_pages, hot_writes_permille };
    refused("hot_pages", |s, _| s.temperature = hot(0, 500));
    accepted(|s, _| s.temperature = hot(1, 999));
    refused("hot_pages", |s, _| s.temperature = hot(1, 1000));
    accepted(|s, _| s.temperature = hot(199, 500));
    refused("hot_pages", |s, _| s.temperature = hot(200, 500));
}

#[test]
fn packing_is_refused_just_beyond_its_limits() {
    refused("subpages", |s, _| s.subpages = 0);
    refused("subpages", |s, _| s.subpages = 3);
    refused("subpages", |s, _| s.subpages = 128);
    accepted(|s, _| s.subpages = 64);
    // One flash page is filled for each of two streams of the host, and one by collection.
    let packing = FtlSettings { logical_pages: 200, subpages: 4, ..FtlSettings::default() };
    let dram = made(plane(64, 16), packing).expect("fits").dram();
    assert!(dram.contains(&("packing_buffers", 3 * 4096)), "{dram:?}");
    refused("packing_pages", |s, _| (s.subpages, s.packing_pages) = (4, 0));
    accepted(|s, _| (s.subpages, s.packing_pages) = (4, 64));
    refused("packing_pages", |s, _| (s.subpages, s.packing_pages) = (4, 65));
    for bytes in [1, 1 << 20] {
        refused("whole map", |s, _| (s.subpages, s.map_cache_bytes) = (4, bytes));
    }
    refused("codewords", |s, _| s.codewords = true);
    refused("codewords", |s, g| {
        (s.codewords, s.subpages, g.pages_per_block, g.blocks_per_plane) = (true, 4, 1, 1024);
    });
    accepted(|s, g| {
        (s.codewords, s.subpages, g.pages_per_block, g.blocks_per_plane) = (true, 4, 2, 512);
    });
    // Whether pages are packed is no question with one sub-page.
    accepted(|s, _| s.packing_pages = 0);
}

/// Places of the flash and of what waits have numbers of thirty bits.
#[test]
fn packed_places_are_fewer_than_a_mapping_entry_can_name() {
    let settings = FtlSettings { subpages: 4, packing_pages: 1, ..FtlSettings::default() };
    // Eight wait; blocks have eight places each.
    let checked = |blocks: u32| check_packing(&plane(blocks, 2), &settings);
    checked((1 << 27) - 2).expect("numbers are left");
    let refused = checked((1 << 27) - 1).expect_err("there is a place for each number");
    assert!(refused.to_string().contains("1073741824 sub-pages"), "{refused}");
}

#[test]
fn idle_blocks_are_fewer_where_victims_are_collected_bit_by_bit() {
    // Blocks of each plane that are not used by what is mapped, as follows from what is said.
    let idle = |gc_reserve_blocks, pacing, temperature| {
        let settings = FtlSettings {
            logical_pages: 600,
            gc_reserve_blocks,
            pacing,
            temperature,
            ..FtlSettings::default()
        };
        let ftl = made(Geometry { planes_per_die: 2, ..plane(32, 16) }, settings).expect("fits");
        (64.0 - ftl.effective_alpha() * 600.0 / 16.0) / 2.0
    };
    let one_pool = Temperature::OnePool;
    let (whole, bits) = (Pacing::WholeBlock, Pacing::Incremental);
    let kept = idle(4, whole, one_pool);
    assert!((5.5..6.0).contains(&kept), "{kept}: the reserve, one and a half, and a part of one");
    for (reserve, less) in [(4, 0.2..0.5), (2, 0.05..0.17)] {
        let found = idle(reserve, whole, one_pool) - idle(reserve, bits, one_pool);
        assert!(less.contains(&found), "{reserve}: {found}");
    }
    let hot = Temperature::HotRange { hot_pages: 60, hot_writes_permille: 500 };
    let more = idle(4, whole, hot) - kept;
    assert!((0.9..1.1).contains(&more), "{more}: half of the two open blocks of another pool");
}

#[test]
fn a_map_cache_holds_four_pages_or_the_whole_map() {
    // 200 pages are seven mapping pages of 32 entries.
    let cached = |bytes: u64| refusal(move |s, g| (s.map_cache_bytes, g.page_bytes) = (bytes, 128));
    for (bytes, accepted) in
        [(0, true), (127, false), (128, false), (511, false), (512, true), (895, true), (896, true)]
    {
        assert_eq!(cached(bytes).is_none(), accepted, "{bytes} bytes");
    }
    let ftl = |bytes| {
        let settings =
            FtlSettings { logical_pages: 200, map_cache_bytes: bytes, ..FtlSettings::default() };
        made(Geometry { page_bytes: 128, ..plane(64, 16) }, settings).expect("fits")
    };
    assert!(ftl(895).cache.is_partial() && !ftl(896).cache.is_partial());
    // A drive of one mapping page has it in DRAM, but not with less than that.
    refused("or at least 4 pages, 16384", |s, _| s.map_cache_bytes = 4095);
    accepted(|s, _| s.map_cache_bytes = 4096);
}

/// Logical pages that fit, with everything else that needs blocks or pages.
fn most(change: impl Fn(&mut FtlSettings)) -> u32 {
    let fits = |pages: u32| {
        let mut settings = FtlSettings { logical_pages: pages, ..FtlSettings::default() };
        change(&mut settings);
        match made(Geometry { planes_per_die: 2, ..plane(32, 16) }, settings) {
            Ok(_) => true,
            Err(FtlError::NoRoom { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    };
    (1..4096).take_while(|&pages| fits(pages)).count() as u32
}

#[test]
fn as_many_logical_pages_fit_as_reserve_and_open_blocks_leave() {
    // 64 blocks of 16 pages, less four of the reserve and three open ones in both planes.
    assert_eq!(most(|_| {}), 50 * 16);
    assert_eq!(most(|s| s.gc_reserve_blocks = 2), 54 * 16);
    assert_eq!(most(|s| s.apart = true), 48 * 16);
    assert_eq!(most(|s| s.wear_spread = 1), 48 * 16);
    let temperature = Temperature::HotRange { hot_pages: 1, hot_writes_permille: 500 };
    // A hot range must be a part of the drive.
    let hot = |s: &mut FtlSettings| {
        s.logical_pages = s.logical_pages.max(2);
        s.temperature = temperature;
    };
    assert_eq!(most(hot), 46 * 16);
    assert_eq!(
        most(|s| {
            hot(s);
            s.apart = true;
        }),
        46 * 16,
        "both pools have a block for pages apart"
    );
    // A block for the drive's own pages; of these a mapping page, two sets of a page of states, a
    // root and one more, and the journal.
    assert_eq!(most(|s| s.durability = Durability::NoJournal), 49 * 16 - 5);
    assert_eq!(most(|s| s.durability = Durability::Journal), 49 * 16 - 5 - 18);
    // Blocks of codewords lack a page.
    assert_eq!(most(|s| (s.codewords, s.subpages) = (true, 4)), 50 * 15 * 4);
    assert_eq!(most(|s| s.subpages = 4), 50 * 16);
}

#[test]
fn bad_blocks_hold_no_logical_pages() {
    use crate::nand::Interruptible as _;
    let format = |bad: u32, logical_pages| {
        let mut nand = IdentityNand::new(plane(32, 16));
        (0..bad).for_each(|block| nand.mark_bad(31 - block));
        Ftl::format(nand, NoDedup, FtlSettings { logical_pages, ..FtlSettings::default() })
    };
    for bad in [0, 1, 5] {
        let pages = (32 - 7 - bad) * 16;
        let ftl = format(bad, pages).expect("fits");
        assert_eq!((ftl.blocks().bad(), ftl.blocks().free_of(0)), (bad, 32 - bad));
        let Err(FtlError::NoRoom { logical, own, good, kept, usable }) = format(bad, pages + 1)
        else {
            panic!("one page too many");
        };
        let named = (logical, own, good, kept, usable);
        assert_eq!(named, (pages + 1, 0, 32 - bad, 7, u64::from(pages)));
    }
    assert!(format(26, 1).is_err(), "less than what is kept");
}

#[test]
fn memory_for_tables_is_named() {
    let geometry = Geometry { page_bytes: 128, ..plane(64, 16) };
    let dram = |settings: FtlSettings| {
        let settings = FtlSettings { logical_pages: 200, ..settings };
        made(geometry, settings).expect("fits").dram()
    };
    let plain = dram(FtlSettings::default());
    let expected = [
        ("map", 800),
        ("reverse_map", 4096),
        ("virtual_table", 0),
        ("blocks", 34 * 64),
        ("map_directory", 0),
        ("journal_buffer", 0),
    ];
    assert_eq!(plain, expected);
    let durability = Durability::Journal;
    // Seven mapping pages of the map, four and seven of virtual pages.
    let cached = dram(FtlSettings { durability, map_cache_bytes: 600, ..FtlSettings::default() });
    assert_eq!(cached[0], ("map", 4 * 128 + 8 * 7));
    assert_eq!(cached[4..], [("map_directory", 12 * 18), ("journal_buffer", 128)]);
    let packing = FtlSettings { subpages: 4, packing_pages: 5, ..FtlSettings::default() };
    let packed = dram(packing);
    assert_eq!(packed[1], ("reverse_map", 4 * 4096));
    assert_eq!(packed.last(), Some(&("packing_buffers", 5 * 3 * 128)));
    // Two streams of five pages of four sub-pages: each with who wrote it, 64 pages at most.
    let settings = FtlSettings { logical_pages: 200, ..packing };
    let ftl = made(geometry, settings).expect("fits");
    assert_eq!(ftl.packing_bytes(), 40 * (16 + 4 * 64) + 10 * 128);
}

#[test]
fn spare_space_is_what_is_advertised() {
    let settings = FtlSettings { logical_pages: 512, ..FtlSettings::default() };
    let ftl = made(plane(64, 16), settings).expect("fits");
    assert!((ftl.over_provisioning() - 1.0).abs() < 1e-12, "{}", ftl.over_provisioning());
    let settings = FtlSettings { codewords: true, subpages: 4, logical_pages: 2048, ..settings };
    let ftl = made(plane(64, 16), settings).expect("fits");
    assert!((ftl.over_provisioning() - 1.0).abs() < 1e-12, "{}", ftl.over_provisioning());
}

#[test]
fn a_drive_of_blank_pages_has_no_own_pages_to_open_again() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let ftl = Ftl::format(BlankNand::new(plane(64, 16)), NoDedup, settings).expect("fits");
    let refused = Ftl::open(ftl.into_nand(), NoDedup, settings).map(drop);
    let refused = refused.expect_err("refused");
    assert!(refused.to_string().contains("cannot be opened again"), "{refused}");
    let volatile = FtlSettings { durability: Durability::Volatile, ..settings };
    let nand = made(plane(64, 16), volatile).expect("fits").into_nand();
    let refused = Ftl::open(nand, NoDedup, volatile).map(drop);
    let refused = refused.expect_err("refused");
    assert!(refused.to_string().contains("cannot be opened again"), "{refused}");
}

#[test]
fn what_was_counted_since_is_each_count_less_what_it_was() {
    let mut now = Counters {
        host_pages_written: 101,
        host_pages_read: 102,
        host_pages_trimmed: 103,
        inline_pages: 104,
        offline_pages: 105,
        compared_equal: 106,
        compared_different: 107,
        flushes: 108,
        checkpoints: 109,
        map_hits: 110,
        map_misses: 111,
        fragments: 112,
        fragments_dropped: 113,
        packed_pages: 114,
        packed_host_pages: 115,
        packed_subpages: 116,
        waiting_reads: 117,
        block_failures: 118,
        ..Counters::default()
    };
    now.ops.add(OpKind::Program, Cause::Gc);
    let earlier = now;
    assert_eq!(now.since(&Counters::default()), now);
    assert_eq!(now.since(&earlier), Counters::default());
    now.ops.add(OpKind::Program, Cause::Gc);
    now.ops.add(OpKind::Program, Cause::Host);
    now.ops.add(OpKind::Erase, Cause::Gc);
    now.host_pages_written += 4;
    let since = now.since(&earlier);
    assert_eq!(since.host_pages_written, 4);
    assert!(
        (since.waf(None) - 0.5).abs() < 1e-12 && (since.waf(Some(Cause::Gc)) - 0.25).abs() < 1e-12
    );
}
