//! A pool of which any bytes of any file are replaced: opened, checked and read without a panic,
//! and never giving other data than was written. Four bytes say where, one says what.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_block::{BlockDevice, Folder, SimFolder};
use onefold_pool::{Budgets, OpenOptions, Pool};

const FILES: [(&str, &[u8]); 5] = [
    ("super.0", include_bytes!("../../crates/onefold-pool/tests/fixtures/pool-v1/super.0")),
    ("super.1", include_bytes!("../../crates/onefold-pool/tests/fixtures/pool-v1/super.1")),
    ("journal", include_bytes!("../../crates/onefold-pool/tests/fixtures/pool-v1/journal")),
    ("map", include_bytes!("../../crates/onefold-pool/tests/fixtures/pool-v1/map")),
    (
        "containers/00000001.container",
        include_bytes!(
            "../../crates/onefold-pool/tests/fixtures/pool-v1/containers/00000001.container"
        ),
    ),
];

fuzz_target!(|data: &[u8]| {
    let mut files = FILES.map(|(name, bytes)| (name, bytes.to_vec()));
    for change in data.chunks_exact(5).take(64) {
        let (_, bytes) = &mut files[usize::from(change[0]) % FILES.len()];
        let at = u32::from_be_bytes([0, change[1], change[2], change[3]]) as usize % bytes.len();
        bytes[at] = change[4];
    }
    let folder = SimFolder::new();
    let containers = folder.subfolder("containers").expect("nothing fails here");
    for (name, bytes) in &files {
        let media = match name.strip_prefix("containers/") {
            Some(name) => containers.create(name),
            None => folder.create(name),
        };
        media.and_then(|media| media.write(0, bytes)).expect("nothing fails here");
    }
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let _ = Pool::check_in(&folder, &mut |_, _| {});
    for read_only in [true, false] {
        let Ok(pool) = Pool::open(&folder, &OpenOptions { read_only, budgets }) else { continue };
        for volume in pool.volumes() {
            for gigabyte in 0..10 {
                let _ = volume.read_at(gigabyte << 30, &mut [0; 4096]);
            }
        }
    }
});
