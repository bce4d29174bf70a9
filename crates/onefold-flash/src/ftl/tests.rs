//! What only the FTL sees of itself: whom the last free block is for, and who fills what recovery
//! finds half filled.
//! Room: onefold-flash.

mod books;
mod choice;
mod format;
mod journal_pages;
mod known;
mod life;
mod limits;
mod lives;
mod lives_packed;
mod lost_map;
mod own;
mod plan;
mod sharing;
mod state;
mod told;
mod waiting;

use crate::dedup::{Engine, NoDedup};
use crate::ftl::blocks::BlockState;
use crate::ftl::stream::Stream;
use crate::ftl::{Durability, Ftl, FtlError, FtlSettings, Written};
use crate::geometry::Geometry;
use crate::nand::{BlankNand, Cut, Identity, IdentityNand, Nand, NandError, Sizes};
use crate::op::{Cause, Untimed};
use crate::testing::plane::plane;

use told::{Asked, Drive, Teller, Telling, Told};

#[test]
fn the_last_free_block_of_a_plane_is_for_what_collection_moves() {
    let settings = FtlSettings { logical_pages: 20, ..FtlSettings::default() };
    let nand = BlankNand::new(plane(16, 4));
    let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
    while ftl.space.blocks().free_of(0) > 1 {
        ftl.space.take_free(0);
    }
    for stream in [Stream::Host, Stream::Apart] {
        let refused = ftl.space.next_page(0, stream, 0);
        assert!(matches!(refused, Err(FtlError::NoSpace { .. })), "{stream:?}: {refused:?}");
    }
    ftl.space.next_page(0, Stream::Moved, 0).expect("else nothing could ever be freed");
    assert_eq!(ftl.space.blocks().free_of(0), 0);
}

#[test]
fn an_array_of_blank_pages_holds_no_packed_ones() {
    let settings = FtlSettings { logical_pages: 20, subpages: 2, ..FtlSettings::default() };
    let refused = Ftl::format(BlankNand::new(plane(16, 4)), NoDedup, settings);
    let error = refused.map(drop).expect_err("nobody would keep what is packed");
    assert!(error.to_string().contains("packed pages"), "{error}");
    let kept = IdentityNand::new(plane(16, 4));
    Ftl::format(kept, NoDedup, settings).expect("identities are kept page by page");
}

/// A drive that runs out of blocks while a page waits: nothing more waits than could still be
/// stored, and what waits finds the last block, which is for collection otherwise.
#[test]
fn nothing_waits_for_which_no_block_would_be_left_when_the_power_goes() {
    let settings = FtlSettings {
        logical_pages: 20,
        durability: Durability::Protected,
        subpages: 4,
        packing_pages: 4,
        packing_survives: true,
        ..FtlSettings::default()
    };
    let (subpages, engine) = (4, Engine::BeforeScrambler);
    let sizes = Sizes { subpages, percent: 75, spread: 0, engine, plain: None };
    let nand = || IdentityNand::new(plane(32, 4)).with_sizes(Some(sizes.clone()));
    let page = Identity::of_number(7);
    let waits_then_runs_out = |left: u32| {
        let mut ftl = Ftl::format(nand(), NoDedup, settings).expect("fits");
        assert_eq!(ftl.write(0, &page, &mut Untimed).expect("room"), Written::Waits);
        while ftl.space.blocks().free_of(0) > left {
            ftl.space.take_free(0).expect("free");
        }
        ftl
    };
    // If two of three blocks of four pages fail, two pages and the journal's still have a place,
    // and a third one has none.
    for (left, waits) in [(6, 4), (3, 2)] {
        let mut ftl = waits_then_runs_out(left);
        for lpn in 1..4 {
            let written = ftl.write(lpn, &page, &mut Untimed).expect("room");
            assert_eq!(written == Written::Waits, lpn < waits, "{left}, {lpn}: {written:?}");
            assert_eq!(ftl.packing.is_empty(), lpn >= waits, "{left}, {lpn}");
        }
    }
    // What waits already does while there is a place for all of it, and no longer.
    let mut ftl = waits_then_runs_out(3);
    assert_eq!(ftl.write(1, &page, &mut Untimed).expect("room"), Written::Waits);
    for waits in [true, false] {
        ftl.keep_waiting_safe(&mut Untimed).expect("room");
        assert_eq!(ftl.packing.is_empty(), !waits);
        ftl.space.take_free(0).expect("free");
    }
    for left in [1, 2] {
        let mut ftl = waits_then_runs_out(left);
        ftl.power_loss(&mut Untimed).expect("there is a block");
        assert!(!ftl.space.is_emergency(), "that is over");
        let (mut ftl, _) = Ftl::open(ftl.into_nand(), NoDedup, settings).expect("opens");
        assert_eq!(ftl.read(0, &mut Untimed).expect("readable"), Some(page), "{left}");
    }
}

