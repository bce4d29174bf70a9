//! The memory of all shards: buckets of one cache line, in blocks that are given out one by one.
//! Room: onefold-pool.
//! Why: hundreds of tables that each grow by moving into a larger piece of memory leave holes of
//! ever different sizes behind, which came to half of the index again.

use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::memory;

use super::entry::{FREE, same};

/// Entries of a bucket.
pub const SLOTS: usize = 8;
/// Buckets of a block: 1 KiB.
pub const BLOCK_BUCKETS: usize = 16;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = BLOCK_BUCKETS * size_of::<Bucket>();
/// Blocks that are taken from the system at a time: 128 KiB with what the allocator needs beside.
const SLAB_BLOCKS: usize = 127;
/// Bytes of these.
pub const SLAB_BYTES: usize = SLAB_BLOCKS * BLOCK_BYTES;

/// Eight entries in a cache line. Entries are hints, each a
/// word of its own, so that they are read and aged without any lock.
#[derive(Default)]
#[repr(align(64))]
pub struct Bucket([AtomicU64; SLOTS]);

const _: () = assert!(size_of::<Bucket>() == 64);

/// What a look at a bucket showed.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The entry is in it.
    pub held: bool,
    /// Slots with an entry.
    pub used: usize,
}

impl Bucket {
    /// What is in a slot now.
    pub fn get(&self, slot: usize) -> u64 {
        self.0[slot].load(Ordering::Relaxed)
    }

    /// What is in all slots now.
    pub fn slots(&self) -> [u64; SLOTS] {
        std::array::from_fn(|slot| self.get(slot))
    }

    /// Whether an entry is here, whatever its age, and how many there are.
    pub fn look_for(&self, entry: u64) -> Look {
        let mut look = Look { held: false, used: 0 };
        for slot in self.slots() {
            look.held |= same(slot, entry);
            look.used += usize::from(slot != FREE);
        }
        look
    }

    /// Put an entry into a free slot; false if there is none. One thread does so at a time.
    pub fn put(&self, entry: u64) -> bool {
        let free = self.slots().into_iter().position(|slot| slot == FREE);
        if let Some(slot) = free {
            self.0[slot].store(entry, Ordering::Relaxed);
        }
        free.is_some()
    }

    /// Replace what is in a slot, unless another thread was there first.
    pub fn replace(&self, slot: usize, old: u64, new: u64) -> bool {
        self.0[slot].compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Set all slots.
    pub fn fill(&self, entries: &[u64; SLOTS]) {
        for (slot, entry) in self.0.iter().zip(entries) {
            slot.store(*entry, Ordering::Relaxed);
        }
    }

    /// Remove an entry, whatever its age; false if it is not here.
    pub fn remove(&self, entry: u64) -> bool {
        for slot in 0..SLOTS {
            let mut found = self.get(slot);
            while same(found, entry) {
                if self.replace(slot, found, FREE) {
                    return true;
                }
                found = self.get(slot);
            }
        }
        false
    }
}

/// Where a block is.
#[derive(Clone, Copy, Debug)]
pub struct BlockNumber(u32);

/// Blocks.
#[derive(Default)]
pub struct Arena {
    slabs: Vec<Box<[Bucket]>>,
    /// Blocks from the first on that were ever taken.
    taken: usize,
    /// Of these, those that were given back, whose slots are free.
    free: Vec<BlockNumber>,
}

impl Arena {
    /// A block of free slots; `None` if there is no memory for it.
    pub fn take(&mut self) -> Option<BlockNumber> {
        if let Some(block) = self.free.pop() {
            return Some(block);
        }
        if self.taken == self.slabs.len() * SLAB_BLOCKS {
            let mut slab = Vec::new();
            if !memory::reserve(&mut slab, SLAB_BLOCKS * BLOCK_BUCKETS) {
                return None;
            }
            slab.resize_with(SLAB_BLOCKS * BLOCK_BUCKETS, Bucket::default);
            self.slabs.push(slab.into_boxed_slice());
        }
        self.taken += 1;
        Some(BlockNumber(self.taken as u32 - 1))
    }

    /// Nobody needs this block any more.
    pub fn give(&mut self, block: BlockNumber) {
        (0..BLOCK_BUCKETS).for_each(|at| self.bucket(block, at).fill(&[FREE; SLOTS]));
        self.free.push(block);
    }

    /// From now on, blocks that are to stay are below the number returned, or are moved there by
    /// [`Arena::move_below`], until [`Arena::cut`] gives the memory past it back.
    pub fn begin_cut(&mut self) -> usize {
        let slabs = (self.taken - self.free.len()).div_ceil(SLAB_BLOCKS);
        let end = slabs * SLAB_BLOCKS;
        // What was never taken of the last slab that stays is free, too.
        let never = (self.taken..end).map(|number| BlockNumber(number as u32));
        self.free.retain(|block| (block.0 as usize) < end);
        self.free.extend(never);
        self.taken = self.taken.max(end);
        end
    }

