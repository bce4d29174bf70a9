//! What an array in files does when an operation on them fails, and what it never does after that.
//! Room: onefold-flash.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use onefold_block::{FaultKind, Folder as _, OpKind, SimFolder};
use onefold_flash::nand::bytes::FileStore;
use onefold_flash::nand::{ByteNand, Nand, NandError, PageKey, Payload, WearModel};

use crate::nand_file::{
    BLOCKS, DATA, Exact, OOB, OOBS, OWN, PAGE, RECORDS, TABLE, content, exact, made, oob, opened,
    opened_on, own, program, told, uncorrectable, wipe_copy, wipe_data, wipe_oob,
};

/// Copies that cannot be read prove nothing; nor do those of another block in their place.
#[test]
fn copies_that_cannot_be_read_are_none() {
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    for ppn in 0..12 {
        if ppn == 1 {
            own(&mut nand, ppn);
        } else {
            program(&mut nand, ppn);
        }
    }
    nand.sync().expect("synced");
    drop(nand);
    for ppn in 0..12 {
        wipe_oob(&folder, ppn);
    }
    wipe_data(&folder, 1);
    let open = |refused: Range<u64>| {
        let media = folder.open("copies").expect("there");
        let copies = Arc::new(Exact { media, refused: Arc::new(Mutex::new((refused, 0))) });
        opened_on(exact(&folder, "nand"), Some(copies), WearModel::none())
    };
    let programmed = |nand: &ByteNand<FileStore>| -> Vec<u32> {
        (0..BLOCKS).map(|block| nand.block(block).programmed).collect()
    };
    assert_eq!(programmed(&open(0..0)), [4, 4, 4, 0, 0]);
    assert_eq!(programmed(&open(TABLE..TABLE + 1)), [4, 4, 4, 0, 0], "entries are no pages");
    let middle = RECORDS + 4 * 64;
    assert_eq!(programmed(&open(middle..middle + 1)), [4, 0, 4, 0, 0]);
    assert_eq!(programmed(&open(RECORDS..OWN)), [0; 5]);
    assert_eq!(open(0..0).read_meta(1).expect("by its copy"), b"a mapping");
    for refused in [OWN..OWN + 3000, OWN + 2 * (PAGE + OOB) - 1..OWN + 2 * (PAGE + OOB)] {
        let mut nand = open(refused);
        assert_eq!(told(nand.read_meta(1)), uncorrectable(1));
        assert_eq!(nand.read_oob(1).expect("known").seq, 11, "what it was is known");
    }
}

/// After a failure of its file an array does nothing more, and says why.
#[test]
fn after_a_failure_everything_is_refused_until_it_is_opened_again() {
    let kinds = [OpKind::Write, OpKind::Punch, OpKind::Sync];
    for kind in kinds {
        let folder = SimFolder::new();
        let mut nand = made(&folder);
        for ppn in [0, 1, 4] {
            program(&mut nand, ppn);
        }
        nand.sync().expect("synced");
        nand.erase(2).expect("erased");
        folder.fail_once(&[kind], 1, FaultKind::Eio);
        let page = content(9);
        let failed = match kind {
            OpKind::Write => nand.program(2, Payload::Data(&page), &oob(PageKey::Data(1), 1)),
            OpKind::Punch => nand.erase(1),
            _ => nand.sync(),
        };
        let Err(NandError::Io(why)) = failed else { panic!("{kind:?}: {failed:?}") };
        let mut seen = 0;
        folder.ops_since(&mut seen);
        let refused = format!("refused after an earlier failure: {why}");
        let is = |said: Result<(), NandError>, what: &str| {
            assert_eq!(told(said), Err(refused.clone()), "{kind:?}: {what}");
        };
        let data = Payload::Data(&page);
        is(nand.program(3, data, &oob(PageKey::Data(1), 1)), "program");
        is(nand.program(12, Payload::Meta(b""), &oob(PageKey::Root(1), 1)), "its own");
        is(nand.copy(0, 12, PageKey::Data(1), 1).map(|_| ()), "copy");
        is(nand.erase(1), "erase");
        is(nand.read(0).map(|_| ()), "read");
        is(nand.read_oob(0).map(|_| ()), "read_oob");
        is(nand.read_meta(0).map(|_| ()), "read_meta");
        is(nand.stored_parity(0).map(|_| ()), "stored_parity");
        is(nand.sync(), "sync");
        assert_eq!(folder.ops_since(&mut seen), "", "{kind:?}: nothing is written any more");
        drop(nand);
        let mut nand = opened(&folder);
        assert!(nand.read(0).expect("there") == content(0));
    }
}

