//! What a checkpoint of a large pool costs those who write meanwhile, and the disk.
//! Room: onefold-pool.
//!
//! `checkpoint_cost FOLDER [CONTAINERS [CHANGED]]` makes a pool whose table lists so many
//! containers (1,000,000), none of which is there, and a volume with one block in each. Then, ten
//! times, it gives up so many blocks (100) in as many parts of the table and writes a checkpoint. A
//! second thread takes the engine's lock as often as it can and waits at most as long as the lock
//! is held, and as long as other work keeps the processors: of the longest waits of each round, the
//! median and the longest are printed.

#![expect(clippy::disallowed_methods, reason = "an example is a command")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onefold_block::{BlockDevice as _, ContainerId};
use onefold_pool::format::container_table::{ContainerRecord, RECORDS_PER_PAGE, encode};
use onefold_pool::format::superblock::{KIND_VOLUME, Superblock, VolumeRecord};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings};

const PAGE_BYTES: usize = 4096;
const ENTRIES: usize = PAGE_BYTES / 8;
const REFERENCES: usize = PAGE_BYTES / 16;
/// The checkpoint that a new pool has.
const BIRTH: u128 = 1;
const ROUNDS: usize = 10;

type Error = Box<dyn std::error::Error>;
type Page = [u64; ENTRIES];

/// Append pages to the map file, and then those above them, up to the root. Returns its reference
/// and the number of levels above the leaves.
fn tree(file: &mut Vec<u8>, mut pages: Vec<Page>) -> (u128, u8) {
    let mut height = 0;
    loop {
        let mut references = Vec::with_capacity(pages.len());
        for page in &pages {
            let bytes: Vec<u8> = page.iter().flat_map(|word| word.to_le_bytes()).collect();
            let slot = (file.len() / PAGE_BYTES) as u128;
            references.push(slot | BIRTH << 48 | u128::from(crc32fast::hash(&bytes)) << 96);
            file.extend_from_slice(&bytes);
        }
        if let [root] = references[..] {
            return (root, height);
        }
        height += 1;
        let words = |reference: &u128| [*reference as u64, (*reference >> 64) as u64];
        let pages_above = references.chunks(REFERENCES);
        pages = pages_above
            .map(|some| page_of(&some.iter().flat_map(words).collect::<Vec<u64>>()))
            .collect();
    }
}

/// Append the bitmap that has all pages of the file in use, its own among them. Returns its root
/// and its pages.
fn bitmap(file: &mut Vec<u8>) -> (u128, u32) {
    let per_page = PAGE_BYTES * 8;
    let before = file.len() / PAGE_BYTES;
    let mut pages = 1usize;
    let end = loop {
        let (mut level, mut all) = (pages, pages);
        while level > 1 {
            level = level.div_ceil(REFERENCES);
            all += level;
        }
        if before + all <= pages * per_page {
            break before + all;
        }
        pages += 1;
    };
    let mut words = vec![u64::MAX; end / 64];
    words.push((1 << (end % 64)) - 1);
    words.resize(pages * ENTRIES, 0);
    let (root, _) = tree(file, words.chunks(ENTRIES).map(page_of).collect());
    (root, pages as u32)
}

fn page_of(words: &[u64]) -> Page {
    let mut page = [0; ENTRIES];
    page[..words.len()].copy_from_slice(words);
    page
}

/// Let the pool in `folder` list containers that are not there, and a volume that refers to them.
fn forge(folder: &Path, containers: u32) -> Result<(), Error> {
    let mut file = std::fs::read(folder.join("map"))?;
    let mut table = vec![[0; ENTRIES]; (containers as usize + 1).div_ceil(RECORDS_PER_PAGE)];
    for number in 1..=containers {
        let id = ContainerId::new(number);
        let (len_bytes, chunks) = (4 << 20, 1000);
        let (references, live_max, punched) = (1000, 1000, 0);
        let record = ContainerRecord { id, len_bytes, chunks, references, live_max, punched };
        encode(&record, &mut table[number as usize / RECORDS_PER_PAGE]);
    }
    let (table, _) = tree(&mut file, table);
    let entries: Vec<u64> =
        (1..=u64::from(containers)).map(|id| id << 31 | 3 << 13 | 0x63).collect();
    let (root, height) = tree(&mut file, entries.chunks(ENTRIES).map(page_of).collect());
    let (slots, slot_pages) = bitmap(&mut file);
    std::fs::write(folder.join("map"), &file)?;
    let path = folder.join("super.1");
    let mut superblock = Superblock::decode("super.1", &std::fs::read(&path)?)?;
    superblock.volumes.push(VolumeRecord {
        number: 1,
        name: "main".to_owned(),
        size_bytes: u64::from(containers) * 4096,
        height,
        root,
        mapped_chunks: containers.into(),
        deleting: false,
        kind: KIND_VOLUME,
        origin: 0,
        birth: 1,
        created_seconds: 0,
        parent: 0,
        held: false,
        dropped: 0,
        identity: 0,
        note: Vec::new(),
    });
    (superblock.next_volume, superblock.next_container) = (2, containers + 1);
    superblock.table = table;
    (superblock.slots, superblock.slot_pages) = (slots, slot_pages);
    std::fs::create_dir_all(folder.join("containers"))?;
    std::fs::write(folder.join("containers/00000001.container"), [])?;
    Ok(std::fs::write(path, superblock.encode())?)
}

/// Bytes that this process has written so far.
fn written() -> Result<u64, Error> {
    let counts = std::fs::read_to_string("/proc/self/io")?;
    let line = counts.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(line.ok_or("no count of bytes written")?.parse()?)
}

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: checkpoint_cost FOLDER [CONTAINERS [CHANGED]]")?;
    let containers: u32 = args.next().map_or(Ok(1_000_000), |number| number.parse())?;
    let changed: u64 = args.next().map_or(Ok(100), |number| number.parse())?;
    let folder = Path::new(&folder);
    let identity = PoolIdentity { uuid: [3; 16], key: [5; 32] };
    Pool::create_at(folder, &PoolSettings::default(), identity)?;
    forge(folder, containers)?;
    let budgets = Budgets { index_bytes: 64 << 20, map_bytes: 64 << 20, cache_bytes: 0 };
    let begun = Instant::now();
    let pool = Pool::open_at(folder, &OpenOptions { read_only: false, budgets })?;
    println!("opened in {:?}", begun.elapsed());
    let volume = pool.volume("main")?;
    let step = u64::from(containers) / changed;
    let (mut waits, mut bytes, mut took) = (Vec::with_capacity(ROUNDS), 0, Duration::MAX);
    for round in 0..ROUNDS as u64 {
        for part in 0..changed {
            volume.trim((part * step + round) * 4096, 4096, false)?;
        }
        volume.flush()?;
        let (done, before) = (AtomicBool::new(false), written()?);
        let longest = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                while !done.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    pool.space();
                    longest = longest.max(begun.elapsed());
                }
                longest
            });
            let begun = Instant::now();
            let written = pool.checkpoint();
            took = took.min(begun.elapsed());
            done.store(true, Ordering::Relaxed);
            written.map(|()| waiter.join())
        })?;
        waits.push(longest.map_err(|_| "the second thread panicked")?);
        bytes = bytes.max(written()? - before);
    }
    waits.sort_unstable();
    println!(
        "{containers} containers, {changed} changed: {bytes} bytes written, longest wait for the \
         engine's lock {:?} (median), {:?} (at most), whole checkpoint {took:?}",
        waits[ROUNDS / 2],
        waits[ROUNDS - 1]
    );
    Ok(())
}
