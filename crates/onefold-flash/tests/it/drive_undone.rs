//! A request to the disk that fails once in the midst of anything that a drive does: what was
//! flushed before it and what is flushed after it stays, and nothing stands in the way of what
//! comes next. `ONEFOLD_UNDONE=all` lets each request fail under each policy, for minutes.
//! Room: onefold-flash.

use std::sync::{Arc, LazyLock};

use onefold_block::handover::{Handover, SimHandover};
use onefold_block::{BlockDevice as _, CrashMode, FaultKind, OpKind, SimFolder, ZeroOptions};
use onefold_flash::drive::{self, DriveError, OpenDrive, Remark};
use onefold_flash::spec::{CompressionPlace, DriveSpec};

use crate::drive_power::{Model, PAGE, Still, content, made_of, open, packed, spec};

/// Everything that can fail.
const FAULTS: [(OpKind, FaultKind); 11] = [
    (OpKind::Open, FaultKind::Eio),
    (OpKind::Read, FaultKind::Eio),
    (OpKind::Write, FaultKind::Eio),
    (OpKind::Write, FaultKind::Enospc),
    (OpKind::SetLen, FaultKind::Eio),
    (OpKind::Sync, FaultKind::Eio),
    (OpKind::Punch, FaultKind::Eio),
    (OpKind::Create, FaultKind::Eio),
    (OpKind::Remove, FaultKind::Eio),
    (OpKind::Rename, FaultKind::Eio),
    (OpKind::SyncNames, FaultKind::Eio),
];
const CUTS: [CrashMode; 3] = [CrashMode::KeepNothing, CrashMode::Random, CrashMode::KeepEverything];
/// So many reads fail when a drive is opened, most of them of what it can do without.
const READS: u64 = 60;

type Done = Result<(), String>;

fn told<T, E: std::fmt::Display>(done: Result<T, E>) -> Done {
    done.map(drop).map_err(|error| error.to_string())
}

fn is_thorough() -> bool {
    std::env::var("ONEFOLD_UNDONE").is_ok_and(|dose| dose == "all")
}

/// The request that fails after this one did: the next, or one further on.
fn after(nth: u64) -> u64 {
    if is_thorough() { nth + 1 } else { nth * 3 + 1 }
}

/// A drive that is open, and what its pages may hold.
struct Live {
    drive: OpenDrive,
    model: Model,
}

impl Live {
    fn put(&mut self, lpn: usize, id: u64, fua: bool) -> Done {
        self.model.since[lpn].push(id);
        let done = self.drive.device().write_at((lpn * PAGE) as u64, &content(id), fua);
        if done.is_ok() && fua {
            self.model.flushed();
        }
        told(done)
    }

    fn flush(&mut self) -> Done {
        told(self.drive.device().flush().map(|()| self.model.flushed()))
    }

    fn zeroed(&mut self, lpns: std::ops::Range<usize>, fua: bool, done: Done) -> Done {
        lpns.for_each(|lpn| self.model.since[lpn].push(0));
        if done.is_ok() && fua {
            self.model.flushed();
        }
        done
    }
}

