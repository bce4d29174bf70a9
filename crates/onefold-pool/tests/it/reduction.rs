//! What is stored, and what is not.

use onefold_block::{BlockDevice, ByteSize, ChunkSize, CrashMode, Extent, ExtentKind, ZeroOptions};
use onefold_content::Compression;
use onefold_pool::{Budgets, OpenOptions, Pool, PoolSettings};

use crate::model::{CHUNK, main_volume};
use crate::support::{IDENTITY, assert_sound, content, new_pool, options, small};

fn data(range: std::ops::Range<u64>) -> Vec<u8> {
    range.map(|n| content(n, 4096)).collect::<Vec<_>>().concat()
}

#[test]
fn a_second_copy_takes_references_only_also_after_reopening_and_after_a_crash() {
    let (folder, pool) = new_pool(&small());
    let one = pool.create_volume("one", ByteSize(8 << 20)).unwrap();
    one.write_at(0, &data(0..1000), true).unwrap();
    let stored = pool.status().unwrap();
    assert_eq!((stored.chunks, stored.logical_bytes), (1000, 4096 * 1000));
    let two = pool.create_volume("two", ByteSize(8 << 20)).unwrap();
    two.write_at(4096, &data(0..1000), true).unwrap();
    assert_eq!(pool.status().unwrap().chunks, 1000);

    // The power goes; the index is rebuilt from what is stored.
    let folder = {
        folder.crash_at(folder.op_count());
        folder.after_crash(1, CrashMode::KeepNothing)
    };
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.volume("two").unwrap().write_at(0, &data(500..600), true).unwrap();
    assert_eq!(pool.status().unwrap().chunks, 1000, "found after a crash");
    pool.close().unwrap();
    assert_sound(&folder, "after a crash");
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.volume("one").unwrap().write_at(1 << 20, &data(0..700), false).unwrap();
    let status = pool.status().unwrap();
    assert_eq!(status.chunks, 1000, "found after a clean stop");
    assert!(status.dedup_ratio() > 1.99 && status.compression_ratio() > 1.45, "{status:?}");
}

/// A pool with this many chunks of content, opened again.
fn opened_again(chunks: u64) -> (Pool, onefold_pool::Volume) {
    let (folder, pool) = new_pool(&small());
    let volume = main_volume(&pool, 4000).unwrap();
    volume.write_at(0, &data(0..chunks), false).unwrap();
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    (pool, volume)
}

#[test]
fn opening_reads_no_directory_and_the_first_write_has_all_of_them_read() {
    let (pool, volume) = opened_again(1000);
    let status = pool.status().unwrap();
    assert_eq!((status.index_entries, status.index_containers_left), (0, status.containers));
    assert!(status.containers > 5, "{status:?}");
    volume.write_at(2000 * CHUNK as u64, &data(500..501), false).unwrap();
    let status = pool.status().unwrap();
    assert_eq!((status.index_entries, status.index_containers_left), (1000, 0));
    assert_eq!(status.stored_chunks, 1000);
}

#[test]
fn whoever_fills_the_index_beside_clients_does_it_in_steps_newest_container_first() {
    let (pool, volume) = opened_again(1000);
    pool.fill_index_beside();
    let write = |at: u64, n: u64| {
        volume.write_at(at * CHUNK as u64, &data(n..n + 1), false).unwrap();
        pool.status().unwrap().stored_chunks
    };
    // Nobody waits, and the price of it is that a copy may be stored.
    assert_eq!(write(2000, 3), 1001);
    assert_eq!(pool.status().unwrap().index_entries, 1);
    assert!(!pool.fill_index(1), "there is more than one container");
    assert_eq!(write(2001, 999), 1001, "the newest container is known");
    assert_eq!(write(2002, 4), 1002, "the oldest is not");
    let left = pool.status().unwrap().index_containers_left;
    assert!(left > 3, "{left} left");
    while !pool.fill_index(1) {}
    assert_eq!(pool.status().unwrap().index_containers_left, 0);
    assert_eq!(write(2003, 5), 1002, "all are");
    assert!(pool.fill_index(1), "and it stays so");
}

#[test]
fn a_container_that_goes_while_the_index_is_filled_is_nothing_to_speak_of() {
    let (pool, volume) = opened_again(1000);
    pool.fill_index_beside();
    assert!(!pool.fill_index(1));
    volume.trim(0, 700 * CHUNK as u64, false).unwrap();
    pool.checkpoint().unwrap();
    while !pool.fill_index(1) {}
    volume.write_at(2000 * CHUNK as u64, &data(0..1000), false).unwrap();
    let mut found = vec![0; 1000 * CHUNK];
    volume.read_at(2000 * CHUNK as u64, &mut found).unwrap();
    assert!(found == data(0..1000));
}

