//! A page of the journal that is not full is stored again with what follows.
//! Room: onefold-flash.

use std::collections::BTreeSet;

use super::told::{Asked, Teller, Telling, Told};
use crate::ftl::{Durability, Ftl, FtlError, FtlSettings};
use crate::geometry::Geometry;
use crate::nand::{Identity, IdentityNand};
use crate::op::{Cause, OpKind};
use crate::testing::plane::plane;

type Drive = Ftl<Telling, Teller>;

/// Pages of 128 bytes, which are full with five records.
fn settings() -> FtlSettings {
    FtlSettings { logical_pages: 100, durability: Durability::Journal, ..FtlSettings::default() }
}

/// A drive that was written, and so many of its pages trimmed with a flush after each; and where
/// the page of the journal was after each of them.
fn trimmed(count: u32) -> (Drive, Asked, Vec<u32>) {
    let told = Told::default();
    let geometry = Geometry { page_bytes: 128, ..plane(64, 16) };
    let nand = Telling::new(IdentityNand::new(geometry), &told);
    let mut driver = Asked::new(&told);
    let mut ftl = Ftl::format(nand, Teller::perfect(&told), settings()).expect("fits");
    for lpn in 0..100 {
        let page = Identity::of_number(1 + u64::from(lpn));
        ftl.write(lpn, &page, &mut driver).expect("writes");
    }
    ftl.flush(&mut driver).expect("flushes");
    ftl.checkpoint(&mut driver).expect("checkpoints");
    let mut places = Vec::new();
    for lpn in 0..count {
        ftl.trim(lpn, &mut driver).expect("trims");
        ftl.flush(&mut driver).expect("flushes");
        let (_, newest) = journal(&ftl).last().copied().expect("is stored");
        places.push(newest);
    }
    (ftl, driver, places)
}

/// The slots of the journal that have a page, with its place.
fn journal(ftl: &Drive) -> Vec<(u32, u32)> {
    let first = ftl.own.slots().first_journal();
    ftl.own.all().filter(|&(slot, _)| slot >= first).collect()
}

fn programs(ftl: &Drive) -> u64 {
    ftl.counters().ops.of(OpKind::Program, Cause::Map)
}

/// The drive opened again, with these pages torn: how many pages it says are trimmed.
fn opened((ftl, mut driver, _): (Drive, Asked, Vec<u32>), torn: &[u32]) -> Result<u32, String> {
    let told = driver.told.clone();
    let mut nand = ftl.into_nand();
    nand.torn.extend(torn);
    let (mut ftl, _) = match Ftl::open(nand, Teller::perfect(&told), settings()) {
        Ok(opened) => opened,
        Err(FtlError::Unrecoverable(why)) => return Err(why),
        Err(error) => panic!("{error}"),
    };
    ftl.check_invariants();
    let held: Vec<bool> =
        (0..100).map(|lpn| ftl.read(lpn, &mut driver).expect("reads").is_some()).collect();
    let gone = held.iter().take_while(|held| !**held).count();
    assert!(held[gone..].iter().all(|held| *held), "{held:?}");
    Ok(gone as u32)
}

#[test]
fn flushes_after_few_records_share_a_page_of_the_journal() {
    let before = programs(&trimmed(0).0);
    let (ftl, driver, places) = trimmed(20);
    // Each flush stores one page, and each fifth one takes another slot.
    assert_eq!(journal(&ftl).len(), 4);
    assert_eq!(programs(&ftl) - before, 20);
    assert_eq!(opened((ftl, driver, places), &[]), Ok(20));
}

/// What was stored again is not needed where it was; what is nowhere else is named.
#[test]
fn a_page_that_was_repeated_may_be_damaged_and_the_newest_may_not() {
    let all = trimmed(8).2;
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 8, "{all:?}");
    let named = |place: u32| format!("page {place} of the journal, with what was trimmed");
    // Five records are in the page at 4, and three in that at 7.
    for (torn, whole) in [
        (&all[..4], None),
        (&all[5..7], None),
        (&all[4..5], Some(all[4])),
        (&all[3..5], Some(all[3])),
        (&all[7..], Some(all[7])),
        (&all[6..], Some(all[6])),
    ] {
        match (opened(trimmed(8), torn), whole) {
            (Ok(trimmed), None) => assert_eq!(trimmed, 8, "{torn:?}"),
            (Err(why), Some(place)) => assert!(why.starts_with(&named(place)), "{torn:?}: {why}"),
            (found, _) => panic!("{torn:?}: {found:?}"),
        }
    }
}

/// Collection moves a page, and the power goes before it erases where that was.
#[test]
fn of_a_page_that_is_there_twice_one_may_be_damaged() {
    let moved = || {
        let (mut ftl, mut driver, mut places) = trimmed(3);
        let (slot, before) = journal(&ftl)[0];
        ftl.move_meta(slot, &mut driver).expect("moves");
        places.extend([before, journal(&ftl)[0].1]);
        (ftl, driver, places)
    };
    let places = moved().2;
    let [.., before, after] = places[..] else { unreachable!("two at least") };
    assert_ne!(before, after);
    for torn in [before, after] {
        assert_eq!(opened(moved(), &[torn]), Ok(3), "{torn}");
    }
    let why = opened(moved(), &[before, after]).expect_err("both are gone");
    assert!(why.starts_with(&format!("page {before} of the journal")), "{why}");
}

/// Records that a checkpoint holds are not stored again.
#[test]
fn a_checkpoint_ends_what_is_repeated() {
    let (mut ftl, mut driver, places) = trimmed(3);
    let slot = journal(&ftl)[0];
    assert_eq!(ftl.journal.repeated(), Some(slot.0));
    ftl.checkpoint(&mut driver).expect("checkpoints");
    assert_eq!((ftl.journal.repeated(), journal(&ftl)), (None, Vec::new()));
    ftl.trim(3, &mut driver).expect("trims");
    ftl.flush(&mut driver).expect("flushes");
    assert_eq!(ftl.journal.page().0.len(), crate::ftl::journal::RECORD_BYTES);
    assert_eq!(opened((ftl, driver, places), &[]), Ok(4));
}

/// What a mapping page says is in DRAM too; all others are on the flash alone.
#[test]
fn of_the_drives_own_pages_those_of_the_map_alone_are_made_anew() {
    let (mut ftl, mut driver, _) = trimmed(1);
    let segments = ftl.own.slots().segments;
    // Of the two sets of states the first, which is behind the map, is written too.
    if ftl.own.place(segments).is_none() {
        ftl.begin_round();
        ftl.checkpoint(&mut driver).expect("checkpoints");
    }
    let all: Vec<(u32, u32)> = ftl.own.all().collect();
    assert!(
        all.iter().any(|&(slot, _)| slot == 0) && all.iter().any(|&(slot, _)| slot == segments)
    );
    for (slot, place) in all {
        ftl.nand.torn.insert(ftl.layout.page_of(place));
        let moved = ftl.move_meta(slot, &mut driver);
        assert_eq!(moved.is_ok(), slot < segments, "slot {slot} of {segments}: {moved:?}");
    }
}
