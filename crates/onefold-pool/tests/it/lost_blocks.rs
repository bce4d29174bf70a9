//! What a repair gave up or had again is not what it was: nobody takes it for that.

use std::sync::Arc;

use onefold_block::{BlockDevice as _, ByteSize, ExtentKind, Folder as _, SimFolder};
use onefold_content::Compression;
use onefold_pool::format::superblock::Superblock;
use onefold_pool::{Pool, PoolError, PoolIdentity, PoolSettings, RepairReport, Volume};

use crate::streams::{Refused, bytes_of, receive_from, stream};
use crate::support::{IDENTITY, assert_sound, content, options, small};

const CHUNK: u64 = 4096;

fn write(volume: &Volume, blocks: std::ops::Range<u64>, seed: u64) {
    for block in blocks {
        volume.write_at(block * CHUNK, &content(seed, CHUNK as usize), false).unwrap();
    }
}

/// Records are as what was written.
fn new_pool(identity: PoolIdentity) -> (SimFolder, Pool) {
    let folder = SimFolder::new();
    let settings = PoolSettings { compression: Compression::None, ..small() };
    Pool::create(&folder, &settings, identity).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    (folder, pool)
}

/// Close it, damage it, and repair it.
fn repaired(
    (folder, pool): (SimFolder, Pool),
    damage: impl FnOnce(&SimFolder),
) -> (SimFolder, Pool, RepairReport) {
    pool.close().unwrap();
    damage(&folder);
    let fresh = PoolIdentity { uuid: [8; 16], key: [9; 32] };
    let mut heard = Vec::new();
    let mut progress = |done, of| heard.push((done, of));
    let repair = Pool::repair_in(Arc::new(folder.clone()), fresh, &mut progress).unwrap();
    let containers = folder.existing_subfolder("containers").unwrap().list().unwrap().len() as u64;
    assert!(
        heard
            .into_iter()
            .rev()
            .take(containers as usize)
            .rev()
            .eq((0..containers).map(|n| (n, containers)))
    );
    let report = repair.apply().unwrap();
    assert_sound(&folder, "after the repair");
    let pool = Pool::open(&folder, &options()).unwrap();
    (folder, pool, report)
}

/// Damage the record of what was written with this seed.
fn damage_record(folder: &SimFolder, seed: u64) {
    let containers = folder.existing_subfolder("containers").unwrap();
    let wanted = &content(seed, CHUNK as usize)[..];
    let mut found = 0;
    for name in containers.list().unwrap() {
        let file = containers.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read(0, &mut bytes).unwrap();
        for at in (0..bytes.len().saturating_sub(wanted.len())).step_by(8) {
            if bytes[at..].starts_with(wanted) {
                file.write(at as u64 + 9, &[bytes[at + 9] ^ 1]).unwrap();
                found += 1;
            }
        }
    }
    assert_eq!(found, 1);
}

/// Two snapshots that differ in block 600 of 512 to 1024, all of which are duplicates of blocks 0
/// and 1. Where these are is written down in the map alone, and that is gone.
fn without_map() -> (SimFolder, Pool) {
    let (folder, pool) = new_pool(IDENTITY);
    let volume = pool.create_volume("main", ByteSize(1100 * CHUNK)).unwrap();
    write(&volume, 0..1, 1);
    write(&volume, 1..2, 2);
    write(&volume, 512..1024, 1);
    pool.snapshot("main@one", 1, false).unwrap();
    write(&volume, 600..601, 2);
    pool.snapshot("main@two", 2, false).unwrap();
    drop(volume);
    let (folder, pool, _) = repaired((folder, pool), |folder| folder.remove("map").unwrap());
    (folder, pool)
}

/// Why a stream cannot be made.
fn refused(pool: &Pool, name: &str, base: Option<&str>) -> PoolError {
    let mut next = Some(0);
    while let Some(from) = next {
        match pool.stream_frame(name, base, from, &mut Vec::new()) {
            Ok(after) => next = after,
            Err(error) => return error,
        }
    }
    panic!("{name} was sent, since {base:?}");
}

/// Block 600 is lost in both, and it is not known that it was the same.
fn assert_unknown(pool: &Pool) {
    let [one, two] = ["main@one", "main@two"].map(|name| pool.volume(name).unwrap());
    for snapshot in [&one, &two] {
        let mut found = vec![0; CHUNK as usize];
        snapshot.read_at(0, &mut found).unwrap();
        assert!(found == content(1, CHUNK as usize), "it is known whose it was");
        assert!(snapshot.read_at(600 * CHUNK, &mut found).is_err());
    }
    let extents = two.changes_since(&one, 600 * CHUNK, CHUNK).unwrap();
    assert_eq!(extents.iter().map(|extent| extent.kind).collect::<Vec<_>>(), [ExtentKind::Data]);
    // Who has the first from before the damage would have there what it was then.
    for base in [None, Some("main@one")] {
        let why = refused(pool, "main@two", base);
        assert!(matches!(why, PoolError::Lost { .. }), "{why}");
    }
}

#[test]
fn what_is_lost_in_two_snapshots_is_not_said_to_be_alike_in_them() {
    let (folder, pool) = without_map();
    assert_unknown(&pool);
    // Programs that do not know of lost blocks may not write to it.
    let file = folder.open("super.0").unwrap();
    let superblock = Superblock::read(&*file, "super.0").unwrap().unwrap();
    assert_ne!(superblock.features.may_only_read, 0);
    // Nor is it where each of them had a page that says so.
    let (folder, pool) = new_pool(IDENTITY);
    let volume = pool.create_volume("main", ByteSize(1100 * CHUNK)).unwrap();
    write(&volume, 0..1, 1);
    for (seed, name) in [(2, "main@one"), (3, "main@two")] {
        write(&volume, 600..601, seed);
        pool.snapshot(name, seed, false).unwrap();
    }
    drop(volume);
    let damage = |folder: &SimFolder| [2, 3].iter().for_each(|&seed| damage_record(folder, seed));
    assert_unknown(&repaired((folder, pool), damage).1);
}

