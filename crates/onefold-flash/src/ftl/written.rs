//! What became of a written page.
//! Room: onefold-flash.

/// What became of a written page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was programmed here.
    Programmed {
        /// The page.
        ppn: u32,
    },
    /// It shares this page.
    Shared {
        /// The page.
        ppn: u32,
    },
    /// It was compressed, and waits for others to fill a flash page with.
    Waits,
    /// It holds the same as one that waits.
    SharesWaiting,
}

impl Written {
    /// Whether it needs no place of its own, because the same is stored or about to be.
    #[inline]
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Shared { .. } | Self::SharesWaiting)
    }
}
