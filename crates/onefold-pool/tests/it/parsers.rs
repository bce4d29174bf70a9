//! On-disk parsers meet anything at all and answer without panicking.

use std::sync::Arc;

use onefold_block::{BlockDevice, ByteSize, ContainerId, Folder, SimFolder, SplitMix64};
use onefold_pool::format::{container, frame, superblock::Superblock};
use onefold_pool::{Budgets, OpenOptions, Pool, RescuePoint};
use proptest::prelude::*;

use crate::support::{content, new_pool, options, read_only, small};

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let id = ContainerId::new(1);
        let _ = Superblock::decode("super.0", &bytes);
        let _ = frame::decode(&bytes);
        let _ = frame::decode_changes(&bytes);
        let _ = container::check_header(&bytes, id, &[0; 16]);
        let _ = container::decode_entry(&bytes, id);
        if let Ok(footer) = container::decode_footer(&bytes, id, bytes.len() as u64) {
            let _ = container::decode_directory(&bytes, id, &footer);
        }
    }
}

/// A pool as its files' bytes.
fn image() -> Vec<(String, Vec<u8>)> {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(4 << 20)).unwrap();
    for n in 0..120 {
        volume.write_at(n * 4096, &content(n, 4096), n % 30 == 0).unwrap();
    }
    drop(volume);
    pool.checkpoint().unwrap();
    pool.volume("main").unwrap().write_at(0, &content(500, 40_960), true).unwrap();
    drop(pool);
    let mut files = Vec::new();
    let containers = folder.subfolder("containers").unwrap();
    let folders: [(&str, Arc<dyn Folder>); 2] =
        [("", Arc::new(folder.clone())), ("containers/", containers)];
    for (prefix, folder) in folders {
        for name in folder.list().unwrap() {
            if let Ok(media) = folder.open(&name) {
                let mut bytes = vec![0; media.len().unwrap() as usize];
                media.read(0, &mut bytes).unwrap();
                files.push((format!("{prefix}{name}"), bytes));
            }
        }
    }
    files
}

fn write_image(files: &[(String, Vec<u8>)]) -> SimFolder {
    let folder = SimFolder::new();
    let containers = folder.subfolder("containers").unwrap();
    for (name, bytes) in files {
        match name.strip_prefix("containers/") {
            Some(name) => containers.create(name).unwrap().write(0, bytes).unwrap(),
            None => folder.create(name).unwrap().write(0, bytes).unwrap(),
        }
    }
    folder
}

/// Checksums are made to fit after the damage, so that what lies behind them is reached.
fn forge(name: &str, bytes: &mut [u8]) {
    let crc = crc32fast::hash;
    if name.starts_with("super") && bytes.len() > 40 {
        let len = u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
        if let Some(covered) = bytes.get(16..40 + len.min(1 << 20)) {
            let check = crc(&[&bytes[8..12], covered].concat());
            bytes[12..16].copy_from_slice(&check.to_le_bytes());
        }
    }
    if name == "journal" {
        let mut at = 0;
        while at + 32 <= bytes.len() {
            let len = u32::from_le_bytes(bytes[at + 24..at + 28].try_into().unwrap()) as usize;
            let Some(covered) = bytes.get(at + 8..at + 32 + len) else { break };
            let check = crc(covered);
            bytes[at + 4..at + 8].copy_from_slice(&check.to_le_bytes());
            at += (32 + len).next_multiple_of(64);
        }
    }
}

#[test]
fn damaged_pools_with_fitting_checksums_are_answered() {
    let pristine = image();
    let mut random = SplitMix64::new(21);
    let mut opened = 0;
    for _ in 0..1500 {
        let mut files = pristine.clone();
        let meta: Vec<usize> =
            (0..files.len()).filter(|&n| !files[n].0.starts_with("containers")).collect();
        let victim = meta[random.below(meta.len() as u64) as usize];
        let (name, bytes) = &mut files[victim];
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next_u64() as u8;
            }
        }
        forge(name, bytes);
        let folder = write_image(&files);
        let _ = Pool::check_in(&folder, &mut |_, _| {});
        for options in [read_only(), options()] {
            let Ok(pool) = Pool::open(&folder, &options) else { continue };
            opened += 1;
            for volume in pool.volumes() {
                for n in 0..20 {
                    let _ = volume.read_at(n * 4096, &mut [0; 4096]);
                }
            }
        }
    }
    assert!(opened > 300, "only {opened} damaged pools could be opened at all");
}

