//! Lowest score first: cached objects in lists by sixteenths of an octave of their score.
//! Room: onefold-cache.
//! Goes with an admission policy that keeps scores ([`crate::admission::toll`]) and hands them over
//! as the request's count. Within a list, the one that has been there longest goes first.
//! Cost: a move between two lists when a hit raises a score by a sixteenth of an octave, which
//! hits of often-used objects do not.

use std::collections::BTreeMap;

use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// Scores in a list differ by less than 2^12 of 2^16 parts of an octave.
const LIST_BITS: u32 = 9;

/// Lists by score; the word is the score.
#[derive(Clone, Debug, Default)]
pub struct ScoreQueue {
    lists: BTreeMap<u32, List>,
}

impl ScoreQueue {
    fn unlink(&mut self, objects: &mut Objects, id: Id) {
        let number = objects.word(id) >> LIST_BITS;
        let list = self.lists.get_mut(&number).expect("every score has a list");
        objects.unlink(list, id);
        if list.is_empty() {
            self.lists.remove(&number);
        }
    }

    fn push(&mut self, objects: &mut Objects, id: Id, score: u32) {
        *objects.word_mut(id) = score;
        objects.push_back(self.lists.entry(score >> LIST_BITS).or_default(), id);
    }
}

impl Eviction for ScoreQueue {
    fn hit(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) {
        if objects.word(id) >> LIST_BITS == incoming.count >> LIST_BITS {
            *objects.word_mut(id) = incoming.count;
        } else {
            self.unlink(objects, id);
            self.push(objects, id, incoming.count);
        }
    }

    fn victim(&mut self, _: &mut Objects, _: &Incoming) -> Option<Id> {
        self.lists.values().next().and_then(List::front)
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place {
        self.push(objects, id, incoming.count);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        self.unlink(objects, id);
    }

    #[inline]
    fn prefetch(&self, objects: &Objects, id: Id) {
        objects.prefetch_neighbours(id);
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
