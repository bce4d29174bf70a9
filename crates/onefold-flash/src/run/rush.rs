//! How much a load asks for at once when an idle moment ends.
//! Room: onefold-flash.   In: requests and answers.   Out: pages.
//! The pages that come before the first answer are those that want a unit each. As with the need of
//! free blocks, what is expected rises to a larger rush at once and falls half of the way to a
//! smaller one.

/// The pages that are to be expected, and those that come at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rush {
    expected: u64,
    /// Pages since an idle moment ended, until the first answer.
    coming: Option<u64>,
}

impl Rush {
    /// Nothing is known of the load yet but that it asks for something.
    pub(crate) const fn new() -> Self {
        Self { expected: 1, coming: None }
    }

    /// A request for so many pages comes; whether it ends an idle moment.
    pub(crate) const fn came(&mut self, pages: u32, ends_moment: bool) {
        if ends_moment {
            self.coming = Some(0);
        }
        if let Some(coming) = &mut self.coming {
            *coming += pages as u64;
        }
    }

    /// A request has its answer.
    pub(crate) fn answered(&mut self) {
        if let Some(came) = self.coming.take() {
            self.expected = came.max(u64::midpoint(self.expected, came)).max(1);
        }
    }

    /// Pages to expect at once, at least one.
    pub(crate) const fn pages(&self) -> u64 {
        self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_first_answer_is_a_rush() {
        let mut rush = Rush::new();
        let mut after = |moment: &[u32]| {
            for (at, &pages) in moment.iter().enumerate() {
                rush.came(pages, at == 0);
            }
            rush.answered();
            // What comes later is answered by units that are free again.
            rush.came(100, false);
            rush.answered();
            rush.pages()
        };
        assert_eq!(after(&[1, 4, 2]), 7, "it rises at once");
        assert_eq!([after(&[1]), after(&[1]), after(&[1])], [4, 2, 1], "and falls by half");
        assert_eq!(after(&[0]), 1, "a flush wants no unit; something will");
    }
}
