//! What a layer does not write anew is what the store below does.

use std::sync::Mutex;

use onefold_block::{ContainerId, ContainerStore, StoreError, StoreLayer};

/// A store that notes what it is asked, and answers like no default.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Asked {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

impl ContainerStore for Asked {
    fn create(&self, id: ContainerId, capacity_bytes: u64) -> Result<(), StoreError> {
        self.note(format!("create {id} {capacity_bytes}"));
        Ok(())
    }
    fn append(&self, id: ContainerId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.note(format!("append {id} {offset} {data:?}"));
        Ok(())
    }
    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.note(format!("read {id} {offset} {}", buf.len()));
        buf.fill(9);
        Ok(())
    }
    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.note(format!("len {id}"));
        Ok(77)
    }
    fn sync(&self, id: ContainerId) -> Result<(), StoreError> {
        self.note(format!("sync {id}"));
        Ok(())
    }
    fn seal(&self, id: ContainerId, len: u64) -> Result<(), StoreError> {
        self.note(format!("seal {id} {len}"));
        Ok(())
    }
    fn punch(&self, id: ContainerId, offset: u64, len: u64) -> Result<(), StoreError> {
        self.note(format!("punch {id} {offset} {len}"));
        Ok(())
    }
    fn gives_pages_back(&self) -> bool {
        false
    }
    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        self.note(format!("remove {id}"));
        Err(StoreError::NotFound { id })
    }
    fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
        Ok(vec![ContainerId::new(5)])
    }
    fn tag(&self, id: ContainerId) -> Option<String> {
        Some(format!("tag {id}"))
    }
    fn reads_at_once(&self) -> usize {
        8
    }
    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        self.note(format!("references {}", totals.len()));
    }
    fn tell_moved(&self, id: ContainerId) {
        self.note(format!("moved {id}"));
    }
    fn strangers(&self) -> Result<Vec<String>, StoreError> {
        Ok(vec!["stranger".to_owned()])
    }
    fn allocated_bytes(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.note(format!("allocated {id}"));
        Ok(4096)
    }
}

struct Plain<S>(S);

impl<S: ContainerStore> StoreLayer for Plain<S> {
    fn below(&self) -> &dyn ContainerStore {
        &self.0
    }
}

/// Everything a store can be asked, and what came of it.
fn ask(store: &dyn ContainerStore) -> String {
    let id = ContainerId::new(3);
    let mut buf = [0; 2];
    let done = (
        store.create(id, 1).is_ok(),
        store.append(id, 2, &[3]).is_ok(),
        store.read(id, 4, &mut buf).is_ok(),
        store.len(id).ok(),
        store.sync(id).is_ok(),
        store.seal(id, 5).is_ok(),
        store.punch(id, 6, 7).is_ok(),
        store.remove(id).is_err(),
        store.list().ok(),
        store.strangers().ok(),
        store.allocated_bytes(id).ok(),
    );
    store.tell_references(&[(id, 1), (id, 2)]);
    store.tell_moved(id);
    let hints = (store.tag(id), store.reads_at_once(), store.gives_pages_back());
    format!("{done:?} {buf:?} {hints:?}")
}

#[test]
fn a_layer_that_changes_nothing_is_the_store_below() {
    let (plain, layered) = (Asked::default(), Plain(Plain(Asked::default())));
    let answers = ask(&plain);
    assert_eq!(ask(&layered), answers);
    let asked = plain.0.into_inner().unwrap();
    assert_eq!((asked.len(), layered.0.0.0.into_inner().unwrap()), (11, asked));
}
