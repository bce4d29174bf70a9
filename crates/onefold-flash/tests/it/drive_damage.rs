//! Damage to the files of a drive that was killed or closed: every page reads as it was at the last
//! flush or later, or as an error that names it; never as something older.
//! Room: onefold-flash.

use std::collections::BTreeMap;

use onefold_block::{BlockDevice as _, BlockError, CrashMode, Folder as _, SimFolder, SplitMix64};
use onefold_flash::drive::{COPIES_FILE, DriveError, NAND_FILE, OpenDrive, Remark};
use onefold_flash::nand::PageKey;
use onefold_flash::nand::bytes::{Found, RECORD_BYTES, RecordCodec};

use crate::drive_power::{Model, PAGE, content, made, open};

const BLOCKS: u64 = 2 * 20;
const PAGES: u64 = BLOCKS * 8;
const OOB: u64 = 96;
const RECORD: u64 = 64;
const TABLE: u64 = 64 << 10;
const DATA_AT: u64 = TABLE + 4096;
const OOBS_AT: u64 = DATA_AT + PAGES * PAGE as u64;
/// In the file of second copies.
const RECORDS_AT: u64 = TABLE + 4096;
const OWN_AT: u64 = (RECORDS_AT + PAGES * RECORD).next_multiple_of(4096);

/// A drive that was killed after some flushes and some writes that were not flushed.
fn killed(policy: &str, seed: u64, steps: u32) -> (SimFolder, Model) {
    let (folder, drive, mut model) = made(policy);
    let mut random = SplitMix64::new(seed);
    for _ in 0..steps {
        model.step(&drive, &mut random).expect("done");
    }
    drop(drive);
    (folder, model)
}

#[derive(Clone, Copy, Debug)]
enum Harm {
    Wipe(u64),
    Noise(u64),
    Flip(u64),
}

fn hurt(folder: &SimFolder, file: &str, at: u64, harm: Harm) {
    let media = folder.open(file).expect("there");
    let end = media.len().expect("known");
    match harm {
        Harm::Wipe(len) => {
            media.write(at, &vec![0; len.min(end - at) as usize]).expect("wiped");
        }
        Harm::Noise(len) => {
            let noise = SplitMix64::new(at).bytes(len.min(end - at) as usize);
            media.write(at, &noise).expect("written");
        }
        Harm::Flip(bit) => folder.flip_bit(file, at, (bit % 8) as u8).expect("flipped"),
    }
}

/// No bit of a flash page is as it was.
pub fn spoil(folder: &SimFolder, ppn: u32) {
    let at = DATA_AT + u64::from(ppn) * PAGE as u64;
    hurt(folder, NAND_FILE, at, Harm::Noise(PAGE as u64));
}

/// The content of a page that was lost: it is not read again until it is written.
const LOST: u64 = u64::MAX;

/// How many pages read right and how many as errors; anything else is a failure. What was seen is
/// what the pages hold from now on.
fn look(drive: &OpenDrive, model: &mut Model, what: &str) -> (u64, u64) {
    let (mut right, mut errors) = (0, 0);
    let mut found = vec![0; PAGE];
    let pages = model.durable.iter_mut().zip(&mut model.since);
    for (lpn, (durable, since)) in pages.enumerate() {
        match drive.device().read_at((lpn * PAGE) as u64, &mut found) {
            Ok(()) => {
                let may: Vec<u64> = since.drain(..).chain([*durable]).collect();
                let held = may.iter().find(|&&id| id != LOST && content(id) == found);
                *durable = *held.unwrap_or_else(|| panic!("{what}: page {lpn}: none of {may:?}"));
                right += 1;
            }
            Err(BlockError::Corrupt(said)) => {
                assert!(said.contains(&format!("logical page {lpn}")), "{what}: {said}");
                *durable = LOST;
                since.clear();
                errors += 1;
            }
            Err(error) => panic!("{what}: page {lpn}: {error}"),
        }
    }
    (right, errors)
}

