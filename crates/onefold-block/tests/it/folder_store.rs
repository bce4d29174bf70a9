//! Containers as files of a folder: the contract, names, open files, what a sync makes durable.
//! Room: onefold-block.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_block::folder_store::file_name;
use onefold_block::{
    ContainerId, ContainerStore, CrashMode, FaultKind, Folder, FolderContainerStore, Media,
    MediaError, OpKind, SimFolder, StoreError,
};

fn id(number: u32) -> ContainerId {
    ContainerId::new(number)
}

fn store() -> (SimFolder, FolderContainerStore) {
    let folder = SimFolder::new();
    (folder.clone(), FolderContainerStore::new(Arc::new(folder)))
}

#[test]
fn only_names_as_they_are_written_are_containers() {
    let (folder, store) = store();
    assert_eq!(file_name(id(0xab)), "000000ab.container");
    let strangers = ["000000AB.container", "00000ab.container", "0000000ab.container", "x"];
    for name in ["000000ab.container"].iter().chain(&strangers) {
        folder.create(name).unwrap();
    }
    assert_eq!(store.list().unwrap(), [id(0xab)]);
    let mut expected = strangers.map(str::to_owned);
    expected.sort();
    assert_eq!(store.strangers().unwrap(), expected);
}

/// Files whose names went away behind the store's back take space as long as they are open.
#[test]
fn as_many_files_stay_open_as_were_asked_for_and_no_more() {
    for (most, kept) in [(8, 8), (1, 1), (0, 1)] {
        let folder = SimFolder::new();
        let store = FolderContainerStore::with_open_files(Arc::new(folder.clone()), most);
        for number in 0..9 {
            store.create(id(number), 4096).unwrap();
        }
        for number in 0..9 {
            folder.remove(&file_name(id(number))).unwrap();
        }
        folder.sync_names().unwrap();
        assert_eq!(folder.used_bytes(), kept * 4096, "{most}");
        assert!(matches!(store.len(id(0)), Err(StoreError::NotFound { .. })));
        assert_eq!(store.len(id(8)).unwrap(), 0, "the newest is open");
    }
    // Unless it is asked for, as many as any process may open.
    let (folder, store) = store();
    for number in 0..257 {
        store.create(id(number), 4096).unwrap();
    }
    for number in 0..257 {
        folder.remove(&file_name(id(number))).unwrap();
    }
    folder.sync_names().unwrap();
    assert_eq!(folder.used_bytes(), 256 * 4096);
}

/// Counts opens.
#[derive(Default)]
struct Counted {
    folder: SimFolder,
    opened: AtomicUsize,
}

impl Folder for Counted {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.folder.open(name)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        self.folder.create(name)
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.folder.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.folder.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        self.folder.list()
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        self.folder.sync_names()
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        self.folder.subfolder(name)
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        self.folder.existing_subfolder(name)
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        self.folder.remove_subfolder(name)
    }
}

#[test]
fn files_in_use_stay_open_while_others_are_looked_through() {
    let sim = SimFolder::new();
    let all = FolderContainerStore::new(Arc::new(sim.clone()));
    for number in 0..100 {
        all.create(id(number), 0).unwrap();
        all.append(id(number), 0, &[number as u8]).unwrap();
    }
    drop(all);
    let counted = Arc::new(Counted { folder: sim, opened: AtomicUsize::new(0) });
    let opened = || counted.opened.load(Ordering::Relaxed);
    let store = FolderContainerStore::with_open_files(Arc::clone(&counted) as _, 8);
    let read = |number: u32| {
        let mut byte = [0];
        store.read(id(number), 0, &mut byte).unwrap();
        assert_eq!(byte[0], number as u8);
    };
    // As many as may be open are opened once, in whatever order they are read.
    for turn in 0..50 {
        (0..8).for_each(|n| read((n * 3 + turn) % 8));
    }
    assert_eq!(opened(), 8);
    // Six that are read again and again stay open while all others pass: at first, when all eight
    // were in use, any of them may have been closed.
    for other in 8..100 {
        (0..6).for_each(read);
        read(other);
    }
    let passed = opened();
    assert!((100..104).contains(&passed), "{passed} opened");
    // What was removed makes room, and is found anew under its number.
    store.remove(id(3)).unwrap();
    store.create(id(3), 0).unwrap();
    store.append(id(3), 0, &[3]).unwrap();
    (0..6).for_each(read);
    assert_eq!(opened(), passed);
}

#[test]
fn a_container_without_space_leaves_no_file() {
    let (folder, store) = store();
    folder.set_capacity(Some(8192));
    store.create(id(1), 8192).unwrap();
    assert!(matches!(store.create(id(2), 4096), Err(StoreError::Media { .. })));
    assert_eq!((store.list().unwrap(), folder.used_bytes()), (vec![id(1)], 8192));
}

#[test]
fn a_sync_makes_names_durable_once() {
    let (folder, store) = store();
    for number in 1..=3 {
        store.create(id(number), 0).unwrap();
    }
    let names_synced = || folder.op_log().matches("SyncNames").count();
    store.sync(id(2)).unwrap();
    let left = folder.after_crash(0, CrashMode::KeepNothing);
    assert_eq!(left.list().unwrap().len(), 3, "all that were there");
    for number in [2, 1, 3] {
        store.sync(id(number)).unwrap();
    }
    assert_eq!(names_synced(), 1);
    store.create(id(4), 0).unwrap();
    store.sync(id(3)).unwrap();
    assert_eq!(names_synced(), 1, "the new one is not asked about");
    folder.fail_once(&[OpKind::SyncNames], 1, FaultKind::Eio);
    assert!(matches!(store.sync(id(4)), Err(StoreError::Names(_))));
    store.sync(id(4)).unwrap();
    assert_eq!(names_synced(), 3, "after a failure it is tried again");
}

#[test]
fn a_sealed_container_is_not_appended_to_and_its_number_can_be_used_again() {
    let (folder, store) = store();
    store.create(id(5), 1 << 20).unwrap();
    store.append(id(5), 0, b"contents").unwrap();
    store.seal(id(5), 4).unwrap();
    assert_eq!((store.len(id(5)).unwrap(), folder.used_bytes()), (4, 4096));
    let refused = store.append(id(5), 4, b"x").unwrap_err();
    assert!(refused.to_string().contains("append to sealed"), "{refused}");
    store.remove(id(5)).unwrap();
    assert_eq!(folder.used_bytes(), 0, "nothing keeps its file open");
    store.create(id(5), 0).unwrap();
    store.append(id(5), 0, b"x").unwrap();
    assert_eq!(store.allocated_bytes(id(5)).unwrap(), 4096);
    folder.fail_once(&[OpKind::Remove], 1, FaultKind::Eio);
    assert!(matches!(store.remove(id(5)), Err(StoreError::Media { .. })));
    store.remove(id(5)).unwrap();
    store.remove(id(5)).unwrap();
}
