//! Cached objects: a slab of 24-byte nodes with 32-bit links, found through one index.
//! Room: onefold-cache.
//! Invariants: (1) every cached object is in the index  (2) a node is in at most one [`List`], or
//! free  (3) `bytes` is the sum of the sizes.   checked by `check`.
//! Cost: 24 bytes a node and 5.3 of index.

use crate::index::{Index, hash_of};
use crate::prefetch::prefetch;

/// Names a node of an [`Objects`]; also the slot of the cache that the object occupies.
pub type Id = u32;
/// No node.
pub const NONE: Id = u32::MAX;

/// One object.
#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    size: u32,
    /// Bits that belong to the policy.
    word: u32,
    before: Id,
    after: Id,
}

const _: () = assert!(size_of::<Node>() == 24);

/// A queue of nodes; the front is the oldest.
#[derive(Clone, Debug)]
pub struct List {
    front: Id,
    back: Id,
    len: usize,
    bytes: u64,
}

impl Default for List {
    fn default() -> Self {
        Self { front: NONE, back: NONE, len: 0, bytes: 0 }
    }
}

impl List {
    /// The oldest node.
    #[inline]
    pub fn front(&self) -> Option<Id> {
        (self.front != NONE).then_some(self.front)
    }

    /// The newest node.
    #[inline]
    pub fn back(&self) -> Option<Id> {
        (self.back != NONE).then_some(self.back)
    }

    /// Nodes in the list.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the objects in the list.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A set of objects.
#[derive(Clone, Debug)]
pub struct Objects {
    nodes: Vec<Node>,
    /// First of the free nodes, which are linked by `after`.
    free: Id,
    index: Index,
    len: usize,
    bytes: u64,
}

impl Objects {
    /// An empty set with memory for `expected` objects; it grows beyond that.
    pub fn new(expected: usize) -> Self {
        let expected = expected.clamp(1, (1 << 31) - 1);
        Self {
            nodes: Vec::with_capacity(expected),
            free: NONE,
            index: Index::new(expected, expected),
            len: 0,
            bytes: 0,
        }
    }

    /// Objects in the set.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of their sizes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.index.memory_bytes()
    }

    /// The object with this key.
    #[inline]
    pub fn find(&self, key: u64, hash: u64) -> Option<Id> {
        self.index.find(hash, |id| self.nodes[id as usize].key == key)
    }

