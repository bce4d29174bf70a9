//! Simulated media while the power is on: faults, space, damage, the log.
//! Room: onefold-block.

use std::io::ErrorKind;
use std::sync::Arc;

use onefold_block::{CrashMode, FaultKind, Folder, Media, MediaError, OpKind, SimFolder};

fn contents(media: &dyn Media) -> Vec<u8> {
    let mut bytes = vec![0; media.len().unwrap() as usize];
    media.read(0, &mut bytes).unwrap();
    bytes
}

fn file(folder: &SimFolder, name: &str, bytes: &[u8]) -> Arc<dyn Media> {
    let media = folder.create(name).unwrap();
    media.write(0, bytes).unwrap();
    media.sync().unwrap();
    folder.sync_names().unwrap();
    media
}

/// Each counted operation once, in this order.
fn each_op(folder: &SimFolder, media: &dyn Media, kind: OpKind) -> Result<(), MediaError> {
    match kind {
        OpKind::Open => folder.open("a").map(drop),
        OpKind::Read => media.read(0, &mut [0; 1]),
        OpKind::Write => media.write(0, &[2; 2048]),
        OpKind::SetLen => media.set_len(1024),
        OpKind::Sync => media.sync(),
        OpKind::Reserve => media.reserve(0, 8192),
        OpKind::Punch => media.punch(0, 512),
        OpKind::Create => folder.create("b").map(drop),
        OpKind::Remove => folder.remove("a"),
        OpKind::Rename => folder.rename("a", "a"),
        OpKind::SyncNames => folder.sync_names(),
    }
}

#[test]
fn every_kind_of_operation_can_fail_once_and_is_logged() {
    let uncounted = [OpKind::Open, OpKind::Read];
    for kind in OpKind::COUNTED.into_iter().chain(uncounted) {
        for fault in [FaultKind::Eio, FaultKind::Enospc] {
            let folder = SimFolder::new();
            let media = file(&folder, "a", &[1; 4096]);
            let before = folder.op_count();
            folder.fail_once(&[kind], 2, fault);
            // Other kinds do not use the fault up.
            media.allocated_bytes().unwrap();
            if kind == OpKind::Remove {
                folder.create("c").unwrap();
                folder.remove("c").unwrap();
            } else {
                each_op(&folder, &*media, kind).unwrap();
            }
            let error = each_op(&folder, &*media, kind).expect_err("the second fails");
            let full = matches!(error, MediaError::NoSpace { .. });
            let soft =
                ![OpKind::Open, OpKind::Read, OpKind::Sync, OpKind::SyncNames].contains(&kind);
            assert_eq!(full, fault == FaultKind::Enospc && soft, "{kind:?} {error}");
            if kind != OpKind::Remove {
                each_op(&folder, &*media, kind).unwrap();
            }
            if uncounted.contains(&kind) {
                assert_eq!(folder.op_count(), before);
            } else {
                assert!(folder.op_log().contains(&format!("{kind:?}")), "{}", folder.op_log());
                assert!(folder.op_log().contains(&format!("-> {fault:?}")));
            }
        }
    }
}

#[test]
fn a_failed_change_has_done_nothing_and_a_failed_write_half() {
    for kind in [OpKind::SetLen, OpKind::Punch, OpKind::Create, OpKind::Remove, OpKind::Reserve] {
        let folder = SimFolder::new();
        let media = file(&folder, "a", &[1; 4096]);
        folder.fail_once(&[kind], 1, FaultKind::Eio);
        each_op(&folder, &*media, kind).expect_err("planned");
        assert_eq!(contents(&*media), [1; 4096]);
        assert_eq!(folder.list().unwrap(), ["a"]);
        assert_eq!(media.allocated_bytes().unwrap(), 4096);
    }
    let folder = SimFolder::new();
    let media = file(&folder, "a", &[1; 4096]);
    folder.fail_once(&[OpKind::Write], 1, FaultKind::Eio);
    media.write(0, &[2; 2048]).expect_err("planned");
    assert_eq!(contents(&*media), [[2; 1024].as_slice(), &[1; 3072]].concat());
    folder.fail_once(&[OpKind::Write], 1, FaultKind::Eio);
    media.write(4000, &[3; 96]).expect_err("planned");
    assert_eq!(contents(&*media)[4000..], [1; 96]);
}

