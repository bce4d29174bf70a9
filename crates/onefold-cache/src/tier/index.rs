//! Where each extent lies: 8 bytes an extent, sorted, in boxes of eight containers each.
//! Room: onefold-cache.
//! Invariants: (1) extents of one container do not overlap  (2) at most one begins in each cell.
//! Cost: 8 bytes an extent, and some 48 for each eight containers of which there is one: 8.5 bytes
//! where a fifth of each is kept in extents of 64 KiB.

use std::collections::HashMap;

use super::extent::{CELL_BYTES, EXTENT_MAX, Extent, UNIT, of_key};

/// Containers of a box, as bits of their number.
const GROUP_BITS: u32 = 3;
/// Uses that are counted at most.
pub const USES_MAX: u32 = 3;

/// A place in the log, in units of [`super::extent::ALIGN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u32);

impl Place {
    /// In memory, for now.
    pub const HELD: Self = Self(u32::MAX);
}

/// An extent that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What it is of.
    pub extent: Extent,
    /// Where it lies.
    pub place: Place,
    /// Uses since it was written, up to [`USES_MAX`].
    pub uses: u32,
}

/// From the top: container in its box (3), start (16), length less one (11), place (32), uses (2),
/// so that words sort by container and start.
#[derive(Clone, Copy)]
struct Word(u64);

/// How many of these words begin before `start` of a container.
fn words_before(words: &[Word], container: u32, start: u32) -> usize {
    let first = u64::from(container & ((1 << GROUP_BITS) - 1)) << 16;
    let spot = first + u64::from(start.div_ceil(UNIT));
    words.partition_point(|word| word.spot() < spot)
}

impl Word {
    fn new(kept: &Kept) -> Self {
        let Extent { container, start, len } = kept.extent;
        // What is above its place in the box falls out.
        let first = u64::from(container) << 61;
        let sizes = u64::from(start / UNIT) << 45 | u64::from(len / UNIT - 1) << 34;
        Self(first | sizes | u64::from(kept.place.0) << 2 | u64::from(kept.uses))
    }

    /// What words are sorted by: container and start.
    const fn spot(self) -> u64 {
        self.0 >> 45
    }

    fn kept(self, group: u32) -> Kept {
        let container = group << GROUP_BITS | (self.0 >> 61) as u32;
        let start = ((self.0 >> 45) as u32 & 0xffff) * UNIT;
        let len = (((self.0 >> 34) as u32 & 0x7ff) + 1) * UNIT;
        let place = Place((self.0 >> 2) as u32);
        Kept { extent: Extent { container, start, len }, place, uses: self.0 as u32 & 3 }
    }
}

const _: () = assert!(EXTENT_MAX / UNIT <= 1 << 11);

/// The index.
#[derive(Default)]
pub struct Index {
    groups: HashMap<u32, Box<[Word]>>,
    len: usize,
}

