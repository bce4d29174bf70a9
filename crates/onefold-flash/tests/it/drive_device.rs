//! The emulated drive as a block device, in memory.
//! Room: onefold-flash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::conformance::check_device;
use onefold_block::{BlockDevice, BlockError, SplitMix64};
use onefold_code::preset;
use onefold_flash::dedup::{AnyPolicy, Bytes};
use onefold_flash::drive::{Clock, EmulatedDrive, FileDrive, Latencies, Pace, WallClock};
use onefold_flash::nand::bytes::{ChannelSpec, FileStore, PageBytes};
use onefold_flash::nand::{ByteNand, WearModel};
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::support::{bytes_in_a_file, none_of_bytes};

fn geometry(logical_pages: u32) -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 2,
        blocks_per_plane: logical_pages.div_ceil(32) + 9,
        pages_per_block: 16,
        page_bytes: 4096,
        oob_bytes: 192,
    }
}

fn ftl(logical_pages: u32, wear: WearModel) -> Ftl<ByteNand<FileStore>, AnyPolicy<Bytes>> {
    let scrambler = preset("lba-prbs31").ok();
    let channel = ChannelSpec { code: "ses-33x256".into(), scrambler };
    let nand = bytes_in_a_file(geometry(logical_pages), &channel, wear);
    let settings = FtlSettings { logical_pages, gc_reserve_blocks: 3, ..FtlSettings::default() };
    Ftl::format(nand, none_of_bytes(), settings).expect("fits")
}

fn drive(size: u64, wear: WearModel) -> FileDrive {
    let ftl = ftl(size.div_ceil(4096) as u32, wear);
    let pace = Pace::new(*ftl.geometry(), Latencies::default());
    EmulatedDrive::new(ftl, pace, false, Arc::new(WallClock::start())).expect("pages of 4 KiB")
}

#[test]
fn the_drive_is_a_block_device() {
    check_device(&|size| {
        let wear = WearModel { fresh_rate: 1e-6, retries: 3, ..WearModel::none() };
        Arc::new(drive(size, wear))
    });
}

#[test]
fn garbage_collection_changes_nothing_that_a_host_sees() {
    let drive = drive(1 << 20, WearModel::none());
    let mut plain = vec![0; 1 << 20];
    let mut random = SplitMix64::new(3);
    for _ in 0..3000 {
        let len = random.below(10_000) as usize + 1;
        let offset = random.below((plain.len() - len) as u64);
        let data = random.bytes(len);
        drive.write_at(offset, &data, false).expect("written");
        plain[offset as usize..offset as usize + len].copy_from_slice(&data);
    }
    let mut found = vec![0; 1 << 20];
    drive.read_at(0, &mut found).expect("read");
    assert!(found == plain);
    drive.with_ftl(|ftl| {
        ftl.check_invariants();
        assert!(ftl.nand().health().erases > 50, "{:?}", ftl.nand().health());
    });
}

#[test]
fn pages_beyond_correction_are_errors_that_name_the_page() {
    let wear = WearModel { fresh_rate: 7e-4, noise_share: 0.5, seed: 8, ..WearModel::none() };
    let drive = drive(1 << 20, wear);
    let data = SplitMix64::new(4).bytes(4096);
    let (mut good, mut bad) = (0, 0);
    for lpn in 0..200u64 {
        drive.write_at(lpn * 4096, &data, false).expect("written");
        let mut found = vec![0; 4096];
        match drive.read_at(lpn * 4096, &mut found) {
            Ok(()) => {
                assert!(found == data, "page {lpn} is other bytes");
                good += 1;
            }
            Err(BlockError::Corrupt(said)) => {
                assert!(said.contains(&format!("logical page {lpn}: page ")), "{said}");
                bad += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(good > 10 && bad > 10, "{good} good, {bad} bad");
    assert_eq!(drive.host_counts().errors, bad);
}

#[test]
fn a_worn_drive_loses_pages_aloud_and_goes_on() {
    let wear = WearModel { fresh_rate: 4e-4, noise_share: 0.2, seed: 2, ..WearModel::none() };
    let drive = drive(1 << 20, wear);
    let pages = (1 << 20) / 4096;
    let mut random = SplitMix64::new(9);
    let mut held = vec![0u64; pages as usize];
    for step in 1..=3000u64 {
        let lpn = random.below(pages);
        // A fifth of the pages is never written again, so that it is moved again and again.
        if held[lpn as usize] > 0 && lpn.is_multiple_of(5) {
            continue;
        }
        drive.write_at(lpn * 4096, &SplitMix64::new(step).bytes(4096), false).expect("written");
        held[lpn as usize] = step;
    }
    let (mut good, mut bad) = (0, 0);
    for (lpn, &step) in (0..).zip(&held) {
        let mut found = vec![0; 4096];
        match drive.read_at(lpn * 4096, &mut found) {
            Ok(()) if step == 0 => assert!(found.iter().all(|&byte| byte == 0)),
            Ok(()) => {
                assert!(found == SplitMix64::new(step).bytes(4096), "page {lpn} is other bytes");
                good += 1;
            }
            Err(BlockError::Corrupt(_)) => bad += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let lost = drive.with_ftl(|ftl| ftl.nand().health().lost_pages);
    assert!(good > 100 && bad > 5 && lost > 5, "{good} good, {bad} bad, {lost} lost");
    // Written anew, a lost page is there again, as far as its new cells go.
    for lpn in 0..pages {
        drive.write_at(lpn * 4096, &[3; 4096], false).expect("written");
    }
}

/// A clock that jumps ahead when somebody waits.
#[derive(Default)]
struct Jumping(AtomicU64);

impl Clock for Jumping {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn unix_s(&self) -> u64 {
        0
    }

    fn wait_until(&self, until_ns: u64) {
        self.0.fetch_max(until_ns, Ordering::Relaxed);
    }
}

#[test]
fn a_paced_drive_takes_as_long_as_the_model_says() {
    let clock = Arc::new(Jumping::default());
    let ftl = ftl(64, WearModel::none());
    let latencies = Latencies { read_ns: 30, program_ns: 200, ..Latencies::default() };
    let pace = Pace::new(*ftl.geometry(), latencies);
    let drive = EmulatedDrive::new(ftl, pace, true, Arc::<Jumping>::clone(&clock)).expect("4 KiB");
    drive.write_at(0, &[1; 8192], false).expect("written");
    assert_eq!(clock.now_ns(), 400, "two programs");
    drive.read_at(0, &mut [0; 4096]).expect("read");
    assert_eq!(clock.now_ns(), 430, "one read");
    drive.write_at(10, &[2; 10], false).expect("written");
    assert_eq!(clock.now_ns(), 660, "part of a page is read and programmed");
    drive.read_at(40_960, &mut [0; 4096]).expect("read");
    assert_eq!(clock.now_ns(), 660, "holes cost no reading");
}

#[test]
fn whole_pages_and_parts_make_the_same_bytes() {
    let drive = drive(64 << 10, WearModel::none());
    drive.write_at(0, &vec![7; 65536], false).expect("written");
    assert_eq!(drive.with_ftl(|ftl| ftl.counters().host_pages_read), 0, "whole pages are not read");
    let page =
        drive.with_ftl(|ftl| ftl.locate(3).map(|ppn| onefold_flash::Nand::read(ftl.nand(), ppn)));
    assert_eq!(page.expect("stored").expect("read"), PageBytes::from(vec![7; 4096]));
}
