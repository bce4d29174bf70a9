//! Admits the objects of a list, and no others.
//! Room: onefold-cache.

use std::collections::BTreeSet;

use crate::policy::{Admission, Incoming};
use crate::trace::Future;

/// The list.
#[derive(Clone, Debug)]
pub struct Chosen {
    keys: BTreeSet<u64>,
}

impl Chosen {
    /// The objects asked for most often per byte, as many as fit `bytes`: the best that a cache
    /// without replacement can hold.
    pub fn best(future: &Future, bytes: u64) -> Self {
        let (counts, sizes) = (&future.counts, &future.sizes);
        // What is read once gives no hit, and what is never read has no size.
        let mut keys: Vec<usize> = (0..counts.len()).filter(|&key| counts[key] > 1).collect();
        // count / size, compared without dividing; ties in order of the keys.
        let worth = |a: usize, b: usize| u64::from(counts[a]) * u64::from(sizes[b]);
        keys.sort_by(|&a, &b| worth(b, a).cmp(&worth(a, b)).then(a.cmp(&b)));
        let mut left = bytes;
        keys.retain(|&key| {
            let size = u64::from(sizes[key]);
            let fits = size <= left;
            left -= if fits { size } else { 0 };
            fits
        });
        Self { keys: keys.into_iter().map(|key| key as u64).collect() }
    }
}

impl Admission for Chosen {
    fn miss(&mut self, incoming: &mut Incoming) -> bool {
        self.keys.contains(&incoming.key)
    }
}
