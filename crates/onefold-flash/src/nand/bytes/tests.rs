//! Pages that were written before an erase, and what was known of them, count for nothing after it.
//! Room: onefold-flash.

use onefold_block::{Folder as _, SimFolder, SplitMix64};

use super::*;
use crate::nand::wear::WearModel;

const PAGE: usize = 1024;

fn geometry() -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 1,
        blocks_per_plane: 4,
        pages_per_block: 4,
        page_bytes: PAGE as u32,
        oob_bytes: 32 + RECORD_BYTES as u32,
    }
}

fn channel() -> ChannelSpec {
    ChannelSpec { code: BCH_NAME.into(), scrambler: onefold_code::preset("lba-prbs31").ok() }
}

fn program<S: Store>(nand: &mut ByteNand<S>, ppn: u32, content: u64) {
    let page = PageBytes::from(SplitMix64::new(content).bytes(PAGE));
    let oob = Oob { key: PageKey::Data(ppn), seq: content, seed: 3, tag: content };
    nand.program(ppn, Payload::Data(&page), &oob).expect("programmed");
}

/// What the cells of a page hold: its bytes, and those out of band.
type Cells = (Vec<u8>, Vec<u8>);

fn stored<S: Store>(nand: &ByteNand<S>, ppn: u32) -> Cells {
    let (mut data, mut oob) = (vec![0; PAGE], vec![0; geometry().oob_bytes as usize]);
    nand.store.read_page(ppn, &mut data, &mut oob).expect("read");
    (data, oob)
}

/// A block that was filled, erased, and begun again with `again` pages; and what its cells held
/// before.
fn erased(again: u32) -> (ByteNand<MemStore>, Vec<Cells>) {
    let wear = WearModel::none();
    let mut nand = ByteNand::in_memory(geometry(), &channel(), wear).expect("fits");
    for ppn in 0..4 {
        program(&mut nand, ppn, 100 + u64::from(ppn));
    }
    nand.sync().expect("synced");
    let before = (0..4).map(|ppn| stored(&nand, ppn)).collect();
    nand.erase(0).expect("erased");
    for ppn in 0..again {
        program(&mut nand, ppn, 200 + u64::from(ppn));
    }
    nand.sync().expect("synced");
    (nand, before)
}

fn reopened(nand: ByteNand<MemStore>) -> ByteNand<MemStore> {
    ByteNand::open(nand.store, geometry(), &channel(), WearModel::none()).expect("opened")
}

#[test]
fn a_page_from_before_an_erase_is_not_read_in_the_place_of_one_that_is_lost() {
    for reopen in [false, true] {
        let (mut nand, before) = erased(3);
        let (data, oob) = &before[1];
        nand.store.write_page(1, data, oob).expect("what a lost write leaves");
        let mut nand = if reopen { reopened(nand) } else { nand };
        assert_eq!(nand.block(0).programmed, 3, "reopened: {reopen}");
        for (ppn, content) in [(0, 200), (2, 202)] {
            assert_eq!(nand.read_oob(ppn).expect("whole").seq, content, "reopened: {reopen}");
        }
        let lost = |error| matches!(error, NandError::Uncorrectable { ppn: 1, .. });
        assert!(lost(nand.read(1).expect_err("it is of before")), "reopened: {reopen}");
        assert!(lost(nand.read_oob(1).expect_err("it is of before")), "reopened: {reopen}");
    }
}

#[test]
fn pages_that_an_erase_left_in_their_cells_are_none() {
    let (mut nand, before) = erased(1);
    for (ppn, (data, oob)) in (1..).zip(&before[1..]) {
        nand.store.write_page(ppn, data, oob).expect("what a punch that was lost leaves");
    }
    let mut nand = reopened(nand);
    assert_eq!((nand.block(0).programmed, nand.block(0).erases), (1, 1));
    assert!(matches!(nand.read_oob(1), Err(NandError::Erased { ppn: 1 })));
    program(&mut nand, 1, 300);
    assert_eq!(nand.read_oob(1).expect("whole").seq, 300);
}

