//! CLOCK: a FIFO in which an object that was asked for gets another round.
//! Room: onefold-cache.
//! Source: [clock-68]; as FIFO with reinsertion, which lets go the same objects as the ring with a
//! hand.
//! Cost: one word per hit.

use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// One list; the hand stands at its front. The word counts the rounds an object has earned.
#[derive(Clone, Debug)]
pub struct Clock {
    list: List,
    rounds_max: u32,
}

impl Clock {
    /// Objects earn at most `rounds_max` rounds.
    pub fn new(rounds_max: u32) -> Self {
        Self { list: List::default(), rounds_max }
    }
}

impl Eviction for Clock {
    #[inline]
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        let rounds = objects.word_mut(id);
        *rounds = (*rounds + 1).min(self.rounds_max);
    }

    fn victim(&mut self, objects: &mut Objects, _: &Incoming) -> Option<Id> {
        let mut hand = self.list.front()?;
        while objects.word(hand) > 0 {
            *objects.word_mut(hand) -= 1;
            objects.move_to_back(&mut self.list, hand);
            hand = self.list.front()?;
        }
        Some(hand)
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

    fn word_in(&self, _: usize, word: u32) -> u32 {
        word.min(self.rounds_max)
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.list], ..Parts::default() }
    }
}
