//! Pages that past overwrites say will be replaced soon are left alone, and only those.
//! Room: onefold-flash.   Source: [park-shin] sec. III, future work.

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, Policy, Site};
use onefold_flash::nand::Identity;
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::validation::kinds::{Array, array, untimed};

type Drive = Ftl<Array, AnyPolicy<Identities>>;

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 1,
    dies_per_package: 1,
    planes_per_die: 1,
    blocks_per_plane: 64,
    pages_per_block: 16,
    page_bytes: 4096,
    oob_bytes: 128,
};
const LOGICAL: u32 = 600;
/// Pages that are overwritten all the time; they are whole regions.
const HOT: u32 = 16;
const PREDICT: &str = "predict = 'overwrites'\nregion_pages = 8\nepoch_share = 0.1";

fn drive(options: &str) -> Drive {
    let site = Site::new(GEOMETRY, None);
    let options = options.parse().expect("TOML");
    let policy = AnyPolicy::new::<Identity>("crc-compare", &options, &site, Identities);
    let settings =
        FtlSettings { logical_pages: LOGICAL, gc_reserve_blocks: 2, ..Default::default() };
    Ftl::format(array(GEOMETRY), policy.expect("accepted"), settings).expect("fits")
}

fn write(drive: &mut Drive, lpn: u32, content: u64) {
    drive.write(lpn, &Identity(u128::from(content)), &mut untimed()).expect("written");
}

fn idle(drive: &mut Drive) {
    while drive.deduplicate_step(&mut untimed()).expect("done") {}
    drive.check_invariants();
}

fn count(drive: &Drive, name: &str) -> u64 {
    let all = Policy::<Identity>::report(drive.policy());
    all.iter().find(|(key, _)| *key == name).expect("a count of that name").1
}

/// Pages merged for the hot pages and the others, and pairs compared: hot pages are overwritten
/// with one of three contents in every round, others are written once, each content twice.
fn worked(options: &str) -> (u64, u64, Drive) {
    let mut drive = drive(options);
    let mut random = SplitMix64::new(3);
    for round in 0..200 {
        for lpn in 0..HOT {
            write(&mut drive, lpn, random.below(3));
        }
        for lpn in [HOT + 2 * round, HOT + 2 * round + 1] {
            write(&mut drive, lpn, u64::from(1000 + round));
        }
        idle(&mut drive);
    }
    let (merged, counters) = (drive.counters().offline_pages, drive.counters());
    (merged, counters.compared_equal + counters.compared_different, drive)
}

#[test]
fn hot_pages_cost_no_comparisons_and_others_are_all_found() {
    let (merged, compared, _) = worked("");
    let (merged_less, compared_less, drive) = worked(PREDICT);
    // Thirteen or more of sixteen hot pages a round are merged in vain without a prediction.
    assert!(merged > 200 * 13 && compared >= merged, "{merged} {compared}");
    assert!(merged_less < 200 + 200, "{merged_less}");
    assert!(compared_less < compared / 5, "{compared_less} of {compared}");
    let cold: std::collections::BTreeSet<u32> =
        (HOT..HOT + 400).filter_map(|lpn| drive.locate(lpn)).collect();
    assert_eq!(cold.len(), 200, "every pair of cold pages shares a page");
    let (held, foreseen) = (count(&drive, "held_pages"), count(&drive, "held_pages_overwritten"));
    assert!(held > 200 * 10 && held - foreseen <= u64::from(2 * HOT), "{foreseen} of {held}");
}

#[test]
fn a_page_that_outlives_the_prediction_is_found_after_all() {
    let (_, _, mut drive) = worked(PREDICT);
    // The hot pages rest: 102 writes are an epoch, and two of them end every doubt.
    for lpn in 0..HOT {
        write(&mut drive, lpn, 7);
    }
    idle(&mut drive);
    let places = |drive: &Drive| {
        (0..HOT).filter_map(|lpn| drive.locate(lpn)).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(places(&drive).len() > 1, "they are left alone for now");
    for turn in 0..=2 * 102 {
        write(&mut drive, HOT + 420 + turn % 100, u64::from(5000 + turn));
    }
    idle(&mut drive);
    assert_eq!(places(&drive).len(), 1);
}

#[test]
fn nothing_is_left_alone_where_nothing_is_overwritten() {
    let mut drive = drive(PREDICT);
    for lpn in 0..LOGICAL {
        write(&mut drive, lpn, u64::from(lpn / 2));
    }
    idle(&mut drive);
    assert_eq!(drive.counters().offline_pages, u64::from(LOGICAL / 2));
    assert_eq!(count(&drive, "held_pages"), 0);
}

#[test]
fn a_drive_that_was_full_before_tells_no_lives() {
    let mut drive = drive(PREDICT);
    // Everything is overwritten once, long after it was written first.
    for turn in 0..2 {
        for lpn in 0..LOGICAL {
            write(&mut drive, lpn, u64::from(lpn / 2 + turn * 1000));
        }
        idle(&mut drive);
    }
    assert_eq!(drive.counters().offline_pages, u64::from(LOGICAL));
    assert_eq!(count(&drive, "held_pages"), 0);
}
