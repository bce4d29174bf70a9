//! An emulated drive in memory: what takes time, and what it says of its pages.
//! Room: onefold-flash.

use std::sync::Arc;

use onefold_block::{BlockDevice as _, Folder as _, SimFolder, SplitMix64};

use super::story::{Hand, PAGE, spec};
use crate::drive::{Clock, Door, EmulatedDrive, FileDrive, Latencies, Pace};
use crate::ftl::{Ftl, FtlSettings};
use crate::nand::bytes::{Description, FileStore};
use crate::nand::{ByteNand, WearModel};

fn drive(wear: WearModel, latencies: Latencies, clock: &Arc<Hand>) -> FileDrive {
    let spec = spec(&["dedup.policy=none"]);
    let channel = spec.channel().unwrap();
    let description = Description::new(spec.geometry, &channel, "");
    let media = SimFolder::new().create("nand").unwrap();
    let store = FileStore::create(media, &description).unwrap();
    let nand = ByteNand::create(store, spec.geometry, &channel, wear).unwrap();
    let settings =
        FtlSettings { logical_pages: 150, gc_reserve_blocks: 3, ..FtlSettings::default() };
    let ftl = Ftl::format(nand, spec.bytes_policy().unwrap(), settings).unwrap();
    let pace = Pace::new(spec.geometry, latencies);
    let clock = Arc::<Hand>::clone(clock) as Arc<dyn Clock>;
    EmulatedDrive::new(ftl, pace, true, clock).unwrap()
}

/// Readings disturb the block, until they have to be repeated with other thresholds: all of them
/// take their time.
#[test]
fn a_page_that_is_read_again_takes_as_long_as_all_its_readings() {
    let wear =
        WearModel { disturb_rate: 1.5e-3, retry_gain: 0.5, retries: 20, ..WearModel::none() };
    let clock = Arc::new(Hand::default());
    let latencies = Latencies { read_ns: 1000, program_ns: 7, ..Latencies::default() };
    let drive = drive(wear, latencies, &clock);
    let page = SplitMix64::new(4).bytes(PAGE as usize);
    for lpn in 0..100 {
        drive.write_at(lpn * PAGE, &page, false).unwrap();
    }
    let written = clock.now_ns();
    assert_eq!(written, 700);
    let mut found = vec![0; PAGE as usize];
    for lpn in (0..100).cycle().take(500) {
        drive.read_at(lpn * PAGE, &mut found).unwrap();
        assert!(found == page);
    }
    let retries = drive.with_ftl(|ftl| ftl.nand().health().retries);
    assert!(retries > 100, "{retries}");
    assert_eq!(clock.now_ns(), written + 1000 * (500 + retries));
}

#[test]
fn pages_have_the_age_of_the_clock_at_once() {
    let clock = Arc::new(Hand::default());
    let drive = drive(WearModel::none(), Latencies::default(), &clock);
    drive.write_at(0, &[1], true).unwrap();
    let filled = drive.with_ftl(|ftl| {
        let blocks = 0..ftl.geometry().blocks();
        blocks.map(|block| ftl.nand().block(block).filled_s).max()
    });
    assert_eq!(filled, Some(clock.unix_s()));
}

#[test]
fn doors_are_the_drive() {
    let clock = Arc::new(Hand::default());
    let drive = Arc::new(drive(WearModel::none(), Latencies::default(), &clock));
    let door = Door::new(Arc::clone(&drive), Some(false));
    assert_eq!((door.size_bytes(), door.preferred_block_bytes()), (150 * PAGE, PAGE as u32));
    door.write_at(10, &[1; 20], false).unwrap();
    door.write_zeroes(12, 5, onefold_block::ZeroOptions::default()).unwrap();
    let mut found = [9; 12];
    drive.read_at(5, &mut found).unwrap();
    assert_eq!(found, [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
    door.read_at(10, &mut found[..2]).unwrap();
    assert_eq!(found[..2], [1, 1]);
    assert_eq!(door.block_status(0, PAGE).unwrap(), drive.block_status(0, PAGE).unwrap());
    door.flush().unwrap();
    assert_eq!(drive.host_counts().flushes, 1);
    door.trim(0, PAGE, true).unwrap();
    assert_eq!(drive.host_counts().flushes, 2);
    drive.read_at(5, &mut found).unwrap();
    assert_eq!(found, [0; 12]);
}
