//! 2Q: a short FIFO for newcomers, a ghost queue behind it, and LRU for those that came back.
//! Room: onefold-cache.
//! Source: [two-q-94], full version: Kin 25 %, Kout 50 %.
//! Cost: three nodes touched per hit in the LRU part.

use crate::cache::Capacity;
use crate::ghost::Ghost;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// Newcomers, favourites and ghosts. The word is 1 for a favourite.
#[derive(Clone, Debug)]
pub struct TwoQ {
    newcomers: List,
    favourites: List,
    ghosts: Ghost,
    ghosts_max: usize,
    newcomers_bytes_max: u64,
    came_back: bool,
}

impl TwoQ {
    /// Shares of the capacity that newcomers take and that ghosts stand for.
    pub fn new(capacity: Capacity, newcomers: f64, ghosts: f64) -> Self {
        let ghosts_max = (capacity.objects as f64 * ghosts) as usize;
        Self {
            newcomers: List::default(),
            favourites: List::default(),
            ghosts: Ghost::new(ghosts_max),
            ghosts_max,
            newcomers_bytes_max: (capacity.bytes as f64 * newcomers) as u64,
            came_back: false,
        }
    }
}

impl Eviction for TwoQ {
    #[inline]
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        if objects.word(id) == 1 {
            objects.move_to_back(&mut self.favourites, id);
        }
    }

    fn prepare(&mut self, _: &mut Objects, incoming: &Incoming) {
        self.came_back = self.ghosts.remove(incoming.hash);
    }

    fn victim(&mut self, _: &mut Objects, _: &Incoming) -> Option<Id> {
        let many = self.newcomers.bytes() > self.newcomers_bytes_max;
        let (first, second) = if many {
            (&self.newcomers, &self.favourites)
        } else {
            (&self.favourites, &self.newcomers)
        };
        first.front().or(second.front())
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, _: &Incoming) -> Place {
        *objects.word_mut(id) = u32::from(self.came_back);
        let list = if self.came_back { &mut self.favourites } else { &mut self.newcomers };
        objects.push_back(list, id);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, why: Leave) {
        if objects.word(id) == 1 {
            objects.unlink(&mut self.favourites, id);
            return;
        }
        objects.unlink(&mut self.newcomers, id);
        if why == Leave::Evicted {
            self.ghosts.push(crate::hash_of(objects.key(id)), self.ghosts_max);
        }
    }

    #[inline]
    fn prefetch(&self, objects: &Objects, id: Id) {
        objects.prefetch_neighbours(id);
    }

    fn prefetch_miss(&self, hash: u64) {
        self.ghosts.prefetch(hash);
    }

    fn word_in(&self, list: usize, _: u32) -> u32 {
        u32::from(list == 1)
    }

    fn parts(&mut self) -> Parts<'_> {
        let lists = vec![&mut self.newcomers, &mut self.favourites];
        Parts { lists, ghosts: vec![&mut self.ghosts], ..Parts::default() }
    }

    fn memory_bytes(&self) -> usize {
        self.ghosts.memory_bytes()
    }
}