type Operation = (&'static str, fn(&mut Live) -> Done);

/// Everything that an open drive does.
const OPERATIONS: [Operation; 12] = [
    ("read", |live| told(live.drive.device().read_at(0, &mut vec![0; 20 * PAGE]))),
    ("write", |live| live.put(3, 9001, false)),
    ("write what is there", |live| live.put(3, 1, false)),
    ("write for good", |live| live.put(3, 9002, true)),
    ("write part of a page", |live| {
        // The two halves are of one content again.
        live.put(5, 9003, false)?;
        let half = &content(9003)[..PAGE / 2];
        told(live.drive.device().write_at(5 * PAGE as u64, half, false))
    }),
    ("overwrite", |live| {
        (0..90).try_for_each(|at: u64| live.put(at as usize % 30, 9100 + at % 60, false))
    }),
    ("trim", |live| {
        let done = told(live.drive.device().trim(4 * PAGE as u64, 6 * PAGE as u64, true));
        live.zeroed(4..10, true, done)
    }),
    ("write zeroes", |live| {
        let options = ZeroOptions { no_hole: true, fua: true, ..ZeroOptions::default() };
        let done = told(live.drive.device().write_zeroes(0, 3 * PAGE as u64, options));
        live.zeroed(0..3, true, done)
    }),
    ("flush", Live::flush),
    ("idle", |live| {
        while live.drive.device().idle().map_err(|error| error.to_string())? {}
        Ok(())
    }),
    ("save counters", |live| told(live.drive.save_health())),
    ("accept a loss", |live| told(live.drive.accept_loss())),
];

/// A drive with something of everything, as a power cut leaves it.
fn prepared(spec: &DriveSpec) -> (SimFolder, Model) {
    let (folder, drive, model) = made_of(spec);
    let mut live = Live { drive, model };
    for step in 0..260_u64 {
        let lpn = (step * 7 % 61) as usize;
        let id = if step % 3 == 0 { 1 + step % 6 } else { 200 + step };
        live.put(lpn, id, step % 40 == 39).expect("written");
    }
    let done = told(live.drive.device().trim(50 * PAGE as u64, 4 * PAGE as u64, true));
    live.zeroed(50..54, true, done).expect("trimmed");
    (copy(&folder), live.model)
}

fn copy(folder: &SimFolder) -> SimFolder {
    folder.after_crash(1, CrashMode::KeepEverything)
}

fn specs() -> [DriveSpec; 4] {
    let gleaner = packed("gleaner", CompressionPlace::BeforeScrambler);
    [spec("none"), spec("caftl-online"), spec("ses-device"), gleaner]
}

fn assert_nothing_bad(drive: &OpenDrive, context: &str) {
    let bad: Vec<_> = drive.remarks().iter().filter(|remark| !remark.is_good()).collect();
    assert!(bad.is_empty(), "{context}: {bad:?}");
}

/// After power cuts each page is what it may be, and nothing is damaged.
fn check_cuts(folder: &SimFolder, model: &Model, seed: u64, context: &str) {
    let count = if is_thorough() { 5 } else { 1 };
    for turn in seed..seed + count {
        let mode = CUTS[turn as usize % 3];
        let context = format!("{context}, {mode:?} {turn}");
        let left = folder.after_crash(turn, mode);
        let drive = open(&left).unwrap_or_else(|error| panic!("{context}: {error}"));
        // What was not flushed may be lost, which is told.
        let harmless = |remark: &Remark| matches!(remark, Remark::MayBeLost(_));
        assert!(drive.remarks().iter().all(harmless), "{context}: {:?}", drive.remarks());
        model.clone().check(&drive, &context);
        drive.device().with_ftl(|ftl| ftl.check_invariants());
    }
}

/// A drive that is opened again keeps what it is given, over a power cut and over a stop.
fn check_life(folder: &SimFolder, mut model: Model, seed: u64, context: &str) {
    let drive = open(folder).unwrap_or_else(|error| panic!("{context}: {error}"));
    model.hold(&drive, context);
    let mut live = Live { drive, model };
    let puts = [(3, 7001), (9, 2), (17, 7002)];
    let done = puts.into_iter().try_for_each(|(lpn, id)| live.put(lpn, id, false));
    done.and_then(|()| live.flush()).unwrap_or_else(|error| panic!("{context}: {error}"));
    check_cuts(folder, &live.model, seed, context);
    live.drive.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    let drive = open(folder).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_nothing_bad(&drive, context);
    live.model.check(&drive, &format!("{context}, after a stop"));
}

/// Lets the requests of `deed` fail in turn, on copies of a drive under each policy; `deed` says
/// what came of it, and what it left is checked. How many failed.
fn fail_each(what: &str, deed: impl Fn(&SimFolder, Model, &dyn Fn()) -> (Done, Model)) -> u64 {
    static PREPARED: LazyLock<[(SimFolder, Model); 4]> =
        LazyLock::new(|| specs().each_ref().map(prepared));
    let mut failures = 0;
    for (which, (kind, fault)) in FAULTS.into_iter().enumerate() {
        // One policy after the other, or all of them.
        for number in if is_thorough() { 0..4 } else { which % 4..which % 4 + 1 } {
            let (prepared, model) = &PREPARED[(number + what.len()) % 4];
            let mut nth = 1;
            loop {
                let folder = copy(prepared);
                let begin = || folder.fail_once(&[kind], nth, fault);
                let (result, model) = deed(&folder, model.clone(), &begin);
                folder.clear_faults();
                // Reads are not in the record of what was done.
                let is_read = (what, kind) == ("open", OpKind::Read) && nth < READS;
                let failed = result.is_err() || folder.op_log().contains(" -> ");
                if !failed && !is_read {
                    break;
                }
                let context = format!("policy {number}, {what}, {kind:?} {nth}: {result:?}");
                check_cuts(&folder, &model, nth, &context);
                check_life(&folder, model, nth + 1, &context);
                failures += u64::from(failed);
                nth = after(nth);
            }
        }
    }
    failures
}

#[test]
fn whatever_fails_once_while_a_drive_is_open_takes_nothing_that_was_or_is_flushed() {
    let mut failures = 0;
    for (what, operation) in OPERATIONS {
        failures += fail_each(what, |folder, mut model, begin| {
            let drive = open(folder).expect("nothing fails here");
            model.hold(&drive, "at first");
            let mut live = Live { drive, model };
            begin();
            let result = operation(&mut live);
            folder.clear_faults();
            // One that goes on keeps its word, and one that does not says so.
            if let Err(error) = live.put(11, 8001, true) {
                assert!(result.is_err(), "{what}: nothing was said: {error}");
                let read = live.drive.device().read_at(0, &mut [0; PAGE]);
                assert!(read.is_err(), "{what}: {error}");
            }
            (result, live.model)
        });
    }
    assert!(failures > 40, "{failures}");
}

#[test]
fn whatever_fails_once_while_a_drive_is_opened_or_closed_takes_nothing() {
    let opened = fail_each("open", |folder, model, begin| {
        begin();
        (told(open(folder)), model)
    });
    let closed = fail_each("close", |folder, model, begin| {
        let mut live = Live { drive: open(folder).expect("opened"), model };
        live.put(12, 6001, true).expect("nothing fails here");
        live.put(13, 6002, false).expect("nothing fails here");
        begin();
        let result = told(live.drive.close());
        if result.is_ok() {
            live.model.flushed();
        }
        (result, live.model)
    });
    assert!(opened > 10 && closed > 10, "{opened}, {closed}");
}

#[test]
fn whatever_fails_once_while_settings_change_the_drive_has_one_of_both() {
    let change = ["ftl.victim=fifo".to_owned()];
    let failures = fail_each("revise", |folder, model, begin| {
        begin();
        let result = told(drive::revise(folder, &change, None));
        folder.clear_faults();
        let changed = drive::revise(&copy(folder), &change, None);
        assert!(changed.is_ok_and(|lines| result.is_err() || lines.is_empty()), "{result:?}");
        (result, model)
    });
    assert!(failures > 6, "{failures}");
}

#[test]
fn whatever_fails_once_while_a_killed_process_is_taken_up_takes_nothing_it_acknowledged() {
    let mut failures = 0;
    let open = |folder: &SimFolder, memory: &SimHandover| {
        let memory: Arc<dyn Handover> = Arc::new(memory.clone());
        OpenDrive::open(Arc::new(folder.clone()), false, Arc::new(Still), Some(memory))
    };
    for (number, spec) in (0..).zip(specs()) {
        let (folder, memory) = (SimFolder::new(), SimHandover::new());
        drive::create(&folder, &spec).expect("nothing fails here");
        let drive = open(&folder, &memory).expect("nothing fails here");
        let id = |lpn: u64| if lpn == 3 { 0 } else { 1 + lpn % 6 };
        for lpn in 0..30 {
            let page = content(if lpn == 3 { 9 } else { id(lpn) });
            drive.device().write_at(lpn * PAGE as u64, &page, false).expect("nothing fails here");
        }
        drive.device().trim(3 * PAGE as u64, PAGE as u64, false).expect("nothing fails here");
        let (killed, left) = (copy(&folder), memory.after_kill());
        drop(drive);
        for (which, (kind, fault)) in (0..).zip(FAULTS) {
            let mut nth = 1;
            let reads = if is_thorough() { READS } else { 9 };
            while is_thorough() || which % 4 == number {
                let (folder, memory) = (copy(&killed), left.after_kill());
                folder.fail_once(&[kind], nth, fault);
                let result = told(open(&folder, &memory));
                folder.clear_faults();
                let context = format!("policy {number}, {kind:?} {nth}: {result:?}");
                let drive = open(&folder, &memory.after_kill());
                let drive = drive.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_nothing_bad(&drive, &context);
                assert_eq!(drive.current_generation().number, 1, "{context}");
                for lpn in 0..30 {
                    let mut page = vec![1; PAGE];
                    drive
                        .device()
                        .read_at(lpn * PAGE as u64, &mut page)
                        .expect("nothing fails here");
                    assert!(page == content(id(lpn)), "{context}: page {lpn}");
                }
                if result.is_ok() && (kind != OpKind::Read || nth > reads) {
                    break;
                }
                failures += u64::from(result.is_err());
                nth += 1;
            }
        }
    }
    assert!(failures > 40, "{failures}");
}

#[test]
fn whatever_fails_once_while_a_drive_is_made_it_is_made_again_and_stays() {
    let spec = spec("caftl-online");
    let mut failures = 0;
    for (kind, fault) in FAULTS {
        for nth in 1.. {
            let folder = SimFolder::new();
            folder.fail_once(&[kind], nth, fault);
            let result = told(drive::create(&folder, &spec));
            folder.clear_faults();
            let mut left = vec![folder.after_crash(nth, CUTS[nth as usize % 3]), folder];
            if is_thorough() {
                let more = |seed| left[1].after_crash(seed, CrashMode::Random);
                left.extend((0..5).map(more).collect::<Vec<_>>());
            }
            for (turn, folder) in (0..).zip(&left) {
                let context = format!("{kind:?} {nth}: {result:?}, {turn}");
                if !drive::exists(folder) {
                    let made = drive::create(folder, &spec);
                    made.unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                // Nobody makes a drive where there is one.
                let again = drive::create(folder, &spec);
                assert!(matches!(again, Err(DriveError::NotEmpty(_))), "{context}: {again:?}");
                // Names in doubt go where a power cut keeps nothing.
                let seed = if kind == OpKind::SyncNames { 0 } else { nth };
                check_life(folder, Model::new(60), seed, &context);
            }
            if result.is_ok() {
                break;
            }
            failures += 1;
        }
    }
    assert!(failures > 30, "{failures}");
}
