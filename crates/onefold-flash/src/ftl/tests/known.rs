//! Records that are known from elsewhere when a drive is opened.
//! Room: onefold-flash.

use crate::dedup::NoDedup;
use crate::ftl::blocks::BlockState;
use crate::ftl::journal::{Record, SEQ_MAX};
use crate::ftl::stream::Stream;
use crate::ftl::{Durability, Ftl, FtlError, FtlSettings};
use crate::geometry::Geometry;
use crate::nand::{Identity, IdentityNand};
use crate::op::Untimed;
use crate::testing::plane::plane;

use super::told::{Asked, Teller, Telling, Told};

type Drive = Ftl<IdentityNand, NoDedup>;

fn settings(durability: Durability) -> FtlSettings {
    FtlSettings { logical_pages: 100, durability, ..FtlSettings::default() }
}

fn nand() -> IdentityNand {
    IdentityNand::new(Geometry { page_bytes: 128, ..plane(64, 16) })
}

fn page(lpn: u32) -> Identity {
    Identity::of_number(1 + u64::from(lpn))
}

/// A drive of which everything was written and flushed, and its newest sequence.
fn written(durability: Durability) -> (Drive, u64) {
    let mut ftl = Ftl::format(nand(), NoDedup, settings(durability)).expect("fits");
    for lpn in 0..100 {
        ftl.write(lpn, &page(lpn), &mut Untimed).expect("writes");
    }
    ftl.trim(99, &mut Untimed).expect("trims");
    ftl.flush(&mut Untimed).expect("flushes");
    let now = ftl.journal.now();
    (ftl, now)
}

fn trimmed(ftl: &mut Drive) -> Vec<u32> {
    (0..100).filter(|&lpn| ftl.read(lpn, &mut Untimed).expect("reads").is_none()).collect()
}

#[test]
fn known_records_are_replayed_and_are_on_the_flash_then() {
    let (ftl, now) = written(Durability::Journal);
    // Fifteen records fill three pages of the journal, of six each.
    let known: Vec<(u64, Record)> =
        (0..15).map(|lpn| (now + 1 + u64::from(lpn), Record::Trim { lpn, count: 1 })).collect();
    let opened = Ftl::open_with(ftl.into_nand(), NoDedup, settings(Durability::Journal), &known);
    let (mut ftl, report) = opened.expect("opens");
    let gone: Vec<u32> = (0..15).chain([99]).collect();
    assert_eq!(trimmed(&mut ftl), gone);
    assert!(ftl.pending_records().is_empty());
    assert!(ftl.journal.is_durable(now + 15) && ftl.journal.now() > now + 15);
    assert!(report.replayed >= 15);
    assert_eq!(ftl.counters().ops.of(crate::op::OpKind::Program, crate::op::Cause::Map), 3);
    ftl.check_invariants();
    // Whose pages died by them is erased after them.
    let blocks = 0..ftl.geometry().blocks();
    assert!(blocks.clone().all(|block| ftl.blocks().needs(block) == now + 15));
    let (mut ftl, _) = Ftl::open(ftl.into_nand(), NoDedup, settings(Durability::Journal))
        .expect("opens without them");
    assert_eq!(trimmed(&mut ftl), gone);
}

#[test]
fn what_is_on_the_flash_already_is_not_replayed_again() {
    let (mut ftl, stored) = written(Durability::Journal);
    // The newest record is stored; what is as old as that is known to be.
    let last = ftl.journal.now();
    assert_eq!(last, stored);
    ftl.write(3, &page(3), &mut Untimed).expect("writes");
    let found = (1..=last).rev().find(|&seq| ftl.journal.is_durable(seq)).expect("the trim");
    let known: Vec<(u64, Record)> =
        [found - 1, found].map(|seq| (seq, Record::Trim { lpn: 5, count: 1 })).to_vec();
    let (mut ftl, _) =
        Ftl::open_with(ftl.into_nand(), NoDedup, settings(Durability::Journal), &known)
            .expect("opens");
    assert_eq!(trimmed(&mut ftl), [99]);
}

/// What a file remembers is no better than the file.
#[test]
fn records_of_pages_that_there_are_not_change_nothing() {
    let (ftl, now) = written(Durability::Journal);
    let most = u32::MAX;
    let known = [
        (now + 1, Record::Trim { lpn: 98, count: 4 }),
        (now + 2, Record::Trim { lpn: most, count: most }),
        (now + 3, Record::Bind { lpn: most, vpn: most, ppn: most }),
        (now + 4, Record::Alias { vpn: most, of: most, ppn: most }),
        (now + 5, Record::Bind { lpn: 100, vpn: most, ppn: most }),
    ];
    let (mut ftl, report) =
        Ftl::open_with(ftl.into_nand(), NoDedup, settings(Durability::Journal), &known)
            .expect("opens");
    assert_eq!((trimmed(&mut ftl), report.lost_entries), (vec![98, 99], 0));
    ftl.check_invariants();
}

