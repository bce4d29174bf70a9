//! FIFO: the object that came first goes first, whatever was asked for since.
//! Room: onefold-cache.
//! Cost: nothing per hit.

use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// One list, the oldest object in front.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    list: List,
}

impl Eviction for Fifo {
    #[inline]
    fn hit(&mut self, _: &mut Objects, _: Id, _: &Incoming) {}

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

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.list], ..Parts::default() }
    }
}
