//! A row with a number for each place, of which few are taken: numbers are given out once, and what
//! had the first ones is gone some day.
//! Room: onefold-pool.
//! Cost: the places of a group in which one is taken; 8 bytes per group below the last one.

/// Places that take memory together.
const GROUP: usize = 256;

type Group<T> = Box<[Option<T>; GROUP]>;

/// Places by number, each empty or taken.
#[derive(Debug)]
pub struct Sparse<T> {
    groups: Vec<Option<Group<T>>>,
    /// One more than the highest place that ever was taken.
    end: usize,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { groups: Vec::new(), end: 0 }
    }
}

impl<T> Sparse<T> {
    /// What is at a place.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.groups.get(number / GROUP)?.as_ref()?[number % GROUP].as_ref()
    }

    /// What is at a place, to be changed.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.groups.get_mut(number / GROUP)?.as_mut()?[number % GROUP].as_mut()
    }

    /// Put something at a place. Returns what was there.
    pub fn put(&mut self, number: usize, value: T) -> Option<T> {
        self.place(number).replace(value)
    }

    /// What is at a place; where there is nothing, `make` says what shall be.
    pub fn get_or_put_with(&mut self, number: usize, make: impl FnOnce() -> T) -> &mut T {
        self.place(number).get_or_insert_with(make)
    }

    /// Empty a place. Returns what was there.
    pub fn take(&mut self, number: usize) -> Option<T> {
        let slot = self.groups.get_mut(number / GROUP)?;
        let group = slot.as_mut()?;
        let taken = group[number % GROUP].take();
        if group.iter().all(Option::is_none) {
            *slot = None;
        }
        taken
    }

    /// A place that is about to be taken.
    fn place(&mut self, number: usize) -> &mut Option<T> {
        let group = number / GROUP;
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        self.end = self.end.max(number + 1);
        let group = self.groups[group].get_or_insert_with(|| Box::new([const { None }; GROUP]));
        &mut group[number % GROUP]
    }

    /// One more than the highest place that ever was taken.
    pub const fn end(&self) -> usize {
        self.end
    }

    /// The places of `range` that are taken, in ascending order.
    pub fn range(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (usize, &T)> {
        let (first, last) = (range.start / GROUP, range.end.div_ceil(GROUP));
        let groups = self.groups.iter().enumerate().take(last).skip(first);
        let groups = groups.filter_map(|(number, group)| Some((number, group.as_ref()?)));
        let places = groups.flat_map(|(number, group)| {
            let places = group.iter().enumerate();
            places.filter_map(move |(place, value)| Some((number * GROUP + place, value.as_ref()?)))
        });
        places.filter(move |(number, _)| range.contains(number))
    }

    /// All that is there.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.groups.iter_mut().flatten().flat_map(|group| group.iter_mut().flatten())
    }

    /// Memory in use, in bytes, aside from what the values refer to.
    pub fn bytes(&self) -> usize {
        let there = self.groups.iter().flatten().count();
        there * size_of::<[Option<T>; GROUP]>() + self.groups.capacity() * size_of::<Group<T>>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onefold_block::SplitMix64;

    use super::*;

    #[test]
    fn it_is_a_map_by_number_that_lets_go_of_groups_without_any() {
        let (mut row, mut model) = (Sparse::default(), BTreeMap::new());
        let mut random = SplitMix64::new(3);
        let mut end = 0;
        for turn in 0..2000_u64 {
            let number = (random.below(40) * 97) as usize;
            if random.below(2) == 0 {
                end = end.max(number + 1);
                assert_eq!(row.put(number, turn), model.insert(number, turn));
            } else {
                assert_eq!(row.take(number), model.remove(&number));
            }
            if let Some(value) = row.get_mut(number) {
                *value += 1;
                *model.get_mut(&number).unwrap() += 1;
            }
            assert_eq!(row.get(number), model.get(&number));
            let from = random.below(4000) as usize;
            let range = from..from + random.below(900) as usize;
            let found: Vec<(usize, u64)> = row.range(range.clone()).map(|(n, &v)| (n, v)).collect();
            let expected: Vec<(usize, u64)> = model.range(range).map(|(&n, &v)| (n, v)).collect();
            assert_eq!(found, expected);
            let mut groups: Vec<usize> = model.keys().map(|number| number / GROUP).collect();
            groups.dedup();
            assert_eq!(row.groups.iter().flatten().count(), groups.len(), "no group is empty");
        }
        assert_eq!(row.end(), end);
        row.values_mut().for_each(|value| *value = 0);
        assert!(row.range(0..end).all(|(_, &value)| value == 0));
        assert_eq!(row.range(0..end).rev().count(), model.len());
    }

    #[test]
    fn a_place_far_off_costs_little() {
        let mut row = Sparse::default();
        row.put(u32::MAX as usize >> 8, 1_u64);
        assert!(row.bytes() < 1 << 20, "{}", row.bytes());
    }
}
