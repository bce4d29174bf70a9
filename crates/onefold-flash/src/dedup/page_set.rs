//! A set of pages, one bit each, that hands its members out in turn.
//! Room: onefold-flash.

/// The set.
#[derive(Clone, Debug)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    len: u64,
    /// The word that the last member handed out was in.
    at: usize,
}

impl PageSet {
    /// An empty set of pages below `pages`.
    pub fn new(pages: u32) -> Self {
        Self { words: vec![0; pages.div_ceil(64) as usize], len: 0, at: 0 }
    }

    /// Adds a page.
    pub fn insert(&mut self, ppn: u32) {
        let (word, bit) = (&mut self.words[ppn as usize / 64], 1 << (ppn % 64));
        self.len += u64::from(*word & bit == 0);
        *word |= bit;
    }

    /// Takes a page out; whether it was in.
    pub fn remove(&mut self, ppn: u32) -> bool {
        let (word, bit) = (&mut self.words[ppn as usize / 64], 1 << (ppn % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        self.len -= u64::from(was);
        was
    }

    /// Takes out the next page in turn.
    pub fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        loop {
            let word = &mut self.words[self.at];
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                self.len -= 1;
                return Some(self.at as u32 * 64 + bit);
            }
            self.at = (self.at + 1) % self.words.len();
        }
    }

    /// Whether a page is in.
    pub fn contains(&self, ppn: u32) -> bool {
        self.words[ppn as usize / 64] >> (ppn % 64) & 1 == 1
    }

    /// Takes all pages out.
    pub fn clear(&mut self) {
        self.words.fill(0);
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
        let mut out: Vec<_> = std::iter::from_fn(|| set.pop()).collect();
        out.sort_unstable();
        assert_eq!((out, set.len()), (vec![3, 128, 199], 0));
    }
}
