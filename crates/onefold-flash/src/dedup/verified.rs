//! The proofs that two pages hold the same, without which nothing is shared.
//! Room: onefold-flash.   In: pages, digests.   Out: [`Verified`].
//! Invariants: a [`Verified`] is made by reading the page and comparing it, or from a
//! [`SameDigest`]; a [`SameDigest`] is made by comparing two whole digests of a hash that nobody
//! can make collide. A page number alone makes neither.

use crate::nand::NandError;

/// A stored page has the same collision-resistant digest as another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SameDigest {
    ppn: u32,
}

impl SameDigest {
    /// The proof for the page at `ppn`, whose digest is `stored`, if that is `digest` as well.
    pub(super) fn of(stored: u128, digest: u128, ppn: u32) -> Option<Self> {
        (stored == digest).then_some(Self { ppn })
    }

    /// The same proof after garbage collection moved a page.
    pub(super) const fn moved(self, from: u32, to: u32) -> Self {
        if self.ppn == from { Self { ppn: to } } else { self }
    }

    /// The stored page.
    pub const fn ppn(&self) -> u32 {
        self.ppn
    }
}

/// The page whose content was found equal to another one's.
#[derive(Debug)]
pub struct Verified {
    ppn: u32,
}

impl Verified {
    /// Reads the page at `ppn`, as `read` does, and compares it; nothing if it holds something
    /// else.
    ///
    /// # Errors
    /// [`NandError`] if it cannot be read.
    pub(crate) fn by_reading<P: PartialEq>(
        ppn: u32,
        page: &P,
        read: impl FnOnce(u32) -> Result<P, NandError>,
    ) -> Result<Option<Self>, NandError> {
        let stored = read(ppn)?;
        Ok((stored == *page).then_some(Self { ppn }))
    }

    /// By equal digests.
    pub(crate) const fn by_digest(same: SameDigest) -> Self {
        Self { ppn: same.ppn }
    }

    /// The page.
    pub const fn ppn(&self) -> u32 {
        self.ppn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::nand::{Identity, IdentityNand, Nand as _, Oob, PageKey, Payload};

    #[test]
    fn only_equal_pages_and_equal_digests_are_proofs() {
        let geometry = Geometry {
            channels: 1,
            packages: 1,
            dies_per_package: 1,
            planes_per_die: 1,
            blocks_per_plane: 2,
            pages_per_block: 4,
            page_bytes: 512,
            oob_bytes: 64,
        };
        let mut nand = IdentityNand::new(geometry);
        let oob = Oob { key: PageKey::Data(0), seq: 1, seed: 0, tag: 0 };
        nand.program(0, Payload::Data(&Identity(7)), &oob).expect("erased");
        let mut compare = |ppn, page| Verified::by_reading(ppn, &page, |at| nand.read(at));
        let same = compare(0, Identity(7)).expect("readable");
        assert_eq!(same.map(|verified| verified.ppn()), Some(0));
        assert!(compare(0, Identity(8)).expect("readable").is_none());
        assert!(compare(1, Identity(7)).is_err(), "nothing is there");
        assert_eq!(SameDigest::of(1, 2, 3), None);
        let same = SameDigest::of(2, 2, 3).expect("the same");
        assert_eq!((same.moved(3, 9).ppn(), same.moved(4, 9).ppn()), (9, 3));
        assert_eq!(Verified::by_digest(same).ppn(), 3);
    }
}
