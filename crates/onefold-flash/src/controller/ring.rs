//! A queue whose length is a power of two, so that its ends are found without a division or a
//! choice.
//! Room: onefold-flash.

/// A queue of small things.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    items: Vec<T>,
    begin: usize,
    len: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { items: Vec::new(), begin: 0, len: 0 }
    }
}

impl<T: Copy> Ring<T> {
    /// How many there are.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds one behind the others.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        if self.len == self.items.len() {
            self.grow(item);
        }
        let at = self.place(self.len);
        self.items[at] = item;
        self.len += 1;
    }

    /// The first.
    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        if self.len == 0 { None } else { Some(&self.items[self.place(0)]) }
    }

    /// Drops the first, which there must be.
    #[inline]
    pub(crate) const fn drop_first(&mut self) {
        debug_assert!(self.len > 0, "there is a first one");
        self.begin = self.place(1);
        self.len -= 1;
    }

    /// All, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|at| &self.items[self.place(at)])
    }

    /// The first one for which this holds.
    pub(crate) fn find(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let at = self.iter().position(is)?;
        let place = self.place(at);
        Some(&mut self.items[place])
    }

    #[inline]
    const fn place(&self, at: usize) -> usize {
        (self.begin + at) & (self.items.len() - 1)
    }

    #[cold]
    fn grow(&mut self, fill: T) {
        self.items.rotate_left(self.begin);
        self.begin = 0;
        self.items.resize((2 * self.len).max(4), fill);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use onefold_block::SplitMix64;

    use super::*;

    #[test]
    fn it_holds_what_a_queue_of_the_library_holds() {
        let (mut random, mut next) = (SplitMix64::new(1), 0);
        let (mut ring, mut want) = (Ring::default(), VecDeque::new());
        for step in 0..4000 {
            // It fills and empties in turn.
            if random.below(10) < if step % 400 < 200 { 7 } else { 3 } {
                ring.push(next);
                want.push_back(next);
                next += 1;
            } else if want.pop_front().is_some() {
                ring.drop_first();
            }
            assert_eq!((ring.len(), ring.first()), (want.len(), want.front()));
            assert_eq!(ring.is_empty(), want.is_empty());
            assert!(ring.iter().eq(&want));
            let sought = random.below(next.max(1));
            let is = |item: &u64| item % 7 == sought % 7;
            assert_eq!(ring.find(is), want.iter_mut().find(|item| is(item)));
        }
        assert!(next > 1000);
    }
}