#[test]
fn what_recovery_finds_half_filled_is_for_collection_first_and_then_for_the_host() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let nand = IdentityNand::new(plane(64, 16));
    let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
    for lpn in 0..5 {
        ftl.write(lpn, &Identity::of_number(lpn.into()), &mut Untimed).expect("writes");
    }
    let host = ftl.space.open_of(0, Stream::Host);
    assert!(host.is_some());
    let (mut ftl, _) = Ftl::open(ftl.into_nand(), NoDedup, settings).expect("opens");
    let open = |ftl: &Ftl<_, _>, stream: Stream| ftl.space.open_of(0, stream);
    // A drive that is full has no other block for what it must move to get one.
    assert_eq!((open(&ftl, Stream::Moved), open(&ftl, Stream::Host)), (host, None));
    ftl.write(5, &Identity::of_number(5), &mut Untimed).expect("writes");
    let second = open(&ftl, Stream::Host);
    let (ftl, _) = Ftl::open(ftl.into_nand(), NoDedup, settings).expect("opens again");
    let mut found = [open(&ftl, Stream::Moved), open(&ftl, Stream::Host)];
    found.sort_unstable();
    let mut both = [host, second];
    both.sort_unstable();
    assert_eq!(found, both);
}

/// Who names a shared page may be known to records in memory alone. Its old place, where the
/// out-of-band area still names the first of them, must not be erased before those are stored.
#[test]
fn a_shared_page_that_moves_keeps_who_named_it_before_it_was_shared() {
    let settings = FtlSettings {
        logical_pages: 200,
        gc_idle_blocks: 64,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let told = Told::default();
    let d = &mut Asked::new(&told);
    let nand = Telling::new(IdentityNand::new(plane(64, 16)), &told);
    let mut ftl = Ftl::format(nand, Teller::perfect(&told), settings).expect("fits");
    let content = |lpn: u32| Identity::of_number(100 + u64::from(lpn));
    for lpn in 0..16 {
        ftl.write(lpn, &content(lpn), d).expect("writes");
    }
    let first = ftl.locate(0).expect("written");
    let block = ftl.layout.block_of(first);
    // All but the first page of the block die, and what says so is stored.
    for lpn in 1..33 {
        let other = Identity::of_number(1000 + u64::from(lpn));
        ftl.write(lpn, &other, d).expect("writes");
    }
    ftl.flush(d).expect("flushes");
    assert_eq!(ftl.space.blocks().live(block), 1);
    ftl.write(100, &content(0), d).expect("writes");
    assert_eq!(ftl.locate(100), Some(first), "shared, and not flushed");
    assert!(!ftl.pending_records().is_empty());
    let mut steps = 0;
    while ftl.layout.block_of(ftl.locate(0).expect("there")) == block
        || ftl.space.blocks().written(block) > 0
    {
        assert!(ftl.collect_idle(0, d).expect("collects"), "step {steps}");
        steps += 1;
    }
    // The power goes.
    let (mut ftl, report) =
        Ftl::open(ftl.into_nand(), Teller::perfect(&told), settings).expect("opens");
    assert_eq!(report.lost_entries, 0);
    ftl.check_invariants();
    assert_eq!(ftl.read(0, d).expect("reads"), Some(content(0)), "it was flushed");
}

#[test]
fn a_checkpoint_leaves_nothing_that_is_not_stored() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let told = Told::default();
    let d = &mut Asked::new(&told);
    let nand = Telling::new(IdentityNand::new(plane(64, 16)), &told);
    let mut ftl = Ftl::format(nand, Teller::perfect(&told), settings).unwrap();
    let segments = ftl.own.slots().segments;
    for round in 1..4_u64 {
        for lpn in 0..60 {
            // Half of them are shared, which the journal says alone.
            let content = Identity::of_number(round * 1000 + u64::from(lpn / 2));
            ftl.write(lpn, &content, d).expect("writes");
        }
        ftl.flush(d).expect("flushes");
        assert!(ftl.journal.has_pages());
        ftl.checkpoint(d).expect("checkpoints");
        assert!((0..segments).all(|at| ftl.books.segments().is_clean(at)), "round {round}");
        assert!(!ftl.journal.has_pages(), "round {round}: what was replayed is not again");
        assert_eq!(ftl.counters().checkpoints, round);
    }
    let (mut ftl, report) = Ftl::open(ftl.into_nand(), Teller::perfect(&told), settings).unwrap();
    assert_eq!((report.replayed, report.lost_entries), (0, 0));
    let held = ftl.read(59, d).expect("reads");
    assert_eq!(held, Some(Identity::of_number(3029)));
}

