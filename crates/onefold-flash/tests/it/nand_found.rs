//! What an array in files is taken for when it is opened, damaged or not, page by page.
//! Room: onefold-flash.

use onefold_block::{Folder as _, SimFolder};
use onefold_flash::nand::bytes::{
    BlockEntry, CopyFile, ENTRY_BYTES, FileStore, NandHealth, Store as _,
};
use onefold_flash::nand::{Nand, Oob, PageKey, Payload, WearModel};

use crate::nand_file::{
    BLOCKS, DATA, OOB, OOBS, OWN, PAGE, PAGES, RECORDS, TABLE, content, description, exact, made,
    oob, opened, opened_on, own, program, told, uncorrectable, wipe, wipe_copy, wipe_data,
    wipe_oob,
};

/// A page that nothing proves is looked at in whole once, stored again, and proven with the next
/// sync; one that is proven is left alone.
#[test]
fn a_page_that_is_found_whole_is_stored_again_and_proven() {
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    for ppn in 0..3 {
        program(&mut nand, ppn);
    }
    own(&mut nand, 4);
    nand.sync().expect("synced");
    drop(nand);
    let cells = || {
        let media = folder.open("nand").expect("there");
        let mut bytes = vec![0; media.len().expect("known") as usize];
        media.read(0, &mut bytes).expect("read");
        bytes
    };
    let before = cells();
    // A bit of its bytes, of their parity and of what it says of itself.
    for at in [DATA + 2 * PAGE + 9, OOBS + 2 * OOB + 3, OOBS + 2 * OOB + 32 + 5] {
        folder.flip_bit("nand", at, 3).expect("flipped");
    }
    for ppn in [0, 2, 4] {
        wipe_copy(&folder, ppn);
    }
    wipe(&folder, "copies", OWN + 4 * (PAGE + OOB), PAGE + OOB);
    let mut nand = opened(&folder);
    let mut seen = 0;
    folder.ops_since(&mut seen);
    for ppn in [4, 2, 0, 1, 2] {
        let seq = u64::from(ppn) + 10;
        assert_eq!(nand.read_oob(ppn).expect("whole").seq, seq, "page {ppn}");
    }
    let stored = |ppn: u64| {
        let (data, spare) = (DATA + ppn * PAGE, OOBS + ppn * OOB);
        format!(
            "Write nand bytes {data}..{}\nWrite nand bytes {spare}..{}\n",
            data + PAGE,
            spare + OOB
        )
    };
    let again = [4, 2, 0, 2].map(stored).concat();
    assert_eq!(folder.ops_since(&mut seen), again, "page 1 is proven, page 2 asked for twice");
    assert!(cells() == before, "it is stored as it was programmed");
    nand.prove_found().expect("proven");
    let copied = |first: u64, pages: u64| {
        let at = RECORDS + first * 64;
        format!("Write copies bytes {at}..{}\n", at + pages * 64)
    };
    let whole = OWN + 4 * (PAGE + OOB);
    let expected = format!(
        "Sync nand\n{}{}{}Write copies bytes {whole}..{}\n",
        copied(0, 1),
        copied(2, 1),
        copied(4, 1),
        whole + PAGE + OOB
    );
    assert_eq!(folder.ops_since(&mut seen), expected);
    nand.prove_found().expect("nothing is left to be done");
    for ppn in [0, 1, 2, 4] {
        nand.read_oob(ppn).expect("whole");
    }
    assert_eq!(folder.ops_since(&mut seen), "");
    // What the copies are for: each is enough.
    drop(nand);
    for ppn in [0, 1, 2, 4] {
        wipe_oob(&folder, ppn);
    }
    wipe_data(&folder, 4);
    let mut nand = opened(&folder);
    for ppn in 0..3 {
        assert!(nand.read(ppn).expect("by its copy") == content(ppn.into()), "page {ppn}");
        let expected = oob(PageKey::Data(ppn), u64::from(ppn) + 10);
        assert_eq!(told(nand.read_oob(ppn)), Ok(expected), "page {ppn}");
    }
    assert_eq!(nand.read_meta(4).expect("by its copy"), b"a mapping");
    let health = NandHealth {
        reads: 4,
        bits_read: 4 * 8 * (PAGE + OOB),
        rescued: 4,
        ..NandHealth::default()
    };
    assert_eq!(*nand.health(), health);
    // What was brought back is as good as any page: its parity is there again.
    for ppn in 0..3 {
        let to = 2 * PAGES + ppn;
        nand.copy(ppn, to, PageKey::Data(ppn), 50).expect("moved");
        assert!(nand.read(to).expect("moved") == content(ppn.into()), "page {ppn}");
    }
    assert_eq!((nand.health().rescued, nand.health().uncorrectable), (7, 0));
}

