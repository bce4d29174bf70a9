//! A drive in a folder that goes away with the test.
//! Room: onefold.

use std::sync::Arc;

use onefold_block::FileFolder;
use onefold_flash::drive::{self, OpenDrive, WallClock};
use onefold_flash::spec::{PRESET_NAMES, SpecBuilder};

/// A small one, made and opened.
pub fn open() -> (tempfile::TempDir, OpenDrive) {
    let settings = [
        "precondition=none",
        "geometry.blocks_per_plane=16",
        "geometry.pages_per_block=16",
        "ftl.over_provisioning=0.5",
        "ftl.gc_reserve_blocks=2",
        "controller.idle_after_ns=0",
    ];
    let builder = SpecBuilder::preset(PRESET_NAMES[0]).unwrap();
    let spec = settings.iter().fold(builder, |builder, set| builder.set(set).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let at = FileFolder::open(folder.path()).unwrap();
    drive::create(&at, &spec.build().unwrap()).unwrap();
    drop(at);
    let clock = Arc::new(WallClock::start());
    let open = OpenDrive::open_at(folder.path(), false, clock, None).unwrap();
    (folder, open)
}
