//! A mapping page that cannot be read any more while the drive goes on.
//! Room: onefold-flash.

use super::told::{Asked, Teller, Telling, Told};
use crate::ftl::{Durability, Ftl, FtlError, FtlSettings};
use crate::geometry::Geometry;
use crate::nand::{Identity, IdentityNand};
use crate::testing::plane::plane;

/// Whose each page is says where what is not shared is; and what is written or trimmed after the
/// damage stays that way when collection comes to where it was before.
#[test]
fn what_is_not_shared_is_found_without_its_mapping_page_and_nothing_old_comes_back() {
    let settings = FtlSettings {
        logical_pages: 200,
        gc_idle_blocks: 64,
        durability: Durability::Journal,
        map_cache_bytes: 4 * 128,
        ..FtlSettings::default()
    };
    let told = Told::default();
    let geometry = Geometry { page_bytes: 128, ..plane(64, 16) };
    let nand = Telling::new(IdentityNand::new(geometry), &told);
    let policy = || Teller::perfect(&told);
    let mut driver = Asked::new(&told);
    let mut ftl = Ftl::format(nand, policy(), settings).expect("fits");
    let shared = |lpn: u32| lpn % 16 == 5;
    let content = |lpn: u32| Identity::of_number(1 + if shared(lpn) { 5 } else { lpn.into() });
    // Every block has pages that are dead, so that collection comes to it.
    for lpn in (0..200).chain((0..200).filter(|lpn| lpn % 8 == 4)) {
        ftl.write(lpn, &content(lpn), &mut driver).expect("writes");
    }
    ftl.checkpoint(&mut driver).expect("checkpoints");
    let slots = ftl.own.slots();
    let lost = (1..slots.logical).find(|&segment| !ftl.cache.holds(segment)).expect("one");
    let place = ftl.own.place(lost).expect("stored");
    ftl.nand().unreadable.insert(place);
    let another = (lost + 1..slots.logical).find(|&segment| !ftl.cache.holds(segment));
    let another = another.expect("one that is only read");
    let stored = ftl.own.place(another).expect("stored");
    ftl.nand().unreadable.insert(stored);
    let first = slots.lpns(lost).start;
    let (written, trimmed) = (first + 1, first + 3);
    ftl.write(written, &Identity::of_number(999), &mut driver).expect("writes");
    ftl.trim(trimmed, &mut driver).expect("trims");
    let expect = |ftl: &mut Ftl<Telling, Teller>, driver: &mut Asked, when: &str| {
        ftl.check_invariants();
        for lpn in 0..200 {
            let held = ftl.read(lpn, driver);
            if [lost, another].contains(&slots.of(lpn)) && shared(lpn) {
                assert!(matches!(held, Err(FtlError::Lost { .. })), "{when}, {lpn}: {held:?}");
                continue;
            }
            let right = match lpn {
                _ if lpn == written => Some(Identity::of_number(999)),
                _ if lpn == trimmed => None,
                _ => Some(content(lpn)),
            };
            assert_eq!(held.expect("readable"), right, "{when}, page {lpn}");
        }
    };
    expect(&mut ftl, &mut driver, "at once");
    ftl.checkpoint(&mut driver).expect("checkpoints");
    let anew =
        [(lost, place), (another, stored)].map(|(slot, was)| ftl.own.place(slot) != Some(was));
    assert_eq!(anew, [true; 2], "what was found out is stored, also where nothing was written");
    let before = ftl.counters().ops;
    for _ in 0..400 {
        ftl.collect_idle(0, &mut driver).expect("collects");
    }
    assert_ne!(ftl.counters().ops, before, "pages were moved");
    expect(&mut ftl, &mut driver, "when everything was moved");
    ftl.flush(&mut driver).expect("flushes");
    let (mut ftl, _) = Ftl::open(ftl.into_nand(), policy(), settings).expect("opens");
    expect(&mut ftl, &mut driver, "opened again");
}

/// What is in no table any more may not be stored as if it were there.
#[test]
fn roots_states_and_journals_that_cannot_be_read_are_not_moved() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let told = Told::default();
    let nand = Telling::new(IdentityNand::new(plane(64, 16)), &told);
    let mut driver = Asked::new(&told);
    let mut ftl = Ftl::format(nand, Teller::perfect(&told), settings).expect("fits");
    ftl.write(3, &Identity::of_number(1), &mut driver).expect("writes");
    ftl.trim(3, &mut driver).expect("trims");
    ftl.flush(&mut driver).expect("flushes");
    let slots = ftl.own.slots();
    let stored: Vec<(u32, u32)> =
        ftl.own.all().filter(|&(slot, _)| slot >= slots.segments).collect();
    let kinds = [slots.state(0, true), slots.root(), slots.first_journal()];
    assert!(kinds.iter().all(|kind| stored.iter().any(|(slot, _)| slot == kind)), "{stored:?}");
    for &(slot, place) in &stored {
        ftl.nand().unreadable.insert(place);
        let moved = ftl.move_meta(slot, &mut driver);
        assert!(matches!(moved, Err(FtlError::Nand(_))), "slot {slot}: {moved:?}");
        assert_eq!(ftl.own.place(slot), Some(place), "slot {slot}");
    }
}
