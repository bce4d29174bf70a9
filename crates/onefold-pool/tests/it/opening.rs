//! What is refused before a pool is opened or made, and with which words.

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, Folder, SimFolder};
use onefold_pool::format::frame::{self, Entries};
use onefold_pool::format::superblock::{Features, SEALED_IN_JOURNAL, Superblock};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolError, PoolSettings, Volume};

use crate::support::{IDENTITY, content, new_pool, options, read_only, small};

const CHUNK: u64 = 4096;

fn bytes_of(folder: &dyn Folder, name: &str) -> Vec<u8> {
    let media = folder.open(name).unwrap();
    let mut bytes = vec![0; media.len().unwrap() as usize];
    media.read(0, &mut bytes).unwrap();
    bytes
}

fn put(folder: &dyn Folder, name: &str, bytes: &[u8]) {
    folder.create(name).unwrap().write(0, bytes).unwrap();
}

fn write(volume: &Volume, blocks: std::ops::Range<u64>) {
    for block in blocks {
        volume.write_at(block * CHUNK, &content(block, CHUNK as usize), false).unwrap();
    }
}

fn refused(folder: &SimFolder) -> String {
    let again = folder.after_crash(1, CrashMode::KeepEverything);
    Pool::open(&again, &options()).map(drop).unwrap_err().to_string()
}

#[test]
fn a_pool_that_is_made_begins_with_nothing() {
    let folder = SimFolder::new();
    let settings = PoolSettings { container_bytes: 128 << 10, ..PoolSettings::default() };
    assert!(Pool::create(&folder, &settings, IDENTITY).is_err());
    assert_eq!(folder.list().unwrap(), Vec::<String>::new());
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let made = Superblock::decode("super.1", &bytes_of(&folder, "super.1")).unwrap();
    let expected = Superblock {
        sequence: 1,
        identity: IDENTITY,
        features: Features { must_refuse: SEALED_IN_JOURNAL, ..Features::default() },
        settings: small(),
        next_container: 1,
        next_volume: 1,
        volumes: Vec::new(),
        table: made.table,
        slots: made.slots,
        slot_pages: 0,
        unseen: 0,
    };
    assert_eq!(made, expected);
    let error = Pool::create(&folder, &small(), IDENTITY).unwrap_err();
    assert!(matches!(error, PoolError::NotEmpty(_)), "{error}");
    let little = Budgets { index_bytes: 1000, ..options().budgets };
    let open = OpenOptions { budgets: little, ..options() };
    let error = Pool::open(&folder, &open).map(drop).unwrap_err().to_string();
    assert!(error.contains("index memory"), "{error}");
}

#[test]
fn a_map_file_of_another_pool_or_another_format_is_refused() {
    let (folder, pool) = new_pool(&small());
    pool.close().unwrap();
    let good = bytes_of(&folder, "map");
    let with = |at: usize, byte: u8, check: bool| {
        let mut bytes = good.clone();
        bytes[at] ^= byte;
        if check {
            let check = crc32fast::hash(&bytes[..28]).to_le_bytes();
            bytes[28..32].copy_from_slice(&check);
        }
        put(&folder, "map", &bytes);
        refused(&folder)
    };
    let damaged = "corrupt map at byte 0: the header is damaged or belongs to another pool";
    assert!(with(8, 1, true).contains("map has format version 3"));
    assert_eq!(with(8, 1, false), damaged);
    assert_eq!(with(15, 1, true), damaged, "another pool's");
    assert_eq!(with(15, 1, false), damaged);
    assert_eq!(with(0, 1, true), damaged);
    assert_eq!(with(4000, 1, false), damaged);
}

