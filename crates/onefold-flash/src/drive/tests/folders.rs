//! Folders of drives: made, changed, closed, and found in every state that a power cut leaves.
//! Room: onefold-flash.

use std::fmt::Write as _;
use std::sync::Arc;

use onefold_block::handover::{Handover, Region, SimHandover};
use onefold_block::{
    BlockDevice as _, CrashMode, FaultKind, FileFolder, Folder as _, LOCK_FILE, MediaError, OpKind,
    SimFolder,
};

use super::story::{Hand, PAGE, spec};
use crate::drive::files::MAKING_FILE;
use crate::drive::making::create;
use crate::drive::stored_spec::{exists, read_spec};
use crate::drive::{
    COPIES_FILE, Clock, DriveError, NAND_FILE, OpenDrive, Pending, Remark, SPEC_FILE, inspect,
    revise, revise_at,
};
use crate::spec::DriveSpec;

const MODES: [CrashMode; 3] =
    [CrashMode::KeepNothing, CrashMode::KeepEverything, CrashMode::Random];

fn open(folder: &SimFolder) -> Result<OpenDrive, DriveError> {
    open_with(folder, None)
}

fn open_with(folder: &SimFolder, memory: Option<&SimHandover>) -> Result<OpenDrive, DriveError> {
    let memory = memory.map(|memory| Arc::new(memory.clone()) as Arc<dyn Handover>);
    OpenDrive::open(Arc::new(folder.clone()), false, Arc::new(Hand::default()), memory)
}

fn made(lines: &[&str]) -> SimFolder {
    let folder = SimFolder::new();
    create(&folder, &spec(lines)).expect("made");
    folder
}

fn kept(folder: &SimFolder) -> SimFolder {
    folder.after_crash(0, CrashMode::KeepEverything)
}

/// Whatever the power leaves of a making is made again, or is the drive, and is there to stay.
#[test]
fn a_making_that_is_cut_short_is_made_again_and_stays() {
    let operations = made(&[]).op_count();
    assert!(operations > 20);
    let mut drives = 0;
    for op in 1..=operations {
        let folder = SimFolder::new();
        folder.crash_at(op);
        assert!(create(&folder, &spec(&[])).is_err(), "operation {op}");
        for mode in MODES {
            let left = folder.after_crash(op, mode);
            drives += u32::from(exists(&left));
            if !exists(&left) {
                create(&left, &spec(&[])).unwrap_or_else(|error| panic!("{op}: {error}"));
            }
            let drive = open(&left).unwrap_or_else(|error| panic!("{op}, {mode:?}: {error}"));
            assert_eq!(drive.remarks(), [], "operation {op}, {mode:?}");
            drop(drive);
            // No name is in doubt once it was opened.
            let again = left.after_crash(op, CrashMode::KeepNothing);
            let drive = open(&again).unwrap_or_else(|error| panic!("{op}, {mode:?}: {error}"));
            let mut page = [1; PAGE as usize];
            drive.device().read_at(0, &mut page).expect("read");
            assert_eq!(page, [0; PAGE as usize]);
        }
    }
    assert!(drives > 0, "some were made to the end");
}

/// A name whose sync has failed may go with the power, however often names are synced after that.
#[test]
fn a_specification_whose_name_is_in_doubt_stays_once_the_drive_was_opened() {
    let mut in_doubt = 0;
    for nth in 1.. {
        let folder = SimFolder::new();
        folder.fail_once(&[OpKind::SyncNames], nth, FaultKind::Eio);
        if create(&folder, &spec(&[])).is_ok() {
            break;
        }
        if exists(&folder) {
            in_doubt += 1;
            drop(open(&folder).unwrap_or_else(|error| panic!("{nth}: {error}")));
            let left = folder.after_crash(nth, CrashMode::KeepNothing);
            drop(open(&left).unwrap_or_else(|error| panic!("{nth}: {error}")));
            assert!(!left.list().unwrap().contains(&MAKING_FILE.to_owned()), "{nth}: it has ended");
        }
    }
    assert_eq!(in_doubt, 2, "the sync of the specification's name, and the last of all");
}