/// Opens a hurt drive, looks at it, uses it, kills it and looks again.
fn survive(left: &SimFolder, model: &Model, seed: u64, what: &str) -> Option<(u64, u64)> {
    let mut model = model.clone();
    let drive = open(left).ok()?;
    let seen = look(&drive, &mut model, what);
    let mut random = SplitMix64::new(seed);
    for _ in 0..60 {
        // Nobody who writes a page is told of damage to another one.
        let done = model.step(&drive, &mut random);
        done.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    drop(drive);
    let drive = open(left).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    look(&drive, &mut model, &format!("{what}, again"));
    drive.device().with_ftl(|ftl| ftl.check_invariants());
    Some(seen)
}

#[derive(Default)]
struct Sums {
    refused: u64,
    right: u64,
    errors: u64,
}

fn every(policy: &str, seed: u64, file: &str, places: &[(u64, Harm)]) -> Sums {
    let (folder, model) = killed(policy, seed, 700);
    let mut sums = Sums::default();
    for (turn, &(at, harm)) in (0..).zip(places) {
        let left = folder.after_crash(turn, CrashMode::KeepEverything);
        hurt(&left, file, at, harm);
        let what = format!("{policy}, seed {seed}: {file} at {at}, {harm:?}");
        match survive(&left, &model, turn, &what) {
            Some((right, errors)) => {
                sums.right += right;
                sums.errors += errors;
            }
            None => sums.refused += 1,
        }
    }
    sums
}

#[test]
fn wiped_out_of_band_bytes_of_a_killed_drive_cost_nothing() {
    for (seed, policy) in ["none", "caftl-online", "ses-device"].into_iter().enumerate() {
        let places: Vec<(u64, Harm)> = (seed as u64..PAGES)
            .step_by(5)
            .map(|page| {
                let at = OOBS_AT + page * OOB;
                let harm = match page % 4 {
                    0 => Harm::Wipe(10 * OOB),
                    1 => Harm::Noise(OOB),
                    _ => Harm::Wipe(OOB),
                };
                (at, harm)
            })
            .collect();
        let sums = every(policy, seed as u64, NAND_FILE, &places);
        assert_eq!((sums.refused, sums.errors), (0, 0), "{policy}");
        assert!(sums.right > 1_500, "{policy}");
    }
}

/// What the process left to its host's cache and was flushed by the next one is proven too.
#[test]
fn what_was_flushed_after_a_restart_is_not_taken_for_torn() {
    for seed in 0..2 {
        let (folder, mut model) = killed("none", 80 + seed, 700);
        let drive = open(&folder).expect("opened");
        model.check(&drive, "restarted");
        drive.device().flush().expect("flushed");
        drop(drive);
        for page in (0..PAGES).step_by(4) {
            let left = folder.after_crash(page, CrashMode::KeepEverything);
            hurt(&left, NAND_FILE, OOBS_AT + page * OOB, Harm::Wipe(OOB));
            let seen = survive(&left, &model, page, &format!("seed {seed}, page {page}"));
            assert_eq!(seen.expect("opened").1, 0, "seed {seed}, page {page}");
        }
        let left = folder.after_crash(seed, CrashMode::KeepNothing);
        look(&open(&left).expect("opened"), &mut model, "flushed means durable");
    }
}

#[test]
fn wiped_pages_of_a_killed_drive_are_errors_that_name_them() {
    for (seed, policy) in ["none", "caftl-online"].into_iter().enumerate() {
        let places: Vec<(u64, Harm)> = (seed as u64..PAGES)
            .step_by(7)
            .map(|page| {
                let at = DATA_AT + page * PAGE as u64;
                (at, if page % 3 == 0 { Harm::Noise(3000) } else { Harm::Wipe(1024) })
            })
            .collect();
        let sums = every(policy, 10 + seed as u64, NAND_FILE, &places);
        assert_eq!(sums.refused, 0, "{policy}: the drive's own pages have second copies");
        assert!(sums.errors > 8 && sums.right > 1_500, "{policy}: {} errors", sums.errors);
    }
}

/// The second copy still says what the page's CRC was, and what is in the cells is not that.
#[test]
fn pages_wiped_with_what_they_say_of_themselves_are_errors_too() {
    let (folder, model) = killed("none", 15, 700);
    let mut errors = 0;
    for page in (0..PAGES).step_by(5) {
        let left = folder.after_crash(page, CrashMode::KeepEverything);
        hurt(&left, NAND_FILE, DATA_AT + page * PAGE as u64, Harm::Wipe(1024));
        hurt(&left, NAND_FILE, OOBS_AT + page * OOB, Harm::Wipe(OOB));
        let seen = survive(&left, &model, page, &format!("page {page}"));
        errors += seen.expect("opened").1;
    }
    assert!(errors > 4, "{errors}");
}

#[test]
fn flipped_bits_are_corrected() {
    let mut random = SplitMix64::new(3);
    let places: Vec<(u64, Harm)> = (0..40)
        .map(|turn| {
            let at = DATA_AT + random.below(PAGES * (PAGE as u64 + OOB));
            (at, Harm::Flip(turn))
        })
        .collect();
    let sums = every("caftl-online", 20, NAND_FILE, &places);
    assert_eq!((sums.refused, sums.errors), (0, 0));
}

#[test]
fn headers_and_block_tables_have_second_copies() {
    let mut places: Vec<(u64, Harm)> =
        (0..BLOCKS).map(|block| (TABLE + 32 * block, Harm::Wipe(32))).collect();
    places.push((TABLE, Harm::Wipe(4096)));
    places.push((TABLE, Harm::Noise(4096)));
    places.push((0, Harm::Wipe(100)));
    places.push((30_000, Harm::Flip(3)));
    let sums = every("ses-device", 30, NAND_FILE, &places);
    assert_eq!((sums.refused, sums.errors), (0, 0));
}

#[test]
fn damage_to_second_copies_alone_changes_nothing() {
    let mut places: Vec<(u64, Harm)> = (0..PAGES)
        .step_by(11)
        .map(|page| (RECORDS_AT + page * RECORD, Harm::Noise(5 * RECORD)))
        .collect();
    places.extend(
        (0..PAGES).step_by(13).map(|p| (OWN_AT + p * (PAGE as u64 + OOB), Harm::Noise(2000))),
    );
    places.extend([(0, Harm::Wipe(TABLE)), (0, Harm::Noise(1 << 20)), (9000, Harm::Flip(1))]);
    places.extend((0..BLOCKS).step_by(4).map(|block| (TABLE + 32 * block, Harm::Noise(64))));
    let sums = every("caftl-online", 40, COPIES_FILE, &places);
    assert_eq!((sums.refused, sums.errors), (0, 0));
}

#[test]
fn a_file_cut_short_or_full_of_holes_gives_no_old_data() {
    let (folder, model) = killed("caftl-online", 50, 700);
    let mut seen = BTreeMap::new();
    let end = OOBS_AT + PAGES * OOB;
    for turn in 0..40 {
        let left = folder.after_crash(turn, CrashMode::KeepEverything);
        let media = left.open(NAND_FILE).expect("there");
        let mut random = SplitMix64::new(turn);
        if turn % 2 == 0 {
            media.set_len(end - random.below(end)).expect("cut");
        } else {
            let at = DATA_AT + random.below(end - DATA_AT);
            let len = random.below((end - at).min(200_000)) as usize;
            media.write(at, &vec![0; len]).expect("wiped");
        }
        let answer = survive(&left, &model, turn, &format!("turn {turn}"));
        let (_, errors) = answer.unwrap_or_else(|| panic!("turn {turn}: refused"));
        *seen.entry(errors > 0).or_insert(0) += 1;
    }
    assert!(seen[&true] > 10 && seen[&false] > 1, "{seen:?}");
}

/// Without the second copy too, the newest checkpoint is missed or the drive is refused by name.
#[test]
fn own_pages_that_are_gone_twice_are_lost_by_name() {
    let (folder, model) = killed("caftl-online", 60, 900);
    let (mut refused, mut errors) = (0, 0);
    for page in (0..PAGES).step_by(2) {
        let left = folder.after_crash(page, CrashMode::KeepEverything);
        hurt(&left, NAND_FILE, DATA_AT + page * PAGE as u64, Harm::Noise(1024));
        hurt(&left, COPIES_FILE, OWN_AT + page * (PAGE as u64 + OOB), Harm::Noise(1024));
        match open(&left) {
            Ok(drive) => {
                let what = format!("page {page}");
                drop(drive);
                errors += survive(&left, &model, page, &what).map_or(0, |(_, errors)| errors);
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains(&format!("page {page} ")), "{said}");
                refused += 1;
            }
        }
    }
    // Root, block states, journal; mapping pages are lost entries.
    assert!((2..20).contains(&refused) && errors > 30, "{refused} refused, {errors} errors");
}

