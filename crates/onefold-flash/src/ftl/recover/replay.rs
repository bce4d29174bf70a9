//! What happened after the newest mapping pages, in the order of the sequence.
//! Room: onefold-flash.   In: pages and records with their sequence.   Out: the map as it was.
//! Invariants: an event changes only segments that are older than it.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::journal::{self, Record};
use crate::ftl::map::Place;
use crate::ftl::recover::restored::Restored;
use crate::ftl::recover::scan::{Event, Found, Scan};
use crate::ftl::root::Root;
use crate::ftl::shared;
use crate::nand::Nand;

/// A page of the journal, with its records.
type JournalPage = (Found, Vec<(u64, Record)>);

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Replays pages and records on top of the segments that are older.
    pub(super) fn replay(
        &mut self,
        root: &Root,
        restored: &mut Restored,
        scan: &mut Scan,
    ) -> Result<(), FtlError> {
        for (found, records) in self.journal_pages(root, scan)? {
            scan.events.extend(records.into_iter().map(|(seq, r)| (seq, Event::Record(r))));
            let slot = self.own.add();
            self.own.put(slot, found.ppn);
            self.journal.found(slot, found.oob.seed);
        }
        // Whose newer content it held is not known.
        if let Some((seq, ppn)) = scan.unreadable.iter().find(|(seq, _)| *seq > root.seq) {
            return Err(FtlError::Unrecoverable(format!(
                "page {ppn}, with compressed pages written at sequence {seq}, is damaged"
            )));
        }
        for &segment in &scan.lost_segments {
            self.books.segments_mut().change(segment, restored.since[segment as usize]);
        }
        for (seq, event) in scan.take_events() {
            scan.seq_max = scan.seq_max.max(seq);
            scan.report.replayed += u64::from(self.apply(seq, event, restored));
        }
        Ok(())
    }

    /// Pages of the journal after the root, with their records, in order. A page whose records are
    /// in another one counts for nothing, readable or not: one that was not full is repeated, and
    /// one that collection moved is there twice if the power went before the first was erased.
    fn journal_pages(&mut self, root: &Root, scan: &Scan) -> Result<Vec<JournalPage>, FtlError> {
        let mut kept: Vec<JournalPage> = Vec::new();
        let mut damaged: Option<Found> = None;
        for found in scan.journal_after(root.seq) {
            let Some(bytes) = self.own_page(found.ppn)? else {
                let twin = kept.last().is_some_and(|(kept, _)| kept.oob.seed == found.oob.seed);
                if !twin {
                    damaged.get_or_insert(found);
                }
                continue;
            };
            let records = journal::decode(&bytes);
            let first = records.first().map_or(found.oob.seed, |&(seq, _)| seq);
            while kept.pop_if(|(before, _)| before.oob.seed >= first).is_some() {}
            damaged = damaged.filter(|before| before.oob.seed < first);
            kept.push((found, records));
        }
        let Some(found) = damaged else { return Ok(kept) };
        Err(FtlError::Unrecoverable(format!(
            "page {} of the journal, with what was trimmed and shared up to sequence {}, is \
             damaged",
            self.layout.page_of(found.ppn),
            found.oob.seed
        )))
    }

    fn apply(&mut self, seq: u64, event: Event, restored: &mut Restored) -> bool {
        match event {
            Event::Data { lpn, ppn } => self.apply_place(seq, lpn, Place::Own(ppn), restored),
            Event::Shared { vpn, ppn } => self.apply_virtual(seq, vpn, ppn, restored),
            Event::Record(Record::Trim { lpn, count }) => {
                let end = lpn.saturating_add(count).min(self.books.logical_pages());
                let trimmed =
                    (lpn..end).filter(|&lpn| self.apply_place(seq, lpn, Place::None, restored));
                trimmed.count() > 0
            }
            Event::Record(Record::Bind { lpn, vpn, ppn }) => {
                let bound = self.apply_place(seq, lpn, Place::Virtual(vpn), restored);
                self.apply_virtual(seq, vpn, ppn, restored) || bound
            }
            Event::Record(Record::Alias { vpn, of, ppn }) => {
                let aliased = self.apply_virtual(seq, vpn, shared::stored_alias(of), restored);
                self.apply_virtual(seq, of, ppn, restored) || aliased
            }
        }
    }

    fn apply_place(&mut self, seq: u64, lpn: u32, place: Place, restored: &Restored) -> bool {
        let segment = self.own.slots().of(lpn);
        let newer = lpn < self.books.logical_pages() && seq > restored.since[segment as usize];
        if newer {
            self.books.set(lpn, place, seq);
        }
        newer
    }

    fn apply_virtual(&mut self, seq: u64, vpn: u32, to: u32, restored: &mut Restored) -> bool {
        let slots = self.own.slots();
        let segment = slots.of_virtual(vpn);
        let newer = segment < slots.segments && seq > restored.since[segment as usize];
        if newer {
            let stored = &mut restored.virtual_pages;
            stored.resize(stored.len().max(vpn as usize + 1), shared::UNUSED);
            stored[vpn as usize] = to;
            self.books.segments_mut().change(segment, seq);
        }
        newer
    }
}