/// The pool with one more frame in its journal, which tells of this container, so many
/// checkpoints later.
fn with_sealed(files: &[(String, Vec<u8>)], id: u32, later: u64) -> SimFolder {
    let mut files = files.to_vec();
    let (_, journal) = files.iter_mut().find(|(name, _)| name == "journal").unwrap();
    let (mut at, mut last) = (0, (0, 0));
    while let Some(frame) = frame::decode(&journal[at..]) {
        last = (frame.epoch, frame.number);
        at += (32 + frame.payload.len()).next_multiple_of(64);
    }
    let mut entries = frame::Entries::default();
    entries.sealed(&frame::Sealed { id: ContainerId::new(id), len_bytes: 64 << 10, chunks: 3 });
    let frame = frame::encode(last.0 + later, last.1 + 1, &entries);
    journal.resize(journal.len().max(at + frame.len()), 0);
    journal[at..at + frame.len()].copy_from_slice(&frame);
    write_image(&files)
}

#[test]
fn a_journal_that_makes_up_a_container_number_is_refused_and_not_given_memory() {
    let pristine = image();
    for id in [1 << 25, 1 << 30, (1 << 31) - 1] {
        let folder = with_sealed(&pristine, id, 0);
        for options in [read_only(), options()] {
            let error = Pool::open(&folder, &options).map(drop).unwrap_err().to_string();
            assert!(error.contains("journal") && error.contains(&id.to_string()), "{error}");
        }
    }
    // One that may be is looked for, and found to be missing when it is asked for.
    assert!(Pool::open(&with_sealed(&pristine, 200, 0), &read_only()).is_ok());
}

#[test]
fn a_journal_that_makes_up_a_checkpoint_s_number_is_rescued_in_a_few_lines() {
    let folder = with_sealed(&image(), 200, 100_000);
    for point in [RescuePoint::Consistent, RescuePoint::Newest] {
        let rescued = Pool::rescue(&folder, options().budgets, point);
        let (pool, report) = rescued.unwrap();
        assert!(report.missing.len() < 20, "{} lines", report.missing.len());
        assert!(!report.missing.is_empty());
        assert_eq!(pool.volumes().len(), 1);
    }
}

/// Where pools of each format version stand, written once and never again.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

fn copied(version: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::create_dir(path.join("containers")).unwrap();
    for name in ["super.0", "super.1", "journal", "map", "containers/00000001.container"] {
        std::fs::copy(format!("{FIXTURES}/pool-v{version}/{name}"), path.join(name)).unwrap();
    }
    if version > 1 {
        let name = "generation";
        std::fs::copy(format!("{FIXTURES}/pool-v{version}/{name}"), path.join(name)).unwrap();
    }
    folder
}

#[test]
fn a_pool_of_format_version_1_is_refused_by_name_and_left_as_it_is() {
    let folder = copied(1);
    let path = folder.path();
    let before = std::fs::read(path.join("super.0")).unwrap();
    let refusals = [
        Pool::open_at(path, &OpenOptions::default()).err(),
        Pool::check_at(path, &mut |_, _| {}).err(),
        Pool::rescue_at(path, Budgets::default(), RescuePoint::Newest).err(),
    ];
    for error in refusals {
        let error = error.expect("it must be refused").to_string();
        assert!(error.contains("has format version 1; this onefold reads version 2"), "{error}");
    }
    assert_eq!(std::fs::read(path.join("super.0")).unwrap(), before);
}

