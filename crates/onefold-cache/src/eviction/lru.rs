//! LRU: the object that was not asked for longest goes first.
//! Room: onefold-cache.
//! Invariant: a larger cache holds everything that a smaller one holds (objects of equal size).
//! Cost: three nodes touched per hit.

use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// One list, the least recently used object in front.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    list: List,
}

impl Eviction for Lru {
    #[inline]
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        objects.move_to_back(&mut self.list, id);
    }

    fn victim(&mut self, _: &mut Objects, _: &Incoming) -> Option<Id> {
        self.list.front()
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, _: &Incoming) -> Place {
        objects.push_back(&mut self.list, id);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        objects.unlink(&mut self.list, id);
    }

    fn next(&self) -> Option<Id> {
        self.list.front()
    }

    #[inline]
    fn prefetch(&self, objects: &Objects, id: Id) {
        objects.prefetch_neighbours(id);
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.list], ..Parts::default() }
    }
}
