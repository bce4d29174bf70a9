//! SIEVE: a FIFO queue with a hand that lets go the next object nobody asked for, where it stands.
//! Room: onefold-cache.
//! Source: [sieve-24]. Unlike CLOCK's, survivors stay where they are, so that newcomers are judged
//! sooner than old favourites.
//! Cost: one word per hit.

use crate::objects::{Id, List, NONE, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// One list, the newest object at the back, and the hand, which moves from front to back.
#[derive(Clone, Debug)]
pub struct Sieve {
    list: List,
    /// The object to look at next, or [`NONE`] for the front.
    hand: Id,
}

impl Default for Sieve {
    fn default() -> Self {
        Self { list: List::default(), hand: NONE }
    }
}

impl Eviction for Sieve {
    #[inline]
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        *objects.word_mut(id) = 1;
    }

    fn victim(&mut self, objects: &mut Objects, _: &Incoming) -> Option<Id> {
        let mut at = if self.hand == NONE { self.list.front()? } else { self.hand };
        while objects.word(at) > 0 {
            *objects.word_mut(at) = 0;
            at = objects.after(at).or(self.list.front())?;
        }
        self.hand = at;
        Some(at)
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, _: &Incoming) -> Place {
        objects.push_back(&mut self.list, id);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        if self.hand == id {
            self.hand = objects.after(id).unwrap_or(NONE);
        }
        objects.unlink(&mut self.list, id);
    }

    fn next(&self) -> Option<Id> {
        (self.hand != NONE).then_some(self.hand).or(self.list.front())
    }

    fn word_in(&self, _: usize, word: u32) -> u32 {
        word.min(1)
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.list], hands: vec![&mut self.hand], ..Parts::default() }
    }
}
