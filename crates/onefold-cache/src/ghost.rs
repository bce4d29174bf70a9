//! Ghosts: keys that were let go lately, first in first out, without their data.
//! Room: onefold-cache.
//! A ring holds 40 bits of each key's hash, an index finds them. Ghosts taken out from the middle
//! leave holes, which are closed when the ring has run full. Two keys are mixed up with
//! probability 2^-40 per ghost, which costs one wrong admission and nothing else.
//! Cost: 11 bytes per ghost.

use crate::index::Index;

/// A queue of hashes.
#[derive(Clone, Debug)]
pub struct Ghost {
    /// Upper 32 bits of the hashes, by place.
    high: Vec<u32>,
    /// Lowest 8 bits of the hashes, by place.
    low: Vec<u8>,
    taken: Vec<u64>,
    /// Place of the oldest ghost or of a hole before it.
    front: usize,
    /// Places in use from `front` on, holes included.
    span: usize,
    len: usize,
    index: Index,
}

/// The part of a hash that is kept.
#[inline]
const fn kept(hash: u64) -> u64 {
    hash & 0xffff_ffff_0000_0000 | (hash >> 24 & 0xff) << 24
}

impl Ghost {
    /// Room for `most` ghosts.
    pub fn new(most: usize) -> Self {
        let places = (most + most / 8).max(8);
        Self {
            high: vec![0; places],
            low: vec![0; places],
            taken: vec![0; places.div_ceil(64)],
            front: 0,
            span: 0,
            len: 0,
            index: Index::new(most.max(1), places),
        }
    }

    /// Ghosts in the queue.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.high.capacity() * 5 + self.taken.capacity() * 8 + self.index.memory_bytes()
    }

    /// Asks for the place where the search for this hash begins.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.index.prefetch(kept(hash));
    }

    #[inline]
    fn at(&self, place: usize) -> u64 {
        u64::from(self.high[place]) << 32 | u64::from(self.low[place]) << 24
    }

    #[inline]
    fn is_taken(&self, place: usize) -> bool {
        self.taken[place / 64] >> (place % 64) & 1 == 1
    }

    fn place(&self, hash: u64) -> Option<u32> {
        self.index.find(kept(hash), |place| self.at(place as usize) == kept(hash))
    }

    /// Whether this hash is in the queue.
    pub fn contains(&self, hash: u64) -> bool {
        self.place(hash).is_some()
    }

    /// Takes this hash out of the queue; says whether it was there.
    pub fn remove(&mut self, hash: u64) -> bool {
        let place = self.place(hash);
        if let Some(place) = place {
            self.take_out(place as usize);
        }
        place.is_some()
    }

    fn take_out(&mut self, place: usize) {
        self.index.remove(self.at(place), place as u32);
        self.taken[place / 64] &= !(1 << (place % 64));
        self.len -= 1;
    }

    /// Lets the oldest ghost go, if there is one.
    pub fn pop(&mut self) -> Option<u64> {
        while self.span > 0 {
            let place = self.front;
            self.front = (self.front + 1) % self.high.len();
            self.span -= 1;
            if self.is_taken(place) {
                self.take_out(place);
                return Some(self.at(place));
            }
        }
        None
    }

    /// Adds a hash that is not in the queue, and lets go the oldest beyond `most` ghosts.
    pub fn push(&mut self, hash: u64, most: usize) {
        while self.len >= most.max(1) {
            self.pop();
        }
        if most == 0 {
            return;
        }
        if self.span == self.high.len() || self.index.is_full(self.high.len()) {
            self.rebuild(most);
        }
        let place = (self.front + self.span) % self.high.len();
        self.high[place] = (hash >> 32) as u32;
        self.low[place] = (hash >> 24) as u8;
        self.taken[place / 64] |= 1 << (place % 64);
        self.index.insert(kept(hash), place as u32);
        (self.span, self.len) = (self.span + 1, self.len + 1);
    }

    /// The ghosts, the oldest first, as much of their hashes as is kept.
    pub fn hashes(&self) -> Vec<u64> {
        let places = (0..self.span).map(|step| (self.front + step) % self.high.len());
        places.filter(|&place| self.is_taken(place)).map(|place| self.at(place)).collect()
    }

    /// Closes the holes, and makes room for `most`.
    #[cold]
    fn rebuild(&mut self, most: usize) {
        let hashes = self.hashes();
        *self = Self::new(most.max(self.high.len() * 8 / 9).max(hashes.len() + 1));
        for (place, &hash) in hashes.iter().enumerate() {
            self.high[place] = (hash >> 32) as u32;
            self.low[place] = (hash >> 24) as u8;
            self.taken[place / 64] |= 1 << (place % 64);
            self.index.insert(hash, place as u32);
        }
        (self.span, self.len) = (hashes.len(), hashes.len());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use onefold_block::SplitMix64;

    use super::*;
    use crate::index::hash_of;

    #[test]
    fn behaves_like_a_queue_with_removal_whatever_its_limit() {
        for most in [0, 1, 7, 100] {
            let mut ghost = Ghost::new(most);
            let mut model = VecDeque::new();
            let mut random = SplitMix64::new(most as u64);
            for _ in 0..20_000 {
                let key = random.below(160);
                let was = model.contains(&key);
                assert_eq!(ghost.remove(hash_of(key)), was, "{key} with limit {most}");
                if was {
                    model.retain(|&other| other != key);
                } else if random.below(3) > 0 {
                    // A limit that moves, as LARC's does.
                    let limit = if most > 1 { most - random.below(2) as usize } else { most };
                    ghost.push(hash_of(key), limit);
                    model.push_back(key);
                    while model.len() > limit {
                        model.pop_front();
                    }
                }
                let hashes: Vec<u64> = model.iter().map(|&key| kept(hash_of(key))).collect();
                assert_eq!((ghost.hashes(), ghost.len()), (hashes, model.len()));
            }
        }
    }
}
