//! Several logical pages on one physical page, inline and in idle moments.
//! Room: onefold-flash.   In: a `Verified` page.   Out: map changes.

use crate::dedup::{Offline, Pair, Policy, Verified};
use crate::ftl::map::{Owner, Place};
use crate::ftl::write::Written;
use crate::ftl::{Ftl, FtlError, View};
use crate::nand::Nand;
use crate::op::{Cause, Driver, OpKind, Work};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    pub(super) fn share_written(&mut self, lpn: u32, verified: &Verified) -> Written {
        self.counters.inline_pages += 1;
        let ppn = verified.ppn();
        self.point_to(lpn, ppn);
        Written::Shared { ppn }
    }

    /// Makes `lpn` refer to the live page `ppn`, which becomes a shared one if it was not.
    fn point_to(&mut self, lpn: u32, ppn: u32) {
        if self.locate(lpn) == Some(ppn) {
            return;
        }
        let vpn = self.virtual_of(ppn);
        self.shared.acquire(vpn);
        let old = self.map.replace(lpn, Place::Virtual(vpn));
        self.release(old);
    }

    fn virtual_of(&mut self, ppn: u32) -> u32 {
        match self.owners.get(ppn) {
            Owner::Shared(vpn) => vpn,
            Owner::Data(first) => {
                let vpn = self.shared.allocate(ppn);
                self.shared.acquire(vpn);
                self.map.replace(first, Place::Virtual(vpn));
                self.owners.set(ppn, Owner::Shared(vpn));
                vpn
            }
            Owner::None | Owner::Meta(_) => unreachable!("page {ppn} was verified, so it is data"),
        }
    }

    /// Does the policy's next piece of background work; `false` when there is none left.
    ///
    /// # Errors
    /// [`FtlError::Nand`].
    pub fn deduplicate_step(&mut self, d: &mut impl Driver) -> Result<bool, FtlError> {
        let view = View { geometry: &self.geometry, owners: &self.owners, driver: &*d };
        match self.policy.next_offline(&view) {
            None => return Ok(false),
            Some(Offline::Scan { ppn }) => {
                let page = self.nand.read(ppn)?;
                self.issue(d, OpKind::Read, Cause::Dedup, ppn, false);
                d.work(Work::Hash, false);
                self.policy.scanned(ppn, &page);
            }
            Some(Offline::Compare(pair)) => self.compare_and_merge(pair, d)?,
            Some(Offline::Merge(pair)) => {
                let merged = self.merge(pair, &Verified::by_strong_hash(pair.original));
                self.policy.settled(pair, merged);
            }
        }
        Ok(true)
    }

    fn compare_and_merge(&mut self, pair: Pair, d: &mut impl Driver) -> Result<(), FtlError> {
        let both_live = self.owners.is_live(pair.duplicate) && self.owners.is_live(pair.original);
        let merged = if both_live && pair.duplicate != pair.original {
            let duplicate = self.nand.read(pair.duplicate)?;
            let original = self.nand.read(pair.original)?;
            self.issue(d, OpKind::Read, Cause::Dedup, pair.duplicate, false);
            self.issue(d, OpKind::Read, Cause::Dedup, pair.original, false);
            d.work(Work::Compare, false);
            let verified = Verified::by_comparison(&original, &duplicate, pair.original);
            self.counters.compared_equal += u64::from(verified.is_some());
            self.counters.compared_different += u64::from(verified.is_none());
            verified.is_some_and(|verified| self.merge(pair, &verified))
        } else {
            false
        };
        self.policy.settled(pair, merged);
        Ok(())
    }

    /// Everybody who refers to the duplicate refers to the original from now on.
    fn merge(&mut self, pair: Pair, verified: &Verified) -> bool {
        let original = verified.ppn();
        match self.owners.get(pair.duplicate) {
            Owner::Data(lpn) => self.point_to(lpn, original),
            Owner::Shared(vpn) => self.merge_shared(vpn, pair.duplicate, original),
            Owner::None | Owner::Meta(_) => return false,
        }
        self.counters.offline_pages += 1;
        true
    }

    /// Two shared pages of one content: if the original has a single logical page, that one joins
    /// the duplicate's virtual page; else the virtual page cannot be told apart by reference and
    /// both stay.
    fn merge_shared(&mut self, vpn: u32, duplicate: u32, original: u32) {
        if let Owner::Data(lpn) = self.owners.get(original) {
            self.shared.acquire(vpn);
            self.map.replace(lpn, Place::Virtual(vpn));
            self.shared.relocate(vpn, original);
            self.owners.set(original, Owner::Shared(vpn));
            self.drop_page(duplicate);
        }
    }
}