/// Where the newest mapping page has left no trace, an older one that is still in the cells is not
/// taken in its place: the root says how new it must be.
#[test]
fn a_mapping_page_that_is_gone_without_trace_is_not_replaced_by_an_older_one() {
    let (folder, mut model) = killed("none", 65, 900);
    let drive = open(&folder).expect("opened");
    model.check(&drive, "before");
    drive.close().expect("closed");
    let records = RecordCodec::new();
    let media = folder.open(NAND_FILE).expect("there");
    let mut newest: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut pages = 0;
    for page in 0..PAGES {
        let mut bytes = [0; RECORD_BYTES];
        media.read(OOBS_AT + (page + 1) * OOB - RECORD, &mut bytes).expect("read");
        if let Found::Record(record) = records.decode(&bytes)
            && let PageKey::Map(segment) = record.oob.key
        {
            pages += 1;
            let best = newest.entry(segment).or_default();
            *best = (*best).max((record.oob.seq, page));
        }
    }
    assert!(pages > newest.len(), "there are older ones");
    let mut errors = 0;
    for (segment, (_, page)) in newest {
        let left = folder.after_crash(page, CrashMode::KeepEverything);
        hurt(&left, NAND_FILE, OOBS_AT + page * OOB, Harm::Wipe(OOB));
        hurt(&left, NAND_FILE, DATA_AT + page * PAGE as u64, Harm::Wipe(PAGE as u64));
        hurt(&left, COPIES_FILE, RECORDS_AT + page * RECORD, Harm::Wipe(RECORD));
        let drive = open(&left).unwrap_or_else(|error| panic!("segment {segment}: {error}"));
        let lost = Remark::PagesLost(PAGE as u64 / 4);
        assert!(drive.remarks().contains(&lost), "{segment}: {:?}", drive.remarks());
        errors += look(&drive, &mut model.clone(), &format!("segment {segment}")).1;
    }
    assert!(errors > 0, "what was in them is lost by name");
}

