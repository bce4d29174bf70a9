//! Places of one content that idle moments compare, and who is at which of them then.
//! Room: onefold-flash.

use crate::dedup::{NoDedup, Pair};
use crate::ftl::map::Place;
use crate::ftl::{Durability, Ftl, FtlSettings};
use crate::geometry::Geometry;
use crate::nand::{Identity, IdentityNand};
use crate::op::Untimed;
use crate::testing::plane::plane;

type Drive = Ftl<IdentityNand, NoDedup>;

const CONTENTS: u32 = 70;

fn settings(map_cache_bytes: u64) -> FtlSettings {
    let durability = Durability::Journal;
    FtlSettings { logical_pages: 200, durability, map_cache_bytes, ..FtlSettings::default() }
}

fn content(lpn: u32) -> Identity {
    Identity::of_number(1 + u64::from(lpn % CONTENTS))
}

/// Every seventieth logical page has the same content, and nothing is shared.
fn drive(map_cache_bytes: u64) -> Drive {
    let nand = IdentityNand::new(Geometry { page_bytes: 128, ..plane(64, 16) });
    let mut ftl = Ftl::format(nand, NoDedup, settings(map_cache_bytes)).expect("fits");
    for lpn in 0..200 {
        ftl.write(lpn, &content(lpn), &mut Untimed).expect("writes");
    }
    ftl
}

fn place(ftl: &mut Drive, lpn: u32) -> u32 {
    ftl.load(lpn, &mut Untimed).expect("loads");
    ftl.locate(lpn).expect("written")
}

fn compare(ftl: &mut Drive, duplicate: u32, original: u32) {
    ftl.compare_and_merge(Pair { duplicate, original }, &mut Untimed).expect("compares");
}

/// All is as it was written, now and when the drive is opened again; the answer is that drive.
fn holds_all(mut ftl: Drive, settings: FtlSettings) -> Drive {
    for again in [true, false] {
        ftl.check_invariants();
        for lpn in 0..200 {
            let held = ftl.read(lpn, &mut Untimed).expect("reads");
            assert_eq!(held, Some(content(lpn)), "page {lpn}");
        }
        if again {
            ftl.flush(&mut Untimed).expect("flushes");
            ftl = Ftl::open(ftl.into_nand(), NoDedup, settings).expect("opens").0;
        }
    }
    ftl
}

#[test]
fn two_live_places_are_compared_and_others_are_not_even_read() {
    let mut ftl = drive(0);
    let [live, same, other, dead] = [0, 70, 1, 140].map(|lpn| place(&mut ftl, lpn));
    ftl.trim(140, &mut Untimed).expect("trims");
    let before = *ftl.counters();
    for (duplicate, original) in [(live, dead), (dead, live), (dead, dead), (live, live)] {
        compare(&mut ftl, duplicate, original);
        assert_eq!(*ftl.counters(), before);
    }
    compare(&mut ftl, live, other);
    compare(&mut ftl, live, same);
    let since = ftl.counters().since(&before);
    let found = (since.compared_different, since.compared_equal, since.offline_pages);
    assert_eq!(found, (1, 1, 1));
    assert_eq!([0, 70].map(|lpn| ftl.locate(lpn)), [Some(same); 2]);
}

/// Whose a place is says the flash; what is noted of it is in the map, which has to be in DRAM.
#[test]
fn who_joins_others_is_noted_though_its_mapping_page_was_in_flash_only() {
    let cached = 4 * 128;
    let mut ftl = drive(cached);
    let [first, second, third] = [0, 70, 140].map(|lpn| place(&mut ftl, lpn));
    compare(&mut ftl, first, second);
    // Three times, as what was used since it was looked at last stays.
    for lpn in [0, 32, 64, 96].repeat(3) {
        ftl.load(lpn, &mut Untimed).expect("loads");
    }
    assert!(!ftl.cache.holds(ftl.own.slots().of(140)));
    compare(&mut ftl, second, third);
    for lpn in [0, 70, 140] {
        assert_eq!(place(&mut ftl, lpn), third, "page {lpn}");
    }
    let mut ftl = holds_all(ftl, settings(cached));
    for lpn in [0, 70, 140] {
        assert_eq!(place(&mut ftl, lpn), third, "page {lpn}, opened again");
    }
}

/// Both mapping pages of the virtual table change, that of the alias and that of what it stands
/// for.
#[test]
fn an_alias_is_stored_by_the_next_checkpoint() {
    let mut ftl = drive(0);
    for lpn in 0..60 {
        let [one, other] = [lpn, lpn + 70].map(|lpn| place(&mut ftl, lpn));
        compare(&mut ftl, one, other);
    }
    // Of one content are pages 0 and 70, and from now on 59 and 129.
    for lpn in [59, 129] {
        ftl.write(lpn, &content(0), &mut Untimed).expect("writes");
    }
    let [one, other] = [59, 129].map(|lpn| place(&mut ftl, lpn));
    compare(&mut ftl, one, other);
    ftl.checkpoint(&mut Untimed).expect("checkpoints");
    let segments = [0, 59].map(|lpn| match ftl.books.entry(lpn) {
        Place::Virtual(vpn) => ftl.own.slots().of_virtual(vpn),
        place => panic!("page {lpn} is not shared: {place:?}"),
    });
    assert_ne!(segments[0], segments[1]);
    let clean = |ftl: &Drive| segments.map(|segment| ftl.books.segments().is_clean(segment));
    assert_eq!(clean(&ftl), [true; 2]);
    let [original, duplicate] = [0, 59].map(|lpn| place(&mut ftl, lpn));
    compare(&mut ftl, duplicate, original);
    assert_eq!(clean(&ftl), [false; 2]);
    ftl.checkpoint(&mut Untimed).expect("checkpoints");
    let (mut ftl, report) = Ftl::open(ftl.into_nand(), NoDedup, settings(0)).expect("opens");
    assert_eq!(report.replayed, 0);
    for lpn in [0, 70, 59, 129] {
        assert_eq!(place(&mut ftl, lpn), original, "page {lpn}");
        assert_eq!(ftl.read(lpn, &mut Untimed).expect("reads"), Some(content(0)));
    }
    ftl.check_invariants();
}
