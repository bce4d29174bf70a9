//! On demand: what the host wants kept is never shared, under no policy, wherever it moves and
//! however often the drive is opened; everything else is deduplicated as ever.
//! Room: onefold-flash.   Source: [ses-dedup] sec. III: the host chooses what is deduplicated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onefold_block::{BlockDevice as _, SimFolder, SplitMix64, ZeroOptions};
use onefold_flash::dedup::{AnyPolicy, Identities, POLICIES, Site};
use onefold_flash::drive::{self, Door, OpenDrive};
use onefold_flash::ftl::{Durability, FtlError};
use onefold_flash::nand::{
    Cut, Faults, Identity, IdentityNand, Nand as _, NandError, PageKey, PowerCut,
};
use onefold_flash::op::{Cause, OpKind};
use onefold_flash::run::{RunOptions, run};
use onefold_flash::spec::SpecBuilder;
use onefold_flash::{Ftl, FtlSettings, Geometry};
use onefold_workload::{Identity as ContentIdentity, Op, Request};

use crate::drive_power::{self, PAGE, content};
use crate::support;
use crate::validation::kinds::untimed;

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 1,
    dies_per_package: 1,
    planes_per_die: 2,
    blocks_per_plane: 24,
    pages_per_block: 8,
    page_bytes: 256,
    oob_bytes: 64,
};
const LOGICAL: u32 = 120;
const WORDS: [Option<bool>; 3] = [None, Some(true), Some(false)];

type Drive = Ftl<PowerCut<IdentityNand>, AnyPolicy<Identities>>;

fn policy(name: &str) -> AnyPolicy<Identities> {
    let site = Site::new(GEOMETRY, None);
    AnyPolicy::new::<Identity>(name, &toml::Table::new(), &site, Identities).expect("accepted")
}

/// Whether the operation was done; the power may be off instead.
fn done<T>(result: Result<T, FtlError>) -> bool {
    match result {
        Ok(_) => true,
        Err(FtlError::Nand(NandError::PowerOff)) => false,
        Err(error) => panic!("unexpected: {error}"),
    }
}

/// What a page holds, and whether it is kept.
type Held = Option<(u128, bool)>;
/// What each page may be: what it was since the last flush, the newest last.
type Allowed = Vec<Vec<Held>>;

fn act(drive: &mut Drive, allowed: &mut Allowed, random: &mut SplitMix64) {
    for _ in 0..600 {
        let lpn = random.below(u64::from(LOGICAL)) as u32;
        let on = match random.below(20) {
            0 => {
                allowed[lpn as usize].push(None);
                done(drive.trim(lpn, &mut untimed()))
            }
            1 => {
                let flushed = done(drive.flush(&mut untimed()));
                if flushed {
                    let newest = |all: &mut Vec<_>| *all = vec![*all.last().expect("never empty")];
                    allowed.iter_mut().for_each(newest);
                }
                flushed
            }
            2..6 => done(drive.deduplicate_step(&mut untimed())),
            6..8 => done(drive.collect_idle(random.below(2) as u32, &mut untimed())),
            _ => {
                let content = u128::from(1 + random.below(25));
                let word = WORDS[random.below(3) as usize];
                allowed[lpn as usize].push(Some((content, word == Some(false))));
                done(drive.write_asked(lpn, &Identity(content), word, &mut untimed()))
            }
        };
        if !on {
            return;
        }
    }
}

fn held(drive: &mut Drive, lpn: u32) -> Held {
    let page = drive.read(lpn, &mut untimed()).expect("readable")?;
    let ppn = drive.locate(lpn).expect("it was read");
    Some((page.0, drive.is_kept(ppn)))
}

/// Pages that are kept are nobody else's.
fn check_alone(drive: &Drive, what: &str) {
    let mut users: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for lpn in 0..LOGICAL {
        if let Some(ppn) = drive.locate(lpn) {
            users.entry(ppn).or_default().push(lpn);
        }
    }
    for (ppn, lpns) in users {
        assert!(lpns.len() == 1 || !drive.is_kept(ppn), "{what}: page {ppn} is that of {lpns:?}");
    }
}