/// All of it, its second copies too, as whoever made it was told.
#[test]
fn what_was_made_is_there_as_it_was_whatever_the_power_does() {
    let folder = made(&[]);
    let stays = || {
        let left = folder.after_crash(1, CrashMode::KeepNothing);
        let names = folder.list().unwrap();
        assert_eq!(left.list().unwrap(), names);
        for name in &names {
            let [before, after] = [&folder, &left].map(|folder| {
                let file = folder.open(name).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read(0, &mut bytes).unwrap();
                bytes
            });
            assert!(before == after, "{name}");
        }
    };
    stays();
    // And so is what was closed.
    let drive = open(&folder).unwrap();
    drive.device().write_at(0, &[9; 5 * PAGE as usize], false).unwrap();
    drive.close().unwrap();
    stays();
}

#[test]
fn only_empty_folders_and_begun_ones_become_drives() {
    let holding = |names: &[&str]| {
        let folder = SimFolder::new();
        for name in names {
            folder.create(name).expect("made");
        }
        create(&folder, &spec(&[])).map_err(|error| error.to_string())
    };
    for names in [
        &[][..],
        &[LOCK_FILE],
        &["making"],
        &["making", NAND_FILE, COPIES_FILE, "health.0", "health.1", "generation", LOCK_FILE],
        &["making", "spec.toml.new"],
    ] {
        holding(names).unwrap_or_else(|error| panic!("{names:?}: {error}"));
    }
    for (names, named) in [
        (&["letter"][..], "letter"),
        (&["making", "letter"], "letter"),
        (&[NAND_FILE], NAND_FILE),
        (&[COPIES_FILE], COPIES_FILE),
        (&["health.1"], "health.1"),
        (&[SPEC_FILE], SPEC_FILE),
        (&["making", SPEC_FILE], SPEC_FILE),
    ] {
        let error = holding(names).expect_err("it holds something else");
        assert!(error.contains(&format!("'{named}'")), "{names:?}: {error}");
    }
    // What cannot work is refused before anything is made.
    let folder = SimFolder::new();
    let mut wrong = spec(&[]);
    wrong.ftl.over_provisioning = 0.0;
    create(&folder, &wrong).expect_err("no room to collect");
    let mut narrow = spec(&[]);
    narrow.geometry.oob_bytes = 1;
    create(&folder, &narrow).expect_err("no room beside a page");
    assert_eq!(folder.list().unwrap(), Vec::<String>::new());
    assert!(matches!(open(&folder), Err(DriveError::NoDrive)));
    assert!(matches!(inspect(&folder), Err(DriveError::NoDrive)));
}

/// A specification of another time, with keys that were not there, has what the first preset says.
#[test]
fn what_a_specification_does_not_say_is_that_of_the_first_preset() {
    let folder = SimFolder::new();
    folder.create(SPEC_FILE).unwrap().write(0, b"seed = 7\n").unwrap();
    let read = read_spec(&folder).expect("read");
    assert_eq!(read, DriveSpec { seed: 7, ..DriveSpec::preset("ses-slc").unwrap() });
    folder.open(SPEC_FILE).unwrap().write(0, b"seed = -\n").unwrap();
    assert!(matches!(read_spec(&folder), Err(DriveError::Spec(_))));
}

