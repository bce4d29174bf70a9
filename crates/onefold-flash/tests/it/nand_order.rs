//! What is asked of the files of a drive's cells, operation by operation: what is written where,
//! and what must be durable before what.
//! Room: onefold-flash.

use std::sync::Arc;

use onefold_block::{Folder as _, Media, SimFolder};
use onefold_flash::nand::bytes::{
    ChannelSpec, CopyFile, DETECT_NAME, Description, FileStore, PageBytes, Store as _,
};
use onefold_flash::nand::{ByteNand, Nand, PageKey, Payload};

use crate::nand_layout::{
    BLOCKS, Drive, RECORDS, TABLE, content, description, geometry, live, made, oob, scramblers,
    wear, whole,
};

/// Everything that is asked of the two files, in order.
const OPERATIONS: &str = "\
Create copies
SetLen copies to 0
SetLen copies to 95728
Write copies bytes 0..65536
Sync copies
Create nand
SetLen nand to 91632
Write nand bytes 0..65536
Sync nand
Write nand bytes 65664..65696
Write copies bytes 65664..65696
Sync nand
--
Write nand bytes 69632..70656
Write nand bytes 90112..90188
Write nand bytes 70656..71680
Write nand bytes 90188..90264
Write nand bytes 71680..72704
Write nand bytes 90264..90340
Sync nand
Write copies bytes 69632..69824
Write nand bytes 72704..73728
Write nand bytes 90340..90416
Sync nand
Write copies bytes 69824..69888
Write copies bytes 77028..78128
Write nand bytes 73728..74752
Write nand bytes 90416..90492
Sync nand
Write copies bytes 69888..69952
Write copies bytes 78128..79228
Write nand bytes 74752..75776
Write nand bytes 90492..90568
Sync nand
Write copies bytes 69952..70016
Write copies bytes 79228..80328
Write nand bytes 75776..76800
Write nand bytes 90568..90644
Write nand bytes 76800..77824
Write nand bytes 90644..90720
Sync nand
Write copies bytes 80328..81428
Write copies bytes 70016..70144
Write nand bytes 77824..78848
Write nand bytes 90720..90796
Write nand bytes 78848..79872
Write nand bytes 90796..90872
Sync nand
Write copies bytes 70144..70272
Write nand bytes 65536..65568
Write copies bytes 65536..65568
Punch nand bytes 69632..73728
Punch nand bytes 90112..90416
Punch copies bytes 73728..78128
Write nand bytes 69632..70656
Write nand bytes 90112..90188
Write nand bytes 70656..71680
Write nand bytes 90188..90264
Sync nand
Write copies bytes 69632..69760
Write nand bytes 76800..77312
Write nand bytes 79872..80896
Write nand bytes 90872..90948
Sync nand
Write copies bytes 70272..70336
Write nand bytes 65632..65664
Write copies bytes 65632..65664
Punch nand bytes 81920..86016
Punch nand bytes 91024..91328
Sync nand
Sync copies
";

/// What is written where and what must be durable before what: neither more nor less.
#[test]
fn the_files_are_written_and_synced_in_this_order() {
    let mut drive = made(scramblers()[1].as_ref());
    let mut seen = 0;
    let making = drive.folder.ops_since(&mut seen);
    live(&mut drive);
    let life = drive.folder.ops_since(&mut seen);
    assert_eq!(format!("{making}--\n{life}"), OPERATIONS);
}

/// Two erases of a block that was programmed since the last sync, and what is programmed in it
/// anew; then a page of the FTL's own beside one that waits.
const ERASES: &str = "\
-- erased, twice
-- programmed anew
Sync nand
Write nand bytes 65536..65568
Write copies bytes 65536..65568
Punch nand bytes 69632..73728
Punch nand bytes 90112..90416
Write nand bytes 69632..70656
Write nand bytes 90112..90188
-- another one erased, and a third begun
Write nand bytes 77824..78848
Write nand bytes 90720..90796
-- a page of the FTL's own
Sync nand
Write copies bytes 69632..69696
Write copies bytes 70144..70208
Write nand bytes 65568..65600
Write copies bytes 65568..65600
Punch nand bytes 73728..77824
Punch nand bytes 90416..90720
Write nand bytes 78848..79872
Write nand bytes 90796..90872
-- synced
Sync nand
Write copies bytes 70208..70272
Write copies bytes 83628..84728
-- synced again
-- a block without anything that waits erased
Write nand bytes 65600..65632
Write copies bytes 65600..65632
Punch nand bytes 77824..81920
Punch nand bytes 90720..91024
Punch copies bytes 82528..86928
-- synced
Sync nand
-- synced again
";

