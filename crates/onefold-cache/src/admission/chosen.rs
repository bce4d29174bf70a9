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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Access;

    #[test]
    fn what_is_asked_for_most_per_byte_is_chosen_as_far_as_it_fits() {
        // Object, size and how often it is asked for.
        let objects = [(0, 100, 4), (1, 10, 1), (2, 50, 3), (3, 60, 3), (4, 10, 2), (5, 50, 3)];
        let requests: Vec<Access> = objects
            .iter()
            .flat_map(|&(key, size, times)| std::iter::repeat_n(Access { key, size }, times))
            .collect();
        let future = Future::of(&requests);
        let chosen = |bytes| Chosen::best(&future, bytes).keys.into_iter().collect::<Vec<_>>();
        // By worth: 4, then 2 and 5 in this order, 3, 0; 1 is read once.
        assert!(chosen(9).is_empty());
        assert_eq!(chosen(10), [4]);
        assert_eq!(chosen(60), [2, 4]);
        assert_eq!(chosen(110), [2, 4, 5]);
        assert_eq!(chosen(169), [2, 4, 5], "3 does not fit");
        assert_eq!(chosen(170), [2, 3, 4, 5]);
        assert_eq!(chosen(269), [2, 3, 4, 5]);
        assert_eq!(chosen(1000), [0, 2, 3, 4, 5]);
    }
}