#[test]
fn what_pages_depend_on_cannot_change_and_says_so_first() {
    let folder = made(&["dedup.policy=\"ses-host\""]);
    let change = |lines: &[&str], said: Option<&DriveSpec>| {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        revise(&folder, &lines, said).map_err(|error| error.to_string())
    };
    let mut told = String::new();
    for lines in [
        &["name=\"other\""][..],
        &["name=\"other\""],
        &["seed=5"],
        &["controller.idle_steps=7", "ftl.victim=\"fifo\""],
        &["dedup.lba_ranges=[[1, 2]]"],
        &["dedup.lba_ranges=[[3, 2]]"],
        &["dedup.table_share=0.5"],
        &["dedup.policy=\"none\""],
        &["geometry.page_bytes=2048"],
        &["media.code=\"bch\""],
        &["media.scrambler=\"none\""],
        &["media.factory_bad_blocks_ppm=5"],
        &["media.wear=\"tlc\""],
        &["ftl.compression=\"after-scrambler\""],
        &["ftl.subpages=8"],
        &["ftl.over_provisioning=2.0"],
        &["ftl.gc_reserve_blocks=23"],
        &["no.such=1"],
        &[],
    ] {
        writeln!(told, "{lines:?}: {:?}", change(lines, None)).unwrap();
    }
    let has = read_spec(&folder).unwrap();
    let said = |change: fn(&mut DriveSpec)| {
        let mut said = has.clone();
        change(&mut said);
        said
    };
    let fixed = said(|said| said.seed = 9);
    let differs = said(|said| said.controller.idle_steps = 8);
    let both = said(|said| (said.controller.idle_steps, said.seed) = (8, 9));
    let less = said(|said| drop(said.dedup.options.remove("lba_ranges")));
    for wanted in [&has, &fixed, &differs, &both, &less] {
        writeln!(told, "said: {:?}", change(&[], Some(wanted))).unwrap();
    }
    let set = change(&["controller.idle_steps=8"], Some(&differs));
    writeln!(told, "set, said: {set:?}").unwrap();
    super::holds("revised.txt", &told);
    assert_eq!(read_spec(&folder).unwrap(), differs);
    open(&folder).expect("opened");
}

