//! Stores of which any bytes of any file are replaced: opened, checked and read without a panic,
//! and never giving other data than was written.
//! Room: onefold-fuzz.

use std::sync::{Arc, LazyLock};

use onefold_archive::format::entry::compare_paths;
use onefold_archive::tree::restore::read_file;
use onefold_archive::{
    AddOptions, Archive, ArchiveIdentity, ArchiveSettings, Chunking, Entry, Kind, Metadata, Recipe,
    Stamp,
};
use onefold_block::{BlockDevice as _, ByteSize, ContainerId, SimFolder, SplitMix64};
use onefold_content::Compression;
use onefold_flash::Geometry;
use onefold_flash::drive::{self, Clock, OpenDrive, SmartReport};
use onefold_flash::spec::{BlockCount, DriveSpec};
use onefold_pool::format::container_table::{self, RecordPage};
use onefold_pool::format::{container, frame, superblock::Superblock};
use onefold_pool::{
    Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, Repair, SpaceTarget, Thoroughness,
};

use super::checksums_are_blind;
use super::files::{Image, changed, image};

const CONTAINERS: &[&str] = &["containers"];
const ARCHIVE: &[&str] = &["containers", "versions"];

/// Any bytes as each structure of a pool on disk.
pub fn pool_formats(data: &[u8]) {
    let id = ContainerId::new(1);
    if let Ok(superblock) = Superblock::decode("super.0", data) {
        let again = Superblock::decode("super.0", &superblock.encode());
        assert_eq!(again.ok().as_ref(), Some(&superblock), "decoding loses nothing");
    }
    if let Some(frame) = frame::decode(data) {
        assert!(frame.payload.len() <= data.len());
    }
    let _ = frame::decode_changes(data);
    let _ = container::check_header(data, id, &[0; 16]);
    let _ = container::decode_entry(data, id);
    let words =
        data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
    if let Ok(page) = RecordPage::try_from(words.collect::<Vec<u64>>())
        && let Ok(records) = container_table::decode(&page, ContainerId::new(0), 256)
    {
        let mut again = [0; 512];
        for record in &records {
            container_table::encode(record, &mut again);
        }
        assert_eq!(again, page, "decoding loses nothing");
    }
    if let Ok(footer) = container::decode_footer(data, id, data.len() as u64) {
        let _ = container::decode_directory(data, id, &footer);
    }
}

static POOL: LazyLock<Image> =
    LazyLock::new(|| if checksums_are_blind() { new_pool() } else { old_pool() });

/// Volumes with data alone and shared, a snapshot and a clone, some of it in the journal only.
fn new_pool() -> Image {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [7; 16], key: [9; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).expect("nothing fails here");
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets });
    let pool = pool.expect("nothing fails here");
    let volume = pool.create_volume("main", ByteSize(8 << 20)).expect("nothing fails here");
    let write = |turn: u64| {
        for block in 0..40 {
            let mut bytes = SplitMix64::new(block % 17 + turn).bytes(4096);
            bytes[1024 * (block % 4) as usize..].fill(0);
            volume.write_at((block * 7 + turn) << 12, &bytes, false).expect("nothing fails here");
        }
    };
    write(0);
    pool.snapshot("main@a", 0, false).expect("nothing fails here");
    write(3);
    pool.checkpoint().expect("nothing fails here");
    pool.clone_snapshot("main@a", "other", 0).expect("nothing fails here");
    volume.trim(5 << 12, 20 << 12, false).expect("nothing fails here");
    write(9);
    volume.flush().expect("nothing fails here");
    // Not closed: that would be a checkpoint, and leave the journal empty.
    image(&folder, CONTAINERS)
}

/// A pool of an older version.
fn old_pool() -> Image {
    macro_rules! fixture {
        ($($name:literal),*) => {
            vec![$(($name.to_owned(), include_bytes!(concat!(
                "../../../onefold-pool/tests/fixtures/pool-v2/", $name
            )).to_vec())),*]
        };
    }
    fixture!("super.0", "super.1", "journal", "map", "generation", "containers/00000001.container")
}

pub fn pool(input: &[u8]) {
    let folder = changed(&POOL, CONTAINERS, input);
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let _ = Pool::check_in(&folder, &mut |_, _| {});
    for read_only in [true, false] {
        let Ok(pool) = Pool::open(&folder, &OpenOptions { read_only, budgets }) else { continue };
        for volume in pool.volumes() {
            for gigabyte in 0..10 {
                let _ = volume.read_at(gigabyte << 30, &mut [0; 4096]);
            }
        }
        if checksums_are_blind() {
            live(&pool);
        }
    }
    if checksums_are_blind() {
        let fresh = PoolIdentity { uuid: [8; 16], key: [3; 32] };
        let folder = Arc::new(changed(&POOL, CONTAINERS, input));
        let _ = Pool::repair_in(folder, fresh, &mut |_, _| {}).map(Repair::apply);
    }
}

/// What a server does to a pool, a little of everything. Each may be refused.
fn live(pool: &Pool) {
    let _ = (pool.status(), pool.snapshots(None));
    for volume in pool.volumes().iter().take(4) {
        let mut bytes = vec![0; 64 << 10];
        for at in 0..16 {
            let _ = volume.read_at(at << 16, &mut bytes);
        }
        let _ = volume.block_status(0, volume.size_bytes().min(1 << 30));
        let _ = volume.write_at(12 << 10, &[5; 12 << 10], false);
        let _ = volume.trim(64 << 10, 100 << 10, false);
        let _ = volume.flush();
    }
    let _ = pool.snapshot("main@b", 0, false);
    let _ = pool.deduplicate(1 << 20, Thoroughness::Whole);
    let _ = pool.background(4 << 20, SpaceTarget::new(1.05).expect("in its range"));
    let _ = (pool.maintain(), pool.checkpoint());
    let _ = pool.delete_snapshot("main@a");
    let _ = pool.delete_volume("other");
    let _ = pool.checkpoint();
}

