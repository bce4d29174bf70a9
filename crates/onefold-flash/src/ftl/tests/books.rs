//! What blocks and virtual pages count, and that a count which is wrong is found.
//! Room: onefold-flash.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::dedup::NoDedup;
use crate::ftl::blocks::Blocks;
use crate::ftl::map::{Owner, PageMap, Place};
use crate::ftl::shared::{UNUSED, VirtualTable, stored_alias};
use crate::ftl::{Durability, Ftl, FtlSettings};
use crate::geometry::Geometry;
use crate::nand::{Identity, IdentityNand};
use crate::op::Untimed;
use crate::testing::plane::plane;

type Drive = Ftl<IdentityNand, NoDedup>;
type Change = fn(&mut Drive);

#[test]
fn wear_is_that_of_blocks_in_use() {
    let mut blocks = Blocks::new(plane(6, 4));
    for (block, erases) in [(0, 3), (1, 5), (2, 1), (3, 9), (4, 5), (5, 4)] {
        blocks.restore_erases(block, erases);
    }
    blocks.retire(2);
    let block = blocks.take_free(0, true).expect("free");
    assert_eq!(block, 3, "the most worn one");
    blocks.make_hot(block);
    blocks.condemn(block);
    // What has to be emptied is worn, but it is no block in use any more.
    assert_eq!(blocks.wear_range(), (3, 9));
    assert_eq!(blocks.erase_histogram().into_iter().collect::<Vec<_>>(), [(3, 1), (4, 1), (5, 2)]);
    assert_eq!((blocks.bad(), blocks.hot_of(0)), (2, 1));
    blocks.retire(block);
    assert_eq!((blocks.bad(), blocks.hot_of(0)), (2, 0), "it leaves its pool");
    assert_eq!(blocks.wear_range(), (3, 5));
}

/// Of a hundred free blocks the last 65 that became free are looked at.
#[test]
fn not_every_free_block_is_looked_at() {
    for (at, chosen) in [(64, true), (65, false)] {
        let mut blocks = Blocks::new(plane(100, 4));
        for block in (0..100).filter(|&block| block != at) {
            blocks.restore_erases(block, 1);
        }
        assert_eq!(blocks.take_free(0, false), Some(if chosen { at } else { 0 }));
    }
}

#[test]
fn recovered_aliases_of_what_is_not_there_are_lost() {
    let (table, lost) = VirtualTable::recovered(&[stored_alias(1), 5], &[1, 0]);
    assert_eq!((lost, table.references(1), table.ppn(0)), (vec![], 1, 5));
    let (_, lost) = VirtualTable::recovered(&[stored_alias(2), 5], &[1, 1]);
    assert_eq!(lost, [0], "two are there, and not a third one");
    let (table, lost) = VirtualTable::recovered(&[stored_alias(2), UNUSED], &[0, 0]);
    assert_eq!((lost, table.live()), (vec![], 0), "nobody names them");
}

fn drive() -> Drive {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let mut ftl = Ftl::format(IdentityNand::new(plane(64, 16)), NoDedup, settings).expect("fits");
    for lpn in 0..40 {
        ftl.write(lpn, &Identity::of_number(lpn.into()), &mut Untimed).expect("writes");
    }
    ftl
}

#[test]
fn what_does_not_add_up_is_found() {
    drive().check_invariants();
    let wrong: [(&str, Change); 6] = [
        ("an entry without its owner", |ftl| {
            let place = ftl.locate(3).expect("written");
            ftl.books.settle(place, Owner::Data(4));
        }),
        ("an owner without its entry", |ftl| {
            ftl.books.set(3, Place::None, 0);
        }),
        ("a live page too many", |ftl| ftl.space.gain(0, 1)),
        ("an own page that is elsewhere", |ftl| {
            let root = ftl.own.slots().root();
            ftl.own.put(root, 900);
        }),
        ("a virtual page that nobody counts", |ftl| {
            let vpn = ftl.books.new_virtual(900);
            ftl.books.set(100, Place::Virtual(vpn), 0);
        }),
        ("a page that was never stored", |ftl| ftl.counters.host_pages_written += 1),
    ];
    for (what, change) in wrong {
        let mut ftl = drive();
        change(&mut ftl);
        let checked = catch_unwind(AssertUnwindSafe(|| ftl.check_invariants()));
        assert!(checked.is_err(), "{what}");
    }
}

#[test]
fn a_full_drive_has_no_more_of_its_map_in_dram_than_fits() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        map_cache_bytes: 4 * 128,
        ..FtlSettings::default()
    };
    let nand = IdentityNand::new(Geometry { page_bytes: 128, ..plane(64, 16) });
    let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
    ftl.precondition_steady(|lpn| Identity::of_number(lpn.into())).expect("empty");
    let held = (0..7).filter(|&segment| ftl.cache.holds(segment)).count();
    assert_eq!(held, 4);
    let known = (0..200).filter(|&lpn| ftl.books.locate_known(lpn).is_some()).count();
    assert!(known <= 4 * 32, "{known} of 200");
    for lpn in 0..200 {
        let held = ftl.read(lpn, &mut Untimed).expect("reads");
        assert_eq!(held, Some(Identity::of_number(lpn.into())));
    }
    ftl.check_invariants();
}

#[test]
fn a_map_of_no_pages_is_empty() {
    assert!(PageMap::new(0).is_empty());
}