#[test]
fn what_proves_a_page_is_of_no_use_after_an_erase() {
    let folder = SimFolder::new();
    let description = Description::new(geometry(), &channel(), "");
    let copies = CopyFile::create(folder.create("copies").expect("made"), &description);
    let store = FileStore::create(folder.create("nand").expect("made"), &description);
    let store = store.expect("made").with_copies(copies.expect("made"));
    let mut nand =
        ByteNand::create(store, geometry(), &channel(), WearModel::none()).expect("made");
    program(&mut nand, 0, 100);
    program(&mut nand, 1, 101);
    assert!(!nand.proven.holds(0), "not durable yet");
    nand.sync().expect("synced");
    assert!(nand.proven.holds(0) && nand.proven_record(0).is_some_and(|r| r.oob.seq == 100));
    nand.erase(0).expect("erased");
    assert!(!nand.proven.holds(0) && !nand.proven.holds(1));
    // Even if it were taken for proven: the second copy is of before.
    nand.proven.set(1, true);
    assert_eq!(nand.proven_record(1), None);
    nand.proven.set(1, false);
    // A page that is erased before it was ever durable is not proven by the next sync.
    program(&mut nand, 0, 200);
    nand.erase(0).expect("erased");
    nand.sync().expect("synced");
    assert!(!nand.proven.holds(0));
    program(&mut nand, 0, 300);
    nand.sync().expect("synced");
    assert_eq!(nand.proven_record(0).map(|record| record.oob.seq), Some(300));
}

/// Flash keeps the order of programs, a file does not.
#[test]
fn pages_of_the_ftl_s_own_come_after_what_they_speak_of_is_durable() {
    let mut nand = ByteNand::in_memory(geometry(), &channel(), WearModel::none()).expect("fits");
    let mut at = 0;
    let mut own = |nand: &mut ByteNand<MemStore>, key: PageKey| {
        let oob = Oob { key, seq: 500 + u64::from(at), seed: 1, tag: 0 };
        nand.program(4 + at, Payload::Meta(b"x"), &oob).expect("programmed");
        at += 1;
        nand.health().syncs
    };
    program(&mut nand, 0, 100);
    program(&mut nand, 1, 101);
    assert_eq!(nand.health().syncs, 0, "data waits for nobody");
    let first = own(&mut nand, PageKey::Map(0));
    assert_eq!(first, 1, "the data that it names");
    assert_eq!(own(&mut nand, PageKey::Map(1)), 1, "its own kind");
    assert_eq!(own(&mut nand, PageKey::Journal(0)), 2, "the mapping pages");
    program(&mut nand, 2, 102);
    assert_eq!(own(&mut nand, PageKey::Directory(0)), 3);
    assert_eq!(own(&mut nand, PageKey::Root(0)), 4, "the block states that it makes count");
}

/// A table may say any numbers with the right checksum. What cannot be counted any further cannot
/// be erased: pages of before would be taken for those of after.
#[test]
fn a_block_with_the_last_erase_of_all_is_read_and_not_erased() {
    let most = BlockEntry { erases: u32::MAX, reads: u64::MAX, ..BlockEntry::default() };
    let worn = WearModel { factory_bad: 0.0, ..WearModel::preset("slc").expect("a preset") };
    assert!((0..4).any(|block| worn.end_of_life(block, 4).1.is_some()), "some fail to program");
    for wear in [WearModel::none(), worn] {
        let mut store = MemStore::new(geometry());
        for block in 0..4 {
            store.write_entry(block, &most.encode()).expect("written");
        }
        let never = wear == WearModel::none();
        let mut nand = ByteNand::open(store, geometry(), &channel(), wear).expect("opened");
        for block in 0..4 {
            if never {
                program(&mut nand, 4 * block, 9);
                nand.read(4 * block).expect("read");
            }
            let failed = nand.erase(block).expect_err("it was the last one");
            assert!(matches!(failed, NandError::Failed { what: "erase", .. }), "{failed}");
            assert!(nand.is_bad(block));
        }
    }
}
