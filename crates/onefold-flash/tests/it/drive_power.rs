//! The emulated drive in a folder: closed and opened, and after power cuts below its file.
//! Room: onefold-flash.

use std::collections::BTreeSet;
use std::sync::Arc;

use onefold_block::{
    BlockDevice as _, BlockError, CrashMode, ExtentKind, Folder as _, SimFolder, SplitMix64,
    ZeroOptions,
};
use onefold_flash::Geometry;
use onefold_flash::drive::{self, Clock, OpenDrive, SmartReport};
use onefold_flash::spec::{BlockCount, CompressionPlace, DriveSpec};

pub const PAGE: usize = 1024;

/// Time stands still.
pub struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }

    fn unix_s(&self) -> u64 {
        1_700_000_000
    }

    fn wait_until(&self, _until_ns: u64) {}
}

pub fn spec(policy: &str) -> DriveSpec {
    let mut spec = DriveSpec::preset("ses-mlc1").expect("a preset");
    spec.geometry = Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 2,
        blocks_per_plane: 20,
        pages_per_block: 8,
        page_bytes: PAGE as u32,
        oob_bytes: 96,
    };
    spec.ftl.over_provisioning = 2.0;
    spec.ftl.gc_reserve_blocks = BlockCount::Blocks(4);
    // Hashes outrun reads, so that they are trusted where a policy may.
    spec.controller.hash_ns = 0;
    policy.clone_into(&mut spec.dedup.policy);
    spec
}

/// The same with a compression engine, before the scrambler or behind it.
pub fn packed(policy: &str, place: CompressionPlace) -> DriveSpec {
    let mut spec = spec(policy);
    spec.ftl.compression = place;
    spec.ftl.subpages = 4;
    if policy.starts_with("ses-") || policy == "gleaner" {
        spec.dedup.options.insert("compression".to_owned(), place.name().into());
    }
    spec
}

pub fn open(folder: &SimFolder) -> Result<OpenDrive, drive::DriveError> {
    OpenDrive::open(Arc::new(folder.clone()), false, Arc::new(Still), None)
}

/// A page of content number `id`; 0 is zeroes.
pub fn content(id: u64) -> Vec<u8> {
    if id == 0 {
        return vec![0; PAGE];
    }
    // Some are noise, and others get shorter in a compression engine.
    let mut page = SplitMix64::new(id).bytes(PAGE);
    page[PAGE * (1 + id as usize % 5) / 5..].fill(id as u8);
    page
}

/// What each page must or may hold, by number of content.
#[derive(Clone)]
pub struct Model {
    pub durable: Vec<u64>,
    pub since: Vec<Vec<u64>>,
    next: u64,
}

impl Model {
    pub fn new(pages: usize) -> Self {
        Self { durable: vec![0; pages], since: vec![Vec::new(); pages], next: 100 }
    }

    pub fn flushed(&mut self) {
        for (durable, since) in self.durable.iter_mut().zip(&mut self.since) {
            *durable = since.last().copied().unwrap_or(*durable);
            since.clear();
        }
    }

    /// One random request; half of what is written is one of six contents.
    pub fn step(&mut self, drive: &OpenDrive, random: &mut SplitMix64) -> Result<(), BlockError> {
        let device = drive.device();
        let pages = self.durable.len() as u64;
        let lpn = random.below(pages);
        let offset = lpn * PAGE as u64;
        match random.below(16) {
            0 => {
                device.flush()?;
                self.flushed();
            }
            1 => {
                let count = random.below(6).min(pages - lpn);
                for at in lpn..lpn + count {
                    self.since[at as usize].push(0);
                }
                device.trim(offset, count * PAGE as u64, false)?;
            }
            2 => {
                self.since[lpn as usize].push(0);
                let no_hole = random.chance(1, 2);
                let options = ZeroOptions { no_hole, ..ZeroOptions::default() };
                device.write_zeroes(offset, PAGE as u64, options)?;
            }
            3 => {
                device.idle()?;
            }
            _ => {
                self.next += 1;
                let id = if random.chance(1, 2) { 1 + random.below(6) } else { self.next };
                let fua = random.chance(1, 20);
                self.since[lpn as usize].push(id);
                device.write_at(offset, &content(id), fua)?;
                if fua {
                    self.flushed();
                }
            }
        }
        Ok(())
    }

