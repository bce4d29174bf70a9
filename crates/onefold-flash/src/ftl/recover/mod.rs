//! Power is back: the drive as its array remembers it.
//! Room: onefold-flash.   In: an array.   Out: an `Ftl`.
//! Source: checkpoint, journal and out-of-band scan as in [park-shin]'s drive; the rule per segment
//! is ours.
//! Invariants: before the drive is whole again nothing is programmed, and only blocks that hold
//! nothing readable are erased, so that a power cut during recovery changes nothing. Changed
//! mapping pages that do not fit into DRAM are stored then, as at any other time.
//!
//! 1. The first page of every block says whether it holds data or the FTL's own pages; all pages
//!    of the latter are looked at. The root with the highest sequence `S` counts.
//! 2. Each segment comes from its newest readable mapping page.
//! 3. Data blocks are looked at page by page if they were begun after `S`, open at `S`, are bad,
//!    or their first page cannot be read; in all others everything is older than `S`.
//! 4. What those pages and the journal's records say is replayed in the order of the sequence, each
//!    on top of segments that are older.
//! 5. The policy hears of every live page and its tag.

mod owners;
mod replay;
mod restored;
mod scan;

pub use scan::Recovered;

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::journal::{Record, SEQ_MAX};
use crate::ftl::settings::FtlSettings;
use crate::nand::{Nand, NandError};
use crate::op::Untimed;
use scan::{Event, Scan};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Opens the drive that [`Ftl::format`] made, after any power cut.
    ///
    /// # Errors
    /// [`FtlError::Unrecoverable`] if the array holds no drive or one with other settings;
    /// [`FtlError::Settings`]; [`FtlError::Nand`].
    pub fn open(nand: N, policy: P, settings: FtlSettings) -> Result<(Self, Recovered), FtlError> {
        Self::open_with(nand, policy, settings, &[])
    }

    /// The same with records that were not on the flash but are known from elsewhere: all that
    /// followed the newest page of the journal, in order. They are on the flash when this returns.
    pub(crate) fn open_with(
        nand: N,
        policy: P,
        settings: FtlSettings,
        known: &[(u64, Record)],
    ) -> Result<(Self, Recovered), FtlError> {
        let mut ftl = Self::empty(nand, policy, settings)?;
        if !ftl.own.is_on() || !N::KEEPS_META {
            let message = "a volatile drive cannot be opened again".to_owned();
            return Err(FtlError::Unrecoverable(message));
        }
        let blocks = ftl.layout.geometry().blocks();
        let mut scan = Scan::new(blocks);
        for block in 0..blocks {
            ftl.look_at_first(block, &mut scan)?;
        }
        let root = ftl.newest_root(&scan)?;
        scan.report.checkpoint_seq = root.seq;
        let open_then = ftl.restore_states(&root, &scan)?;
        for block in 0..blocks {
            let seen = scan.seen[block as usize];
            let newer = seen.first.is_none_or(|first| first > root.seq);
            let open = open_then[block as usize];
            if !seen.own && !seen.scanned && (newer || open || ftl.nand.is_bad(block)) {
                ftl.scan_block(block, &mut scan)?;
            }
        }
        let mut restored = ftl.restore_segments(&mut scan)?;
        let known = ftl.not_stored(&scan, known);
        scan.events.extend(known.iter().map(|&(seq, record)| (seq, Event::Record(record))));
        ftl.replay(&root, &mut restored, &mut scan)?;
        if scan.seq_max > SEQ_MAX {
            let message = format!("sequence {} is more than a drive ever reaches", scan.seq_max);
            return Err(FtlError::Unrecoverable(message));
        }
        ftl.restore_owners(&restored.virtual_pages, &mut scan)?;
        ftl.restore_blocks(&mut scan)?;
        ftl.journal.resume_at(scan.seq_max + 1);
        ftl.rounds.resume(root.odd);
        ftl.begin_round();
        // Before anything moves: which pages are kept is known from their own fields only.
        if ftl.layout.packs() {
            ftl.tell_policy_of_parts(&scan);
        } else {
            ftl.tell_policy()?;
        }
        ftl.store_known(known)?;
        ftl.shrink_cache(&mut Untimed)?;
        Ok((ftl, scan.report))
    }

    /// Of records that are known from elsewhere, those that no page of the journal holds.
    fn not_stored(&self, scan: &Scan, known: &[(u64, Record)]) -> Vec<(u64, Record)> {
        if !self.journal.is_on() {
            return Vec::new();
        }
        let stored = scan.journal().map(|found| found.oob.seed).max().unwrap_or(0);
        known.iter().copied().filter(|&(seq, _)| seq > stored).collect()
    }

    /// Puts records that were replayed without being on the flash there, before any block goes
    /// whose pages died by them.
    fn store_known(&mut self, known: Vec<(u64, Record)>) -> Result<(), FtlError> {
        let Some(&(last, _)) = known.last() else { return Ok(()) };
        self.journal.distrust();
        self.space.all_need(last);
        let mut known = known.into_iter().peekable();
        while known.peek().is_some() {
            let page = known.by_ref().take(self.journal.records_per_page());
            self.journal.take_over(page.collect());
            self.store_journal(&mut Untimed)?;
        }
        Ok(())
    }

    /// Which blocks are free, full, to be filled on, to be emptied or to be erased again.
    fn restore_blocks(&mut self, scan: &mut Scan) -> Result<(), FtlError> {
        let pages = self.layout.geometry().pages_per_block;
        for block in 0..self.layout.geometry().blocks() {
            let seen = scan.seen[block as usize];
            if self.nand.is_bad(block) {
                self.space.restore_bad(block);
                continue;
            }
            let written = if seen.scanned { seen.written } else { pages };
            if written == 0 {
                continue;
            }
            if seen.first.is_none() {
                self.space.restore_unreadable(block, written);
                self.erase_again(block, scan)?;
                continue;
            }
            let closed_at = seen.last_seq.max(seen.first.unwrap_or(0));
            self.space.restore(block, seen.own, written, closed_at);
        }
        Ok(())
    }

    fn erase_again(&mut self, block: u32, scan: &mut Scan) -> Result<(), FtlError> {
        scan.report.blocks_erased += 1;
        match self.nand.erase(block) {
            Ok(()) => self.space.erased(block),
            Err(NandError::Failed { .. }) => self.space.retire(block),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedup::NoDedup;
    use crate::ftl::settings::Durability;
    use crate::geometry::Geometry;
    use crate::nand::{Identity, IdentityNand};
    use crate::testing::plane::plane;

    /// A power cut may come before they are on the flash, and then they never were.
    #[test]
    fn nothing_is_erased_for_the_room_of_records_by_which_it_may_have_died() {
        let settings = FtlSettings {
            logical_pages: 100,
            durability: Durability::Journal,
            ..FtlSettings::default()
        };
        let nand = IdentityNand::new(Geometry { page_bytes: 128, ..plane(64, 16) });
        let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
        let place = |ftl: &Ftl<_, _>| ftl.locate(0).map(|place| ftl.layout.block_of(place));
        let write = |ftl: &mut Ftl<_, _>, lpn: u32| {
            ftl.write(lpn, &Identity::of_number(lpn.into()), &mut Untimed).expect("writes");
        };
        (0..16).for_each(|lpn| write(&mut ftl, lpn));
        let dead = place(&ftl).expect("written");
        (0..16).for_each(|lpn| write(&mut ftl, lpn));
        ftl.flush(&mut Untimed).expect("flushes");
        assert!(place(&ftl) != Some(dead) && ftl.blocks().is_dead(dead));
        // One free block is left, and the drive's own pages need another one.
        while ftl.blocks().free_of(0) > 1 {
            ftl.space.take_free(0);
        }
        while ftl.space.next_own_place().is_some() {}
        let last = ftl.journal.now() + 1;
        ftl.journal.resume_at(last);
        ftl.store_known(vec![(last, Record::Trim { lpn: 3, count: 1 })]).expect("stored");
        assert!(ftl.journal.is_durable(last));
        assert_eq!((ftl.blocks().erases(dead), ftl.blocks().free_of(0)), (0, 0));
    }
}