type Asked = fn(&mut ByteNand<FileStore>) -> Result<(), NandError>;

/// What is asked, which bytes cannot be read from which time on, whether the page was damaged
/// before, and whether it is proven.
type Case = (&'static str, Asked, Range<u64>, u32, bool, bool);

/// Bytes of the cells that cannot be read are a failure of the drive and no worn page; whichever
/// of its reads it is.
#[test]
fn a_read_that_fails_is_no_page_that_is_lost() {
    let data = |ppn: u64| DATA + ppn * PAGE..DATA + ppn * PAGE + 1;
    let spare = |ppn: u64| OOBS + ppn * OOB..OOBS + ppn * OOB + 1;
    let read: Asked = |nand| nand.read(1).map(|_| ());
    let copy: Asked = |nand| nand.copy(1, 16, PageKey::Data(1), 90).map(|_| ());
    let look: Asked = |nand| nand.read_oob(1).map(|_| ());
    let alike: Asked = |nand| nand.likeness_of(1).map(|_| ());
    let cases: [Case; 11] = [
        ("read", read, data(1), 1, false, true),
        ("read out of band", read, spare(1), 1, false, true),
        ("read beside", read, data(0), 1, false, true),
        ("read beside, behind", read, data(2), 1, false, true),
        ("read to rescue", read, spare(1), 2, true, true),
        ("copy", copy, data(1), 1, false, true),
        ("copy what is lost", copy, spare(1), 2, true, false),
        ("look", look, spare(1), 1, false, true),
        ("look at all", look, data(1), 1, false, false),
        ("alike", alike, data(1), 1, false, true),
        ("alike, behind", alike, data(2), 1, false, true),
    ];
    for (what, asked, range, time, damaged, proven) in cases {
        let folder = SimFolder::new();
        let mut nand = made(&folder);
        for ppn in 0..3 {
            program(&mut nand, ppn);
        }
        nand.sync().expect("synced");
        drop(nand);
        if !proven {
            wipe_copy(&folder, 1);
        }
        let refused = Arc::new(Mutex::new((0..0, 1)));
        let media = folder.open("nand").expect("there");
        let cells = Arc::new(Exact { media, refused: Arc::clone(&refused) });
        let wear = WearModel { similar_factor: 1.5, ..WearModel::none() };
        let mut nand = opened_on(cells, Some(exact(&folder, "copies")), wear);
        if damaged {
            wipe_data(&folder, 1);
        }
        *refused.lock().expect("nobody panicked") = (range, time);
        let said = asked(&mut nand);
        let Err(NandError::Io(why)) = said else { panic!("{what}: {said:?}") };
        *refused.lock().expect("nobody panicked") = (0..0, 1);
        let refused = Err(format!("refused after an earlier failure: {why}"));
        assert_eq!(told(nand.read(0)).map(|_| ()), refused, "{what}");
        assert_eq!(told(nand.sync()), refused, "{what}");
    }
}

/// The file of second copies is written for good reason: a failure there is one of the drive.
#[test]
fn a_copy_that_cannot_be_written_is_a_failure() {
    for (nth, what) in [(1, "a page that was found"), (3, "its copy")] {
        let folder = SimFolder::new();
        let mut nand = made(&folder);
        program(&mut nand, 0);
        nand.sync().expect("synced");
        drop(nand);
        wipe_copy(&folder, 0);
        let mut nand = opened(&folder);
        folder.fail_once(&[OpKind::Write], nth, FaultKind::Eio);
        let said = nand.read_oob(0).and_then(|_| nand.prove_found());
        assert!(matches!(said, Err(NandError::Io(_))), "{what}: {said:?}");
        assert!(matches!(nand.sync(), Err(NandError::Io(_))), "{what}");
    }
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    own(&mut nand, 0);
    folder.fail_once(&[OpKind::Write], 2, FaultKind::Eio);
    assert!(matches!(nand.sync(), Err(NandError::Io(_))), "the copy of one of the FTL's own");
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    own(&mut nand, 0);
    nand.sync().expect("synced");
    folder.fail_once(&[OpKind::Punch], 3, FaultKind::Eio);
    assert!(matches!(nand.erase(0), Err(NandError::Io(_))), "the space of that copy");
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    folder.fail_once(&[OpKind::Sync], 1, FaultKind::Eio);
    assert!(matches!(nand.sync_copies(), Err(NandError::Io(_))));
    assert!(matches!(nand.read(0), Err(NandError::Io(_))));
}