#[test]
fn kept_pages_are_never_shared_through_passes_collection_and_power_cuts() {
    for info in POLICIES {
        let (mut kept, mut shared, mut moved) = (0, 0, 0);
        for seed in 0..12 {
            let what = format!("{} seed {seed}", info.name);
            let mut random = SplitMix64::new(seed);
            let settings = FtlSettings {
                logical_pages: LOGICAL,
                // Idle moments always find something to move.
                gc_idle_blocks: GEOMETRY.blocks_per_plane,
                durability: Durability::Journal,
                ..FtlSettings::default()
            };
            let faults = Faults { program_ppm: 0, erase_ppm: 0, blocks_max: 0, seed };
            let nand = PowerCut::new(IdentityNand::new(GEOMETRY), faults);
            let mut drive = Ftl::format(nand, policy(info.name), settings).expect("fits");
            let mut allowed: Allowed = vec![vec![None]; LOGICAL as usize];
            for _ in 0..4 {
                let cut = [Cut::Before, Cut::Torn, Cut::After][random.below(3) as usize];
                drive.nand().cut_after(random.below(700), cut);
                act(&mut drive, &mut allowed, &mut random);
                drive.check_invariants();
                check_alone(&drive, &what);
                let counters = *drive.counters();
                shared += counters.inline_pages + counters.offline_pages;
                moved += counters.ops.of(OpKind::Program, Cause::Gc);
                let mut nand = drive.into_nand();
                nand.restore();
                drive = Ftl::open(nand, policy(info.name), settings).expect("recovered").0;
                drive.check_invariants();
                for lpn in 0..LOGICAL {
                    let got = held(&mut drive, lpn);
                    let may = &mut allowed[lpn as usize];
                    assert!(may.contains(&got), "{what} page {lpn}: {got:?} of {may:?}");
                    kept += u64::from(matches!(got, Some((_, true))));
                    *may = vec![got];
                }
            }
            while drive.deduplicate_step(&mut untimed()).expect("a step") {}
            check_alone(&drive, &what);
            for lpn in 0..LOGICAL {
                assert_eq!(allowed[lpn as usize], [held(&mut drive, lpn)], "{what} page {lpn}");
            }
        }
        assert!(kept > 300 && moved > 300, "{}: {kept} kept, {moved} moved", info.name);
        assert_eq!(shared > 300, info.name != "none", "{}: {shared} shared", info.name);
    }
}

/// Writes a page through one of the doors of a drive.
fn put(drive: &OpenDrive, lpn: u64, word: Option<bool>, content: &[u8]) {
    let door = Door::new(Arc::clone(drive.device()), word);
    door.write_at(lpn * PAGE as u64, content, false).expect("written");
}

fn idle(drive: &OpenDrive) {
    while drive.device().idle().expect("no failure") {}
}

/// Where pages are, of which none may be shared and all must say that they are kept.
fn places(drive: &OpenDrive, lpns: std::ops::Range<u32>) -> BTreeSet<u32> {
    drive.device().with_ftl(|ftl| {
        lpns.map(|lpn| {
            let ppn = ftl.locate(lpn).expect("stored");
            assert!(ftl.is_kept(ppn), "page {lpn}");
            assert_eq!(ftl.nand().read_oob(ppn).expect("read").key, PageKey::Kept(lpn));
            ppn
        })
        .collect()
    })
}

#[test]
fn two_doors_of_one_drive_under_every_policy() {
    for info in POLICIES {
        let name = info.name;
        let folder = SimFolder::new();
        drive::create(&folder, &drive_power::spec(name)).expect("made");
        let mut drive = drive_power::open(&folder).expect("opened");
        let same = content(9);
        let mut random = SplitMix64::new(8);
        let mut others = 1000;
        let mut churn = |drive: &OpenDrive| {
            others += 1;
            put(drive, 20 + random.below(60), None, &content(others));
        };
        for lpn in 0..8 {
            put(&drive, lpn, Some(false), &same);
            put(&drive, 8 + lpn, Some(true), &same);
            // A block full of pages that live is never collected.
            (0..15).for_each(|_| churn(&drive));
        }
        for round in 0..3_u64 {
            idle(&drive);
            let before = places(&drive, 0..8);
            assert_eq!(before.len(), 8, "{name}: each has a page of its own");
            // Other pages are written until collection has moved at least one of these.
            for step in 0..20_000 {
                if step % 40 == 0 && places(&drive, 0..8) != before {
                    break;
                }
                churn(&drive);
            }
            let after = places(&drive, 0..8);
            assert!(after.len() == 8 && after != before, "{name}: nothing moved: {after:?}");
            // One of the same content that may be shared does not take a kept one.
            put(&drive, 16 + round, None, &same);
            idle(&drive);
            drive.device().flush().expect("flushed");
            drop(drive);
            drive = drive_power::open(&folder).expect("opened");
            let again = drive.device().with_ftl(|ftl| ftl.locate(16));
            assert!(!places(&drive, 0..8).contains(&again.expect("stored")), "{name}");
        }
        idle(&drive);
        let shared: BTreeSet<_> =
            drive.device().with_ftl(|ftl| (8..16).map(|lpn| ftl.locate(lpn)).collect());
        assert_eq!(shared.len(), if name == "none" { 8 } else { 1 }, "{name}: others are shared");
        for lpn in 0..19 {
            let mut found = vec![1; PAGE];
            drive.device().read_at(lpn * PAGE as u64, &mut found).expect("read");
            assert!(found == same, "{name}: page {lpn}");
        }
        // The last word counts, also that of a part.
        put(&drive, 3, Some(true), &same);
        let half = Door::new(Arc::clone(drive.device()), Some(false));
        half.write_at(9 * PAGE as u64, &same[..100], false).expect("written");
        drive.device().with_ftl(|ftl| {
            let kept = [3, 9].map(|lpn| ftl.is_kept(ftl.locate(lpn).expect("stored")));
            assert_eq!(kept, [false, true], "{name}");
            ftl.check_invariants();
        });
    }
}

