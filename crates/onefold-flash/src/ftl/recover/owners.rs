//! Whose each page is, who shares, and what the policy is told of it.
//! Room: onefold-flash.   In: the map.   Out: owners, references, live pages of blocks.
//! Invariants: an entry of data that is not there is dropped and counted.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::map::{Owner, Place};
use crate::ftl::recover::scan::Scan;
use crate::nand::{Nand, NandError, PageKey};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Rebuilds the reverse map and the reference counts. Entries of data that is not there are
    /// dropped and counted.
    pub(super) fn restore_owners(
        &mut self,
        stored: &[u32],
        scan: &mut Scan,
    ) -> Result<(), FtlError> {
        let mut names = vec![0_u32; stored.len()];
        for lpn in 0..self.books.logical_pages() {
            if let Place::Virtual(vpn) = self.books.entry(lpn) {
                match names.get_mut(vpn as usize) {
                    Some(count) => *count += 1,
                    None => self.lose_entry(lpn, scan),
                }
            }
        }
        let mut gone = vec![false; stored.len()];
        for vpn in self.books.restore_virtual(stored, &names) {
            gone[vpn as usize] = true;
        }
        for vpn in 0..self.books.shared().len() {
            let shared = self.books.shared();
            let live = shared.references(vpn) > 0;
            if !live || gone[vpn as usize] || shared.alias_of(vpn).is_some() {
                continue;
            }
            let ppn = shared.ppn(vpn);
            if !self.settle_found(ppn, Owner::Shared(vpn), scan)? {
                gone[vpn as usize] = true;
            }
        }
        for lpn in 0..self.books.logical_pages() {
            match self.books.entry(lpn) {
                Place::Own(ppn) => {
                    if !self.settle_found(ppn, Owner::Data(lpn), scan)? {
                        self.lose_entry(lpn, scan);
                    }
                }
                Place::Virtual(vpn) if !gone[self.books.shared().resolve(vpn) as usize] => {}
                Place::None | Place::Lost => {}
                Place::Virtual(vpn) => {
                    self.lose_entry(lpn, scan);
                    // Where that was has no owner: it is what is gone.
                    self.books.release(vpn);
                }
            }
        }
        let own: Vec<_> = self.own.all().collect();
        for (slot, place) in own {
            self.settle(place, Owner::Meta(slot));
        }
        Ok(())
    }

    /// What is at a place has an owner, if there is anything and nobody else has it.
    fn settle_found(
        &mut self,
        place: u32,
        owner: Owner,
        scan: &mut Scan,
    ) -> Result<bool, FtlError> {
        if !self.is_there(place, scan) || self.books.is_live(place) {
            return Ok(false);
        }
        let Some((len, gap)) = self.part_at(place, scan)? else { return Ok(false) };
        self.settle_part(place, owner, len, gap);
        Ok(true)
    }

    fn lose_entry(&mut self, lpn: u32, scan: &mut Scan) {
        scan.report.lost_entries += 1;
        // With a journal everything that an entry names is durable before the entry: what is
        // not there was damaged, and must not read as never written.
        let left = if self.journal.is_on() { Place::Lost } else { Place::None };
        self.books.set(lpn, left, scan.seq_max);
    }

    /// Whether a page was programmed, as far as the scan knows.
    fn is_there(&self, ppn: u32, scan: &Scan) -> bool {
        let Some(seen) = scan.seen.get(self.layout.block_of(ppn) as usize) else { return false };
        let page =
            self.layout.page_of(ppn) - self.layout.geometry().first_page(self.layout.block_of(ppn));
        !seen.own && (!seen.scanned || (seen.first.is_some() && page < seen.written))
    }

    /// Tells the policy of every live page and its tag, but for those that the host wants kept.
    pub(super) fn tell_policy(&mut self) -> Result<(), FtlError> {
        for ppn in 0..self.layout.geometry().pages() {
            let owner = self.books.owner(ppn);
            if !matches!(owner, Owner::Data(_) | Owner::Shared(_)) {
                continue;
            }
            match self.nand.read_oob(ppn) {
                Ok(oob) if !matches!(oob.key, PageKey::Kept(_)) => {
                    self.policy.recovered(ppn, oob.tag);
                    continue;
                }
                // If nobody knows what the host wanted, a page too many is better than a copy lost.
                Ok(_) | Err(NandError::Uncorrectable { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if let Owner::Data(lpn) = owner {
                self.books.keep(ppn, lpn);
            }
        }
        Ok(())
    }

    /// The same where flash pages were looked into already.
    pub(super) fn tell_policy_of_parts(&mut self, scan: &Scan) {
        for (&ppn, parts) in &scan.parts {
            let first = ppn * self.layout.subpages();
            for place in first..first + self.layout.subpages() {
                let owner = self.books.owner(place);
                let part = parts.iter().find(|part| first + part.start == place);
                match (owner, part.and_then(|part| part.tag)) {
                    (Owner::Data(_) | Owner::Shared(_), Some(tag)) => {
                        self.policy.recovered(place, tag);
                    }
                    // If nobody knows what the host wanted, a page too many is better than a copy
                    // lost.
                    (Owner::Data(lpn), _) => self.books.keep(place, lpn),
                    _ => {}
                }
            }
        }
    }
}
