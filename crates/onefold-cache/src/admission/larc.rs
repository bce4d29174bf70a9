//! LARC: only an object that was missed twice within a queue of ghosts is written.
//! Room: onefold-cache.
//! Source: [larc-13]: the queue has C/10 to 9C/10 ghosts; each hit in the cache takes C / (C - Cr)
//! off it, each miss adds C / Cr.
//! Cost: 11 bytes per ghost.

use crate::ghost::Ghost;
use crate::index::hash_of;
use crate::policy::{Admission, Incoming, Parts};

/// The queue of ghosts. Its length is kept in 2^-16ths of a ghost.
#[derive(Clone, Debug)]
pub struct Larc {
    ghosts: Ghost,
    objects: u64,
    length: u64,
}

const ONE: u64 = 1 << 16;

impl Larc {
    /// For a cache of so many objects.
    pub fn new(objects: usize) -> Self {
        let objects = objects.max(2) as u64;
        let most = (objects * 9 / 10) as usize;
        Self { ghosts: Ghost::new(most.max(1)), objects, length: (objects * ONE / 10).max(ONE) }
    }

    fn least(&self) -> u64 {
        (self.objects * ONE / 10).max(ONE)
    }

    fn most(&self) -> u64 {
        (self.objects * ONE * 9 / 10).max(ONE)
    }
}

impl Admission for Larc {
    #[inline]
    fn hit(&mut self, _: &mut Incoming) {
        let step = ((self.objects * ONE) << 16) / (self.objects * ONE - self.length);
        self.length = self.length.saturating_sub(step).max(self.least());
    }

    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        let step = ((self.objects * ONE) << 16) / self.length;
        self.length = (self.length + step).min(self.most());
        if self.ghosts.remove(incoming.hash) {
            return true;
        }
        self.ghosts.push(incoming.hash, (self.length / ONE) as usize);
        false
    }

    fn forget(&mut self, key: u64) {
        self.ghosts.remove(hash_of(key));
    }

    fn prefetch(&self, _: u64, hash: u64) {
        self.ghosts.prefetch(hash);
    }

    fn restored(&mut self) {
        self.length = self.length.clamp(self.least(), self.most());
    }

    fn parts(&mut self) -> Parts<'_> {
        let (ghosts, numbers) = (vec![&mut self.ghosts], vec![&mut self.length]);
        Parts { ghosts, numbers, ..Parts::default() }
    }

    fn memory_bytes(&self) -> usize {
        self.ghosts.memory_bytes()
    }
}