/// A mapping page that names a virtual page must not outlive what says where that is.
#[test]
fn a_mapping_page_is_stored_after_the_records_that_it_needs_and_waits_for_no_others() {
    for durability in [Durability::Journal, Durability::Protected] {
        let settings = FtlSettings { logical_pages: 200, durability, ..FtlSettings::default() };
        let told = Told::default();
        let d = &mut Asked::new(&told);
        let geometry = Geometry { page_bytes: 128, ..plane(64, 16) };
        let nand = Telling::new(IdentityNand::new(geometry), &told);
        let mut ftl = Ftl::format(nand, Teller::perfect(&told), settings).expect("fits");
        let content = Identity::of_number(7);
        for lpn in [3, 100] {
            ftl.write(lpn, &content, d).expect("writes");
        }
        let pending = ftl.pending_records().len();
        assert!(pending > 0, "{durability:?}: who shares is known to records in memory");
        let entries = ftl.own.slots().entries;
        // Another part of the map needs none of them.
        ftl.store_segment(150 / entries, d).expect("stored");
        assert_eq!(ftl.pending_records().len(), pending, "{durability:?}");
        ftl.store_segment(100 / entries, d).expect("stored");
        // Capacitors store what is in memory when the power goes.
        let left = if durability == Durability::Protected { pending } else { 0 };
        assert_eq!(ftl.pending_records().len(), left, "{durability:?}");
    }
}

#[test]
fn a_block_whose_erase_was_cut_short_is_erased_again_and_is_free() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let told = Told::default();
    let d = &mut Asked::new(&told);
    let nand = Telling::new(IdentityNand::new(plane(64, 16)), &told);
    let mut ftl = Ftl::format(nand, Teller::none(&told), settings).expect("fits");
    for content in 0..34 {
        ftl.write(content % 17, &Identity::of_number(content.into()), d).unwrap();
    }
    ftl.flush(d).expect("flushes");
    let geometry = *ftl.nand.geometry();
    let emptied = |ftl: &Ftl<_, _>, block: u32| {
        ftl.space.blocks().state(block) == BlockState::Full && ftl.space.blocks().live(block) == 0
    };
    let block = (0..geometry.blocks()).find(|&block| emptied(&ftl, block)).expect("one is dead");
    ftl.nand.inner.cut_after(0, Cut::Torn);
    let cut = ftl.erase_block(block, Cause::Gc, d);
    assert!(matches!(cut, Err(FtlError::Nand(NandError::PowerOff))), "{cut:?}");
    let mut nand = ftl.into_nand();
    nand.inner.restore();
    let (mut ftl, report) = Ftl::open(nand, Teller::none(&told), settings).expect("opens");
    assert_eq!(report.blocks_erased, 1);
    assert_eq!(
        (ftl.space.blocks().state(block), ftl.space.blocks().written(block)),
        (BlockState::Free, 0)
    );
    ftl.check_invariants();
    for lpn in 0..17 {
        let held = ftl.read(lpn, d).expect("reads");
        assert_eq!(held, Some(Identity::of_number(u64::from(lpn) + 17)));
    }
}