/// Entries that name a page which was never programmed, or one of the drive's own, are lost and
/// counted.
#[test]
fn records_of_pages_that_hold_no_data_are_lost_by_name() {
    let (ftl, now) = written(Durability::Journal);
    let open = ftl.space.open_of(0, Stream::Host).expect("open");
    let blocks = ftl.space.blocks();
    let next = ftl.geometry().first_page(open) + blocks.written(open);
    let (_, own) = ftl.own.all().next().expect("a root at least");
    let free = (0..64).find(|&block| blocks.state(block) == BlockState::Free).expect("free");
    let places = [next, next + 1, own, ftl.geometry().first_page(free)];
    assert!(next + 1 < ftl.geometry().first_page(open + 1), "some of it is not written");
    let known: Vec<(u64, Record)> = (0..4)
        .zip(places)
        .map(|(at, ppn)| (now + 1 + u64::from(at), Record::Bind { lpn: 50 + at, vpn: at, ppn }))
        .collect();
    let (mut ftl, report) =
        Ftl::open_with(ftl.into_nand(), NoDedup, settings(Durability::Journal), &known)
            .expect("opens");
    assert_eq!(report.lost_entries, 4);
    for lpn in 0..99 {
        let held = ftl.read(lpn, &mut Untimed);
        match held {
            Err(FtlError::Lost { lpn: named }) => {
                assert!(named == lpn && (50..54).contains(&lpn), "{lpn}");
            }
            held => assert_eq!(held.expect("readable"), Some(page(lpn)), "{lpn}"),
        }
    }
    ftl.check_invariants();
}

/// Behind the last number that has a place in a record nothing could be stored any more.
#[test]
fn a_sequence_that_no_drive_reaches_is_refused() {
    for (last, opens) in [(SEQ_MAX, true), (SEQ_MAX + 1, false), ((1 << 48) - 1, false)] {
        let (ftl, _) = written(Durability::Journal);
        let known = [(last, Record::Trim { lpn: 5, count: 1 })];
        let settings = settings(Durability::Journal);
        let opened = Ftl::open_with(ftl.into_nand(), NoDedup, settings, &known);
        match opened.map(drop) {
            Ok(()) => assert!(opens, "{last}"),
            Err(FtlError::Unrecoverable(why)) => {
                assert!(!opens && why.contains(&last.to_string()), "{why}");
            }
            Err(error) => panic!("{last}: {error}"),
        }
    }
}

#[test]
fn a_drive_without_journal_takes_no_records() {
    let (ftl, now) = written(Durability::NoJournal);
    let known = [(now + 1, Record::Trim { lpn: 5, count: 1 })];
    let settings = settings(Durability::NoJournal);
    let (mut ftl, _) = Ftl::open_with(ftl.into_nand(), NoDedup, settings, &known).expect("opens");
    // The trim was lost with the power, as there is no journal.
    assert!(ftl.read(5, &mut Untimed).expect("reads").is_some());
    assert!(ftl.pending_records().is_empty());
}

/// What a drive that was killed knew, and its file remembers.
#[test]
fn pending_records_bring_back_who_shares() {
    let settings = settings(Durability::Journal);
    let told = Told::default();
    let d = &mut Asked::new(&told);
    let nand = Telling::new(nand(), &told);
    let mut ftl = Ftl::format(nand, Teller::perfect(&told), settings).expect("fits");
    for lpn in 0..40 {
        ftl.write(lpn, &page(lpn), d).expect("writes");
    }
    ftl.flush(d).expect("flushes");
    ftl.write(60, &page(7), d).expect("writes");
    ftl.trim(8, d).expect("trims");
    let known = ftl.pending_records().to_vec();
    assert_eq!(known.len(), 3, "two who share, and a trim");
    let opened = Ftl::open_with(ftl.into_nand(), Teller::perfect(&told), settings, &known);
    let (mut ftl, _) = opened.expect("opens");
    assert_eq!(ftl.locate(60), ftl.locate(7));
    for (lpn, held) in [(7, Some(page(7))), (60, Some(page(7))), (8, None), (9, Some(page(9)))] {
        assert_eq!(ftl.read(lpn, d).expect("reads"), held, "page {lpn}");
    }
    ftl.check_invariants();
}
