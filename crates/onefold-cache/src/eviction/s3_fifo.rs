//! S3-FIFO: a small FIFO that most objects leave at once, a main FIFO with reinsertion, ghosts.
//! Room: onefold-cache.
//! Source: [s3-fifo-23]: small queue 10 %, ghosts 90 %, two further requests move an object to the
//! main queue.
//! Differs: as in libCacheSim, the small queue gives way unless the main queue is over its size,
//! and an object starts anew with frequency 0 in the main queue.
//! Cost: one word per hit.

use crate::cache::Capacity;
use crate::ghost::Ghost;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// Settings as numbers of objects and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct S3FifoRules {
    /// Share of the capacity that the small queue has.
    pub small: f64,
    /// Ghosts, as a share of the objects that fit.
    pub ghosts: f64,
    /// Further requests that move an object to the main queue.
    pub promote: u32,
}

/// Two queues and ghosts. The word: bit 31 in the main queue, below it the frequency.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    small: List,
    main: List,
    ghosts: Ghost,
    ghosts_max: usize,
    main_bytes_max: u64,
    promote: u32,
    came_back: bool,
}

const MAIN: u32 = 1 << 31;
/// Rounds that an object of the main queue can earn.
const ROUNDS_MAX: u32 = 3;

impl S3Fifo {
    /// Empty queues.
    pub fn new(capacity: Capacity, rules: S3FifoRules) -> Self {
        let ghosts_max = (capacity.objects as f64 * rules.ghosts) as usize;
        Self {
            small: List::default(),
            main: List::default(),
            ghosts: Ghost::new(ghosts_max),
            ghosts_max,
            main_bytes_max: capacity.bytes - (capacity.bytes as f64 * rules.small) as u64,
            promote: rules.promote,
            came_back: false,
        }
    }
}

impl Eviction for S3Fifo {
    #[inline]
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        let word = objects.word_mut(id);
        *word += u32::from(*word & !MAIN < u32::MAX >> 2);
    }

    fn prepare(&mut self, _: &mut Objects, incoming: &Incoming) {
        self.came_back = self.ghosts.remove(incoming.hash);
    }

    fn victim(&mut self, objects: &mut Objects, _: &Incoming) -> Option<Id> {
        if self.main.bytes() <= self.main_bytes_max {
            while let Some(oldest) = self.small.front() {
                if objects.word(oldest) < self.promote {
                    return Some(oldest);
                }
                objects.unlink(&mut self.small, oldest);
                *objects.word_mut(oldest) = MAIN;
                objects.push_back(&mut self.main, oldest);
            }
        }
        loop {
            let Some(oldest) = self.main.front() else { return self.small.front() };
            let word = objects.word(oldest);
            if word == MAIN {
                return Some(oldest);
            }
            *objects.word_mut(oldest) = MAIN | ((word & !MAIN).min(ROUNDS_MAX) - 1);
            objects.move_to_back(&mut self.main, oldest);
        }
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, _: &Incoming) -> Place {
        let list = if self.came_back {
            *objects.word_mut(id) = MAIN;
            &mut self.main
        } else {
            &mut self.small
        };
        objects.push_back(list, id);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, why: Leave) {
        if objects.word(id) & MAIN != 0 {
            objects.unlink(&mut self.main, id);
            return;
        }
        objects.unlink(&mut self.small, id);
        if why == Leave::Evicted {
            self.ghosts.push(crate::hash_of(objects.key(id)), self.ghosts_max);
        }
    }

    fn next(&self) -> Option<Id> {
        self.small.front()
    }

    fn prefetch_miss(&self, hash: u64) {
        self.ghosts.prefetch(hash);
    }

    fn word_in(&self, list: usize, word: u32) -> u32 {
        word & (u32::MAX >> 2) | if list == 1 { MAIN } else { 0 }
    }

    fn parts(&mut self) -> Parts<'_> {
        let lists = vec![&mut self.small, &mut self.main];
        Parts { lists, ghosts: vec![&mut self.ghosts], ..Parts::default() }
    }

    fn memory_bytes(&self) -> usize {
        self.ghosts.memory_bytes()
    }
}