#[test]
fn what_is_missing_is_named() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(100 * CHUNK)).unwrap();
    write(&volume, 0..1);
    drop(volume);
    pool.close().unwrap();
    folder.create("repair").unwrap();
    assert!(matches!(Pool::open(&folder, &options()), Err(PoolError::RepairUnfinished)));
    assert!(matches!(Pool::open(&folder, &read_only()), Err(PoolError::RepairUnfinished)));
    folder.remove("repair").unwrap();
    // Without the folders beside it.
    let alone = SimFolder::new();
    for name in folder.list().unwrap() {
        if let Ok(media) = folder.open(&name) {
            drop(media);
            put(&alone, &name, &bytes_of(&folder, &name));
        }
    }
    let error = Pool::open(&alone, &read_only()).map(drop).unwrap_err().to_string();
    assert_eq!(error, "corrupt containers at byte 0: the folder is missing");
    assert!(alone.existing_subfolder("fingerprints").is_err(), "a reader makes nothing");
    let containers = folder.subfolder("containers").unwrap();
    for name in containers.list().unwrap() {
        containers.remove(&name).unwrap();
    }
    let said = "corrupt containers at byte 0: it is missing or empty, but the pool has data";
    assert!(refused(&folder).starts_with(said), "one block is data");
}

/// A pool whose journal follows its newest checkpoint, and one frame more.
fn with_frame(entries: &Entries) -> SimFolder {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1000 * CHUNK)).unwrap();
    drop((volume, pool));
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    let journal = bytes_of(&folder, "journal");
    let epoch = u64::from_le_bytes(*journal[8..].first_chunk().unwrap());
    let frames = [&journal[..64], &frame::encode(epoch, 1, entries)].concat();
    put(&folder, "journal", &frames);
    folder
}

#[test]
fn a_journal_that_leads_past_the_end_of_a_volume_is_refused() {
    // Blocks of zeroes, which are allocated.
    let fill = |volume: u64, first: u64, count: u64| {
        let words = [2 | volume << 8, first, count, 1].map(u64::to_le_bytes);
        with_frame(&Entries::from_payload(words.concat()))
    };
    // A map of that height has two levels: 256 times 512 blocks.
    drop(Pool::open(&fill(1, 512 * 255, 512), &options()).unwrap());
    assert_eq!(
        refused(&fill(1, 512 * 255, 513)),
        "corrupt journal at byte 0: LBA 130560 and 513 blocks lie past the end of the volume"
    );
    // Changes of a volume that has gone are of no more concern.
    drop(Pool::open(&fill(2, 1 << 40, 5), &options()).unwrap());
}

/// The disk shows the journal of the checkpoint before, though the newest one had one.
#[test]
fn a_container_that_is_newer_than_the_checkpoint_shows_that_its_journal_is_lost() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1000 * CHUNK)).unwrap();
    let before = bytes_of(&folder, "journal");
    pool.checkpoint().unwrap();
    // A container is written out once it is full, which no flush waits for.
    write(&volume, 0..150);
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    put(&folder, "journal", &before);
    assert_eq!(
        refused(&folder),
        "corrupt journal at byte 0: there is no good frame, but container 1 was made after the \
         checkpoint"
    );
    // One that was made while that checkpoint was written is of the epoch before.
    let containers = folder.subfolder("containers").unwrap();
    let name = containers.list().unwrap().remove(0);
    let mut bytes = bytes_of(&*containers, &name);
    bytes[28] -= 1;
    let check = crc32fast::hash(&bytes[..44]).to_le_bytes();
    bytes[44..48].copy_from_slice(&check);
    put(&*containers, &name, &bytes);
    for name in containers.list().unwrap().iter().skip(1) {
        containers.remove(name).unwrap();
    }
    Pool::open(&folder, &options()).unwrap().close().unwrap();
}

