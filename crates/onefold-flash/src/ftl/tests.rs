//! What only the FTL sees of itself: whom the last free block is for, and who fills what recovery
//! finds half filled.
//! Room: onefold-flash.

use crate::dedup::NoDedup;
use crate::ftl::{Durability, Ftl, FtlError, FtlSettings, Stream};
use crate::nand::{BlankNand, Identity, IdentityNand};
use crate::op::Untimed;
use crate::validation::{PerfectTable, steady};

#[test]
fn the_last_free_block_of_a_plane_is_for_what_collection_moves() {
    let settings = FtlSettings { logical_pages: 20, ..FtlSettings::default() };
    let nand = BlankNand::new(steady::plane(16, 4));
    let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
    while ftl.blocks.free_of(0) > 1 {
        ftl.blocks.take_free(0, false);
    }
    for stream in [Stream::Host, Stream::Apart] {
        let refused = ftl.next_page(0, stream);
        assert!(matches!(refused, Err(FtlError::NoSpace { .. })), "{stream:?}: {refused:?}");
    }
    ftl.next_page(0, Stream::Moved).expect("else nothing could ever be freed");
    assert_eq!(ftl.blocks.free_of(0), 0);
}

#[test]
fn what_recovery_finds_half_filled_is_for_collection_first_and_then_for_the_host() {
    let settings = FtlSettings {
        logical_pages: 200,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let nand = IdentityNand::new(steady::plane(64, 16));
    let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
    for lpn in 0..5 {
        ftl.write(lpn, &Identity::of_number(lpn.into()), &mut Untimed).expect("writes");
    }
    let host = ftl.open[0][Stream::Host as usize];
    assert!(host.is_some());
    let (mut ftl, _) = Ftl::open(ftl.into_nand(), NoDedup, settings).expect("opens");
    let open = |ftl: &Ftl<_, _>, stream: Stream| ftl.open[0][stream as usize];
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
    let table = || PerfectTable::new(100, 1);
    let nand = IdentityNand::new(steady::plane(64, 16));
    let mut ftl = Ftl::format(nand, table(), settings).expect("fits");
    let content = |lpn: u32| Identity::of_number(100 + u64::from(lpn));
    for lpn in 0..16 {
        ftl.write(lpn, &content(lpn), &mut Untimed).expect("writes");
    }
    let first = ftl.locate(0).expect("written");
    let block = ftl.block_of(first);
    // All but the first page of the block die, and what says so is stored.
    for lpn in 1..33 {
        let other = Identity::of_number(1000 + u64::from(lpn));
        ftl.write(lpn, &other, &mut Untimed).expect("writes");
    }
    ftl.flush(&mut Untimed).expect("flushes");
    assert_eq!(ftl.blocks.live(block), 1);
    ftl.write(100, &content(0), &mut Untimed).expect("writes");
    assert_eq!(ftl.locate(100), Some(first), "shared, and not flushed");
    assert!(!ftl.pending_records().is_empty());
    let mut steps = 0;
    while ftl.block_of(ftl.locate(0).expect("there")) == block || ftl.blocks.written(block) > 0 {
        assert!(ftl.collect_idle(0, &mut Untimed).expect("collects"), "step {steps}");
        steps += 1;
    }
    // The power goes.
    let (mut ftl, report) = Ftl::open(ftl.into_nand(), table(), settings).expect("opens");
    assert_eq!(report.lost_entries, 0);
    ftl.check_invariants();
    assert_eq!(ftl.read(0, &mut Untimed).expect("reads"), Some(content(0)), "it was flushed");
}
