//! The suites pass on what this crate offers. Models, which take longest, are tests of their own.
//! Room: onefold-block.

use std::cell::Cell;
use std::sync::Arc;

use onefold_block::conformance::{
    check_folder, check_read_only_device, container_store, device, media,
};
use onefold_block::{
    BlockDevice, ContainerStore, FileFolder, Folder, FolderContainerStore, MemDevice, SimFolder,
};
use tempfile::TempDir;

const MODEL: &str = "model";

fn in_memory(size: u64) -> Arc<dyn BlockDevice> {
    Arc::new(MemDevice::new(size))
}

#[test]
fn the_device_in_memory_conforms() {
    for (_, check) in device::CHECKS.iter().filter(|check| check.0 != MODEL) {
        check(&in_memory);
    }
    check_read_only_device(&MemDevice::new(10_000).into_read_only());
}

#[test]
fn the_device_in_memory_is_as_its_model() {
    (0..4).for_each(|seed| device::check_model(&in_memory, seed, 250));
}

/// Folders of the system, one after the other.
struct Folders {
    place: TempDir,
    made: Cell<u32>,
}

impl Folders {
    fn new() -> Self {
        Self { place: tempfile::tempdir().unwrap(), made: Cell::new(0) }
    }

    fn next(&self) -> Arc<dyn Folder> {
        self.made.set(self.made.get() + 1);
        let path = self.place.path().join(self.made.get().to_string());
        Arc::new(FileFolder::create(path).unwrap())
    }
}

#[test]
fn real_files_conform() {
    let folders = Folders::new();
    for (_, check) in media::CHECKS.iter().filter(|check| check.0 != MODEL) {
        check(&|| folders.next());
    }
}

#[test]
fn real_files_are_as_their_model() {
    let folders = Folders::new();
    (0..4).for_each(|seed| media::check_model(&|| folders.next(), seed, 300));
}

#[test]
fn simulated_media_conform() {
    check_folder(&|| Arc::new(SimFolder::new()));
    // In a subfolder too, and on what a power cut left.
    check_folder(&|| {
        let folder = SimFolder::new();
        let left = folder.after_crash(1, onefold_block::CrashMode::Random);
        Folder::subfolder(&left, "inner").unwrap()
    });
}

fn simulated_store() -> Arc<dyn ContainerStore> {
    Arc::new(FolderContainerStore::new(Arc::new(SimFolder::new())))
}

#[test]
fn containers_in_simulated_files_conform() {
    for (_, check) in container_store::CHECKS.iter().filter(|check| check.0 != MODEL) {
        check(&simulated_store);
    }
}

#[test]
fn containers_in_simulated_files_are_as_their_model() {
    (0..4).for_each(|seed| container_store::check_model(&simulated_store, seed, 200));
}

#[test]
fn containers_in_real_files_conform_and_are_as_their_model() {
    let folders = Folders::new();
    container_store::check_container_store(&|| Arc::new(FolderContainerStore::new(folders.next())));
}
