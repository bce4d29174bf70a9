//! LFU: the object that was asked for least often goes first, the oldest among equals.
//! Room: onefold-cache.
//! Frequencies count from the object's arrival, or, where admission counts all objects, are those
//! counts.
//! Cost: a search in a tree with one entry per frequency in use.

use std::collections::BTreeMap;

use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// One list per frequency; the word is the frequency.
#[derive(Clone, Debug, Default)]
pub struct Lfu {
    lists: BTreeMap<u32, List>,
}

impl Lfu {
    fn unlink(&mut self, objects: &mut Objects, id: Id) {
        let frequency = objects.word(id);
        let list = self.lists.get_mut(&frequency).expect("every word has a list");
        objects.unlink(list, id);
        if list.is_empty() {
            self.lists.remove(&frequency);
        }
    }

    fn push(&mut self, objects: &mut Objects, id: Id, frequency: u32) {
        *objects.word_mut(id) = frequency;
        objects.push_back(self.lists.entry(frequency).or_default(), id);
    }
}

impl Eviction for Lfu {
    fn hit(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) {
        let frequency = objects.word(id).saturating_add(1).max(incoming.count);
        self.unlink(objects, id);
        self.push(objects, id, frequency);
    }

    fn victim(&mut self, _: &mut Objects, _: &Incoming) -> Option<Id> {
        self.lists.values().next().and_then(List::front)
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place {
        self.push(objects, id, incoming.count.max(1));
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        self.unlink(objects, id);
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: self.lists.values_mut().collect(), ..Parts::default() }
    }

    fn restore(&mut self, objects: &mut Objects, id: Id, _: usize) -> bool {
        self.push(objects, id, objects.word(id));
        true
    }

    fn memory_bytes(&self) -> usize {
        self.lists.len() * size_of::<(u32, List)>() * 3 / 2
    }
}
