//! Where snapshots differ, block by block, from the first one to the end of the larger one.

use std::collections::BTreeSet;

use onefold_block::{BlockDevice as _, ByteSize, ExtentKind, ZeroOptions};
use onefold_pool::{Pool, Volume};

use crate::support::{content, new_pool, small};

const CHUNK: u64 = 4096;

fn write(volume: &Volume, blocks: &[u64], seed: u64) {
    for &block in blocks {
        volume.write_at(block * CHUNK, &content(seed + block, CHUNK as usize), false).unwrap();
    }
}

/// Snapshots `a`, `b` of 1300 blocks, and `c` of 1100 and a half.
fn pool() -> Pool {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1300 * CHUNK)).unwrap();
    write(&volume, &[0, 1, 511, 512, 513, 700, 701, 1023, 1024, 1099, 1100, 1299], 0);
    pool.snapshot("main@a", 1, false).unwrap();
    write(&volume, &[0, 512, 513, 1024, 1299], 5000);
    volume.trim(700 * CHUNK, CHUNK, false).unwrap();
    // Zeroes read as the hole did that was there.
    let zeroes = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    volume.write_zeroes(200 * CHUNK, 10 * CHUNK, zeroes).unwrap();
    pool.snapshot("main@b", 2, false).unwrap();
    pool.resize_volume("main", ByteSize(1100 * CHUNK + 512), true).unwrap();
    write(&volume, &[1], 9000);
    pool.snapshot("main@c", 3, false).unwrap();
    pool
}

/// What is said of two of them, as blocks.
fn said(pool: &Pool, from: &str, to: &str) -> Vec<u64> {
    let (mut blocks, mut end) = (Vec::new(), 0);
    pool.differences([from, to], &mut |at, len| {
        assert!(at % CHUNK == 0 && len > 0 && (end == 0 || at > end), "in order and apart");
        end = at + len;
        blocks.extend(at / CHUNK..end.div_ceil(CHUNK));
        true
    })
    .unwrap();
    blocks
}

#[test]
fn each_block_that_differs_is_told_and_no_other() {
    let pool = pool();
    let ab = vec![0, 512, 513, 700, 1024, 1299];
    let tail: BTreeSet<u64> = (1100..1300).collect();
    let bc: Vec<u64> = [1].into_iter().chain(tail.clone()).collect();
    let ac: Vec<u64> = [0, 1, 512, 513, 700, 1024].into_iter().chain(tail).collect();
    for (from, to, expected) in
        [("main@a", "main@b", &ab), ("main@b", "main@c", &bc), ("main@a", "main@c", &ac)]
    {
        assert_eq!(said(&pool, from, to), *expected, "{from} to {to}");
        assert_eq!(said(&pool, to, from), *expected, "{to} to {from}");
        assert!(said(&pool, from, from).is_empty());
        let [since, now] = [from, to].map(|name| pool.volume(name).unwrap());
        let end = now.size_bytes();
        for first in [0, 1, 511, 512, 700, 1023, 1024, 1090] {
            let mut at = first * CHUNK;
            let mut found = Vec::new();
            while at < end {
                for extent in now.changes_since(&since, at, end - at).unwrap() {
                    if extent.kind == ExtentKind::Data {
                        found.extend(at / CHUNK..(at + extent.len_bytes).div_ceil(CHUNK));
                    }
                    at += extent.len_bytes;
                }
            }
            let within = |&&block: &&u64| block >= first && block * CHUNK < end;
            let expected: Vec<u64> = expected.iter().filter(within).copied().collect();
            assert_eq!(found, expected, "{from} to {to} from {first}");
        }
    }
    // Who has heard enough hears no more.
    for heard in 1..=3 {
        let mut count = 0;
        pool.differences(["main@a", "main@b"], &mut |_, _| {
            count += 1;
            count < heard
        })
        .unwrap();
        assert_eq!(count, heard);
    }
}
