//! The memory of a shard: buckets in blocks of one size, which are kept while it grows.
//! Room: onefold-pool.
//! Why: hundreds of tables that each grow by copying themselves into a larger piece of memory leave
//! holes of ever different sizes behind, which came to half of the index again.

use std::ops::{Index, IndexMut};

use super::bucket::Bucket;

/// Buckets of a block: 4 KiB.
const BLOCK_BUCKETS: usize = 64;

/// A row of buckets.
#[derive(Default)]
pub struct Table {
    /// All of `BLOCK_BUCKETS`, but perhaps the last.
    blocks: Vec<Box<[Bucket]>>,
    len: usize,
}

impl Table {
    /// How many buckets fit into so many bytes, with what keeps them together.
    pub const fn len_within(bytes: usize) -> usize {
        let block = BLOCK_BUCKETS * size_of::<Bucket>() + 2 * size_of::<Box<[Bucket]>>();
        bytes / block * BLOCK_BUCKETS
    }

    /// Number of buckets.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Memory in use.
    pub const fn bytes(&self) -> usize {
        self.len * size_of::<Bucket>() + self.blocks.capacity() * size_of::<Box<[Bucket]>>()
    }

    /// A copy of all buckets.
    pub fn to_vec(&self) -> Vec<Bucket> {
        self.blocks.concat()
    }

    /// Empty all buckets, and add so many that there are `len`, which is no fewer than there were.
    pub fn clear_and_grow(&mut self, len: usize) {
        for bucket in self.blocks.iter_mut().flat_map(|block| block.iter_mut()) {
            *bucket = Bucket::EMPTY;
        }
        if !self.len.is_multiple_of(BLOCK_BUCKETS) {
            self.blocks.pop();
        }
        while self.blocks.len() * BLOCK_BUCKETS < len {
            let rest = len - self.blocks.len() * BLOCK_BUCKETS;
            let block = vec![Bucket::EMPTY; rest.min(BLOCK_BUCKETS)];
            self.blocks.push(block.into_boxed_slice());
        }
        self.len = len;
    }
}

impl Index<usize> for Table {
    type Output = Bucket;

    fn index(&self, at: usize) -> &Bucket {
        &self.blocks[at / BLOCK_BUCKETS][at % BLOCK_BUCKETS]
    }
}

impl IndexMut<usize> for Table {
    fn index_mut(&mut self, at: usize) -> &mut Bucket {
        &mut self.blocks[at / BLOCK_BUCKETS][at % BLOCK_BUCKETS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_any_length_grows_to_any_other_and_is_empty_then() {
        for from in [0, 1, 63, 64, 65, 130] {
            for to in [from, from + 1, from + 64, 200] {
                let mut table = Table::default();
                table.clear_and_grow(from);
                for at in 0..from {
                    table[at].push(at as u64 + 1, 1);
                }
                let before = table.to_vec();
                assert!((0..from).all(|at| before[at].slots()[0] == at as u64 + 1));
                table.clear_and_grow(to);
                assert_eq!((table.len(), table.to_vec().len()), (to, to));
                assert!(table.to_vec().iter().all(|bucket| bucket.slots()[0] == 0));
            }
        }
    }
}
