//! Different chunks with equal fingerprints are never taken for each other.

use onefold_block::{BlockDevice, ByteSize};
use onefold_content::FingerprintKind;
use onefold_pool::{Pool, PoolSettings, Thoroughness, Volume};

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
    assert_eq!(status.activity.collisions, 1, "each was met");
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
        let data: Vec<u8> = (0..100).map(|n| content(n, 4096)).collect::<Vec<_>>().concat();
        volume.write_at(0, &data, false).unwrap();
        volume.write_at(1 << 20, &data, false).unwrap();
        let mut found = vec![0; data.len()];
        volume.read_at(1 << 20, &mut found).unwrap();
        assert!(found == data);
        assert_eq!(pool.status().unwrap().chunks, 100, "{kind}");
    }
}

/// The published pair of SHA-1 ([sha1-17]): what both begin with, and where they differ.
const SHA1_PREFIX: &str = "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032\
    203020522f4865696768742033203020522f547970652034203020522f537562747970652035203020522f46696c\
    7465722036203020522f436f6c6f7253706163652037203020522f4c656e6774682038203020522f426974735065\
    72436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d3120697320646561642121212121\
    852fec092339759c39b1a1c63c4c97e1fffe01";
const SHA1_PAIR: [&str; 2] = [
    "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fe\
     dfb3dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf\
     93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1",
    "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afe\
     dfb76038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec3\
     7fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda8044629a1",
];

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

/// Two chunks of one SHA-1, other than those of another number: what follows is the same in both.
fn same_sha1(number: u64) -> [Vec<u8>; 2] {
    SHA1_PAIR.map(|middle| {
        let mut chunk = [hex(SHA1_PREFIX), hex(middle)].concat();
        chunk.extend(content(number, 4096 - chunk.len()));
        chunk
    })
}

/// Store each pair; once more, without the index; and let all of them meet.
fn let_all_meet(kind: FingerprintKind, pairs: &[[Vec<u8>; 2]]) {
    let (folder, pool) = new_pool(&PoolSettings { fingerprint: kind, ..small() });
    let again = 512 << 20;
    let write = |volume: &Volume, from: u64| {
        for (n, [one, other]) in (0..).zip(pairs) {
            volume.write_at(from + n * 8192, one, false).unwrap();
            volume.write_at(from + n * 8192 + 4096, other, false).unwrap();
        }
    };
    let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
    write(&volume, 0);
    let chunks = 2 * pairs.len() as u64;
    let status = pool.status().unwrap();
    assert_eq!(status.chunks, chunks, "{kind}: each is stored once");
    assert_eq!(status.activity.collisions, pairs.len() as u64, "{kind}: collisions were met");
    drop(volume);
    pool.close().unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    pool.fill_index_beside();
    let volume = pool.volume("main").unwrap();
    write(&volume, again);
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
    assert_eq!(found, chunks, "{kind}: each is found");
    let volume = pool.volume("main").unwrap();
    let mut read = vec![0; 8192];
    for (n, pair) in (0..).zip(pairs) {
        for at in [n * 8192, again + n * 8192] {
            volume.read_at(at, &mut read).unwrap();
            assert!(read == pair.concat(), "{kind}: pair {n}");
        }
    }
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after designed collisions");
}

#[test]
fn designed_collisions_that_meet_in_a_merge_stay_apart() {
    let dose = std::env::var("ONEFOLD_COLLISIONS").ok().and_then(|count| count.parse().ok());
    let count: u64 = dose.unwrap_or(300);
    let crc: Vec<[Vec<u8>; 2]> =
        (0..count).map(|n| content(n, 4096)).map(|one| [same_crc(&one), one]).collect();
    let_all_meet(FingerprintKind::Crc32, &crc);
    let sha1: Vec<[Vec<u8>; 2]> = (0..count).map(same_sha1).collect();
    let_all_meet(FingerprintKind::Sha1, &sha1);
}
