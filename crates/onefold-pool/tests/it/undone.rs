//! What an operation leaves that is refused, or fails in the midst: all of it or nothing, in memory
//! as on the disk, and the error says why. `ONEFOLD_UPDATE=1` writes `undone.txt` anew.

use std::fmt::Write as _;

use onefold_block::{
    BlockDevice, ByteSize, CrashMode, FaultKind, OpKind, SimFolder, WriteRequest, ZeroOptions,
};
use onefold_pool::{Pool, SpaceTarget, Thoroughness};

use crate::support::{assert_golden, assert_sound, content, new_pool, options, read_only, small};

const CHUNK: u64 = 4096;

/// An operation, and what it came to.
type Done = Result<(), String>;
type Operation = (&'static str, fn(&Pool) -> Done);

fn told<T, E: std::fmt::Display>(done: Result<T, E>) -> Done {
    done.map(drop).map_err(|error| error.to_string())
}

fn volume(pool: &Pool, name: &str) -> onefold_pool::Volume {
    pool.volume(name).unwrap()
}

/// Everything that changes a pool.
const OPERATIONS: [Operation; 26] = [
    ("create a volume", |pool| told(pool.create_volume("new", ByteSize(9 * CHUNK)))),
    ("take a snapshot", |pool| told(pool.snapshot("main@new", 9, true))),
    ("hold a snapshot", |pool| told(pool.hold_snapshot("main@b", true))),
    ("release a snapshot", |pool| told(pool.hold_snapshot("main@a", false))),
    ("clone a snapshot", |pool| told(pool.clone_snapshot("main@b", "new", 9))),
    ("roll back", |pool| told(pool.rollback("main@a"))),
    ("delete a snapshot", |pool| told(pool.delete_snapshot("other@a"))),
    ("delete a snapshot as a volume", |pool| told(pool.delete_volume("other@a"))),
    ("delete a volume", |pool| told(pool.delete_volume("plain"))),
    ("delete a clone", |pool| told(pool.delete_volume("copy"))),
    ("rename", |pool| told(pool.rename_volume("main", "new"))),
    ("grow", |pool| told(pool.resize_volume("plain", ByteSize(900 * CHUNK), false))),
    ("shrink", |pool| told(pool.resize_volume("plain", ByteSize(5 * CHUNK + 7), true))),
    ("set a note", |pool| told(pool.set_note("plain", b"another"))),
    ("adopt", |pool| told(pool.adopt("part@c", "main", "main@b"))),
    ("write", |pool| told(volume(pool, "plain").write_at(0, &content(90, 9000), true))),
    ("write many", |pool| {
        let (data, mut results) = (content(91, CHUNK as usize), Vec::new());
        let request = |block: u64| WriteRequest { offset: block * CHUNK, data: &data, fua: true };
        volume(pool, "plain").write_batch(&[request(1), request(4)], &mut results);
        results.into_iter().try_for_each(told)
    }),
    ("trim", |pool| told(volume(pool, "plain").trim(0, 2 * CHUNK, true))),
    ("trim less than a block", |pool| told(volume(pool, "plain").trim(5, 100, true))),
    ("write zeroes", |pool| {
        let options = ZeroOptions { no_hole: true, fua: true, ..ZeroOptions::default() };
        told(volume(pool, "plain").write_zeroes(0, 2 * CHUNK, options))
    }),
    ("flush", |pool| told(pool.flush())),
    ("checkpoint", |pool| told(pool.checkpoint())),
    ("maintain", |pool| told(pool.maintain())),
    ("win space", |pool| told(pool.background(u64::MAX, SpaceTarget::new(1.05).unwrap()))),
    ("deduplicate", |pool| told(pool.deduplicate(u64::MAX, Thoroughness::Whole))),
    ("give up what was deleted", |pool| told(pool.give_up_deleted(u64::MAX))),
];

/// A pool with one of everything, on which all operations are possible.
fn prepared() -> SimFolder {
    let (folder, pool) = new_pool(&small());
    // A container of its own, which goes with the next checkpoint.
    let doomed = pool.create_volume("plain", ByteSize(10 * CHUNK)).unwrap();
    doomed.write_at(9 * CHUNK, &content(1, CHUNK as usize), false).unwrap();
    drop(doomed);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let write = |name: &str, blocks: std::ops::Range<u64>, seed: u64| {
        for block in blocks {
            let data = content(seed + block, CHUNK as usize);
            volume(&pool, name).write_at(block * CHUNK, &data, false).unwrap();
        }
    };
    for name in ["main", "plain", "other"] {
        drop(pool.create_volume_at(name, ByteSize(10 * CHUNK), 1));
        write(name, 0..8, name.len() as u64 * 100);
    }
    pool.set_note("plain", b"a note").unwrap();
    pool.set_note("main", b"main's").unwrap();
    pool.snapshot("main@a", 2, true).unwrap();
    write("main", 3..6, 1000);
    pool.snapshot("main@b", 3, false).unwrap();
    write("other", 0..2, 2000);
    pool.snapshot("other@a", 4, false).unwrap();
    write("other", 1..3, 2100);
    drop(pool.clone_snapshot("main@a", "copy", 5).unwrap());
    write("copy", 7..9, 3000);
    drop(pool.clone_snapshot("main@b", "part", 6).unwrap());
    write("part", 0..1, 4000);
    pool.snapshot("part@c", 7, false).unwrap();
    // Something to be given up, to be moved and to be flushed.
    pool.snapshot("plain@gone", 8, false).unwrap();
    write("plain", 0..6, 5000);
    pool.delete_snapshot("plain@gone").unwrap();
    pool.maintain().unwrap();
    write("plain", 2..4, 6000);
    volume(&pool, "plain").trim(9 * CHUNK, CHUNK, true).unwrap();
    folder.after_crash(1, CrashMode::KeepEverything)
}

/// All that users see of a pool.
fn seen(pool: &Pool) -> String {
    let mut seen = String::new();
    for volume in pool.volumes() {
        let mut bytes = vec![0; volume.size_bytes() as usize];
        volume.read_at(0, &mut bytes).unwrap();
        let hash = crate::operations::hash(&bytes);
        let note = String::from_utf8_lossy(&volume.note()).into_owned();
        writeln!(seen, "{}: {} bytes, {hash}, {note:?}", volume.name(), bytes.len()).unwrap();
    }
    for snapshot in pool.snapshots(None).unwrap() {
        let mut bytes = vec![0; snapshot.size_bytes as usize];
        volume(pool, &snapshot.name).read_at(0, &mut bytes).unwrap();
        writeln!(seen, "{snapshot:?}, {}", crate::operations::hash(&bytes)).unwrap();
    }
    for volume in pool.status().unwrap().volumes {
        writeln!(seen, "{volume:?}").unwrap();
    }
    seen
}

/// The lines of `now` that are not in `before`, and the other way round.
fn changes(before: &str, now: &str) -> String {
    let lines = |of: &str, not_in: &str, mark: char| -> String {
        let new = of.lines().filter(|line| !not_in.lines().any(|other| other == *line));
        new.fold(String::new(), |told, line| told + &format!("{mark} {line}\n"))
    };
    lines(before, now, '-') + &lines(now, before, '+')
}

fn copy(folder: &SimFolder) -> SimFolder {
    folder.after_crash(1, CrashMode::KeepEverything)
}

/// What each operation changes where nothing fails, and how it is refused where nothing may change.
#[test]
fn operations_change_what_they_should_and_are_refused_where_nothing_may_change() {
    let prepared = prepared();
    let before = seen(&Pool::open(&copy(&prepared), &options()).unwrap());
    let mut told = before.clone();
    for (what, operation) in OPERATIONS {
        writeln!(told, "\n# {what}").unwrap();
        let folder = copy(&prepared);
        let pool = Pool::open(&folder, &options()).unwrap();
        let mut operations = 0;
        folder.ops_since(&mut operations);
        operation(&pool).unwrap_or_else(|error| panic!("{what}: {error}"));
        told += &folder.ops_since(&mut operations);
        let after = seen(&pool);
        told += &changes(&before, &after);
        let status = pool.status().unwrap();
        let (map, memory) = (status.map_pages, status.map_memory_bytes);
        writeln!(told, "{map} pages of maps, {memory} bytes, {:?}", pool.space()).unwrap();
        drop(pool);
        let folder = copy(&folder);
        let pool = Pool::open(&folder, &options()).unwrap();
        assert_eq!(seen(&pool), after, "{what}: after a stop");
        pool.close().unwrap();
        assert_sound(&folder, what);

        let folder = copy(&prepared);
        let pool = Pool::open(&folder, &read_only()).unwrap();
        let (there, operations) = (seen(&pool), folder.op_count());
        writeln!(told, "to be read only: {:?}", operation(&pool)).unwrap();
        assert_eq!(seen(&pool), there, "{what}: to be read only");
        assert_eq!(folder.op_count(), operations, "{what}: to be read only");
    }
    assert_golden("undone.txt", &told);
}

/// After a failure nothing is promised and nothing changes, until the pool is reopened.
#[test]
fn after_a_failure_every_change_is_refused() {
    let prepared = prepared();
    for (what, operation) in OPERATIONS {
        let folder = copy(&prepared);
        let pool = Pool::open(&folder, &options()).unwrap();
        volume(&pool, "plain").write_at(CHUNK, &content(70, 4096), false).unwrap();
        folder.fail_once(&[OpKind::Sync], 1, FaultKind::Eio);
        pool.flush().unwrap_err();
        folder.clear_faults();
        let (there, operations) = (seen(&pool), folder.op_count());
        let refused = operation(&pool).expect_err(what);
        assert!(
            refused.contains("until the pool is reopened") || refused.contains("until reopened"),
            "{what}: {refused}"
        );
        assert_eq!(seen(&pool), there, "{what}");
        assert_eq!(folder.op_count(), operations, "{what}");
    }
}

/// One operation of the media fails, whichever it is.
fn fail_each(kind: OpKind, fault: FaultKind) {
    let prepared = prepared();
    let before = seen(&Pool::open(&copy(&prepared), &options()).unwrap());
    // To shrink gives up first what is to be cut off, which who shrinks wants gone.
    for (what, operation) in OPERATIONS.into_iter().filter(|(what, _)| *what != "shrink") {
        let done = {
            let pool = Pool::open(&copy(&prepared), &options()).unwrap();
            operation(&pool).unwrap();
            seen(&pool)
        };
        for nth in 1.. {
            let folder = copy(&prepared);
            let pool = Pool::open(&folder, &options()).unwrap();
            folder.fail_once(&[kind], nth, fault);
            let result = operation(&pool);
            folder.clear_faults();
            let context = format!("{what}, {kind:?} {nth}: {result:?}");
            let (now, failed) = (seen(&pool), pool.status().unwrap().failure.is_some());
            let whole = now == before || now == done;
            assert!(whole, "{context}: {}", changes(&before, &now));
            assert!(result.is_err() || now == done, "{context}: {}", changes(&done, &now));
            // What is acknowledged after it counts, and is there after a power cut.
            let acknowledged = volume(&pool, "other").write_at(0, &content(99, 4096), true).is_ok();
            assert_ne!(acknowledged, failed, "{context}");
            let now = seen(&pool);
            let again = seen(&Pool::open(&copy(&folder), &options()).unwrap());
            if failed {
                let whole = again == before || again == done;
                assert!(whole, "{context}, on the disk: {}", changes(&before, &again));
                assert!(result.is_err(), "{context}: nothing is said of a failure");
            } else {
                assert_eq!(changes(&now, &again), "", "{context}: in memory, and on the disk");
                pool.close().unwrap();
                let again = seen(&Pool::open(&folder, &options()).unwrap());
                assert_eq!(changes(&now, &again), "", "{context}: after a stop");
            }
            if result.is_ok() {
                break;
            }
            assert!(nth < 40, "{context}: it never succeeds");
        }
    }
}

#[test]
fn without_space_for_a_write_an_operation_is_whole_or_not_at_all() {
    fail_each(OpKind::Write, FaultKind::Enospc);
}

#[test]
fn without_space_to_remove_a_container_an_operation_is_whole_or_not_at_all() {
    fail_each(OpKind::Remove, FaultKind::Enospc);
}

#[test]
fn after_a_failed_removal_an_operation_is_whole_or_not_at_all() {
    fail_each(OpKind::Remove, FaultKind::Eio);
}

#[test]
fn after_a_failed_write_an_operation_is_whole_or_not_at_all() {
    fail_each(OpKind::Write, FaultKind::Eio);
}

#[test]
fn after_a_failed_sync_an_operation_is_whole_or_not_at_all() {
    fail_each(OpKind::Sync, FaultKind::Eio);
}

#[test]
fn without_space_set_aside_an_operation_is_whole_or_not_at_all() {
    fail_each(OpKind::Reserve, FaultKind::Enospc);
}

#[test]
fn whatever_cannot_be_made_cut_or_named_an_operation_is_whole_or_not_at_all() {
    for kind in [OpKind::Create, OpKind::SetLen, OpKind::SyncNames] {
        fail_each(kind, FaultKind::Eio);
    }
}