/// Collection comes to a mapping page that cannot be read any more.
#[test]
fn a_mapping_page_that_is_lost_is_stored_anew_as_owners_know_it() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        map_cache_bytes: 4 * 128,
        ..FtlSettings::default()
    };
    let geometry = Geometry { page_bytes: 128, ..plane(64, 16) };
    let told = Told::default();
    let d = &mut Asked::new(&told);
    let nand = Telling::new(IdentityNand::new(geometry), &told);
    let mut ftl = Ftl::format(nand, Teller::none(&told), settings).expect("fits");
    for lpn in 0..200 {
        ftl.write(lpn, &Identity::of_number(lpn.into()), d).expect("writes");
    }
    ftl.checkpoint(d).expect("checkpoints");
    let segments = ftl.own.slots().logical;
    let held: Vec<bool> = (0..segments).map(|segment| ftl.cache.holds(segment)).collect();
    assert_eq!(held.iter().filter(|&&held| held).count(), 4);
    let flash_only = held.iter().position(|&held| !held).unwrap() as u32;
    let in_dram = held.iter().position(|&held| held).unwrap() as u32;
    for segment in [flash_only, in_dram] {
        let place = ftl.own.place(segment).expect("stored");
        ftl.nand.unreadable.insert(place);
        ftl.move_meta(segment, d).expect("moved");
        assert_ne!(ftl.own.place(segment), Some(place), "segment {segment}");
    }
    let in_flash = ftl.own.slots().lpns(flash_only);
    assert!(in_flash.into_iter().all(|lpn| ftl.books.locate_known(lpn).is_none()), "not loaded");
    ftl.check_invariants();
    let expect = |ftl: &mut Drive, d: &mut Asked, context: &str| {
        for lpn in 0..200 {
            let held = ftl.read(lpn, d);
            let held = held.unwrap_or_else(|error| panic!("{context}, {lpn}: {error}"));
            assert_eq!(held, Some(Identity::of_number(lpn.into())), "{context}");
        }
    };
    expect(&mut ftl, d, "at once");
    ftl.flush(d).expect("flushes");
    let (mut ftl, _) = Ftl::open(ftl.into_nand(), Teller::none(&told), settings).expect("opens");
    expect(&mut ftl, d, "opened again");
}

/// An array without content remembers no mapping pages: what leaves DRAM could not come back.
#[test]
fn of_an_array_without_content_the_map_stays_when_the_cache_shrinks() {
    let geometry = Geometry { page_bytes: 128, ..plane(64, 16) };
    for durability in [Durability::Volatile, Durability::Journal] {
        let settings = FtlSettings {
            logical_pages: 500,
            durability,
            map_cache_bytes: 4 * 128,
            ..FtlSettings::default()
        };
        let told = Told::default();
        let d = &mut Asked::new(&told);
        let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings).expect("fits");
        ftl.precondition_steady(|_| ()).expect("fills");
        for lpn in (0..500).chain((0..500).rev()) {
            assert_eq!(ftl.read(lpn, d).expect("reads"), Some(()), "{lpn}");
            ftl.write(lpn, &(), d).expect("writes");
        }
        assert!(ftl.counters().map_misses > 0);
    }
}