#[test]
fn closed_drives_stand_the_same() {
    let (folder, drive, mut model) = made("none");
    for lpn in 0..model.durable.len() as u64 {
        drive.device().write_at(lpn * PAGE as u64, &content(1000 + lpn), false).expect("written");
        model.durable[lpn as usize] = 1000 + lpn;
    }
    drive.close().expect("closed");
    for page in (0..PAGES).step_by(4) {
        let left = folder.after_crash(page, CrashMode::KeepEverything);
        let len = if page % 4 == 0 { 10 * OOB } else { OOB };
        hurt(&left, NAND_FILE, OOBS_AT + page * OOB, Harm::Wipe(len));
        // Found again after it was stored again.
        open(&left).expect("opened").close().expect("closed");
        let drive = open(&left).expect("opened again");
        assert_eq!(look(&drive, &mut model.clone(), &format!("page {page}")).1, 0);
    }
}

#[test]
fn a_drive_without_second_copies_gets_them() {
    let (folder, model) = killed("caftl-online", 70, 700);
    folder.remove(COPIES_FILE).expect("removed");
    let drive = open(&folder).expect("opened");
    assert_eq!(drive.remarks(), [Remark::CopiesMadeAnew, Remark::MayBeLost(None)]);
    assert_eq!(look(&drive, &mut model.clone(), "without copies").1, 0);
    drive.close().expect("closed");
    let drive = open(&folder).expect("opened");
    assert_eq!(drive.remarks(), []);
}

/// Puts a file of another drive in the place of one's own.
fn swap(folder: &SimFolder, other: &SimFolder, file: &str) -> Vec<u8> {
    let read = |folder: &SimFolder| {
        let media = folder.open(file).expect("there");
        let mut bytes = vec![0; media.len().expect("known") as usize];
        media.read(0, &mut bytes).expect("read");
        bytes
    };
    let own = read(folder);
    folder.open(file).expect("there").write(0, &read(other)).expect("written");
    own
}

#[test]
fn files_of_two_drives_of_one_kind_are_never_mixed() {
    let (folder, mut model) = killed("none", 81, 300);
    let (other, _) = killed("none", 82, 300);
    for file in [NAND_FILE, COPIES_FILE] {
        let own = swap(&folder, &other, file);
        assert!(matches!(open(&folder), Err(DriveError::Mixed)), "{file}");
        folder.open(file).expect("there").write(0, &own).expect("put back");
        assert_eq!(look(&open(&folder).expect("opened"), &mut model, file).1, 0);
    }
    swap(&folder, &other, COPIES_FILE);
    folder.remove(COPIES_FILE).expect("removed");
    assert_eq!(look(&open(&folder).expect("opened"), &mut model, "no copies").1, 0);
}