#[test]
fn a_folder_is_a_drive_for_one_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let clock = || Arc::new(Hand::default()) as Arc<dyn Clock>;
    let open = || OpenDrive::open_at(place.path(), false, clock(), None);
    assert!(matches!(open(), Err(DriveError::NoDrive)));
    let names = || std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(names(), 0, "nothing is left of looking");
    create(&FileFolder::open(place.path()).unwrap(), &spec(&[])).unwrap();
    let change = || revise_at(place.path(), &["controller.idle_steps=7".to_owned()], None);
    assert_eq!(change().unwrap(), ["controller.idle_steps = 7"]);
    assert!(place.path().join(LOCK_FILE).exists(), "who held it is told");
    let drive = open().unwrap();
    assert!(matches!(open(), Err(DriveError::Locked { .. })));
    assert!(matches!(change(), Err(DriveError::Locked { .. })));
    drive.device().write_at(0, &[7; 10], true).unwrap();
    drive.close().unwrap();
    assert_eq!(change().unwrap(), Vec::<String>::new());
    let drive = open().unwrap();
    let mut found = [0; 11];
    drive.device().read_at(0, &mut found).unwrap();
    assert_eq!(found, [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    drop(drive);
    assert!(place.path().join(LOCK_FILE).exists());
    std::fs::remove_file(place.path().join(LOCK_FILE)).unwrap();
    drop(open().unwrap());
    assert!(place.path().join(LOCK_FILE).exists(), "as a process leaves it that ends");
    // The folder goes while the drive is open.
    let drive = open().unwrap();
    std::fs::remove_dir_all(place.path()).unwrap();
    assert!(matches!(drive.save_health(), Err(DriveError::Media(MediaError::NotFound { .. }))));
    let refused = drive.device().write_at(0, &[1], false).unwrap_err();
    assert!(refused.to_string().contains("is gone"), "{refused}");
}

/// What does not get to the disk is told by whoever closes, and the drive is not closed.
#[test]
fn a_close_that_fails_says_so_and_leaves_what_was_flushed() {
    let folder = made(&[]);
    let operations = {
        let drive = open(&folder).unwrap();
        drive.device().write_at(0, &[5; 3000], true).unwrap();
        drive.device().write_at(8000, &[6; 3000], false).unwrap();
        let (before, copy) = (folder.op_count(), kept(&folder));
        drive.close().unwrap();
        assert_eq!(open(&folder).unwrap().remarks(), []);
        assert_eq!(open(&copy).unwrap().health().unsafe_shutdowns, 1);
        folder.op_count() - before
    };
    for op in 1..operations {
        let folder = made(&[]);
        let drive = open(&folder).unwrap();
        drive.device().write_at(0, &[5; 3000], true).unwrap();
        drive.device().write_at(8000, &[6; 3000], false).unwrap();
        folder.crash_at(folder.op_count() + op);
        let failed = drive.close();
        if !folder.has_crashed() {
            continue;
        }
        assert!(failed.is_err(), "operation {op}");
        for mode in MODES {
            let drive = open(&folder.after_crash(op, mode)).unwrap();
            let mut found = [0; 3000];
            drive.device().read_at(0, &mut found).unwrap();
            assert_eq!(found, [5; 3000], "operation {op}, {mode:?}");
        }
    }
    // The device alone says the same.
    let drive = open(&folder).unwrap();
    drive.device().write_at(0, &[7], false).unwrap();
    folder.crash_at(folder.op_count() + 1);
    drive.device().shut_down().unwrap_err();
}

/// What a killed process left is durable once the drive is open, and is left no more.
#[test]
fn what_is_taken_up_is_taken_up_once_and_stays() {
    let packs = [
        "dedup.policy=\"caftl-online\"",
        "ftl.compression=\"before-scrambler\"",
        "ftl.subpages=4",
        "media.scrambler=\"none\"",
    ];
    for lines in [&[][..], &["dedup.policy=\"caftl-online\""], &packs] {
        let (folder, memory) = (made(lines), SimHandover::new());
        let drive = open_with(&folder, Some(&memory)).unwrap();
        let looks = || Pending::of(&inspect(&folder).unwrap(), &memory);
        assert_eq!(looks(), Pending::default());
        drive.device().write_at(0, &[9; 8 * PAGE as usize], true).unwrap();
        drive.device().write_at(2 * PAGE, &[8; PAGE as usize], false).unwrap();
        drive.device().write_at(5 * PAGE, &[9; PAGE as usize], false).unwrap();
        drive.device().trim(0, PAGE, false).unwrap();
        let pending = looks();
        assert!(pending.records > 0 && pending.lost.is_none(), "{pending:?}");
        assert_eq!(pending.pages > 0, lines.len() > 1, "{pending:?}");
        let (folder, memory) = (kept(&folder), memory.after_kill());
        drop(drive);
        let held = |drive: &OpenDrive| {
            let mut found = vec![1; 8 * PAGE as usize];
            drive.device().read_at(0, &mut found).unwrap();
            found.chunks(PAGE as usize).map(|page| page[0]).collect::<Vec<_>>()
        };
        let drive = open_with(&folder, Some(&memory)).unwrap();
        let taken = pending.records + pending.pages;
        assert_eq!(drive.remarks(), [Remark::TakenUp(taken)], "{lines:?}");
        assert_eq!(held(&drive), [0, 9, 8, 9, 9, 9, 9, 9]);
        assert_eq!(drive.health().pages_written, 0, "no host writes it again");
        drop(drive);
        // The power goes at once.
        let left = folder.after_crash(1, CrashMode::KeepNothing);
        assert_eq!(held(&open(&left).unwrap()), [0, 9, 8, 9, 9, 9, 9, 9], "{lines:?}");
    }
}

/// One change is as good as many.
#[test]
fn one_trim_that_is_taken_up_stays() {
    let (folder, memory) = (made(&[]), SimHandover::new());
    let drive = open_with(&folder, Some(&memory)).unwrap();
    drive.device().write_at(0, &[9; PAGE as usize], true).unwrap();
    drive.device().trim(0, PAGE, false).unwrap();
    let (folder, memory) = (kept(&folder), memory.after_kill());
    drop(drive);
    let drive = open_with(&folder, Some(&memory)).unwrap();
    assert_eq!(drive.remarks(), [Remark::TakenUp(1)]);
    drop(drive);
    let drive = open(&folder.after_crash(1, CrashMode::KeepNothing)).unwrap();
    let mut found = [1; PAGE as usize];
    drive.device().read_at(0, &mut found).unwrap();
    assert_eq!(found, [0; PAGE as usize]);
}

/// A mapping page that cannot be had says nothing of its pages, and no hole either.
#[test]
fn what_is_there_is_not_told_where_the_map_cannot_be_read() {
    let folder = made(&["geometry.blocks_per_plane=200", "ftl.map_cache_bytes=4096"]);
    let drive = open(&folder).unwrap();
    let pages = drive.device().size_bytes() / PAGE;
    assert!(pages > 4 * PAGE / 4, "the map is more than the four pages in memory");
    for lpn in (0..pages).step_by(200) {
        drive.device().write_at(lpn * PAGE, &[7; PAGE as usize], false).unwrap();
    }
    drive.device().flush().unwrap();
    folder.crash_at(folder.op_count() + 1);
    folder.create("last").map(drop).unwrap_err();
    let told: Vec<_> = (0..pages / 256)
        .map(|segment| drive.device().block_status(segment * 256 * PAGE, PAGE))
        .collect();
    assert!(told.iter().any(Result::is_err), "{told:?}");
}

#[test]
fn a_drive_that_was_closed_leaves_nothing_in_memory_and_counts_its_seconds() {
    let (folder, memory) = (made(&[]), SimHandover::new());
    let clock = Arc::new(Hand::default());
    let handover: Arc<dyn Handover> = Arc::new(memory.clone());
    let as_clock = Arc::<Hand>::clone(&clock) as Arc<dyn Clock>;
    let drive = OpenDrive::open(Arc::new(folder.clone()), false, as_clock, Some(handover)).unwrap();
    assert_eq!(memory.list().unwrap().len(), 1);
    for (ns, seconds) in [(0, 0), (999_999_999, 0), (7_000_000_000, 7), (7_999_999_999, 7)] {
        clock.wait_until(ns);
        assert_eq!(drive.health().power_on_s, seconds);
    }
    drive.close().unwrap();
    assert_eq!(memory.list().unwrap(), Vec::<String>::new());
    // Nobody keeps anything for a drive that is opened without memory.
    let drive = open_with(&folder, Some(&memory)).unwrap();
    assert_eq!(drive.health().power_on_s, 7);
    drop(drive);
    memory.limit(0);
    let drive = open_with(&folder, Some(&memory)).unwrap();
    assert!(matches!(drive.remarks(), [Remark::NotKept(_)]), "{:?}", drive.remarks());
    assert_eq!(memory.list().unwrap(), Vec::<String>::new(), "what was taken up is removed");
}

#[test]
fn counters_that_are_gone_begin_anew_and_say_since_when() {
    let folder = made(&[]);
    for name in ["health.0", "health.1"] {
        folder.remove(name).unwrap();
    }
    assert!(!inspect(&folder).unwrap().counted);
    let drive = open(&folder).unwrap();
    assert_eq!(drive.remarks()[0], Remark::CountersLost);
    assert_eq!(drive.health().since_unix_s, Some(1_700_000_000));
    drive.close().unwrap();
    assert!(inspect(&folder).unwrap().counted);
}

#[test]
fn policies_that_no_emulated_drive_can_have_are_refused() {
    let refused =
        |lines: &[&str]| spec(lines).bytes_policy().map(drop).map_err(|error| error.to_string());
    let codewords = ["dedup.policy=\"codeword\"", "dedup.codeword_bytes=512"];
    assert!(refused(&codewords).unwrap_err().contains("simulated only"));
    refused(&["dedup.policy=\"codeword\"", "dedup.codeword_bytes=1024"]).unwrap();
    let engine = ["dedup.policy=\"ses-device\"", "ftl.compression=\"before-scrambler\""];
    assert!(refused(&engine).unwrap_err().contains("expected dedup.compression"));
    refused(&[engine[0], engine[1], "dedup.compression=\"before-scrambler\""]).unwrap();
}

/// Which blocks are bad from the start goes by the seed.
#[test]
fn every_bad_block_is_counted_from_the_first_to_the_last() {
    for wanted in [0, 47] {
        let seeded = |seed: u32| {
            let seed = format!("seed={seed}");
            let spec = spec(&["media.factory_bad_blocks_ppm=40000", &seed]);
            let model = spec.wear_model();
            let bad = (0..48).filter(|&block| model.is_factory_bad(block)).collect::<Vec<u32>>();
            (spec, bad)
        };
        let mut drives = (0..1000).map(seeded);
        let (spec, bad) = drives.find(|(_, bad)| bad.contains(&wanted)).expect("one in 25");
        let folder = SimFolder::new();
        create(&folder, &spec).expect("made");
        let state = open(&folder).unwrap().health().state;
        let all = bad.len() as u64;
        assert_eq!((state.bad_blocks, state.factory_bad_blocks), (all, all), "{bad:?}");
    }
}

/// Memory that cannot be read so many times.
struct Flickering {
    memory: SimHandover,
    fails: std::sync::atomic::AtomicU32,
}

impl Handover for Flickering {
    fn boot(&self) -> [u8; 16] {
        self.memory.boot()
    }

    fn create(&self, name: &str, bytes: usize) -> Result<Region, MediaError> {
        self.memory.create(name, bytes)
    }

    fn open(&self, name: &str) -> Result<Region, MediaError> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.fails.load(Relaxed) == 0 {
            return self.memory.open(name);
        }
        self.fails.fetch_sub(1, Relaxed);
        let source = std::io::Error::other("not now");
        Err(MediaError::Io { action: "open", name: name.to_owned(), source })
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.memory.remove(name)
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        self.memory.list()
    }
}

