//! A number for every container that was ever seen: a table of pages, direct by container number.
//! Room: onefold-cache.
//! Container numbers are given out in sequence and simulators number densely, so that pages are
//! full: the cost is that of the number itself. Keys of 2^32 and above go to a map instead.
//! Cost: one or two lines of memory per access; 4 or 8 bytes per container.

use std::collections::BTreeMap;

use crate::prefetch::prefetch;

const PAGE_BITS: u32 = 12;
const PAGE: usize = 1 << PAGE_BITS;
const DIRECT: u64 = 1 << 32;

/// What a table can hold per key; 0 means nothing.
pub trait Entry: Copy + Default + PartialEq {
    /// As 64 bits, for saving.
    fn to_bits(self) -> u64;
    /// From the bits saved; bits that do not fit are cut off.
    fn from_bits(bits: u64) -> Self;
}

impl Entry for u32 {
    fn to_bits(self) -> u64 {
        self.into()
    }
    fn from_bits(bits: u64) -> Self {
        bits as Self
    }
}

impl Entry for [u32; 2] {
    fn to_bits(self) -> u64 {
        u64::from(self[1]) << 32 | u64::from(self[0])
    }
    fn from_bits(bits: u64) -> Self {
        [bits as u32, (bits >> 32) as u32]
    }
}

/// Numbers by key.
#[derive(Clone, Debug, Default)]
pub struct Counts<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
    others: BTreeMap<u64, T>,
}

impl<T: Entry> Counts<T> {
    /// The number of a key.
    #[inline]
    pub fn get(&self, key: u64) -> T {
        if key >= DIRECT {
            return self.others.get(&key).copied().unwrap_or_default();
        }
        match self.pages.get((key >> PAGE_BITS) as usize) {
            Some(Some(page)) => page[key as usize % PAGE],
            _ => T::default(),
        }
    }

    /// The number of a key, to change.
    #[inline]
    pub fn get_mut(&mut self, key: u64) -> &mut T {
        if key >= DIRECT {
            return self.others.entry(key).or_default();
        }
        let page = (key >> PAGE_BITS) as usize;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| {
            vec![T::default(); PAGE].try_into().unwrap_or_else(|_| unreachable!("of this length"))
        });
        &mut page[key as usize % PAGE]
    }

    /// Changes every number there is; what becomes nothing gives its memory back.
    pub fn change_all(&mut self, mut change: impl FnMut(&mut T)) {
        for page in &mut self.pages {
            let numbers = page.iter_mut().flat_map(|page| page.iter_mut());
            numbers.for_each(&mut change);
            if page.as_ref().is_some_and(|page| page.iter().all(|value| *value == T::default())) {
                *page = None;
            }
        }
        self.others.values_mut().for_each(&mut change);
        self.others.retain(|_, value| *value != T::default());
    }

    /// Asks for the number of a key.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        if let Some(Some(page)) = self.pages.get((key >> PAGE_BITS) as usize) {
            prefetch(&raw const page[key as usize % PAGE]);
        }
    }

    /// Bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count() * size_of::<[T; PAGE]>();
        // A node of the map holds key and value at about two thirds of its room.
        pages + self.pages.capacity() * 8 + self.others.len() * (8 + size_of::<T>()) * 3 / 2
    }
}

/// A table whose contents can be saved, whatever it holds.
pub trait Table {
    /// All keys with a number, ascending, and the numbers as bits.
    fn save(&self) -> Vec<(u64, u64)>;
    /// Sets the number of a key.
    fn load(&mut self, key: u64, bits: u64);
}

impl<T: Entry> Table for Counts<T> {
    fn save(&self) -> Vec<(u64, u64)> {
        let mut saved = Vec::new();
        for (number, page) in self.pages.iter().enumerate() {
            for (at, &value) in page.iter().flat_map(|page| page.iter().enumerate()) {
                if value != T::default() {
                    saved.push(((number << PAGE_BITS | at) as u64, value.to_bits()));
                }
            }
        }
        saved.extend(self.others.iter().map(|(&key, value)| (key, value.to_bits())));
        saved
    }

    fn load(&mut self, key: u64, bits: u64) {
        *self.get_mut(key) = T::from_bits(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_by_key_and_saved() {
        let mut counts = Counts::<[u32; 2]>::default();
        let keys = [0, 1, 4095, 4096, 1 << 20, DIRECT - 1, DIRECT, u64::MAX];
        for (value, key) in (1..).zip(keys) {
            *counts.get_mut(key) = [value, value * 2];
        }
        assert_eq!((counts.get(2), counts.get(1 << 40)), ([0, 0], [0, 0]));
        let saved = counts.save();
        assert_eq!(saved.iter().map(|&(key, _)| key).collect::<Vec<_>>(), keys);
        let mut again = Counts::<[u32; 2]>::default();
        for &(key, bits) in &saved {
            again.load(key, bits);
        }
        assert_eq!((again.get(4096), again.save()), ([4, 8], saved));
    }
}