#[test]
fn a_sick_disk_stays_sick_until_healed() {
    let folder = SimFolder::new();
    let media = file(&folder, "a", &[1; 512]);
    folder.fail_from(&[OpKind::Write, OpKind::Sync], 2, FaultKind::Eio);
    media.write(0, &[2; 512]).unwrap();
    for _ in 0..3 {
        media.sync().expect_err("sick");
        media.write(0, &[3; 512]).expect_err("sick");
    }
    assert_eq!(contents(&*media), [2; 512]);
    folder.clear_faults();
    media.write(0, &[4; 512]).unwrap();
    media.sync().unwrap();
    let after = folder.after_crash(0, CrashMode::KeepNothing);
    assert_eq!(contents(&*after.open("a").unwrap()), [4; 512]);
}

#[test]
fn what_a_failed_sync_left_is_never_proved_durable_by_a_later_one() {
    let folder = SimFolder::new();
    let media = file(&folder, "a", &[1; 1024]);
    media.write(0, &[2; 1024]).unwrap();
    folder.fail_once(&[OpKind::Sync, OpKind::SyncNames], 1, FaultKind::Eio);
    media.sync().expect_err("planned");
    media.write(512, &[3; 512]).unwrap();
    media.sync().unwrap();
    let left = |mode| contents(&*folder.after_crash(0, mode).open("a").unwrap());
    assert_eq!(left(CrashMode::KeepNothing), [[1; 512], [3; 512]].concat());
    assert_eq!(left(CrashMode::KeepEverything), [[2; 512], [3; 512]].concat());

    // Its length too, until somebody writes up to there.
    let grown = file(&folder, "grown", &[1; 512]);
    grown.write(512, &[2; 1024]).unwrap();
    folder.fail_once(&[OpKind::Sync], 1, FaultKind::Eio);
    grown.sync().expect_err("planned");
    let len = || folder.after_crash(0, CrashMode::KeepNothing).open("grown").unwrap().len();
    grown.write(0, &[3; 512]).unwrap();
    grown.sync().unwrap();
    assert_eq!(len().unwrap(), 512);
    grown.write(512, &[4; 1024]).unwrap();
    grown.sync().unwrap();
    assert_eq!(len().unwrap(), 1536);

    folder.create("b").unwrap();
    folder.fail_once(&[OpKind::SyncNames], 1, FaultKind::Eio);
    folder.sync_names().expect_err("planned");
    folder.create("c").unwrap();
    folder.sync_names().unwrap();
    let names = |mode| folder.after_crash(0, mode).list().unwrap();
    assert_eq!(names(CrashMode::KeepNothing), ["a", "c", "grown"]);
    assert_eq!(names(CrashMode::KeepEverything), ["a", "b", "c", "grown"]);
}

#[test]
fn a_full_disk_stores_what_fits_and_reservations_hold() {
    let folder = SimFolder::new();
    folder.set_capacity(Some(4 * 4096));
    let reserved = folder.create("reserved").unwrap();
    reserved.reserve(0, 2 * 4096).unwrap();
    assert_eq!(folder.used_bytes(), 2 * 4096);
    let media = folder.create("a").unwrap();
    let error = media.write(100, &[7; 3 * 4096]).expect_err("two pages are left");
    assert!(matches!(error, MediaError::NoSpace { name } if name == "a"));
    assert_eq!(media.len().unwrap(), 2 * 4096);
    assert!(matches!(media.reserve(0, 12_288), Err(MediaError::NoSpace { .. })));
    assert_eq!(folder.used_bytes(), 4 * 4096);
    // Bytes that have their space already, and bytes of the reservation, still go in.
    media.write(0, &[8; 8192]).unwrap();
    reserved.write(0, &[9; 8192]).unwrap();
    assert!(reserved.write(8192, &[9]).is_err());
    media.sync().unwrap();

    // Each way of giving space back lets a page more in.
    media.punch(0, 4096).unwrap();
    reserved.write(8192, &[9]).unwrap();
    media.set_len(0).unwrap();
    reserved.write(12_288, &[9]).unwrap();
    assert!(reserved.write(16_384, &[9]).is_err());
    folder.remove("reserved").unwrap();
    assert!(media.write(0, &[1]).is_err(), "an open handle keeps the space");
    drop(reserved);
    media.write(0, &vec![1; 4 * 4096]).unwrap();
    // A reservation that runs out keeps what it got until the length is set.
    media.set_len(0).unwrap();
    assert!(media.reserve(4096, 1 << 40).is_err());
    assert_eq!((folder.used_bytes(), media.len().unwrap()), (4 * 4096, 0));
    media.set_len(0).unwrap();
    assert_eq!(folder.used_bytes(), 0);
    assert!(folder.op_log().contains("-> Enospc"), "{}", folder.op_log());
}

