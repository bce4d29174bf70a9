//! Several logical pages on one physical page, inline and in idle moments.
//! Room: onefold-flash.   In: a `Verified` page.   Out: map changes.

use crate::dedup::{Offline, Pair, Policy, Verified};
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::journal::Record;
use crate::ftl::map::Owner;
use crate::ftl::view::view;
use crate::ftl::written::Written;
use crate::nand::{Nand, NandError, fragment_at};
use crate::op::{Cause, Driver, OpKind, Work};

/// What was read, or nothing of a page that is damaged: nobody asked for it.
fn readable<T>(read: Result<T, NandError>) -> Result<Option<T>, NandError> {
    match read {
        Ok(page) => Ok(Some(page)),
        Err(NandError::Uncorrectable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    pub(super) fn share_written(
        &mut self,
        lpn: u32,
        ppn: u32,
        d: &mut impl Driver,
    ) -> Result<Written, FtlError> {
        self.point_to(lpn, ppn, true, d)?;
        self.forget_waiting(lpn);
        // The answer must not come before the only copy is in the flash.
        d.wait_for(self.layout.page_of(ppn));
        self.counters.inline_pages += 1;
        Ok(Written::Shared { ppn })
    }

    /// Makes `lpn` refer to the live page `ppn`, which becomes a shared one if it was not.
    pub(super) fn point_to(
        &mut self,
        lpn: u32,
        ppn: u32,
        foreground: bool,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        self.touch(lpn, foreground, d)?;
        if self.locate(lpn) == Some(ppn) {
            return Ok(());
        }
        let vpn = self.virtual_of(ppn, foreground, d)?;
        self.touch(lpn, foreground, d)?;
        self.log(Record::Bind { lpn, vpn, ppn });
        let old = self.books.refer(lpn, vpn, self.journal.now());
        self.release(old);
        self.settle_journal(d)
    }

    fn virtual_of(
        &mut self,
        ppn: u32,
        foreground: bool,
        d: &mut impl Driver,
    ) -> Result<u32, FtlError> {
        match self.books.owner(ppn) {
            Owner::Shared(vpn) => Ok(vpn),
            Owner::Data(first) => {
                self.touch(first, foreground, d)?;
                let vpn = self.books.new_virtual(ppn);
                self.log(Record::Bind { lpn: first, vpn, ppn });
                self.books.turn_virtual(first, vpn, ppn, self.journal.now());
                self.settle_journal(d)?;
                Ok(vpn)
            }
            Owner::None | Owner::Meta(_) | Owner::Kept(_) => {
                unreachable!("page {ppn} may be shared, or it would not have been compared")
            }
        }
    }

    /// Does the policy's next piece of background work; `false` when there is none left.
    ///
    /// # Errors
    /// [`FtlError::Nand`].
    pub fn deduplicate_step(&mut self, d: &mut impl Driver) -> Result<bool, FtlError> {
        if self.own.is_on() {
            self.make_meta_room(d)?;
        }
        // What waits could not be found by anybody who looks at the flash.
        if self.layout.packs() && self.program_one(d)? {
            return Ok(true);
        }
        let mut view = view!(self, d, false);
        match self.policy.next_offline(&mut view) {
            None => return Ok(false),
            Some(Offline::Scan { ppn }) => {
                let page = readable(self.content(ppn))?;
                self.issue(d, OpKind::Read, Cause::Dedup, ppn, false);
                self.expanded(ppn, false, d);
                if let Some(page) = page {
                    let mut view = view!(self, d, false);
                    self.policy.scanned(ppn, &page, &mut view);
                }
            }
            Some(Offline::ReadTag { ppn }) => {
                let tag = readable(self.tag_of(ppn))?;
                self.issue(d, OpKind::Read, Cause::Dedup, ppn, false);
                if let Some(tag) = tag {
                    self.policy.tag_read(ppn, tag);
                }
            }
            Some(Offline::Compare(pair)) => self.compare_and_merge(pair, d)?,
            Some(Offline::Merge { duplicate, original }) => {
                let merged = self.merge(duplicate, &Verified::by_digest(original), d)?;
                self.policy.settled(Pair { duplicate, original: original.ppn() }, merged);
            }
        }
        Ok(true)
    }

    /// The fingerprint that a policy gave what is at a place.
    #[inline]
    fn tag_of(&mut self, place: u32) -> Result<u64, NandError> {
        if !self.is_fragment(place) {
            let ppn = self.layout.page_of(place);
            return Ok(self.nand.read_oob(ppn)?.tag);
        }
        self.tag_of_fragment(place)
    }

    #[inline(never)]
    fn tag_of_fragment(&mut self, place: u32) -> Result<u64, NandError> {
        let fragments = self.nand.read_packed(self.layout.page_of(place))?;
        let fragment = fragment_at(&fragments, place % self.layout.subpages());
        Ok(fragment.map_or(0, |fragment| fragment.tag))
    }

    pub(super) fn compare_and_merge(
        &mut self,
        pair: Pair,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let mut both = [pair.duplicate, pair.original].into_iter();
        let both_live = both.all(|ppn| self.books.may_be_shared(ppn));
        let merged = if both_live && pair.duplicate != pair.original {
            let duplicate = readable(self.content(pair.duplicate))?;
            let verified = match &duplicate {
                Some(page) => {
                    let read = |at| self.content(at);
                    readable(Verified::by_reading(pair.original, page, read))?.flatten()
                }
                None => None,
            };
            self.issue(d, OpKind::Read, Cause::Dedup, pair.duplicate, false);
            self.issue(d, OpKind::Read, Cause::Dedup, pair.original, false);
            self.expanded(pair.duplicate, false, d);
            self.expanded(pair.original, false, d);
            d.work(Work::Compare, false);
            self.counters.compared_equal += u64::from(verified.is_some());
            self.counters.compared_different += u64::from(verified.is_none());
            match verified {
                Some(verified) => self.merge(pair.duplicate, &verified, d)?,
                None => false,
            }
        } else {
            false
        };
        self.policy.settled(pair, merged);
        Ok(())
    }

    /// Everybody who refers to the duplicate refers to the original from now on.
    fn merge(
        &mut self,
        duplicate: u32,
        verified: &Verified,
        d: &mut impl Driver,
    ) -> Result<bool, FtlError> {
        let original = verified.ppn();
        if duplicate == original {
            return Ok(false);
        }
        match (self.books.owner(duplicate), self.books.owner(original)) {
            (Owner::Data(lpn), Owner::Data(_) | Owner::Shared(_)) => {
                self.point_to(lpn, original, false, d)?;
            }
            (Owner::Shared(vpn), Owner::Data(lpn)) => {
                self.join(lpn, vpn, duplicate, original, d)?;
            }
            (Owner::Shared(from), Owner::Shared(into)) => {
                self.unite(from, into, duplicate, original, d)?;
            }
            _ => return Ok(false),
        }
        self.counters.offline_pages += 1;
        Ok(true)
    }

    /// The only logical page of `original` joins the virtual page of the duplicate, which from now
    /// on is at `original`.
    fn join(
        &mut self,
        lpn: u32,
        vpn: u32,
        duplicate: u32,
        original: u32,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        self.touch(lpn, false, d)?;
        self.log(Record::Bind { lpn, vpn, ppn: original });
        self.books.refer(lpn, vpn, self.journal.now());
        self.books.take_over(vpn, original, self.journal.now());
        self.drop_page(duplicate);
        self.settle_journal(d)
    }

    /// Two shared pages of one content become one: the virtual page with fewer references is an
    /// alias of the other one from now on, as nobody knows the logical pages that name it.
    fn unite(
        &mut self,
        from: u32,
        into: u32,
        duplicate: u32,
        original: u32,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let references = |vpn| self.books.shared().references(vpn);
        let fewer = references(from) <= references(into);
        let (vpn, of) = if fewer { (from, into) } else { (into, from) };
        self.log(Record::Alias { vpn, of, ppn: original });
        self.books.unite(vpn, of, original, self.journal.now());
        self.drop_page(duplicate);
        self.settle_journal(d)
    }
}