/// Without second copies nothing is written for what is found.
#[test]
fn without_copies_pages_are_only_looked_at() {
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    for ppn in 0..3 {
        program(&mut nand, ppn);
    }
    nand.sync().expect("synced");
    drop(nand);
    wipe(&folder, "nand", DATA + PAGE, 512);
    wipe_oob(&folder, 2);
    let mut nand = opened_on(exact(&folder, "nand"), None, WearModel::none());
    assert_eq!(nand.block(0).programmed, 2, "nobody knows of the last one");
    program(&mut nand, 2);
    let mut seen = 0;
    folder.ops_since(&mut seen);
    assert_eq!(nand.read_oob(0).expect("whole").seq, 10);
    assert_eq!(told(nand.read_oob(1)), uncorrectable(1), "what it says of itself is whole");
    wipe(&folder, "nand", DATA + 2 * PAGE, 512);
    assert_eq!(nand.read_oob(2).expect("not torn").seq, 12, "it was programmed since");
    assert_eq!(told(nand.read(2)).map(|_| ()), uncorrectable(2));
    assert_eq!(
        folder.ops_since(&mut seen),
        format!("Write nand bytes {}..{}\n", DATA + 2 * PAGE, DATA + 2 * PAGE + 512)
    );
}

/// What becomes of a page that cannot be read and must move: it is known to be lost, under all that
/// is known of it.
#[test]
fn a_lost_page_keeps_what_is_known_of_it() {
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    let keys = [PageKey::Data(3), PageKey::Kept(4), PageKey::Shared(5), PageKey::Data(6)];
    let keys: Vec<PageKey> = keys.into_iter().cycle().take(8).collect();
    for (ppn, key) in (0..).zip(&keys) {
        let page = Payload::Data(&content(1));
        nand.program(ppn, page, &oob(*key, u64::from(ppn) + 10)).expect("programmed");
    }
    // The first block is proven, the second is not.
    nand.sync().expect("synced");
    for ppn in PAGES..2 * PAGES {
        wipe_copy(&folder, ppn);
    }
    drop(nand);
    let mut nand = opened(&folder);
    for ppn in 0..2 * PAGES {
        wipe_data(&folder, ppn);
        // Of every other page only its bytes are gone.
        if ppn % 2 == 0 {
            wipe_oob(&folder, ppn);
        }
    }
    for (from, key) in (0..).zip(&keys) {
        let to = from + 2 * PAGES;
        let known = from < PAGES || from % 2 == 1;
        let first = oob(*key, u64::from(from) + 10);
        let tag = told(nand.copy(from, to, *key, 100));
        let seed = match key {
            PageKey::Data(lpn) | PageKey::Kept(lpn) => u64::from(*lpn),
            _ => 0,
        };
        let expected = if known {
            Oob { seq: 100, ..first }
        } else {
            Oob { key: *key, seq: 100, seed, tag: 0 }
        };
        assert_eq!(tag, Ok(expected.tag), "page {from}");
        assert_eq!(told(nand.read_oob(to)), Ok(expected), "page {from}");
        assert_eq!(told(nand.read(to)).map(|_| ()), uncorrectable(to), "page {from}");
    }
    assert_eq!(nand.health().lost_pages, 8);
    nand.sync().expect("synced");
    // Lost it stays, and a move of a lost page loses nothing more of what is known.
    drop(nand);
    let mut nand = opened(&folder);
    let tag = nand.copy(2 * PAGES + 1, 4 * PAGES, PageKey::Kept(4), 200).expect("moved again");
    assert_eq!(tag, 33);
    let expected = Oob { seq: 200, ..oob(PageKey::Kept(4), 11) };
    assert_eq!(told(nand.read_oob(4 * PAGES)), Ok(expected));
    assert_eq!(told(nand.read(4 * PAGES)).map(|_| ()), uncorrectable(4 * PAGES));
    assert_eq!((nand.health().lost_pages, nand.health().uncorrectable), (1, 0));
    // What the FTL cannot do without is not moved as lost.
    let own = nand.copy(0, 4 * PAGES + 1, PageKey::Map(1), 201);
    assert_eq!(told(own), uncorrectable(0), "only data may be lost");
    assert_eq!(nand.block(4).programmed, 1);
}

