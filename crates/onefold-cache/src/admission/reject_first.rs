//! Reject-first: an object is written when it is missed again while it is still remembered.
//! Room: onefold-cache.
//! Source: [cachelib-20], `CacheLib`'s `RejectFirstAP`, documented in its flash cache guide.
//! Differs: a queue of ghosts instead of a ring of Bloom filters, so that memory ends exactly and
//! no object is admitted by collision.
//! Cost: 11 bytes per object remembered.

use crate::ghost::Ghost;
use crate::index::hash_of;
use crate::policy::{Admission, Incoming, Parts};

/// What was rejected.
#[derive(Clone, Debug)]
pub struct RejectFirst {
    seen: Ghost,
    most: usize,
}

impl RejectFirst {
    /// Remembers so many objects.
    pub fn new(most: usize) -> Self {
        Self { seen: Ghost::new(most), most }
    }
}

impl Admission for RejectFirst {
    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        let again = self.seen.contains(incoming.hash);
        if !again {
            self.seen.push(incoming.hash, self.most);
        }
        again
    }

    fn forget(&mut self, key: u64) {
        self.seen.remove(hash_of(key));
    }

    fn prefetch(&self, _: u64, hash: u64) {
        self.seen.prefetch(hash);
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { ghosts: vec![&mut self.seen], ..Parts::default() }
    }

    fn memory_bytes(&self) -> usize {
        self.seen.memory_bytes()
    }
}
