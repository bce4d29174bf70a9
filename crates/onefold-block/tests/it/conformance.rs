//! The suites pass on what this crate offers.
//! Room: onefold-block.

use std::sync::Arc;

use onefold_block::conformance::{check_device, check_folder, check_read_only_device};
use onefold_block::{FileFolder, MemDevice, SimFolder};

#[test]
fn the_device_in_memory_conforms() {
    check_device(&|size| Arc::new(MemDevice::new(size)));
    check_read_only_device(&MemDevice::new(10_000).into_read_only());
}

#[test]
fn real_files_conform() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let made = std::cell::Cell::new(0);
    check_folder(&|| {
        made.set(made.get() + 1);
        Arc::new(FileFolder::create(dir.path().join(made.get().to_string())).unwrap())
    });
}

#[test]
fn simulated_media_conform() {
    check_folder(&|| Arc::new(SimFolder::new()));
    // In a subfolder too, and on what a power cut left.
    check_folder(&|| {
        let folder = SimFolder::new();
        let left = folder.after_crash(1, onefold_block::CrashMode::Random);
        onefold_block::Folder::subfolder(&left, "inner").unwrap()
    });
}