impl Index {
    /// Extents in it.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let box_bytes = size_of::<(u32, Box<[Word]>)>() + 1;
        // What an allocation takes beyond what was asked for is part of it.
        self.groups.capacity() * box_bytes + self.groups.len() * 16 + self.len * 8
    }

    fn group(&self, container: u32) -> &[Word] {
        self.groups.get(&(container >> GROUP_BITS)).map_or(&[], |words| words)
    }

    /// The extent that holds this byte.
    pub fn covering(&self, container: u32, at: u32) -> Option<Kept> {
        let words = self.group(container);
        let after = words_before(words, container, at / UNIT * UNIT + UNIT);
        let kept = words[..after].last()?.kept(container >> GROUP_BITS);
        (kept.extent.container == container && kept.extent.end() > at).then_some(kept)
    }

    /// The first extent that begins at this byte or later.
    pub fn next(&self, container: u32, at: u32) -> Option<Kept> {
        let words = self.group(container);
        let first = words_before(words, container, at);
        let kept = words.get(first)?.kept(container >> GROUP_BITS);
        (kept.extent.container == container).then_some(kept)
    }

    /// The last extent that begins before this byte.
    pub fn before(&self, container: u32, at: u32) -> Option<Kept> {
        let words = self.group(container);
        let after = words_before(words, container, at);
        let kept = words[..after].last()?.kept(container >> GROUP_BITS);
        (kept.extent.container == container).then_some(kept)
    }

    /// The extent that begins in the cell of this key.
    pub fn by_key(&self, key: u64) -> Option<Kept> {
        let (container, cell) = of_key(key);
        self.next(container, cell).filter(|kept| kept.extent.start < cell + CELL_BYTES)
    }

    /// Add an extent that overlaps no other and is alone in its cell; `false` if that is not so.
    pub fn insert(&mut self, kept: &Kept) -> bool {
        let Extent { container, start, .. } = kept.extent;
        let overlaps = self.covering(container, start).is_some()
            || self
                .next(container, start)
                .is_some_and(|next| next.extent.start < kept.extent.end());
        if overlaps || self.by_key(kept.extent.key()).is_some() {
            return false;
        }
        let words = self.groups.entry(container >> GROUP_BITS).or_default();
        let at = words_before(words, container, start);
        let mut longer = Vec::with_capacity(words.len() + 1);
        longer.extend_from_slice(&words[..at]);
        longer.push(Word::new(kept));
        longer.extend_from_slice(&words[at..]);
        *words = longer.into_boxed_slice();
        self.len += 1;
        true
    }

    /// Change place and uses of an extent that is there.
    pub fn update(&mut self, kept: &Kept) {
        let Extent { container, start, .. } = kept.extent;
        if let Some(words) = self.groups.get_mut(&(container >> GROUP_BITS)) {
            let at = words_before(words, container, start);
            if let Some(word) = words
                .get_mut(at)
                .filter(|word| word.kept(container >> GROUP_BITS).extent == kept.extent)
            {
                *word = Word::new(kept);
            }
        }
    }

    /// Take the extent out that begins in the cell of this key.
    pub fn remove(&mut self, key: u64) -> Option<Kept> {
        let gone = self.by_key(key)?;
        let group = gone.extent.container >> GROUP_BITS;
        let words = self.groups.get_mut(&group)?;
        let mut shorter = words.to_vec();
        shorter.retain(|word| word.kept(group).extent != gone.extent);
        if shorter.is_empty() {
            self.groups.remove(&group);
        } else {
            *words = shorter.into_boxed_slice();
        }
        self.len -= 1;
        Some(gone)
    }

    /// All extents of a container, in order.
    pub fn of_container(&self, container: u32) -> Vec<Kept> {
        let words = self.group(container).iter();
        let all = words.map(|word| word.kept(container >> GROUP_BITS));
        all.filter(|kept| kept.extent.container == container).collect()
    }

    /// All extents whose places lie in this range, in the order of containers.
    pub fn placed(&self, places: std::ops::Range<u32>) -> Vec<Kept> {
        let mut found: Vec<Kept> =
            self.iter().filter(|kept| places.contains(&kept.place.0)).collect();
        found.sort_unstable_by_key(|kept| kept.extent);
        found
    }

    /// All extents, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = Kept> {
        let groups = self.groups.iter();
        groups.flat_map(|(&group, words)| words.iter().map(move |word| word.kept(group)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onefold_block::SplitMix64;

    use super::*;

    /// Against a list that is searched from end to end.
    #[test]
    fn finds_what_a_plain_list_finds() {
        let mut random = SplitMix64::new(4);
        let (mut index, mut model) = (Index::default(), BTreeMap::<u64, Kept>::new());
        for step in 0..20_000 {
            let container = 5 + random.below(12) as u32;
            let start = random.below(40_000 / 64) as u32 * UNIT;
            let len = (1 + random.below(300) as u32) * UNIT;
            let kept = Kept {
                extent: Extent { container, start, len },
                place: Place(random.next_u64() as u32),
                uses: random.below(4) as u32,
            };
            let at = start + random.below(64) as u32;
            let of = || model.values().filter(|kept| kept.extent.container == container);
            let covering = of().find(|k| k.extent.start <= at && at < k.extent.end());
            assert_eq!(index.covering(container, at).as_ref(), covering, "step {step}");
            let next = of().filter(|k| k.extent.start >= at).min_by_key(|k| k.extent.start);
            assert_eq!(index.next(container, at).as_ref(), next, "step {step}");
            let before = of().filter(|k| k.extent.start < at).max_by_key(|k| k.extent.start);
            assert_eq!(index.before(container, at).as_ref(), before, "step {step}");
            let free = of().all(|other| {
                other.extent.end() <= start || other.extent.start >= kept.extent.end()
            }) && !model.contains_key(&kept.extent.key());
            let key = kept.extent.key();
            if random.below(3) == 0 {
                assert_eq!(index.remove(key), model.remove(&key), "step {step}");
            } else {
                assert_eq!(index.insert(&kept), free, "step {step}");
                if free {
                    model.insert(key, kept);
                } else if let Some(other) = model.get_mut(&key) {
                    (other.place, other.uses) = (kept.place, 3 - other.uses);
                    index.update(other);
                }
            }
            assert_eq!(index.len(), model.len());
            assert_eq!(index.by_key(key).as_ref(), model.get(&key));
        }
        let mut all: Vec<Kept> = index.iter().collect();
        all.sort_unstable_by_key(|kept| kept.extent);
        assert_eq!(all, model.values().copied().collect::<Vec<_>>());
    }

    /// A fifth of 800 containers of 4 MiB in extents of 64 KiB, as in a cache of 20 %.
    #[test]
    fn an_extent_takes_less_than_ten_bytes() {
        let (mut index, mut random) = (Index::default(), SplitMix64::new(1));
        for container in 0..800 {
            for window in 0..64 {
                let extent = Extent { container, start: window << 16, len: 65_536 };
                if random.below(5) == 0 {
                    assert!(index.insert(&Kept { extent, place: Place(0), uses: 0 }));
                }
            }
        }
        let each = index.memory_bytes() as f64 / index.len() as f64;
        assert!((8.0..10.0).contains(&each), "{each}");
    }
}