/// Found open after a crash, with a header that is damaged: it stays as it is, and what it held is
/// named where it is read.
#[test]
fn a_container_that_cannot_be_sealed_keeps_nobody_from_the_others() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1000 * CHUNK)).unwrap();
    write(&volume, 0..20);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    write(&volume, 100..120);
    volume.flush().unwrap();
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    let containers = folder.subfolder("containers").unwrap();
    let newest = containers.list().unwrap().into_iter().max().unwrap();
    folder.flip_bit(&format!("containers/{newest}"), 20, 1).unwrap();
    let before = bytes_of(&*containers, &newest);
    let pool = Pool::open(&folder, &options()).unwrap();
    assert!(bytes_of(&*containers, &newest) == before, "nothing of it was written again");
    let (volume, mut found) = (pool.volume("main").unwrap(), vec![0; CHUNK as usize]);
    for block in (0..20).chain(100..120) {
        if volume.read_at(block * CHUNK, &mut found).is_ok() {
            assert!(found == content(block, CHUNK as usize), "block {block}");
        } else {
            assert!(block >= 100, "block {block} is in another");
        }
    }
    containers.remove(&newest).unwrap();
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    assert!(volume.read_at(100 * CHUNK, &mut found).is_err());
    volume.read_at(0, &mut found).unwrap();
}

/// Sealed behind the last frame, with a directory that names a record which did not reach the disk.
#[test]
fn a_directory_that_came_before_its_records_is_made_anew() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1000 * CHUNK)).unwrap();
    write(&volume, 0..20);
    volume.flush().unwrap();
    write(&volume, 20..150);
    let folder = folder.after_crash(1, CrashMode::KeepEverything);
    let containers = folder.subfolder("containers").unwrap();
    let name = containers.list().unwrap().remove(0);
    let records = |folder: &SimFolder| {
        let bytes = bytes_of(&*folder.subfolder("containers").unwrap(), &name);
        u32::from_le_bytes(*bytes[bytes.len() - 20..].first_chunk().unwrap())
    };
    let all = records(&folder);
    assert!(all > 40, "{all}");
    let sound = folder.after_crash(1, CrashMode::KeepEverything);
    Pool::open(&sound, &options()).unwrap().close().unwrap();
    assert_eq!(records(&sound), all);
    // Block 50's or so: no durable frame refers to it.
    folder.flip_bit(&format!("containers/{name}"), 130_000, 1).unwrap();
    Pool::open(&folder, &options()).unwrap().close().unwrap();
    assert_eq!(records(&folder), all - 1);
    crate::support::assert_sound(&folder, "without that record");
}

#[test]
fn a_pool_with_nothing_stored_needs_no_container() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    write(&volume, 0..3);
    volume.trim(0, 3 * CHUNK, false).unwrap();
    pool.checkpoint().unwrap();
    drop((volume, pool));
    let containers = folder.subfolder("containers").unwrap();
    let names = containers.list().unwrap();
    assert!(!names.is_empty(), "one is being filled");
    for name in &names {
        containers.remove(name).unwrap();
    }
    let pool = Pool::open(&folder, &options()).unwrap();
    let mut found = vec![1; CHUNK as usize];
    pool.volume("main").unwrap().read_at(0, &mut found).unwrap();
    assert!(found.iter().all(|&byte| byte == 0));
}

#[test]
fn containers_that_nothing_knows_are_counted_for_a_reader_and_removed_by_a_writer() {
    let (folder, pool) = new_pool(&small());
    write(&pool.create_volume("main", ByteSize(1 << 20)).unwrap(), 0..3);
    pool.close().unwrap();
    let unfinished = |options: &OpenOptions| {
        let status = Pool::open(&folder, options).unwrap().status().unwrap();
        (status.unfinished_containers, status.unfinished_bytes, status.stored_bytes)
    };
    let (none, nothing, stored) = unfinished(&read_only());
    assert_eq!((none, nothing), (0, 0));
    let containers = folder.subfolder("containers").unwrap();
    put(&*containers, "00000077.container", &[0; 100]);
    put(&*containers, "00000078.container", &[0; 50]);
    assert_eq!(unfinished(&read_only()), (2, 150, stored + 150));
    assert_eq!(unfinished(&options()).0, 0);
    assert_eq!(unfinished(&read_only()).0, 0);
}