/// Two snapshots with a leaf each that cannot be read, of which the same can be had again.
#[test]
fn what_is_lost_in_two_leaves_is_not_said_to_be_alike_in_them() {
    let (folder, pool) = new_pool(IDENTITY);
    let volume = pool.create_volume("main", ByteSize(1100 * CHUNK)).unwrap();
    write(&volume, 0..1, 1);
    write(&volume, 1..2, 2);
    write(&volume, 700..701, 5);
    write(&volume, 512..600, 1);
    write(&volume, 600..601, 1);
    pool.snapshot("main@one", 1, false).unwrap();
    write(&volume, 600..601, 2);
    pool.snapshot("main@two", 2, false).unwrap();
    drop(volume);
    let (_folder, pool, report) = repaired((folder, pool), |folder| {
        // Leaves in which block 700 is the last one that is stored.
        let map = folder.open("map").unwrap();
        let mut bytes = vec![0; map.len().unwrap() as usize];
        map.read(0, &mut bytes).unwrap();
        let is_leaf = |page: &[u8]| {
            page[8 * 188..][..8] != [0; 8] && page[8 * 189..].iter().all(|&byte| byte == 0)
        };
        let leaves: Vec<usize> =
            (1..bytes.len() / 4096).filter(|page| is_leaf(&bytes[page * 4096..][..4096])).collect();
        assert_eq!(leaves.len(), 2);
        for leaf in leaves {
            map.write(leaf as u64 * 4096 + 5, &[0xA5]).unwrap();
        }
    });
    // Both lost all but what is known to be block 700's.
    assert!(report.lost.ranges.iter().any(|range| range.volume == "main@two"), "{report:?}");
    let mut found = vec![0; CHUNK as usize];
    for name in ["main@one", "main@two"] {
        pool.volume(name).unwrap().read_at(700 * CHUNK, &mut found).unwrap();
        assert!(found == content(5, CHUNK as usize));
    }
    assert_unknown(&pool);
}

#[test]
fn what_was_had_again_is_no_base_for_what_comes() {
    let other = PoolIdentity { uuid: [9; 16], key: [8; 32] };
    let (from, to) = (new_pool(IDENTITY), new_pool(other));
    let volume = from.1.create_volume("main", ByteSize(20 * CHUNK)).unwrap();
    let send =
        |name: &str, base: Option<&str>, to: &Pool| receive_from(to, &*stream(&from.1, name, base));
    write(&volume, 3..4, 1);
    write(&volume, 7..8, 7);
    from.1.snapshot("main@zero", 1, false).unwrap();
    send("main@zero", None, &to.1).unwrap();
    write(&volume, 3..4, 2);
    from.1.snapshot("main@one", 2, false).unwrap();
    send("main@one", Some("main@zero"), &to.1).unwrap();
    write(&volume, 9..10, 3);
    from.1.snapshot("main@two", 3, false).unwrap();
    // What block 3 held is found to be damaged, and what it held before is there.
    let (_folder, to, report) = repaired(to, |folder| damage_record(folder, 2));
    let restored = |name: &str| report.restored.ranges.iter().any(|blocks| blocks.volume == name);
    assert!(restored("main") && restored("main@one") && !restored("main@zero"));
    let came = send("main@two", Some("main@one"), &to);
    assert!(matches!(came, Err(Refused::NoBase)), "block 3 would be an older one: {came:?}");
    // What is as it was has the name that it had.
    let identity = |pool: &Pool, name: &str| {
        let all = pool.snapshots(None).unwrap();
        all.iter().find(|snapshot| snapshot.name == name).unwrap().identity
    };
    assert_eq!(identity(&to, "main@zero"), identity(&from.1, "main@zero"));
    assert_eq!(bytes_of(&to, "main@zero"), bytes_of(&from.1, "main@zero"));
}

#[test]
fn what_was_had_again_is_no_base_for_who_has_what_it_was() {
    let other = PoolIdentity { uuid: [9; 16], key: [8; 32] };
    let (from, (_kept, to)) = (new_pool(IDENTITY), new_pool(other));
    let volume = from.1.create_volume("main", ByteSize(20 * CHUNK)).unwrap();
    write(&volume, 3..4, 1);
    write(&volume, 3..4, 2);
    from.1.snapshot("main@one", 2, false).unwrap();
    receive_from(&to, &*stream(&from.1, "main@one", None)).unwrap();
    drop(volume);
    let (_folder, from, report) = repaired(from, |folder| damage_record(folder, 2));
    assert_eq!((report.lost.total, report.restored.total), (0, 2));
    let one = from.snapshots(None).unwrap()[0].identity;
    write(&from.volume("main").unwrap(), 9..10, 3);
    from.snapshot("main@two", 3, false).unwrap();
    let came = receive_from(&to, &*stream(&from, "main@two", Some("main@one")));
    assert!(matches!(came, Err(Refused::NoBase)), "block 3 would be another: {came:?}");
    // It keeps that name, and is a base for who has it from now on.
    let third = PoolIdentity { uuid: [7; 16], key: [7; 32] };
    let (_folder, to) = new_pool(third);
    receive_from(&to, &*stream(&from, "main@one", None)).unwrap();
    receive_from(&to, &*stream(&from, "main@two", Some("main@one"))).unwrap();
    assert_eq!(bytes_of(&to, "main@two"), bytes_of(&from, "main@two"));
    assert_eq!(from.snapshots(None).unwrap()[0].identity, one);
}