    /// Every page holds what was flushed last or something written later, which is its newest
    /// content from now on, and no more durable for that.
    pub fn hold(&mut self, drive: &OpenDrive, what: &str) {
        let mut there = self.clone();
        there.check(drive, what);
        for (since, id) in self.since.iter_mut().zip(there.durable) {
            since.push(id);
        }
    }

    /// Every page holds what was flushed last or something written later; that is durable now.
    pub fn check(&mut self, drive: &OpenDrive, what: &str) {
        for (lpn, (durable, since)) in self.durable.iter_mut().zip(&mut self.since).enumerate() {
            let mut found = vec![0; PAGE];
            let read = drive.device().read_at((lpn * PAGE) as u64, &mut found);
            read.unwrap_or_else(|error| panic!("{what}: page {lpn}: {error}"));
            let may: Vec<u64> = since.iter().chain([&*durable]).copied().collect();
            let Some(&id) = may.iter().find(|&&id| content(id) == found) else {
                panic!("{what}: page {lpn} holds none of {may:?}");
            };
            since.clear();
            // Not flushed again, but it has been there: it may not go back to something older.
            *durable = id;
        }
    }
}

pub fn made(policy: &str) -> (SimFolder, OpenDrive, Model) {
    made_of(&spec(policy))
}

pub fn made_of(spec: &DriveSpec) -> (SimFolder, OpenDrive, Model) {
    let folder = SimFolder::new();
    drive::create(&folder, spec).unwrap_or_else(|error| panic!("{error}"));
    let drive = open(&folder).expect("opened");
    let pages = drive.device().size_bytes() as usize / PAGE;
    (folder, drive, Model::new(pages))
}

#[test]
fn a_drive_that_was_closed_is_all_there() {
    for policy in ["none", "caftl-online", "ses-device", "ses-host"] {
        let (folder, mut drive, mut model) = made(policy);
        let mut random = SplitMix64::new(1);
        for round in 0..5 {
            for _ in 0..300 {
                model.step(&drive, &mut random).expect("done");
            }
            model.flushed();
            drive.close().expect("closed");
            drive = open(&folder).expect("opened");
            model.check(&drive, &format!("{policy}, round {round}"));
            drive.device().with_ftl(|ftl| ftl.check_invariants());
        }
        let health = drive.health();
        assert_eq!((health.power_cycles, health.unsafe_shutdowns), (6, 0), "{policy}");
        assert!(health.nand.erases > 50 && health.pages_written > 500, "{policy}: {health:?}");
        let shares = health.inline_pages + health.offline_pages;
        assert_eq!(shares > 0, policy != "none", "{policy} shared {shares}");
        drop(drive);
        let report = SmartReport::of(&drive::inspect(&folder).expect("a drive"));
        assert!(report.passed && !report.closed, "{report:?}");
        assert!(report.nand.erases_max > 1 && report.write_amplification.total > Some(0.5));
        assert_eq!(report.log.power_cycles, 6);
    }
}

/// With most of the map in flash only, nothing is different but the reads of mapping pages.
#[test]
fn a_drive_with_a_small_map_cache_is_the_same_drive() {
    let mut spec = spec("caftl-online");
    spec.geometry.blocks_per_plane = 160;
    spec.ftl.over_provisioning = 0.8;
    spec.ftl.map_cache_bytes = 4 * PAGE as u64;
    let (folder, mut drive, mut model) = made_of(&spec);
    assert!(model.durable.len() > 5 * PAGE / 4, "{} pages", model.durable.len());
    let mut random = SplitMix64::new(8);
    let mut misses = 0;
    for round in 0..4 {
        for _ in 0..2000 {
            model.step(&drive, &mut random).expect("done");
        }
        let extents = drive.device().block_status(0, drive.device().size_bytes()).expect("told");
        let held: u64 =
            extents.iter().filter(|e| e.kind == ExtentKind::Data).map(|e| e.len_bytes).sum();
        let written = drive.health().state.mapped_pages;
        assert_eq!(held, written * PAGE as u64, "round {round}");
        misses += drive.device().with_ftl(|ftl| ftl.counters().map_misses);
        drop(drive);
        drive = open(&folder).expect("opened");
        model.check(&drive, &format!("round {round}"));
        drive.device().with_ftl(|ftl| ftl.check_invariants());
    }
    assert!(misses > 1000, "{misses}");
}

