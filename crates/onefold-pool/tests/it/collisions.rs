//! Different chunks with equal fingerprints are never taken for each other.

use onefold_block::{BlockDevice, ByteSize};
use onefold_content::FingerprintKind;
use onefold_pool::{Pool, PoolSettings, Thoroughness};

use crate::support::{assert_sound, content, new_pool, options, small};

/// A chunk with the same CRC-32 as `chunk`, other than it: some of the first 33 bits are flipped
/// whose changes of the checksum cancel out.
fn same_crc(chunk: &[u8]) -> Vec<u8> {
    let zero = vec![0u8; chunk.len()];
    let base = crc32(&zero);
    // Rows of (change of the checksum, bits flipped), in echelon form by highest set bit.
    let mut rows: Vec<(u32, u64)> = Vec::new();
    for bit in 0..33u32 {
        let mut flipped = zero.clone();
        flipped[bit as usize / 8] ^= 1 << (bit % 8);
        let mut row = (crc32(&flipped) ^ base, 1u64 << bit);
        for other in &rows {
            if row.0 & (1 << other.0.ilog2()) != 0 {
                row = (row.0 ^ other.0, row.1 ^ other.1);
            }
        }
        if row.0 == 0 {
            let mut twin = chunk.to_vec();
            for bit in (0..33).filter(|bit| row.1 & (1 << bit) != 0) {
                twin[bit / 8] ^= 1 << (bit % 8);
            }
            return twin;
        }
        rows.push(row);
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.0));
    }
    unreachable!("33 changes of 32 bits are dependent")
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut state = u32::MAX;
    for byte in bytes {
        state ^= u32::from(*byte);
        for _ in 0..8 {
            state = state >> 1 ^ if state & 1 == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    !state
}

#[test]
fn designed_crc_collisions_are_stored_apart() {
    let settings = PoolSettings { fingerprint: FingerprintKind::Crc32, ..small() };
    let (folder, pool) = new_pool(&settings);
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    let first = content(1, 4096);
    let twin = same_crc(&first);
    assert_ne!(first, twin);
    assert_eq!(crc32(&first), crc32(&twin));
    let both = [first.clone(), twin.clone()].concat();
    volume.write_at(0, &both, false).unwrap(); // in one batch
    volume.write_at(8192, &twin, false).unwrap(); // across batches
    volume.write_at(12288, &first, false).unwrap();
    let mut found = vec![0; 16384];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == [first.clone(), twin.clone(), twin, first].concat());
    let status = pool.status().unwrap();
    assert_eq!(status.chunks, 2, "each is stored once");
    assert!(status.activity.collisions > 0, "the collision was met");
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let mut again = vec![0; 16384];
    pool.volume("main").unwrap().read_at(0, &mut again).unwrap();
    assert!(again == found);
}

#[test]
fn every_fingerprint_finds_duplicates() {
    for kind in FingerprintKind::ALL {
        let (_, pool) = new_pool(&PoolSettings { fingerprint: kind, ..small() });
        let volume = pool.create_volume("main", ByteSize(4 << 20)).unwrap();
        let data: Vec<u8> = (0..100).flat_map(|n| content(n, 4096)).collect();
        volume.write_at(0, &data, false).unwrap();
        volume.write_at(1 << 20, &data, false).unwrap();
        let mut found = vec![0; data.len()];
        volume.read_at(1 << 20, &mut found).unwrap();
        assert!(found == data);
        assert_eq!(pool.status().unwrap().chunks, 100, "{kind}");
    }
}

#[test]
fn designed_crc_collisions_that_meet_in_a_merge_stay_apart() {
    let settings = PoolSettings { fingerprint: FingerprintKind::Crc32, ..small() };
    let (folder, pool) = new_pool(&settings);
    let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    let dose = std::env::var("ONEFOLD_COLLISIONS").ok().and_then(|count| count.parse().ok());
    let count: u64 = dose.unwrap_or(300);
    let pairs: Vec<[Vec<u8>; 2]> =
        (0..count).map(|n| content(n, 4096)).map(|one| [same_crc(&one), one]).collect();
    for (n, pair) in (0..).zip(&pairs) {
        volume.write_at(n * 8192, &pair.concat(), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    // Once more, without the index: now each meets its double and its double's twin.
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.fill_index_beside();
    let volume = pool.volume("main").unwrap();
    let again = 512 << 20;
    for (n, pair) in (0..).zip(&pairs) {
        volume.write_at(again + n * 8192, &pair.concat(), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let mut found = 0;
    loop {
        let step = pool.deduplicate(1 << 20, Thoroughness::Whole).unwrap();
        found += step.found;
        if step.done {
            break;
        }
    }
    assert_eq!(found, 2 * count, "each is found");
    let volume = pool.volume("main").unwrap();
    let mut read = vec![0; 8192];
    for (n, pair) in (0..).zip(&pairs) {
        for at in [n * 8192, again + n * 8192] {
            volume.read_at(at, &mut read).unwrap();
            assert!(read == pair.concat(), "pair {n}");
        }
    }
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after designed collisions");
}