#[test]
fn memory_in_use_is_looked_at_eight_times() {
    let (folder, memory) = (made(&[]), SimHandover::new());
    let drive = open_with(&folder, Some(&memory)).unwrap();
    drive.device().write_at(0, &[9; PAGE as usize], true).unwrap();
    drive.device().trim(0, PAGE, false).unwrap();
    let seen = inspect(&folder).unwrap();
    for fails in [0, 1, 7, 8] {
        let flickering = Flickering { memory: memory.clone(), fails: fails.into() };
        let pending = Pending::of(&seen, &flickering);
        assert_eq!(pending.lost.is_some(), fails == 8, "{fails}: {pending:?}");
        assert_eq!(pending.records > 0, fails < 8, "{fails}: {pending:?}");
        assert_eq!(flickering.fails.into_inner(), 0);
    }
}

#[test]
fn damage_to_heads_is_said_and_repaired_and_others_are_refused() {
    let folder = made(&[]);
    open(&folder).unwrap().close().unwrap();
    folder.open(NAND_FILE).unwrap().write(0, &[0; 100]).unwrap();
    let drive = open(&folder).unwrap();
    assert_eq!(drive.remarks(), [Remark::HeaderRepaired]);
    drive.close().unwrap();
    assert_eq!(open(&folder).unwrap().remarks(), []);
    // The copies of another shape are no witnesses, and nothing is made for an array of one.
    let other = made(&["geometry.blocks_per_plane=30"]);
    let text = {
        let media = folder.open(SPEC_FILE).unwrap();
        let mut text = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut text).unwrap();
        text
    };
    other.remove(SPEC_FILE).unwrap();
    other.remove(COPIES_FILE).unwrap();
    other.create(SPEC_FILE).unwrap().write(0, &text).unwrap();
    assert!(open(&other).is_err(), "it is not what its specification says");
    assert!(other.open(COPIES_FILE).is_err(), "nothing was made for it");
    // Copies that are gone are made anew, to stay.
    let folder = made(&[]);
    folder.remove(COPIES_FILE).unwrap();
    assert_eq!(open(&folder).unwrap().remarks(), [Remark::CopiesMadeAnew]);
    let left = folder.after_crash(0, CrashMode::KeepNothing);
    assert_eq!(open(&left).unwrap().remarks(), [Remark::MayBeLost(None)]);
}
