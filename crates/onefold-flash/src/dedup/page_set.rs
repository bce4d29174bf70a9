//! A set of pages, one bit each, that hands its members out in turn.
//! Room: onefold-flash.

/// The set.
#[derive(Clone, Debug)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    /// One bit for each word that is not 0.
    filled: Vec<u64>,
    len: u64,
    /// The word that the last member handed out was in.
    at: usize,
}

impl PageSet {
    /// An empty set of pages below `pages`.
    pub fn new(pages: u32) -> Self {
        let words = pages.div_ceil(64) as usize;
        Self { words: vec![0; words], filled: vec![0; words.div_ceil(64)], len: 0, at: 0 }
    }

    /// Adds a page.
    pub fn insert(&mut self, ppn: u32) {
        let (at, bit) = (ppn as usize / 64, 1_u64 << (ppn % 64));
        self.len += u64::from(self.words[at] & bit == 0);
        if self.words[at] == 0 {
            self.filled[at / 64] |= 1 << (at % 64);
        }
        self.words[at] |= bit;
    }

    /// Takes a page out; whether it was in.
    pub fn remove(&mut self, ppn: u32) -> bool {
        if self.len == 0 {
            return false;
        }
        let (at, bit) = (ppn as usize / 64, 1_u64 << (ppn % 64));
        let was = self.words[at] & bit != 0;
        self.words[at] &= !bit;
        if was && self.words[at] == 0 {
            self.filled[at / 64] &= !(1 << (at % 64));
        }
        self.len -= u64::from(was);
        was
    }

    /// Takes out the next page in turn.
    pub fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        // The rest of this group of words first, then whole groups, this one's beginning last.
        let group = self.at / 64;
        let rest = self.filled[group] & (u64::MAX << (self.at % 64));
        let (group, word) = if rest != 0 {
            (group, rest.trailing_zeros())
        } else {
            let groups = self.filled.len();
            let turn = (1..=groups).map(|step| (group + step) % groups);
            let group = turn.into_iter().find(|&group| self.filled[group] != 0)?;
            (group, self.filled[group].trailing_zeros())
        };
        self.at = group * 64 + word as usize;
        let ppn = self.at as u32 * 64 + self.words[self.at].trailing_zeros();
        self.remove(ppn);
        Some(ppn)
    }

    /// Whether a page is in.
    pub fn contains(&self, ppn: u32) -> bool {
        self.words[ppn as usize / 64] >> (ppn % 64) & 1 == 1
    }

    /// Takes all pages out.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.filled.fill(0);
        self.len = 0;
    }

    /// Members.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_out_once() {
        let mut set = PageSet::new(200);
        for ppn in [3, 199, 64, 3, 128] {
            set.insert(ppn);
        }
        assert!(set.remove(64) && !set.remove(64));
        let out: Vec<_> = std::iter::from_fn(|| set.pop()).collect();
        assert_eq!((out, set.len()), (vec![3, 128, 199], 0));
    }

    #[test]
    fn the_set_is_a_set_and_takes_turns() {
        let mut random = onefold_block::SplitMix64::new(2);
        let (mut set, mut naive) = (PageSet::new(20_000), std::collections::BTreeSet::new());
        for _ in 0..50_000 {
            let ppn = random.below(20_000) as u32;
            match random.below(5) {
                0 | 1 => {
                    set.insert(ppn);
                    naive.insert(ppn);
                }
                2 => assert_eq!(set.remove(ppn), naive.remove(&ppn)),
                _ => match set.pop() {
                    Some(out) => assert!(naive.remove(&out)),
                    None => assert!(naive.is_empty()),
                },
            }
            assert_eq!((set.len(), set.contains(ppn)), (naive.len() as u64, naive.contains(&ppn)));
        }
    }

    #[test]
    fn the_rest_of_a_group_of_words_comes_before_the_others() {
        let mut set = PageSet::new(3 * 64 * 64);
        let word = |number: u32| number * 64 + 7;
        set.insert(word(64));
        assert_eq!(set.pop(), Some(word(64)));
        [0, 2, 66, 130].into_iter().map(word).for_each(|page| set.insert(page));
        let out: Vec<u32> = std::iter::from_fn(|| set.pop()).collect();
        assert_eq!(out, [66, 130, 0, 2].map(word));
    }

    #[test]
    fn a_set_that_was_cleared_begins_anew() {
        let mut set = PageSet::new(5000);
        for ppn in [3, 70, 4999] {
            set.insert(ppn);
        }
        set.clear();
        assert_eq!((set.len(), set.pop(), set.contains(70)), (0, None, false));
        set.insert(4098);
        assert_eq!((set.pop(), set.pop()), (Some(4098), None));
        assert_eq!([1, 64, 65].map(|pages| PageSet::new(pages).bytes()), [8, 8, 16]);
    }
}
