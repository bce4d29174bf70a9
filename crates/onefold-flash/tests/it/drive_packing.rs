//! The emulated drive that compresses pages and packs them: closed, cut, killed and damaged.
//! Room: onefold-flash.

use std::collections::BTreeSet;

use onefold_block::{BlockDevice as _, CrashMode, SplitMix64};
use onefold_flash::drive::OpenDrive;
use onefold_flash::op::OpKind;
use onefold_flash::spec::CompressionPlace::{AfterScrambler, BeforeScrambler};
use onefold_flash::spec::{CompressionPlace, DriveSpec};

use crate::drive_kill::kills_of;
use crate::drive_power::{PAGE, cut_of, made_of, open, packed};

/// Every policy that packed pages can be had with, on each side of the scrambler.
const DRIVES: [(&str, CompressionPlace); 9] = [
    ("none", BeforeScrambler),
    ("caftl-online", BeforeScrambler),
    ("caftl-offline", BeforeScrambler),
    ("block-separation", BeforeScrambler),
    ("crc-compare", BeforeScrambler),
    ("ses-device", BeforeScrambler),
    ("ses-host", BeforeScrambler),
    ("ses-host", AfterScrambler),
    ("gleaner", BeforeScrambler),
];

fn drives() -> impl Iterator<Item = DriveSpec> {
    DRIVES.into_iter().map(|(policy, place)| packed(policy, place))
}

fn named(spec: &DriveSpec) -> String {
    format!("{} {}", spec.dedup.policy, spec.ftl.compression.name())
}

#[test]
fn a_packed_drive_that_was_closed_is_all_there() {
    for spec in drives() {
        let (folder, mut drive, mut model) = made_of(&spec);
        let mut random = SplitMix64::new(1);
        for round in 0..5 {
            for _ in 0..300 {
                model.step(&drive, &mut random).expect("done");
            }
            drive.device().with_ftl(|ftl| ftl.check_invariants());
            model.flushed();
            drive.close().expect("closed");
            drive = open(&folder).expect("opened");
            model.check(&drive, &format!("{}, round {round}", named(&spec)));
            drive.device().with_ftl(|ftl| ftl.check_invariants());
        }
        let counters = drive.device().with_ftl(|ftl| *ftl.counters());
        let health = drive.health();
        let shared = health.inline_pages + health.offline_pages;
        assert_eq!(shared > 0, spec.dedup.policy != "none", "{}: {shared} shared", named(&spec));
        assert!(health.nand.erases > 20, "{}: {health:?}", named(&spec));
        // What one run of the drive made is counted in it; all five packed pages.
        assert_eq!(counters.packed_pages, 0);
        let packed = drive.device().with_ftl(|ftl| {
            let places = 0..ftl.places();
            places.filter(|&place| ftl.holds_data(place) && ftl.is_fragment(place)).count()
        });
        assert!(packed > 10, "{}: {packed} packed pages", named(&spec));
    }
}

#[test]
fn no_power_cut_takes_what_was_flushed_from_packed_pages() {
    let modes = [CrashMode::KeepNothing, CrashMode::KeepEverything, CrashMode::Random];
    let mut shutdowns = BTreeSet::new();
    let drives: Vec<DriveSpec> = drives().collect();
    for seed in 0..64 {
        let op = 1 + SplitMix64::new(seed).below(1500);
        cut_of(&drives[seed as usize % drives.len()], seed, op, &modes, &mut shutdowns);
    }
    assert_eq!(shutdowns, BTreeSet::from([1]));
}

#[test]
fn a_power_cut_at_every_operation_of_a_short_run_of_a_packed_drive() {
    let mut shutdowns = BTreeSet::new();
    for op in 1..160 {
        let spec = packed("caftl-online", BeforeScrambler);
        cut_of(&spec, 5, op, &[CrashMode::Random], &mut shutdowns);
    }
}

#[test]
fn nothing_acknowledged_that_waits_to_be_packed_is_old_after_any_number_of_kills() {
    for spec in drives() {
        assert_eq!(kills_of(&spec, true), (0, 1), "{}", named(&spec));
    }
    assert!(kills_of(&packed("none", BeforeScrambler), false).0 > 0, "without memory it is");
}

