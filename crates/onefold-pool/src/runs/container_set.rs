//! A set of containers, one bit each.
//! Room: onefold-pool.
//! Cost: a bit for each container that was ever made: 32 KiB per TiB written.

use onefold_block::ContainerId;

/// Containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSet {
    words: Vec<u64>,
}

const fn place(id: ContainerId) -> (usize, u64) {
    (id.get() as usize / 64, 1 << (id.get() % 64))
}

impl ContainerSet {
    /// Add one.
    pub fn insert(&mut self, id: ContainerId) {
        let (word, bit) = place(id);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Whether it is there.
    pub fn contains(&self, id: ContainerId) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = ContainerId> {
        let bits = |(at, &word): (usize, &u64)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| (at * 64 + bit) as u32)
        };
        self.words.iter().enumerate().flat_map(bits).map(ContainerId::new)
    }
}

impl FromIterator<ContainerId> for ContainerSet {
    fn from_iter<I: IntoIterator<Item = ContainerId>>(ids: I) -> Self {
        let mut set = Self::default();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_into_it() {
        let ids: Vec<ContainerId> = [1, 63, 64, 65, 4000].map(ContainerId::new).to_vec();
        let set: ContainerSet = ids.iter().copied().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), ids);
        assert!(ids.iter().all(|&id| set.contains(id)));
        assert!([2, 66, 5000].iter().all(|&id| !set.contains(ContainerId::new(id))));
    }
}