#[test]
fn setting_the_length_gives_reservations_back() {
    for len in [0, 5000, 10_000, 20_000] {
        let folder = SimFolder::new();
        let media = file(&folder, "a", &[1; 10_000]);
        media.reserve(0, 1 << 20).unwrap();
        assert_eq!(media.allocated_bytes().unwrap(), 1 << 20);
        media.set_len(len).unwrap();
        assert!(media.allocated_bytes().unwrap() <= len.next_multiple_of(4096), "{len}");
    }
}

#[test]
fn damage_is_at_rest_and_survives_a_power_cut() {
    let folder = SimFolder::new();
    let inner = folder.subfolder("containers").unwrap();
    folder.sync_names().unwrap();
    let media = inner.create("7").unwrap();
    inner.sync_names().unwrap();
    media.write(0, &[0xf0; 1000]).unwrap();
    folder.flip_bit("containers/7", 999, 1).unwrap();
    let left = folder.after_crash(0, CrashMode::KeepNothing);
    let left = left.subfolder("containers").unwrap().open("7").unwrap();
    let mut expected = [0xf0; 1000];
    expected[999] = 0xf2;
    assert_eq!(contents(&*left), expected);
    folder.truncate("containers/7", 999).unwrap();
    folder.truncate("containers/7", 5000).unwrap();
    assert_eq!(contents(&*media), [0xf0; 999]);
    assert!(matches!(
        folder.flip_bit("containers/7", 999, 0),
        Err(MediaError::Truncated { len: 999, .. })
    ));
    for name in ["nothing", "containers", "containers/8", "containers/7/x"] {
        assert!(matches!(folder.truncate(name, 0), Err(MediaError::NotFound { .. })), "{name}");
    }
}

#[test]
fn the_log_tells_what_was_done() {
    let folder = SimFolder::new();
    let media = folder.create("journal").unwrap();
    media.write(4096, &[1; 100]).unwrap();
    media.set_len(50).unwrap();
    folder.crash_at(4);
    media.sync().expect_err("power lost");
    assert_eq!(
        folder.op_log(),
        "     1 Create journal\n     2 Write journal bytes 4096..4196\n     \
         3 SetLen journal to 50\n     4 Sync journal -> power lost\n"
    );
    assert_eq!(folder.op_count(), 4);
}

#[test]
fn folders_and_media_are_not_mixed_up() {
    let folder = SimFolder::new();
    folder.subfolder("d").unwrap().create("x").unwrap();
    folder.create("f").unwrap();
    assert_eq!(folder.list().unwrap(), ["f"]);
    for error in [folder.open("d").err(), folder.create("d").err(), folder.remove("d").err()] {
        assert!(matches!(
            error, Some(MediaError::Io { source, .. }) if source.kind() == ErrorKind::IsADirectory
        ));
    }
    assert!(folder.subfolder("f").is_err());
    assert_eq!(folder.subfolder("d").unwrap().list().unwrap(), ["x"]);
}

#[test]
fn far_offsets_cost_nothing() {
    let folder = SimFolder::new();
    let media = folder.create("sparse").unwrap();
    media.write(1 << 50, &[1]).unwrap();
    media.sync().unwrap();
    media.set_len(1 << 60).unwrap();
    media.punch(1, u64::MAX).unwrap();
    assert_eq!((media.len().unwrap(), media.allocated_bytes().unwrap()), (1 << 60, 0));
    media.set_len(10).unwrap();
    assert_eq!(contents(&*media), [0; 10]);
}

