//! ARC: recency and frequency lists whose sizes follow the hits among what each let go.
//! Room: onefold-cache.
//! Source: [arc-03] Fig. 4. T1 is `recent`, T2 `frequent`, B1 and B2 the ghosts of each, p
//! `target`.
//! Differs: sizes count objects; c is the number of objects cached when room is first needed.
//! Cost: three nodes touched per hit.

use crate::cache::Capacity;
use crate::ghost::Ghost;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// Where the newcomer was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    RecentGhost,
    FrequentGhost,
    Nowhere,
}

/// Two lists and their ghosts. The word is 1 in the frequent list.
#[derive(Clone, Debug)]
pub struct Arc {
    recent: List,
    frequent: List,
    recent_ghosts: Ghost,
    frequent_ghosts: Ghost,
    /// Objects that the recent list should have, a number of 64 bits as it is saved.
    target_bits: u64,
    found: Found,
    /// Whether the victim leaves without a ghost.
    forget: bool,
}

impl Arc {
    /// Empty lists.
    pub fn new(capacity: Capacity) -> Self {
        Self {
            recent: List::default(),
            frequent: List::default(),
            recent_ghosts: Ghost::new(capacity.objects / 2),
            frequent_ghosts: Ghost::new(capacity.objects / 2),
            target_bits: 0.0_f64.to_bits(),
            found: Found::Nowhere,
            forget: false,
        }
    }

    fn target(&self) -> f64 {
        f64::from_bits(self.target_bits)
    }
}

impl Eviction for Arc {
    #[inline]
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        if objects.word(id) == 1 {
            objects.move_to_back(&mut self.frequent, id);
        } else {
            objects.unlink(&mut self.recent, id);
            *objects.word_mut(id) = 1;
            objects.push_back(&mut self.frequent, id);
        }
    }

    fn prepare(&mut self, objects: &mut Objects, incoming: &Incoming) {
        let c = objects.len();
        let (b1, b2) = (self.recent_ghosts.len() as f64, self.frequent_ghosts.len() as f64);
        (self.found, self.forget) = (Found::Nowhere, false);
        if self.recent_ghosts.remove(incoming.hash) {
            self.found = Found::RecentGhost;
            self.target_bits = (self.target() + (b2 / b1).max(1.0)).min(c as f64).to_bits();
        } else if self.frequent_ghosts.remove(incoming.hash) {
            self.found = Found::FrequentGhost;
            self.target_bits = (self.target() - (b1 / b2).max(1.0)).max(0.0).to_bits();
        } else if !incoming.full {
        } else if self.recent.len() + self.recent_ghosts.len() >= c {
            if self.recent.len() < c {
                self.recent_ghosts.pop();
            } else {
                self.forget = true;
            }
        } else if c + self.recent_ghosts.len() + self.frequent_ghosts.len() >= 2 * c {
            self.frequent_ghosts.pop();
        }
    }

    fn victim(&mut self, _: &mut Objects, _: &Incoming) -> Option<Id> {
        let (recent, target) = (self.recent.len() as f64, self.target());
        let at_target = self.found == Found::FrequentGhost && recent >= target;
        let from_recent = self.forget || recent > target || at_target;
        let (first, second) = if from_recent {
            (&self.recent, &self.frequent)
        } else {
            (&self.frequent, &self.recent)
        };
        first.front().or(second.front())
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, _: &Incoming) -> Place {
        let again = self.found != Found::Nowhere;
        *objects.word_mut(id) = u32::from(again);
        let list = if again { &mut self.frequent } else { &mut self.recent };
        objects.push_back(list, id);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, why: Leave) {
        let frequent = objects.word(id) == 1;
        let (list, ghosts) = if frequent {
            (&mut self.frequent, &mut self.frequent_ghosts)
        } else {
            (&mut self.recent, &mut self.recent_ghosts)
        };
        objects.unlink(list, id);
        if why == Leave::Evicted && !self.forget {
            ghosts.push(crate::hash_of(objects.key(id)), 2 * objects.len());
        }
    }

    #[inline]
    fn prefetch(&self, objects: &Objects, id: Id) {
        objects.prefetch_neighbours(id);
    }

    fn prefetch_miss(&self, hash: u64) {
        self.recent_ghosts.prefetch(hash);
        self.frequent_ghosts.prefetch(hash);
    }

    fn word_in(&self, list: usize, _: u32) -> u32 {
        u32::from(list == 1)
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts {
            lists: vec![&mut self.recent, &mut self.frequent],
            ghosts: vec![&mut self.recent_ghosts, &mut self.frequent_ghosts],
            numbers: vec![&mut self.target_bits],
            ..Parts::default()
        }
    }

    fn memory_bytes(&self) -> usize {
        self.recent_ghosts.memory_bytes() + self.frequent_ghosts.memory_bytes()
    }
}