#[test]
fn all_doors_show_the_same_bytes() {
    for name in ["gleaner", "ses-host", "caftl-offline"] {
        let folder = SimFolder::new();
        drive::create(&folder, &drive_power::spec(name)).expect("made");
        let mut drive = drive_power::open(&folder).expect("opened");
        let size = drive.device().size_bytes();
        let mut model = vec![0_u8; size as usize];
        let mut random = SplitMix64::new(4);
        for step in 0..1500 {
            if step % 500 == 499 {
                drive.device().flush().expect("flushed");
                drop(drive);
                drive = drive_power::open(&folder).expect("opened");
            }
            let word = WORDS[random.below(3) as usize];
            let door = Door::new(Arc::clone(drive.device()), word);
            assert_eq!((door.size_bytes(), door.preferred_block_bytes()), (size, PAGE as u32));
            let offset = random.below(size - 4 * PAGE as u64);
            let len = random.below(3 * PAGE as u64) + 1;
            let range = offset as usize..(offset + len) as usize;
            match random.below(10) {
                0 => {
                    let options =
                        ZeroOptions { no_hole: random.chance(1, 2), ..ZeroOptions::default() };
                    door.write_zeroes(offset, len, options).expect("zeroed");
                    model[range].fill(0);
                }
                1 => {
                    door.flush().expect("flushed");
                    assert!(!door.block_status(0, size).expect("known").is_empty());
                }
                2 => {
                    let page = offset / PAGE as u64 * PAGE as u64;
                    door.trim(page, PAGE as u64, false).expect("trimmed");
                    model[page as usize..page as usize + PAGE].fill(0);
                }
                3 => while drive.device().idle().expect("no failure") {},
                4..7 => {
                    let mut found = vec![1; len as usize];
                    door.read_at(offset, &mut found).expect("read");
                    assert!(found == model[range], "{name} step {step}");
                }
                _ => {
                    let data = content(random.below(6));
                    let data = data.repeat(3);
                    door.write_at(offset, &data[..len as usize], false).expect("written");
                    model[range].copy_from_slice(&data[..len as usize]);
                }
            }
        }
        let mut all = vec![1; size as usize];
        drive.device().read_at(0, &mut all).expect("read");
        assert!(all == model, "{name}");
    }
}

#[test]
fn a_run_follows_the_words_of_its_trace() {
    for info in POLICIES.iter().filter(|info| info.name != "none") {
        let found = |word: &dyn Fn(u64) -> Option<bool>| {
            let text = format!(
                "precondition = 'none'
                geometry.blocks_per_plane = 32
                geometry.pages_per_block = 32
                ftl.over_provisioning = 0.5
                ftl.gc_reserve_blocks = 2
                {}
                workload.finish_offline = true",
                support::of_pages(info.name, 8192).join("\n")
            );
            let spec = SpecBuilder::preset("ses-slc").and_then(|spec| spec.file("drive", &text));
            let spec = spec.and_then(SpecBuilder::build).unwrap_or_else(|error| panic!("{error}"));
            let length = u64::from(spec.geometry.page_bytes);
            let request = |number: u64| Request {
                time_ns: number * 1_000_000_000,
                op: Op::Write,
                offset: number * length,
                length,
                identity: Some(ContentIdentity::of_number(1, number % 4)),
                stream: None,
                pid: None,
                deduplicate: word(number),
            };
            let requests: Vec<_> = (0..64).map(request).map(Ok).collect();
            let trace = Some(Box::new(requests.into_iter()) as _);
            let report = run(&spec, RunOptions { trace, ..RunOptions::default() });
            let dedup = report.unwrap_or_else(|error| panic!("{error}")).report.dedup;
            dedup.inline_pages + dedup.offline_pages
        };
        // Sixty of the pages repeat one of the first four.
        let all = [found(&|_| None), found(&|_| Some(true)), found(&|_| Some(false))];
        assert_eq!(all, [60, 60, 0], "{}", info.name);
        // Half of them are kept, those of two contents.
        let half = [found(&|number| Some(number % 4 < 2)), found(&|number| Some(number < 32))];
        assert_eq!(half, [30, 28], "{}", info.name);
    }
}
