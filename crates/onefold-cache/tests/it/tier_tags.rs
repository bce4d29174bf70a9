//! A slow store that tells containers apart by itself, as an object store does by tags.

use std::sync::{Arc, Mutex};

use onefold_block::{ContainerId, ContainerStore, SimFolder, StoreError};
use onefold_cache::tier::{TierOptions, TieredStore};

use crate::tier::{content, fill, id, options, slow, tier};

/// The tag of all containers, and what was read of any.
struct Tagged {
    inner: Arc<dyn ContainerStore>,
    tag: Mutex<Option<&'static str>>,
    reads: Mutex<Vec<(u64, usize)>>,
}

impl Tagged {
    fn new(tag: &'static str) -> Arc<Self> {
        let (tag, reads) = (Mutex::new(Some(tag)), Mutex::default());
        Arc::new(Self { inner: slow().1, tag, reads })
    }

    /// What was read since the last time.
    fn read_since(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    /// Container 1 is what container 2 is, by another machine's doing.
    fn replace(&self, tag: Option<&'static str>) {
        self.inner.remove(id(1)).unwrap();
        fill(&*self.inner, 1, content(2));
        *self.tag.lock().unwrap() = tag;
    }
}

impl onefold_block::StoreLayer for Tagged {
    fn below(&self) -> &dyn ContainerStore {
        &*self.inner
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.reads.lock().unwrap().push((offset, buf.len()));
        self.inner.read(id, offset, buf)
    }

    fn tag(&self, _: ContainerId) -> Option<String> {
        self.tag.lock().unwrap().map(str::to_owned)
    }

    fn reads_at_once(&self) -> usize {
        16
    }
}

const AT: usize = 16 << 10;
const LEN: usize = 32 << 10;

fn over(slow: &Arc<Tagged>, fast: &SimFolder) -> TieredStore {
    let slow: Arc<dyn ContainerStore> = Arc::<Tagged>::clone(slow);
    tier(&slow, fast, "lru")
}

/// Some of container 1 is what it is in this one.
fn is_of(store: &TieredStore, number: u32, from: usize, len: usize) -> bool {
    let mut found = vec![0; len];
    store.read(id(1), from as u64, &mut found).unwrap();
    found == content(number)[from..from + len]
}

#[test]
fn a_container_with_a_tag_is_known_without_a_read_and_by_nothing_else() {
    let (slow, fast) = (Tagged::new("\"one\""), SimFolder::new());
    let store = over(&slow, &fast);
    assert_eq!((store.reads_at_once(), store.tag(id(1)).as_deref()), (16, Some("\"one\"")));
    assert!(is_of(&store, 1, AT, LEN));
    assert_eq!(slow.read_since(), [(AT as u64, LEN)]);
    drop(store);
    // A store may quote its tags, or not.
    for tag in ["one", "\"one\""] {
        *slow.tag.lock().unwrap() = Some(tag);
        assert!(is_of(&over(&slow, &fast), 1, AT, LEN));
        assert_eq!(slow.read_since(), []);
    }
    slow.replace(Some("two"));
    let store = over(&slow, &fast);
    assert!(is_of(&store, 2, AT, LEN));
    assert_eq!(slow.read_since().len(), 1);
    assert!(store.status().totals.bad_copies > 0);
    drop(store);
    // Who knows no tags any more looks at the end.
    *slow.tag.lock().unwrap() = None;
    assert!(is_of(&over(&slow, &fast), 2, AT, LEN));
    let len = content(2).len() as u64;
    assert_eq!(slow.read_since(), [(len - 4096, 4096), (AT as u64, LEN)]);
}

#[test]
fn what_is_written_anew_while_it_is_read_is_not_mixed_with_what_it_was() {
    let (slow, fast) = (Tagged::new("one"), SimFolder::new());
    let store = over(&slow, &fast);
    assert!(is_of(&store, 1, AT, LEN));
    slow.replace(Some("two"));
    assert!(is_of(&store, 1, AT, LEN), "nothing has to be asked for");
    slow.read_since();
    // A part is kept of the old one, and the rest comes of the new one.
    assert!(is_of(&store, 2, AT, 2 * LEN));
    assert_eq!(slow.read_since().last(), Some(&(AT as u64, 2 * LEN)));
    assert_eq!(store.status().cached_bytes, 0, "neither is kept");
    for _ in 0..2 {
        assert!(is_of(&store, 2, AT, 2 * LEN));
    }
    assert_eq!(slow.read_since(), [(AT as u64, 2 * LEN)], "the new one is, from then on");
}

#[test]
fn what_is_written_through_is_known_by_its_tag() {
    let (slow, fast) = (Tagged::new("one"), SimFolder::new());
    let options = TierOptions { write_through: true, ..options("lru") };
    let below: Arc<dyn ContainerStore> = Arc::<Tagged>::clone(&slow);
    let store = TieredStore::open(below, Arc::new(fast.clone()), options, None).unwrap();
    store.remove(id(1)).unwrap();
    fill(&store, 1, content(3));
    slow.read_since();
    assert!(is_of(&store, 3, 0, 100_000));
    drop(store);
    assert!(is_of(&over(&slow, &fast), 3, 0, 100_000));
    assert_eq!(slow.read_since(), []);
}