#[test]
fn zeroes_take_nothing_and_status_tells_holes_from_zeroes() {
    let (_, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    volume.write_at(0, &vec![0; 1 << 20], false).unwrap();
    assert_eq!(pool.status().unwrap().logical_bytes, 0);
    let whole = volume.block_status(0, 1 << 30).unwrap();
    assert_eq!(whole, [Extent { len_bytes: 1 << 30, kind: ExtentKind::Hole }]);
    volume.write_at(8192, &data(0..2), false).unwrap();
    let allocated = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    volume.write_zeroes(1 << 20, 512 << 20, allocated).unwrap();
    let extents = volume.block_status(4096 + 100, 600 << 20).unwrap();
    let kinds: Vec<(u64, ExtentKind)> = extents.iter().map(|e| (e.len_bytes, e.kind)).collect();
    assert_eq!(
        kinds,
        [
            (4096 - 100, ExtentKind::Hole),
            (8192, ExtentKind::Data),
            ((1 << 20) - 16384, ExtentKind::Hole),
            (512 << 20, ExtentKind::Zero),
            ((87 << 20) + 4196, ExtentKind::Hole),
        ]
    );
    assert_eq!(pool.status().unwrap().chunks, 2);
    volume.trim(0, 1 << 30, true).unwrap();
    assert_eq!(volume.block_status(0, 1 << 30).unwrap(), whole);
    assert_eq!(pool.status().unwrap().logical_bytes, 0);
}

#[test]
fn overwritten_and_trimmed_containers_are_given_back() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    volume.write_at(0, &data(0..2000), true).unwrap();
    let (full, containers) = (folder.used_bytes(), pool.status().unwrap().container_bytes);
    volume.trim(0, 2000 * 4096, false).unwrap();
    pool.maintain().unwrap();
    let after = folder.used_bytes();
    // Journal, map and the reserve for moved records have space set aside.
    assert!(after < full / 2, "{after} of {full} bytes are still used");
    // Of containers, only those are left that are being filled, and the reserve.
    let left = pool.status().unwrap().container_bytes;
    assert!(left < containers / 8, "{left} of {containers} bytes of containers are left");
    // What was forgotten is stored again, not taken from where it was.
    volume.write_at(0, &data(0..2000), true).unwrap();
    let mut found = vec![0; 2000 * 4096];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == data(0..2000));
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after giving back");
}

#[test]
fn with_little_index_memory_what_was_written_together_is_found_together() {
    let (folder, pool) = new_pool(&small());
    pool.close().unwrap();
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 4 << 20, cache_bytes: 0 };
    let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap();
    let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    // 768 KiB of index hold some 80,000 entries; tiny contents keep the test quick.
    let tiny = |n: u64| {
        let mut chunk = vec![0u8; 4096];
        chunk[..8].copy_from_slice(&(n + 1).to_le_bytes());
        chunk
    };
    let count = 130_000u64;
    for from in (0..count).step_by(1000) {
        let data: Vec<u8> = (from..from + 1000).map(tiny).collect::<Vec<_>>().concat();
        volume.write_at(from * 4096, &data, false).unwrap();
    }
    let status = pool.status().unwrap();
    assert_eq!(status.chunks, count);
    assert!(status.index_let_go > 25_000, "{} let go", status.index_let_go);
    assert!(status.index_memory_bytes <= 1 << 20, "{}", status.index_memory_bytes);
    // The newest are still known, each by itself.
    let newest: Vec<u8> = (count - 1000..count).map(tiny).collect::<Vec<_>>().concat();
    volume.write_at(600 << 20, &newest, false).unwrap();
    assert!(pool.status().unwrap().chunks < count + 200);
    // Of the oldest, a few are: where they are written in the order of their containers, these lead
    // to the others.
    let before = pool.status().unwrap().chunks;
    let oldest: Vec<u8> = (0..30_000).map(tiny).collect::<Vec<_>>().concat();
    volume.write_at(700 << 20, &oldest, false).unwrap();
    let missed = pool.status().unwrap().chunks - before;
    assert!(missed < 400, "{missed} of 30,000 in order are stored again");
    let mut found = vec![0; oldest.len()];
    volume.read_at(700 << 20, &mut found).unwrap();
    assert!(found == oldest);
}

#[test]
fn every_chunk_size_and_compressor_stores_and_returns_the_same() {
    for chunk in ["4K", "8K", "16K", "32K", "64K"] {
        for compression in ["none", "lz4", "zstd:1"] {
            let settings = PoolSettings {
                chunk_size: chunk.parse::<ChunkSize>().unwrap(),
                compression: compression.parse::<Compression>().unwrap(),
                ..small()
            };
            let (folder, pool) = new_pool(&settings);
            let volume = pool.create_volume("main", ByteSize((8 << 20) + 512)).unwrap();
            let bytes = content(9, 700_000);
            volume.write_at(12_345, &bytes, false).unwrap();
            volume.write_at((8 << 20) + 12, &bytes[..500], true).unwrap();
            drop(volume);
            pool.close().unwrap();
            let pool = Pool::open(&folder, &options()).unwrap();
            let volume = pool.volume("main").unwrap();
            let mut found = vec![0; bytes.len()];
            volume.read_at(12_345, &mut found).unwrap();
            assert!(found == bytes, "{chunk} {compression}");
            volume.read_at((8 << 20) + 12, &mut found[..500]).unwrap();
            assert!(found[..500] == bytes[..500]);
            drop((volume, pool));
            assert_sound(&folder, &format!("{chunk} {compression}"));
        }
    }
}

#[test]
fn a_clean_small_pool_is_mostly_data() {
    let folder = onefold_block::SimFolder::new();
    Pool::create(&folder, &PoolSettings::default(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume("main", ByteSize(1 << 40)).unwrap();
    volume.write_at(1 << 39, &data(0..500), true).unwrap();
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let compressed = pool.status().unwrap().compressed_bytes;
    assert!(
        folder.used_bytes() < compressed + (256 << 10),
        "{} of {compressed}",
        folder.used_bytes()
    );
}
