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
        let mut view = View {
            geometry: &self.geometry,
            owners: &self.owners,
            map: &self.map,
            shared: &self.shared,
            driver: d,
            foreground: false,
        };
        match self.policy.next_offline(&mut view) {
            None => return Ok(false),
            Some(Offline::Scan { ppn }) => {
                let page = self.nand.read(ppn)?;
                self.issue(d, OpKind::Read, Cause::Dedup, ppn, false);
                let mut view = View {
                    geometry: &self.geometry,
                    owners: &self.owners,
                    map: &self.map,
                    shared: &self.shared,
                    driver: d,
                    foreground: false,
                };
                self.policy.scanned(ppn, &page, &mut view);
            }
            Some(Offline::ReadTag { ppn }) => {
                let tag = self.nand.read_oob(ppn)?.tag;
                self.issue(d, OpKind::Read, Cause::Dedup, ppn, false);
                self.policy.tag_read(ppn, tag);
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
        match (self.owners.get(pair.duplicate), self.owners.get(original)) {
            (Owner::Data(lpn), Owner::Data(_) | Owner::Shared(_)) => self.point_to(lpn, original),
            (Owner::Shared(vpn), Owner::Data(lpn)) => self.join(lpn, vpn, original, pair.duplicate),
            (Owner::Shared(from), Owner::Shared(into)) => self.unite(from, into),
            (Owner::None | Owner::Meta(_), _) | (_, Owner::None | Owner::Meta(_)) => return false,
        }
        self.counters.offline_pages += 1;
        true
    }

    /// The only logical page of `original` joins the virtual page of the duplicate, which from now
    /// on is at `original`.
    fn join(&mut self, lpn: u32, vpn: u32, original: u32, duplicate: u32) {
        self.shared.acquire(vpn);
        self.map.replace(lpn, Place::Virtual(vpn));
        self.shared.relocate(vpn, original);
        self.owners.set(original, Owner::Shared(vpn));
        self.drop_page(duplicate);
    }

    /// Every logical page of one virtual page goes over to another one. There is no list of them,
    /// so the whole map is searched until all are found.
    fn unite(&mut self, from: u32, into: u32) {
        let mut left = self.shared.references(from);
        let mut lpn = 0;
        while left > 0 {
            if self.map.get(lpn) == Place::Virtual(from) {
                self.shared.acquire(into);
                let old = self.map.replace(lpn, Place::Virtual(into));
                self.release(old);
                left -= 1;
            }
            lpn += 1;
        }
    }
}