/// Which pages of a block count, and which erase they follow, from whatever is left.
#[test]
fn a_block_s_history_is_the_latest_that_entry_copy_or_page_knows() {
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    for block in 0..4 {
        nand.erase(block).expect("erased");
        nand.erase(block).expect("erased");
        for page in 0..3 {
            program(&mut nand, block * PAGES + page);
        }
    }
    nand.sync().expect("synced");
    drop(nand);
    let entry_at = |block: u64| TABLE + block * ENTRY_BYTES as u64;
    let put = |name: &str, block: u64, entry: BlockEntry| {
        let media = folder.open(name).expect("there");
        media.write(entry_at(block), &entry.encode()).expect("written");
    };
    let history =
        |erases, bad| BlockEntry { erases, bad, reads: 9, filled_s: 77, ..BlockEntry::default() };
    let seen = |folder: &SimFolder| -> Vec<BlockEntry> {
        let nand = opened(folder);
        (0..BLOCKS).map(|block| *nand.block(block)).collect()
    };
    let block = |erases, programmed, reads, filled_s, bad| BlockEntry {
        erases,
        programmed,
        found: programmed,
        reads,
        filled_s,
        bad,
        pending: false,
    };
    let fresh = block(2, 3, 0, 0, false);
    assert_eq!(seen(&folder), [fresh, fresh, fresh, fresh, BlockEntry::default()]);
    // An older entry, one that fits, one that knows of a later erase; and one of a bad block in the
    // copies alone.
    put("nand", 0, history(1, false));
    put("copies", 0, history(1, false));
    put("nand", 1, history(2, false));
    put("copies", 2, history(3, false));
    put("copies", 3, history(0, true));
    put("nand", 4, history(5, false));
    let expected = [
        block(2, 3, 0, 77, false),
        block(2, 3, 9, 77, false),
        block(3, 0, 9, 77, false),
        block(2, 3, 0, 0, true),
        block(5, 0, 9, 77, false),
    ];
    assert_eq!(seen(&folder), expected);
    for number in 0..5 {
        put("nand", number, history(2, false));
        put("copies", number, history(2, false));
    }
    // The last page is gone in one place, and in both; one in the middle in both.
    wipe_oob(&folder, 2);
    wipe_oob(&folder, PAGES + 2);
    wipe_copy(&folder, PAGES + 2);
    wipe_oob(&folder, 2 * PAGES + 1);
    wipe_copy(&folder, 2 * PAGES + 1);
    wipe_copy(&folder, 3 * PAGES + 2);
    let programmed: Vec<u32> = seen(&folder).iter().map(|entry| entry.programmed).collect();
    assert_eq!(programmed, [3, 2, 3, 3, 0]);
    let mut nand = opened(&folder);
    assert_eq!(nand.read_oob(2).expect("by its copy").seq, 12);
    assert_eq!(told(nand.read_oob(PAGES + 2)), Err("page 6 is erased".to_owned()));
    assert_eq!(told(nand.read_oob(2 * PAGES + 1)), uncorrectable(9));
    assert_eq!(nand.read_oob(3 * PAGES + 2).expect("whole").seq, 24);
}

/// Whoever opens the array counts on what is beside a page's fields, too: no byte of a block that
/// holds something makes another block look used.
#[test]
fn a_block_is_blank_if_no_byte_of_what_its_pages_say_is_there() {
    let folder = SimFolder::new();
    drop(made(&folder));
    let open = || {
        let copies = CopyFile::open(exact(&folder, "copies"), &description()).expect("opened");
        let store = FileStore::open(exact(&folder, "nand"), &description()).expect("opened");
        store.with_copies(copies)
    };
    let blank = || -> Vec<bool> {
        let store = open();
        (0..BLOCKS).map(|block| store.is_blank(block).expect("known")).collect()
    };
    let put = |name: &str, at: u64, byte: u8| {
        folder.open(name).expect("there").write(at, &[byte]).expect("written");
    };
    assert_eq!(blank(), [true; 5]);
    for block in 0..u64::from(BLOCKS) {
        let expected: Vec<bool> = (0..u64::from(BLOCKS)).map(|other| other != block).collect();
        for (name, start, unit) in [("nand", OOBS, OOB), ("copies", RECORDS, 64)] {
            let first = start + block * 4 * unit;
            for at in [first, first + 4 * unit - 1] {
                put(name, at, 1);
                assert_eq!(blank(), expected, "{name}: byte {at}");
                put(name, at, 0);
            }
        }
        put("nand", DATA + block * 4 * PAGE, 1);
        assert_eq!(blank(), [true; 5], "the bytes of pages alone say nothing");
    }
    // A block that holds nothing is opened with its history all the same.
    let entry = BlockEntry { erases: 6, reads: 2, filled_s: 3, ..BlockEntry::default() };
    folder.open("nand").expect("there").write(TABLE, &entry.encode()).expect("written");
    assert_eq!(*opened(&folder).block(0), entry);
}