    /// The block with this content that is below `end`.
    pub fn move_below(&mut self, block: BlockNumber, end: usize) -> BlockNumber {
        if (block.0 as usize) < end {
            return block;
        }
        let to = self.free.pop().expect("as many are free below the end as are in use past it");
        for at in 0..BLOCK_BUCKETS {
            self.bucket(to, at).fill(&self.bucket(block, at).slots());
        }
        to
    }

    /// Give back the memory of all blocks from `end` on.
    pub fn cut(&mut self, end: usize) {
        self.slabs.truncate(end / SLAB_BLOCKS);
        self.slabs.shrink_to_fit();
        self.free.shrink_to_fit();
        self.taken = end;
    }

    /// A bucket of a block.
    pub fn bucket(&self, block: BlockNumber, bucket: usize) -> &Bucket {
        let at = block.0 as usize;
        &self.slabs[at / SLAB_BLOCKS][at % SLAB_BLOCKS * BLOCK_BUCKETS + bucket]
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.len() * size_of::<Bucket>()).sum::<usize>()
            + self.slabs.capacity() * size_of::<Box<[Bucket]>>()
            + self.free.capacity() * size_of::<BlockNumber>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart() {
        let mut arena = Arena::default();
        let blocks: Vec<BlockNumber> =
            (0..SLAB_BLOCKS + 3).map(|_| arena.take().unwrap()).collect();
        let word = |number, bucket| (number * BLOCK_BUCKETS + bucket) as u64 + 1;
        for (number, &block) in blocks.iter().enumerate() {
            for bucket in 0..BLOCK_BUCKETS {
                assert_eq!(arena.bucket(block, bucket).slots(), [FREE; SLOTS]);
                assert!(arena.bucket(block, bucket).put(word(number, bucket)));
            }
        }
        for (number, &block) in blocks.iter().enumerate() {
            for bucket in 0..BLOCK_BUCKETS {
                assert!(arena.bucket(block, bucket).remove(word(number, bucket)));
                assert_eq!(arena.bucket(block, bucket).slots(), [FREE; SLOTS]);
            }
        }
        let slabs = 2 * SLAB_BLOCKS * BLOCK_BYTES;
        assert!((slabs..slabs + 128).contains(&arena.bytes()), "{}", arena.bytes());
    }

    #[test]
    fn a_look_tells_what_is_held_and_how_many_there_are() {
        let bucket = Bucket::default();
        let look = |entry| {
            let Look { held, used } = bucket.look_for(entry);
            (held, used)
        };
        assert_eq!(look(7), (false, 0));
        for (used, entry) in (1..).zip([7, 8, 9]) {
            assert!(bucket.put(entry));
            assert_eq!((look(7), look(10)), ((true, used), (false, used)));
        }
    }

    #[test]
    fn a_block_that_was_given_back_is_empty_when_it_is_taken_again() {
        let mut arena = Arena::default();
        let block = arena.take().unwrap();
        for bucket in 0..BLOCK_BUCKETS {
            (1..=SLOTS as u64).for_each(|entry| assert!(arena.bucket(block, bucket).put(entry)));
        }
        arena.give(block);
        let again = arena.take().unwrap();
        assert_eq!(again.0, block.0);
        for bucket in 0..BLOCK_BUCKETS {
            assert_eq!(arena.bucket(again, bucket).slots(), [FREE; SLOTS]);
        }
    }

    #[test]
    fn memory_past_the_blocks_in_use_is_given_back_and_their_content_stays() {
        let mut arena = Arena::default();
        let blocks: Vec<BlockNumber> =
            (0..3 * SLAB_BLOCKS).map(|_| arena.take().unwrap()).collect();
        for (number, &block) in blocks.iter().enumerate() {
            assert!(arena.bucket(block, 3).put(number as u64 + 1));
        }
        // Every third stays.
        for (number, &block) in blocks.iter().enumerate() {
            if number % 3 != 0 {
                arena.give(block);
            }
        }
        let end = arena.begin_cut();
        assert_eq!(end, SLAB_BLOCKS);
        let mut kept: Vec<BlockNumber> = blocks.into_iter().step_by(3).collect();
        for block in &mut kept {
            *block = arena.move_below(*block, end);
        }
        arena.cut(end);
        for (number, &block) in kept.iter().enumerate() {
            assert_eq!(arena.bucket(block, 3).get(0), 3 * number as u64 + 1);
        }
        assert_eq!(arena.bytes(), SLAB_BYTES + size_of::<Box<[Bucket]>>());
        // The next one is of new memory, and empty.
        let next = arena.take().unwrap();
        assert_eq!(arena.bucket(next, 3).slots(), [FREE; SLOTS]);
    }
}