fn cut(policy: &str, seed: u64, op: u64, kept: &[CrashMode], torn: &mut BTreeSet<u64>) {
    cut_of(&spec(policy), seed, op, kept, torn);
}

pub fn cut_of(spec: &DriveSpec, seed: u64, op: u64, kept: &[CrashMode], torn: &mut BTreeSet<u64>) {
    let policy = &spec.dedup.policy;
    let (folder, drive, mut model) = made_of(spec);
    let mut random = SplitMix64::new(seed);
    folder.crash_at(folder.op_count() + op);
    while model.step(&drive, &mut random).is_ok() {}
    assert!(folder.has_crashed(), "{policy}, seed {seed}: only the power stops it");
    assert!(drive.device().flush().is_err(), "nothing works after a failure");
    drop(drive);
    for (turn, &mode) in kept.iter().enumerate() {
        let what = format!("{policy}, seed {seed}, operation {op}, {mode:?} {turn}");
        let left = folder.after_crash(seed * 7 + turn as u64, mode);
        let drive = open(&left).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut model = Model {
            durable: model.durable.clone(),
            since: model.since.clone(),
            next: model.next + 1000,
        };
        model.check(&drive, &what);
        drive.device().with_ftl(|ftl| ftl.check_invariants());
        torn.insert(drive.health().unsafe_shutdowns);
        // It goes on, and the next cut finds it in order too.
        let mut random = SplitMix64::new(seed + 1);
        left.crash_at(left.op_count() + 40 + op % 100);
        while model.step(&drive, &mut random).is_ok() {}
        drop(drive);
        let left = left.after_crash(seed * 11 + turn as u64, mode);
        let drive = open(&left).unwrap_or_else(|error| panic!("{what}, again: {error}"));
        model.check(&drive, &format!("{what}, again"));
        drive.device().with_ftl(|ftl| ftl.check_invariants());
    }
}

#[test]
fn no_power_cut_takes_what_was_flushed_or_makes_up_what_was_not_written() {
    let modes = [CrashMode::KeepNothing, CrashMode::KeepEverything, CrashMode::Random];
    let mut shutdowns = BTreeSet::new();
    for seed in 0..60 {
        let policy = ["none", "caftl-online", "ses-device", "ses-host"][seed as usize % 4];
        let op = 1 + SplitMix64::new(seed).below(1500);
        cut(policy, seed, op, &modes, &mut shutdowns);
    }
    assert_eq!(shutdowns, BTreeSet::from([1]));
}

#[test]
fn a_power_cut_at_every_operation_of_a_short_run() {
    let mut shutdowns = BTreeSet::new();
    for op in 1..160 {
        cut("caftl-online", 5, op, &[CrashMode::Random], &mut shutdowns);
    }
}

#[test]
fn a_making_that_was_cut_short_is_done_again_and_other_folders_are_left_alone() {
    let whole = SimFolder::new();
    drive::create(&whole, &spec("none")).expect("made");
    for op in 1..=whole.op_count() {
        let folder = SimFolder::new();
        folder.crash_at(op);
        assert!(drive::create(&folder, &spec("none")).is_err(), "operation {op}");
        for mode in [CrashMode::KeepNothing, CrashMode::KeepEverything, CrashMode::Random] {
            let left = folder.after_crash(op, mode);
            if !drive::exists(&left) {
                drive::create(&left, &spec("none")).expect("made again");
            }
            let opened = open(&left);
            assert!(opened.is_ok(), "operation {op}, {mode:?}: {opened:?}\n{}", folder.op_log());
        }
    }
    let folder = SimFolder::new();
    folder.create("letter").expect("made");
    let refused = drive::create(&folder, &spec("none")).expect_err("not empty").to_string();
    assert!(refused.contains("'letter'"), "{refused}");
    assert!(matches!(open(&folder), Err(drive::DriveError::NoDrive)));
    let refused = drive::revise(&whole, &[], Some(&spec("ses-device"))).expect_err("policy");
    assert!(refused.to_string().contains("dedup.policy = \"none\""), "{refused}");
}