fn file(number: u64) -> Vec<u8> {
    SplitMix64::new(number).bytes(3000 + 700 * number as usize)
}

static STORED: LazyLock<Image> = LazyLock::new(|| {
    let folder = SimFolder::new();
    let settings = ArchiveSettings {
        chunking: Chunking::FastCdc,
        chunk_bytes: 1 << 10,
        container_bytes: 128 << 10,
        compression: Compression::Lz4,
    };
    let identity = ArchiveIdentity { uuid: [7; 16], key: [9; 32] };
    Archive::create(&folder, &settings, identity).expect("nothing fails here");
    for version in 0..2 {
        let mut archive = Archive::open(Arc::new(folder.clone())).expect("nothing fails here");
        let options = AddOptions { index_bytes: 1 << 20, ..AddOptions::default() };
        let mut adder = archive.add(options).expect("nothing fails here");
        let mut paths: Vec<String> = (version..version + 6).map(|n| format!("f{n}")).collect();
        paths.sort_by(|a, b| compare_paths(a.as_bytes(), b.as_bytes()));
        for path in paths {
            let number = path[1..].parse().expect("a number");
            let metadata = Metadata { mode: 0o644, ..Metadata::default() };
            let (stamp, recipe) = (Stamp::default(), Recipe::default());
            let entry =
                Entry { path: path.into_bytes(), kind: Kind::File, metadata, stamp, recipe };
            let read = adder.file(entry, false, &mut file(number).as_slice());
            read.expect("nothing fails here").expect("it was read");
        }
        adder.commit().expect("nothing fails here");
    }
    image(&folder, ARCHIVE)
});

pub fn archive(input: &[u8]) {
    let folder = changed(&STORED, ARCHIVE, input);
    let _ = Archive::check(Arc::new(folder.clone()), false);
    let look = |folder: &SimFolder| {
        let Ok(archive) = Archive::open(Arc::new(folder.clone())) else { return };
        let _ = archive.verify(&mut |_, _| true);
        let numbers: Vec<u32> = archive.versions().map(|info| info.number).collect();
        for number in numbers.into_iter().take(4) {
            let Ok(version) = archive.version(Some(number)) else { continue };
            for index in 0..version.len().min(20) {
                let Ok(entry) = version.entry(index) else { continue };
                let mut bytes = Vec::new();
                let read = read_file(&archive, &version, &entry, 1 << 20, &mut |piece| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                });
                let wanted = entry.path.strip_prefix(b"f").map(String::from_utf8_lossy);
                let wanted = wanted.and_then(|number| number.parse().ok()).filter(|&n| n < 8);
                if let (Ok(_), Some(number), Kind::File) = (read, wanted, entry.kind) {
                    let right = bytes == file(number) || checksums_are_blind();
                    assert!(right, "'f{number}' has other bytes");
                }
            }
        }
    };
    look(&folder);
    let _ = Archive::check(Arc::new(folder.clone()), true);
    look(&folder);
}

/// Time stands still.
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }

    fn unix_s(&self) -> u64 {
        1_700_000_000
    }

    fn wait_until(&self, _until_ns: u64) {}
}

const PAGE: usize = 1024;

fn page(number: u64) -> Vec<u8> {
    SplitMix64::new(number + 1).bytes(PAGE)
}

static DRIVE: LazyLock<Image> = LazyLock::new(|| {
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
    "caftl-online".clone_into(&mut spec.dedup.policy);
    let folder = SimFolder::new();
    drive::create(&folder, &spec).expect("nothing fails here");
    let opened = OpenDrive::open(Arc::new(folder.clone()), false, Arc::new(Still), None);
    let opened = opened.expect("nothing fails here");
    for turn in 0..200_u64 {
        let at = turn * 7 % 64 * PAGE as u64;
        // Each page always has one of two contents, and many are shared.
        let content = page(turn * 7 % 64 % 24 + 24 * (turn % 2));
        opened.device().write_at(at, &content, turn % 50 == 0).expect("nothing fails here");
    }
    opened.device().flush().expect("nothing fails here");
    drop(opened);
    image(&folder, &[])
});

pub fn drive(input: &[u8]) {
    let folder = changed(&DRIVE, &[], input);
    if let Ok(found) = drive::inspect(&folder) {
        let _ = SmartReport::of(&found);
    }
    let opened = OpenDrive::open(Arc::new(folder.clone()), false, Arc::new(Still), None);
    let Ok(opened) = opened else { return };
    let size = opened.device().size_bytes();
    for at in (0..64).map(|page| page * PAGE as u64).take_while(|at| at + PAGE as u64 <= size) {
        let mut found = vec![0; PAGE];
        if opened.device().read_at(at, &mut found).is_ok() {
            let number = at / PAGE as u64;
            let known = (0..2).any(|turn| found == page(number % 24 + 24 * turn));
            let known = known || checksums_are_blind();
            assert!(known || found.iter().all(|&byte| byte == 0), "page {number} has other bytes");
        }
    }
    let _ = opened.device().write_at(0, &page(99), false);
    let _ = opened.close();
}
