//! Belady's OPT: the object that will be asked for last goes first. A bound, not a policy.
//! Room: onefold-cache.
//! Source: [belady-66].
//! Differs: by default a newcomer that would be the victim itself is not written, which is the
//! bound for policies that may refuse; with sizes that differ it is a heuristic, no bound.
//! Cost: O(log n) per request; 8 bytes per request of the trace.

use std::collections::BTreeSet;

use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};
use crate::trace::NEVER;

/// Cached objects by their next request; the word is that request.
#[derive(Clone, Debug)]
pub struct Opt {
    /// For each request, the next one for the same object.
    next: Vec<u32>,
    order: BTreeSet<(u32, Id)>,
    list: List,
    bypass: bool,
}

impl Opt {
    /// For requests whose next ones are these.
    pub fn new(next: Vec<u32>, bypass: bool) -> Self {
        Self { next, order: BTreeSet::new(), list: List::default(), bypass }
    }

    /// Requests beyond the trace are taken to be the last ones.
    fn next_of(&self, incoming: &Incoming) -> u32 {
        self.next.get(incoming.time as usize).copied().unwrap_or(NEVER)
    }
}

impl Eviction for Opt {
    fn hit(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) {
        self.order.remove(&(objects.word(id), id));
        *objects.word_mut(id) = self.next_of(incoming);
        self.order.insert((objects.word(id), id));
    }

    fn victim(&mut self, _: &mut Objects, incoming: &Incoming) -> Option<Id> {
        let &(last, id) = self.order.last()?;
        (!self.bypass || last > self.next_of(incoming)).then_some(id)
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place {
        *objects.word_mut(id) = self.next_of(incoming);
        self.order.insert((objects.word(id), id));
        objects.push_back(&mut self.list, id);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        self.order.remove(&(objects.word(id), id));
        objects.unlink(&mut self.list, id);
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.list], ..Parts::default() }
    }

    fn restore(&mut self, objects: &mut Objects, id: Id, _: usize) -> bool {
        self.order.insert((objects.word(id), id));
        objects.push_back(&mut self.list, id);
        true
    }
}
