//! What the tiered store adds to a hit: reads through it, beside the same file read directly.
//! Room: onefold-cache.
//! Run: `cargo run --release -p onefold-cache --example tier_cost -- FOLDER`, FOLDER on the fast
//! device. Both read 64 containers of 4 MiB at random, from the page cache, so that the processor's
//! part shows and not the device's.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::sync::Arc;
use std::time::Instant;

use onefold_block::{ContainerId, ContainerStore, FileFolder, FolderContainerStore, SplitMix64};
use onefold_cache::tier::{TierOptions, TierSize, TieredStore};

const CONTAINERS: u32 = 64;
const CONTAINER_BYTES: u64 = 4 << 20;
const READS: u64 = 100_000;
const ROUNDS: usize = 5;

fn ns_per_read(store: &dyn ContainerStore, bytes: usize) -> f64 {
    let mut random = SplitMix64::new(3);
    let mut buf = vec![0; bytes];
    let started = Instant::now();
    for _ in 0..READS {
        let id = ContainerId::new(random.below(CONTAINERS.into()) as u32);
        let blocks = (CONTAINER_BYTES - bytes as u64) / 4096;
        store.read(id, random.below(blocks + 1) * 4096, &mut buf).expect("it was written");
    }
    started.elapsed().as_nanos() as f64 / READS as f64
}

fn main() {
    let folder = std::env::args().nth(1).expect("usage: tier_cost FOLDER");
    let folder = std::path::Path::new(&folder).join("tier_cost");
    let part = |name: &str| Arc::new(FileFolder::create(folder.join(name)).expect("a folder"));
    let slow = Arc::new(FolderContainerStore::new(part("slow")));
    let mut random = SplitMix64::new(1);
    for number in 0..CONTAINERS {
        let id = ContainerId::new(number);
        slow.create(id, CONTAINER_BYTES).expect("space");
        slow.append(id, 0, &random.bytes(CONTAINER_BYTES as usize)).expect("space");
        slow.seal(id, CONTAINER_BYTES).expect("it is there");
    }
    let options = TierOptions {
        owner: [1; 16],
        policy: "lru".to_owned(),
        size: TierSize::Bytes(2 * u64::from(CONTAINERS) * CONTAINER_BYTES),
        container_bytes: CONTAINER_BYTES as u32,
        writes_per_day: None,
        write_through: false,
        fill_at_once: false,
    };
    let below: Arc<dyn ContainerStore> = slow;
    let tier = TieredStore::open(Arc::clone(&below), part("fast"), options, None).expect("a tier");
    // Twice, as a container's first long pass is not kept.
    let mut whole = vec![0; CONTAINER_BYTES as usize];
    for number in (0..CONTAINERS).chain(0..CONTAINERS) {
        tier.read(ContainerId::new(number), 0, &mut whole).expect("it was written");
    }
    tier.save();
    let filled = tier.status().totals;
    println!("{:>9} {:>11} {:>11} {:>11}", "bytes", "direct ns", "tier ns", "added ns");
    for bytes in [4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        let mut best = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            best[0] = best[0].min(ns_per_read(&*below, bytes));
            best[1] = best[1].min(ns_per_read(&tier, bytes));
        }
        let [direct, through] = best;
        println!("{bytes:>9} {direct:>11.0} {through:>11.0} {:>11.0}", through - direct);
    }
    let totals = tier.status().totals;
    assert_eq!(totals.slow_bytes, filled.slow_bytes, "all are hits");
    drop(tier);
    std::fs::remove_dir_all(&folder).expect("it was made here");
}