    /// Asks for the place where the search for this hash begins.
    #[inline]
    pub fn prefetch_index(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Asks for the node that a search for this hash will most likely end at, and names it.
    #[inline]
    pub fn prefetch_likely(&self, hash: u64) -> Option<Id> {
        let id = self.index.likely(hash)?;
        prefetch(&raw const self.nodes[id as usize]);
        Some(id)
    }

    /// Asks for the neighbours of a node.
    #[inline]
    pub fn prefetch_neighbours(&self, id: Id) {
        let Node { before, after, .. } = self.nodes[id as usize];
        for id in [before, after] {
            if let Some(node) = self.nodes.get(id as usize) {
                prefetch(&raw const *node);
            }
        }
    }

    /// Adds an object that is not there; its word is 0 and it is in no list.
    #[inline]
    pub fn add(&mut self, key: u64, hash: u64, size: u32) -> Id {
        let node = Node { key, size, word: 0, before: NONE, after: NONE };
        let id = if self.free == NONE {
            self.nodes.push(node);
            self.nodes.len() as Id - 1
        } else {
            let id = self.free;
            self.free = self.nodes[id as usize].after;
            self.nodes[id as usize] = node;
            id
        };
        if self.index.is_full(self.nodes.len()) {
            self.grow(id);
        }
        self.index.insert(hash, id);
        self.len += 1;
        self.bytes += u64::from(size);
        id
    }

    /// A larger index with everything but `new`, which is not in it yet.
    #[cold]
    fn grow(&mut self, new: Id) {
        let room = (self.nodes.len() * 3 / 2).clamp(24, (1 << 31) - 1);
        let mut index = Index::new(room, room.max(self.nodes.capacity()));
        let mut is_free = vec![false; self.nodes.len()];
        let mut free = self.free;
        while free != NONE {
            is_free[free as usize] = true;
            free = self.nodes[free as usize].after;
        }
        for (id, node) in self.nodes.iter().enumerate() {
            if !is_free[id] && id as Id != new {
                index.insert(hash_of(node.key), id as Id);
            }
        }
        self.index = index;
    }

    /// Removes an object that is in no list any more.
    #[inline]
    pub fn delete(&mut self, id: Id) {
        let Node { key, size, .. } = self.nodes[id as usize];
        self.index.remove(hash_of(key), id);
        self.nodes[id as usize].after = self.free;
        self.free = id;
        self.len -= 1;
        self.bytes -= u64::from(size);
    }

    /// The key of an object.
    #[inline]
    pub fn key(&self, id: Id) -> u64 {
        self.nodes[id as usize].key
    }

    /// The size of an object in bytes.
    #[inline]
    pub fn size(&self, id: Id) -> u32 {
        self.nodes[id as usize].size
    }

    /// The policy's own bits.
    #[inline]
    pub fn word(&self, id: Id) -> u32 {
        self.nodes[id as usize].word
    }

    /// The policy's own bits, to change.
    #[inline]
    pub fn word_mut(&mut self, id: Id) -> &mut u32 {
        &mut self.nodes[id as usize].word
    }

    /// Puts a node that is in no list at the back of one.
    #[inline]
    pub fn push_back(&mut self, list: &mut List, id: Id) {
        let node = &mut self.nodes[id as usize];
        node.before = list.back;
        node.after = NONE;
        list.bytes += u64::from(node.size);
        list.len += 1;
        match list.back {
            NONE => list.front = id,
            back => self.nodes[back as usize].after = id,
        }
        list.back = id;
    }

    /// Takes a node out of the list that it is in.
    #[inline]
    pub fn unlink(&mut self, list: &mut List, id: Id) {
        let Node { before, after, size, .. } = self.nodes[id as usize];
        match before {
            NONE => list.front = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => list.back = before,
            after => self.nodes[after as usize].before = before,
        }
        list.len -= 1;
        list.bytes -= u64::from(size);
    }

    /// Moves a node of a list to its back.
    #[inline]
    pub fn move_to_back(&mut self, list: &mut List, id: Id) {
        if list.back != id {
            self.unlink(list, id);
            self.push_back(list, id);
        }
    }

    /// Moves a node of a list to its front.
    pub fn move_to_front(&mut self, list: &mut List, id: Id) {
        if list.front == id {
            return;
        }
        self.unlink(list, id);
        let size = u64::from(self.nodes[id as usize].size);
        self.nodes[id as usize].before = NONE;
        self.nodes[id as usize].after = list.front;
        match list.front {
            NONE => list.back = id,
            front => self.nodes[front as usize].before = id,
        }
        list.front = id;
        list.bytes += size;
        list.len += 1;
    }

    /// The neighbour of a node towards the back.
    #[inline]
    pub fn after(&self, id: Id) -> Option<Id> {
        let after = self.nodes[id as usize].after;
        (after != NONE).then_some(after)
    }

    /// The nodes of a list, the oldest first.
    pub fn iter(&self, list: &List) -> impl Iterator<Item = Id> {
        std::iter::successors(list.front(), |&id| self.after(id))
    }

    /// The keys of a list, the oldest first.
    pub fn keys(&self, list: &List) -> Vec<u64> {
        self.iter(list).map(|id| self.key(id)).collect()
    }

    /// Panics unless the lists hold every object exactly once and all sums are right.
    #[cfg(test)]
    pub fn check(&self, lists: &[&List]) {
        let (mut len, mut bytes) = (0, 0);
        for list in lists {
            let ids: Vec<Id> = self.iter(list).collect();
            let sum: u64 = ids.iter().map(|&id| u64::from(self.size(id))).sum();
            assert_eq!((ids.len(), sum), (list.len, list.bytes));
            assert_eq!(ids.last().copied(), list.back());
            for id in ids {
                assert_eq!(self.find(self.key(id), hash_of(self.key(id))), Some(id));
            }
            (len, bytes) = (len + list.len, bytes + list.bytes);
        }
        assert_eq!((len, bytes), (self.len, self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use onefold_block::SplitMix64;

    use super::*;

    #[test]
    fn memory_is_that_of_nodes_and_index_together() {
        let (mut objects, mut list) = (Objects::new(4), List::default());
        for key in 0..1000 {
            let id = objects.add(key, hash_of(key), 1);
            objects.push_back(&mut list, id);
        }
        let (nodes, index) = (1000 * size_of::<Node>(), objects.index.memory_bytes());
        assert!(index >= 4000, "{index}");
        assert!(objects.memory_bytes() >= nodes + index);
    }

    #[test]
    fn lists_behave_like_deques_and_nodes_are_reused() {
        let mut objects = Objects::new(4);
        let (mut list, mut model) = (List::default(), VecDeque::new());
        let mut random = SplitMix64::new(7);
        for _ in 0..5_000 {
            let key = random.below(90);
            match objects.find(key, hash_of(key)) {
                None => {
                    let id = objects.add(key, hash_of(key), key as u32 + 1);
                    objects.push_back(&mut list, id);
                    model.push_back(key);
                }
                Some(id) => {
                    model.retain(|&other| other != key);
                    if random.below(2) == 0 {
                        objects.unlink(&mut list, id);
                        objects.delete(id);
                    } else {
                        objects.move_to_back(&mut list, id);
                        model.push_back(key);
                    }
                }
            }
            assert!(objects.keys(&list).iter().eq(&model));
        }
        objects.check(&[&list]);
        assert!(objects.nodes.len() <= 90);
    }
}
