//! What it costs to keep a drive's acknowledged writes in memory that outlives the process.
//! Room: onefold-flash.
//!
//! `perf stat -e instructions:u target/release/examples/drive_handover_cost FOLDER on|off
//! [PAGES]` (or `valgrind --tool=callgrind`) writes pages of 4 KiB to a drive that shares them by
//! parity, one request each, half of them as one that is there already, with a flush every 4096
//! pages; the difference between `on` and `off` is the cost.

#![expect(clippy::disallowed_methods, reason = "an example is a command")]

use std::path::Path;
use std::sync::Arc;

use onefold_block::handover::{FileHandover, Handover};
use onefold_block::{BlockDevice as _, FileFolder, SplitMix64};
use onefold_flash::drive::{self, OpenDrive, WallClock};
use onefold_flash::spec::SpecBuilder;

const PAGE_BYTES: usize = 4096;
const SETTINGS: [&str; 6] = [
    "geometry.page_bytes=4096",
    "geometry.oob_bytes=192",
    "geometry.pages_per_block=64",
    "geometry.blocks_per_plane=64",
    "ftl.over_provisioning=0.6",
    "dedup.policy=ses-device",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(keep)) = (args.next(), args.next()) else {
        return Err("usage: drive_handover_cost FOLDER on|off [PAGES]".into());
    };
    let pages: u64 = args.next().map_or(Ok(16384), |pages| pages.parse())?;
    let mut builder = SpecBuilder::preset("ses-mlc1")?;
    for setting in SETTINGS {
        builder = builder.set(setting)?;
    }
    let folder = FileFolder::create(Path::new(&path))?;
    drive::create(&folder, &builder.build()?)?;
    let handover: Option<Arc<dyn Handover>> = if keep == "on" {
        let name = format!("/dev/shm/handover-cost-{}", std::process::id());
        Some(Arc::new(FileHandover::open(Path::new(&name), [1; 16])?))
    } else {
        None
    };
    let clock = Arc::new(WallClock::start());
    let open = OpenDrive::open_at(Path::new(&path), false, clock, handover)?;
    let device = Arc::clone(open.device());
    let room = device.size_bytes() / PAGE_BYTES as u64;
    let mut random = SplitMix64::new(1);
    for number in 0..pages {
        let content = if random.chance(1, 2) { random.below(64) } else { 64 + number };
        let page = SplitMix64::new(content).bytes(PAGE_BYTES);
        device.write_at(number % room * PAGE_BYTES as u64, &page, false)?;
        if number % 4096 == 4095 {
            device.flush()?;
        }
    }
    drop(device);
    open.close()?;
    Ok(())
}