/// The cells of a block are cleared only when everything programmed before its erase is durable,
/// once, and before anything else is programmed in them.
#[test]
fn cells_are_cleared_when_they_are_needed_and_not_before_a_sync() {
    let mut drive = made(None);
    let mut seen = 0;
    let mut parts = Vec::new();
    drive.folder.ops_since(&mut seen);
    let page = PageBytes::from(content(1));
    let data = |nand: &mut ByteNand<FileStore>, ppn| {
        let oob = oob(PageKey::Data(1), ppn, 1);
        nand.program(ppn as u32, Payload::Data(&page), &oob).expect("programmed");
    };
    data(&mut drive.nand, 4);
    drive.nand.sync().expect("synced");
    data(&mut drive.nand, 0);
    drive.folder.ops_since(&mut seen);
    let mut note = |drive: &Drive, what: &str| {
        parts.push(format!("-- {what}\n{}", drive.folder.ops_since(&mut seen)));
    };
    drive.nand.erase(0).expect("erased");
    drive.nand.erase(0).expect("erased");
    note(&drive, "erased, twice");
    assert_eq!((drive.nand.block(0).erases, drive.nand.block(0).pending), (2, true));
    data(&mut drive.nand, 0);
    note(&drive, "programmed anew");
    assert!(!drive.nand.block(0).pending);
    drive.nand.erase(1).expect("erased");
    data(&mut drive.nand, 8);
    note(&drive, "another one erased, and a third begun");
    let own = oob(PageKey::Map(1), 9, 1);
    drive.nand.program(9, Payload::Meta(b"m"), &own).expect("programmed");
    note(&drive, "a page of the FTL's own");
    drive.nand.sync().expect("synced");
    note(&drive, "synced");
    drive.nand.sync().expect("synced");
    note(&drive, "synced again");
    drive.nand.erase(2).expect("erased");
    note(&drive, "a block without anything that waits erased");
    drive.nand.sync().expect("synced");
    note(&drive, "synced");
    drive.nand.sync().expect("synced");
    note(&drive, "synced again");
    assert_eq!(parts.concat(), ERASES);
    let health = drive.nand.health();
    assert_eq!((health.erases, health.syncs), (4, 5));
}

/// Opening a drive reads it, and makes durable what a dead process left; closing it does nothing.
#[test]
fn a_whole_drive_is_opened_without_a_write() {
    let mut drive = made(scramblers()[1].as_ref());
    live(&mut drive);
    let Drive { folder, nand } = drive;
    drop(nand);
    let mut seen = 0;
    folder.ops_since(&mut seen);
    let description = description(scramblers()[1].as_ref());
    let channel = ChannelSpec { code: DETECT_NAME.into(), scrambler: scramblers()[1].clone() };
    let file = |name| -> Arc<dyn Media> { folder.open(name).expect("there") };
    let copies = CopyFile::open(file("copies"), &description).expect("opened");
    let store = FileStore::open(file("nand"), &description).expect("opened").with_copies(copies);
    let mut nand = ByteNand::open(store, geometry(), &channel, wear()).expect("opened");
    assert_eq!(folder.ops_since(&mut seen), "Sync nand\n");
    nand.prove_found().expect("nothing was looked at");
    nand.sync().expect("nothing to sync");
    assert_eq!(folder.ops_since(&mut seen), "");
    let blocks: Vec<(u32, u32, u32, bool)> = (0..BLOCKS)
        .map(|block| *nand.block(block))
        .map(|entry| (entry.erases, entry.programmed, entry.found, entry.bad))
        .collect();
    let expected =
        [(1, 2, 2, false), (0, 4, 4, false), (0, 3, 3, false), (1, 0, 0, false), (0, 0, 0, true)];
    assert_eq!(blocks, expected);
    let looked = FileStore::look(file("nand"), &description).expect("looked at");
    let taken = file("nand").allocated_bytes().expect("known");
    assert_eq!(looked.allocated_bytes().expect("known"), taken, "there is no other file");
    let other = Description { code: "ses-33x256".into(), ..description.clone() };
    assert!(FileStore::look(file("nand"), &other).is_err(), "another array");
    assert!(!FileStore::repair_header(&*file("nand"), &description).expect("whole"));
    assert_eq!(folder.ops_since(&mut seen), "", "nothing to do");
}

/// A file that lost its end or its header gets it back, and nothing else is touched.
#[test]
fn what_is_missing_of_a_file_is_put_back() {
    let drive = made(None);
    let Drive { folder, nand } = drive;
    drop(nand);
    let description = description(None);
    let file = |name| -> Arc<dyn Media> { folder.open(name).expect("there") };
    let mut seen = 0;
    let ends = ["nand", "copies"].map(|name| file(name).len().expect("known"));
    for (name, end) in ["nand", "copies"].into_iter().zip(ends) {
        folder.truncate(name, end - 1).expect("cut");
    }
    folder.ops_since(&mut seen);
    drop(FileStore::look(file("nand"), &description).expect("looked at"));
    assert_eq!(folder.ops_since(&mut seen), "", "who looks changes nothing");
    drop(FileStore::open(file("nand"), &description).expect("opened"));
    drop(CopyFile::open(file("copies"), &description).expect("opened"));
    let said = format!("SetLen nand to {}\nSetLen copies to {}\n", ends[0], ends[1]);
    assert_eq!(folder.ops_since(&mut seen), said);
    // A header that is damaged, one that is another file's, and copies that are.
    folder.flip_bit("nand", 20, 1).expect("flipped");
    assert!(FileStore::repair_header(&*file("nand"), &description).expect("repaired"));
    assert_eq!(folder.ops_since(&mut seen), "Write nand bytes 0..65536\nSync nand\n");
    folder.flip_bit("copies", 3, 1).expect("flipped");
    file("copies").write(RECORDS as u64, b"of another drive").expect("written");
    folder.ops_since(&mut seen);
    drop(CopyFile::open(file("copies"), &description).expect("made anew"));
    let said = format!(
        "SetLen copies to 0\nSetLen copies to {}\nWrite copies bytes 0..65536\nSync copies\n",
        ends[1]
    );
    assert_eq!(folder.ops_since(&mut seen), said);
    let fresh = whole(&*file("copies"));
    assert!(fresh[TABLE..].iter().all(|&byte| byte == 0), "nothing of the other drive is left");
    assert_eq!(whole(&*file("nand"))[..TABLE], made_header(&description)[..]);
}

fn made_header(description: &Description) -> Vec<u8> {
    let folder = SimFolder::new();
    let media = folder.create("nand").expect("made");
    drop(FileStore::create(Arc::clone(&media), description).expect("made"));
    whole(&*media)[..TABLE].to_vec()
}
