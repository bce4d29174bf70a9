//! Announcements: what the next requests will change comes into the processor's cache.
//! Room: onefold-flash.
//! Invariants: nothing but time depends on them.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::nand::Nand;

/// Pages that are looked at together by [`Ftl::announce`].
const ANNOUNCED: usize = 32;

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Brings what the next writes or trims will change into the processor's cache; nothing else
    /// happens. On drives whose tables do not fit there, a few dozen announced at a time go
    /// several times as fast, because their cache misses overlap.
    pub fn announce(&self, lpns: &[u32]) {
        for part in lpns.chunks(ANNOUNCED) {
            for &lpn in part {
                self.books.prefetch(lpn);
            }
            let mut dying = [0; ANNOUNCED];
            let mut count = 0;
            for &lpn in part {
                if lpn < self.books.logical_pages()
                    && let Some(ppn) = self.books.own_place(lpn)
                {
                    self.books.prefetch_owner(ppn);
                    self.space.prefetch(ppn);
                    dying[count] = ppn;
                    count += 1;
                }
            }
            self.policy.expect_deaths(&dying[..count]);
        }
    }

    /// The same for writes of which the pages are known.
    pub fn announce_writes(&mut self, writes: &[(u32, N::Page)]) {
        for part in writes.chunks(ANNOUNCED) {
            let mut lpns = [0; ANNOUNCED];
            for (lpn, (of, page)) in lpns.iter_mut().zip(part) {
                *lpn = *of;
                self.policy.expect_write(page);
            }
            self.announce(&lpns[..part.len()]);
        }
    }

    /// The page that holds a logical one is about to die.
    #[inline]
    pub(super) fn expect_death(&self, lpn: u32) {
        if let Some(ppn) = self.books.own_place(lpn) {
            self.books.prefetch_owner(ppn);
            self.space.prefetch(ppn);
            self.policy.expect_deaths(&[ppn]);
        }
    }
}
