//! Small pools on simulated media, and seeded data.

use std::path::Path;

use onefold_block::kept_text::assert_text;
use onefold_block::{BlockDevice as _, SimFolder, SplitMix64};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, Volume};

/// A chunk's worth of bytes that depend on `seed` alone; half of it compresses well.
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed.wrapping_add(77));
    let mut bytes = vec![seed as u8; len];
    let (pieces, rest) = bytes.as_chunks_mut::<16>();
    for piece in pieces {
        *piece.first_chunk_mut().expect("half of it") = random.next_u64().to_le_bytes();
    }
    let last = random.next_u64().to_le_bytes();
    rest.iter_mut().zip(last).for_each(|(byte, noise)| *byte = noise);
    bytes
}

/// A sum of what each volume holds, which two bytes of each block of 4 KiB tell apart.
pub fn sums(pool: &Pool) -> Vec<(String, u32)> {
    let sum = |name: String| {
        let volume = pool.volume(&name).unwrap();
        let mut bytes = vec![0; volume.size_bytes() as usize];
        volume.read_at(0, &mut bytes).unwrap();
        let words = bytes.chunks(4096).map(|block| u64::from(block[0]) | u64::from(block[20]) << 8);
        (name, words.fold(0u64, |sum, word| sum.wrapping_mul(31).wrapping_add(word)) as u32)
    };
    pool.volumes().iter().map(Volume::name).map(sum).collect()
}

pub const IDENTITY: PoolIdentity = PoolIdentity { uuid: [3; 16], key: [5; 32] };

pub fn small() -> PoolSettings {
    PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() }
}

pub fn options() -> OpenOptions {
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 1 << 20 };
    OpenOptions { read_only: false, budgets }
}

pub fn read_only() -> OpenOptions {
    OpenOptions { read_only: true, ..options() }
}

/// A new pool of small containers on a simulated disk.
pub fn new_pool(settings: &PoolSettings) -> (SimFolder, Pool) {
    let folder = SimFolder::new();
    Pool::create(&folder, settings, IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    (folder, pool)
}

/// The pool is sound: a check finds nothing.
pub fn assert_sound(folder: &SimFolder, context: &str) {
    let report = Pool::check_in(folder, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{context}: {:#?}", report.findings);
}

/// Compare with a file beside the tests; `ONEFOLD_UPDATE=1` writes it instead.
#[track_caller]
pub fn assert_golden(name: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(name);
    assert_text(&path, now, std::env::var_os("ONEFOLD_UPDATE").is_some());
}