/// [ses-dedup] sec. IV: behind the scrambler the engine sees noise, and gains nothing; but what the
/// host scrambled ahead comes to it plain.
#[test]
fn behind_the_scrambler_only_the_host_side_design_lets_anything_get_shorter() {
    let programs = |spec: &DriveSpec| {
        let (_folder, drive, _model) = made_of(spec);
        let page = |n: u64| [&SplitMix64::new(n + 1).bytes(150)[..], &[0; PAGE - 150]].concat();
        for n in 0..64 {
            drive.device().write_at(n * PAGE as u64, &page(n), false).expect("written");
        }
        drive.device().flush().expect("flushed");
        for n in 0..64 {
            let mut found = vec![0; PAGE];
            drive.device().read_at(n * PAGE as u64, &mut found).expect("read");
            assert!(found == page(n), "{} page {n}", named(spec));
        }
        drive.device().with_ftl(|ftl| {
            (
                ftl.counters().ops.of(OpKind::Program, onefold_flash::Cause::Host),
                ftl.counters().fragments,
            )
        })
    };
    // A quarter of a page each, as the first 150 bytes are all that there is to say.
    assert_eq!(programs(&packed("none", BeforeScrambler)), (16, 64));
    assert_eq!(programs(&packed("none", AfterScrambler)), (64, 0));
    assert_eq!(programs(&packed("ses-device", AfterScrambler)), (64, 0));
    assert_eq!(programs(&packed("ses-host", AfterScrambler)), (16, 64));
    let mut unscrambled = packed("none", AfterScrambler);
    "none".clone_into(&mut unscrambled.media.scrambler);
    assert_eq!(programs(&unscrambled), (16, 64), "both sides are the same");
}

/// Nobody knows whose newer content a page held that no checkpoint knows of: older content must not
/// come back instead.
#[test]
fn a_damaged_packed_page_that_no_checkpoint_knows_is_no_reason_for_older_content() {
    let (folder, drive, _model) = made_of(&packed("none", BeforeScrambler));
    for fill in [1, 2] {
        for n in 0..4 {
            drive.device().write_at(n * PAGE as u64, &[fill; PAGE], false).expect("written");
        }
        drive.device().flush().expect("flushed");
    }
    let place = drive.device().with_ftl(|ftl| ftl.locate(0)).unwrap_or_default();
    drop(drive);
    crate::drive_damage::spoil(&folder, place / 4);
    let refused = open(&folder).map(drop).expect_err("what was flushed is not there").to_string();
    assert!(refused.contains("with compressed pages written at sequence"), "{refused}");
}

/// Of a flash page that cannot be read, every page is an error by its name, wherever collection
/// takes it, until it is written again.
#[test]
fn a_damaged_packed_page_is_an_error_for_each_of_its_pages() {
    let spec = packed("none", BeforeScrambler);
    let (folder, drive, _model) = made_of(&spec);
    let page = |n: u64| [&SplitMix64::new(n + 1).bytes(150)[..], &[0; PAGE - 150]].concat();
    let write =
        |drive: &OpenDrive, n: u64| drive.device().write_at(n * PAGE as u64, &page(n), false);
    for n in 0..64 {
        write(&drive, n).expect("written");
    }
    let place = drive.device().with_ftl(|ftl| ftl.locate(0)).unwrap_or_default();
    let ppn = place / spec.ftl.subpages;
    drive.close().expect("closed");
    // All of its cells.
    crate::drive_damage::spoil(&folder, ppn);
    let drive = open(&folder).expect("opened");
    let mut found = vec![0; PAGE];
    for round in 0..3 {
        for n in 0..64 {
            let read = drive.device().read_at(n * PAGE as u64, &mut found);
            assert_eq!(read.is_err(), n < 4, "round {round}, page {n}: {read:?}");
        }
        // Collection moves what is left of the block.
        for n in 0..600 {
            write(&drive, 8 + n % 56).expect("written");
        }
        drive.device().with_ftl(|ftl| ftl.check_invariants());
    }
    for n in 0..4 {
        write(&drive, n).expect("written");
        drive.device().read_at(n * PAGE as u64, &mut found).expect("read");
        assert!(found == page(n));
    }
}