#[test]
fn each_operation_in_which_the_power_goes_is_an_error() {
    type Operation = fn(&SimFolder, &dyn Media) -> Result<(), MediaError>;
    let operations: [Operation; 10] = [
        |_, media| media.write(0, &[1; 3]),
        |_, media| media.set_len(5),
        |_, media| media.sync(),
        |_, media| media.reserve(0, 8192),
        |_, media| media.punch(0, 4096),
        |folder, _| folder.create("b").map(drop),
        |folder, _| folder.remove("a"),
        |folder, _| folder.rename("a", "c"),
        |folder, _| folder.sync_names(),
        |folder, _| folder.subfolder("b").map(drop),
    ];
    for (number, operation) in operations.into_iter().enumerate() {
        let folder = SimFolder::new();
        let media = folder.create("a").unwrap();
        folder.crash_at(2);
        let error = operation(&folder, &*media).expect_err("the power went").to_string();
        assert!(error.ends_with("power lost") && folder.has_crashed(), "{number}: {error}");
        // From then on also of what is not there.
        for result in [
            folder.remove("missing"),
            folder.rename("missing", "x"),
            folder.remove_subfolder("missing"),
            folder.sync_names(),
            folder.subfolder("new").map(drop),
            folder.existing_subfolder("missing").map(drop),
            folder.open("missing").map(drop),
            media.sync(),
        ] {
            let error = result.expect_err("the power is gone").to_string();
            assert!(error.ends_with("power lost"), "{number}: {error}");
        }
    }
}

#[test]
fn folders_are_not_renamed_nor_replaced() {
    let folder = SimFolder::new();
    folder.subfolder("inner").unwrap();
    folder.create("a").unwrap();
    folder.rename("inner", "b").expect_err("a folder");
    folder.rename("a", "inner").expect_err("a folder is there");
    assert_eq!(folder.list().unwrap(), ["a"]);
}

#[test]
fn what_was_synced_is_the_length_and_the_contents_whatever_the_power_cut_leaves() {
    let folder = SimFolder::new();
    let media = folder.create("a").unwrap();
    folder.sync_names().unwrap();
    media.write(0, &[7; 9000]).unwrap();
    media.sync().unwrap();
    media.set_len(8500).unwrap();
    media.punch(0, 3 * 512).unwrap();
    media.punch(2000, 20).unwrap();
    media.punch(4096, 4096).unwrap();
    media.sync().unwrap();
    let mut expected = vec![7; 8500];
    for range in [0..1536, 2000..2020, 4096..8192] {
        expected[range].fill(0);
    }
    for seed in 0..30 {
        let left = folder.after_crash(seed, CrashMode::Random);
        assert!(contents(&*left.open("a").unwrap()) == expected, "{seed}");
    }
    // Damage is at rest, too.
    folder.flip_bit("a", 8499, 7).unwrap();
    expected[8499] ^= 0x80;
    folder.truncate("a", 8500).unwrap();
    let left = folder.after_crash(1, CrashMode::KeepNothing);
    assert!(contents(&*left.open("a").unwrap()) == expected);
    let past = folder.flip_bit("a", 8500, 0).expect_err("one past the end").to_string();
    assert_eq!(past, "a ends at byte 8500, but bytes 8500..8501 were expected");
}

#[test]
fn operations_are_told_once_each_without_their_numbers() {
    let (folder, mut seen) = (SimFolder::new(), 0);
    let media = folder.create("a").unwrap();
    media.write(3, &[1; 4]).unwrap();
    assert_eq!(folder.ops_since(&mut seen), "Create a\nWrite a bytes 3..7\n");
    assert_eq!((folder.ops_since(&mut seen), seen), (String::new(), 2));
    media.set_len(5).unwrap();
    folder.fail_once(&[OpKind::Sync], 1, FaultKind::Eio);
    media.sync().unwrap_err();
    assert_eq!(folder.ops_since(&mut seen), "SetLen a to 5\nSync a -> Eio\n");
    assert_eq!(folder.reads_at_once(), 1, "its files share a device");
}