#[test]
fn a_pool_of_format_version_2_can_be_read() {
    if std::env::var_os("ONEFOLD_WRITE_FIXTURE").is_some() {
        write_fixture();
    }
    let folder = copied(2);
    let path = folder.path();
    let report = Pool::check_at(path, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let pool = Pool::open_at(path, &OpenOptions::default()).unwrap();
    let volume = pool.volume("main").unwrap();
    assert_eq!(volume.size_bytes(), 64 << 30);
    let mut found = vec![0; 4096];
    for n in 0..10 {
        volume.read_at(n << 30, &mut found).unwrap();
        assert!(found == content(n, 4096), "chunk {n}");
    }
    pool.close().unwrap();
}

fn write_fixture() {
    use onefold_pool::PoolSettings;
    let path = std::path::PathBuf::from(format!("{FIXTURES}/pool-v2"));
    let path = path.as_path();
    Pool::create_at(path, &PoolSettings::default(), crate::support::IDENTITY).unwrap();
    let pool = Pool::open_at(path, &OpenOptions::default()).unwrap();
    let volume = pool.create_volume("main", ByteSize(64 << 30)).unwrap();
    for n in 0..10 {
        volume.write_at(n << 30, &content(n, 4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    std::fs::remove_file(path.join("lock")).unwrap();
}

/// A pool whose newest checkpoint alone says something else.
fn newest_changed(change: &dyn Fn(&mut Superblock)) -> SimFolder {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(4 << 20)).unwrap();
    volume.write_at(0, &content(1, 4096), true).unwrap();
    drop(volume);
    pool.close().unwrap();
    let newest = ["super.0", "super.1"].map(|name| {
        let media = folder.open(name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        (Superblock::decode(name, &bytes).unwrap(), media)
    });
    let (mut superblock, media) =
        newest.into_iter().max_by_key(|(superblock, _)| superblock.sequence).unwrap();
    change(&mut superblock);
    media.set_len(0).unwrap();
    media.write(0, &superblock.encode()).unwrap();
    folder
}

#[test]
fn what_only_a_later_onefold_knows_is_refused_by_name_and_no_older_checkpoint_is_taken_for_it() {
    let changes: [(&str, Change<'_>); 3] = [
        ("0x8000000000000000", &|it| it.features.must_refuse = 1 << 63),
        ("forwarding containers", &|it| it.features.must_refuse = 1),
        ("of kind 9", &|it| it.volumes[0].kind = 9),
    ];
    for (named, change) in changes {
        let folder = newest_changed(change);
        for error in [
            Pool::open(&folder, &options()).err(),
            Pool::open(&folder, &read_only()).err(),
            Pool::check_in(&folder, &mut |_, _| {}).err(),
            Pool::rescue(&folder, Budgets::default(), RescuePoint::Newest).err(),
        ] {
            let error = error.expect(named).to_string();
            assert!(error.contains(named), "{named}: {error}");
        }
    }
}

type Change<'a> = &'a dyn Fn(&mut Superblock);

#[test]
fn what_may_only_be_read_is_read_and_what_may_be_ignored_is_kept() {
    let folder = newest_changed(&|superblock| superblock.features.may_only_read = 8);
    let error = Pool::open(&folder, &options()).err().unwrap().to_string();
    assert!(error.contains("bits 0x8") && error.contains("cannot be changed"), "{error}");
    let mut found = vec![0; 4096];
    let pool = Pool::open(&folder, &read_only()).unwrap();
    pool.volume("main").unwrap().read_at(0, &mut found).unwrap();
    assert!(found == content(1, 4096));
    let folder = newest_changed(&|superblock| superblock.features.may_ignore = 4);
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.volume("main").unwrap().write_at(4096, &content(2, 4096), true).unwrap();
    pool.close().unwrap();
    for name in ["super.0", "super.1"] {
        let media = folder.open(name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        assert_eq!(Superblock::decode(name, &bytes).unwrap().features.may_ignore, 4);
    }
}
