//! Things that took work to get, kept within a budget of bytes.
//! Room: onefold-archive.
//! Invariant: no more than the budget is kept, but for the thing that was put in last.
//! Which goes first is decided by second chance: in the order of coming, and once more around for
//! what was asked for since.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

struct Kept<V> {
    value: V,
    bytes: u64,
    asked: bool,
}

/// Values by key.
pub struct Cache<K, V> {
    kept: HashMap<K, Kept<V>>,
    order: VecDeque<K>,
    bytes: u64,
    budget_bytes: u64,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty cache.
    pub fn new(budget_bytes: u64) -> Self {
        Self { kept: HashMap::new(), order: VecDeque::new(), bytes: 0, budget_bytes }
    }

    /// Bytes of what is kept.
    #[cfg(test)]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is kept under a key.
    pub fn get(&mut self, key: &K) -> Option<V> {
        let kept = self.kept.get_mut(key)?;
        kept.asked = true;
        Some(kept.value.clone())
    }

    /// Keep a value that takes so many bytes; the one that had its key goes.
    pub fn put(&mut self, key: K, value: V, bytes: u64) {
        match self.kept.insert(key, Kept { value, bytes, asked: false }) {
            Some(old) => self.bytes -= old.bytes,
            None => self.order.push_back(key),
        }
        self.bytes += bytes;
        // Each round takes one away or takes back one's second chance.
        while self.bytes > self.budget_bytes && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { break };
            match self.kept.get_mut(&oldest) {
                Some(kept) if kept.asked || oldest == key => {
                    kept.asked = false;
                    self.order.push_back(oldest);
                }
                _ => self.bytes -= self.kept.remove(&oldest).map_or(0, |kept| kept.bytes),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_stays_longer_and_the_budget_holds() {
        let mut cache = Cache::new(30);
        for key in 0..3 {
            cache.put(key, key * 7, 10);
        }
        assert_eq!(cache.get(&0), Some(0));
        cache.put(3, 21, 10);
        assert_eq!((cache.get(&0), cache.get(&1), cache.get(&3)), (Some(0), None, Some(21)));
        cache.put(3, 22, 25);
        assert_eq!((cache.get(&3), cache.bytes), (Some(22), 25));
        // One that is larger than all of it is kept alone.
        cache.put(9, 1, 1000);
        assert_eq!((cache.get(&9), cache.kept.len(), cache.order.len()), (Some(1), 1, 1));
        cache.put(1, 5, 10);
        assert_eq!((cache.get(&9), cache.get(&1), cache.bytes), (None, Some(5), 10));
    }
}
