//! What the array holds, as far as it must be looked at.
//! Room: onefold-flash.   In: out-of-band areas.   Out: the FTL's own pages, and what to replay.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::journal::Record;
use crate::nand::{Nand, NandError, Oob, PageKey};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The sequence that the checkpoint holds.
    pub checkpoint_seq: u64,
    /// Out-of-band areas read.
    pub pages_scanned: u64,
    /// Programmed pages and journal records replayed.
    pub replayed: u64,
    /// Entries of logical pages whose data is not there. Always 0 but for a drive without journal.
    pub lost_entries: u64,
    /// Blocks erased again because their erase, or their only program, was interrupted.
    pub blocks_erased: u32,
}

/// One change to replay.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Data { lpn: u32, ppn: u32 },
    Shared { vpn: u32, ppn: u32 },
    Record(Record),
}

/// What one flash page holds of the host, by sub-page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub start: u32,
    pub len: u32,
    pub gap: u32,
    /// What a policy is told of it; nothing of what the host wants kept.
    pub tag: Option<u64>,
}

impl Part {
    /// What begins at a sub-page, with nothing behind it.
    fn new(start: u32, len: u32, (key, tag): (PageKey, u64)) -> Self {
        let kept = matches!(key, PageKey::Kept(_));
        Self { start, len, gap: 0, tag: (!kept).then_some(tag) }
    }
}

/// A page of the FTL's own that was found. Its place is that of its first sub-page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub ppn: u32,
    pub oob: Oob,
}

/// What is known of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Sequence of the first readable page.
    pub first: Option<u64>,
    pub own: bool,
    pub scanned: bool,
    pub written: u32,
    pub last_seq: u64,
}

/// What the array holds, as far as it was looked at.
pub(super) struct Scan {
    pub seen: Vec<Seen>,
    pub meta: Vec<Found>,
    pub events: Vec<(u64, Event)>,
    /// Mapping pages that cannot be read.
    pub lost_segments: Vec<u32>,
    /// Packed pages that cannot be read, with their sequence.
    pub unreadable: Vec<(u64, u32)>,
    /// What flash pages that were looked at hold, where pages are packed.
    pub parts: BTreeMap<u32, Vec<Part>>,
    pub seq_max: u64,
    pub report: Recovered,
}

impl Scan {
    /// Nothing has been looked at yet, of so many blocks.
    pub fn new(blocks: u32) -> Self {
        Self {
            seen: vec![Seen::default(); blocks as usize],
            meta: Vec::new(),
            events: Vec::new(),
            lost_segments: Vec::new(),
            unreadable: Vec::new(),
            parts: BTreeMap::new(),
            seq_max: 0,
            report: Recovered::default(),
        }
    }

    /// The root of the newest checkpoint.
    pub fn newest_root(&self) -> Option<Found> {
        let roots = self.meta.iter().filter(|found| matches!(found.oob.key, PageKey::Root(_)));
        roots.max_by_key(|found| (found.oob.seed, found.oob.seq)).copied()
    }

    /// A page of the block states of the checkpoint up to a sequence number.
    pub fn newest_states(&self, index: u32, seq: u64) -> Option<Found> {
        let states = self
            .meta
            .iter()
            .filter(|found| found.oob.key == PageKey::Directory(index) && found.oob.seed == seq);
        states.max_by_key(|found| found.oob.seq).copied()
    }

    /// Pages of the journal that were found.
    pub fn journal(&self) -> impl Iterator<Item = &Found> {
        self.meta.iter().filter(|found| matches!(found.oob.key, PageKey::Journal(_)))
    }

    /// Those of them with records after a sequence number, in order.
    pub fn journal_after(&self, seq: u64) -> Vec<Found> {
        let mut pages: Vec<Found> =
            self.journal().filter(|found| found.oob.seed > seq).copied().collect();
        pages.sort_by_key(|found| (found.oob.seed, found.oob.seq));
        pages
    }

    /// What to replay, in order; nothing is left.
    pub fn take_events(&mut self) -> Vec<(u64, Event)> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_unstable_by_key(|&(seq, _)| seq);
        events
    }
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// The out-of-band area of a page; `None` if the page cannot be read.
    fn oob(&mut self, ppn: u32, scan: &mut Scan) -> Result<Option<Oob>, NandError> {
        scan.report.pages_scanned += 1;
        match self.nand.read_oob(ppn) {
            Ok(oob) => {
                scan.seq_max = scan.seq_max.max(oob.seq);
                Ok(Some(oob))
            }
            Err(NandError::Uncorrectable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn look_at_first(&mut self, block: u32, scan: &mut Scan) -> Result<(), FtlError> {
        let first = self.layout.geometry().first_page(block);
        match self.oob(first, scan) {
            Err(NandError::Erased { .. }) => {
                scan.seen[block as usize].scanned = true;
                Ok(())
            }
            Ok(Some(oob)) => {
                let own = !oob.key.is_data();
                let seen = &mut scan.seen[block as usize];
                (seen.first, seen.own) = (Some(oob.seq), own);
                if own { self.scan_block(block, scan) } else { Ok(()) }
            }
            Ok(None) => self.scan_block(block, scan),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at every page of a block.
    pub(super) fn scan_block(&mut self, block: u32, scan: &mut Scan) -> Result<(), FtlError> {
        scan.seen[block as usize].scanned = true;
        let first = self.layout.geometry().first_page(block);
        for ppn in first..first + self.layout.geometry().pages_per_block {
            let oob = match self.oob(ppn, scan) {
                Err(NandError::Erased { .. }) => break,
                Err(error) => return Err(error.into()),
                Ok(oob) => oob,
            };
            let seen = &mut scan.seen[block as usize];
            seen.written = ppn - first + 1;
            let Some(oob) = oob else { continue };
            let place = ppn * self.layout.subpages();
            let data = oob.key.is_data();
            seen.own |= seen.first.is_none() && !data;
            seen.first = seen.first.or(Some(oob.seq));
            seen.last_seq = oob.seq;
            match oob.key {
                PageKey::Data(lpn) | PageKey::Kept(lpn) => {
                    scan.events.push((oob.seq, Event::Data { lpn, ppn: place }));
                }
                PageKey::Shared(vpn) => {
                    scan.events.push((oob.seq, Event::Shared { vpn, ppn: place }));
                }
                PageKey::Packed(_) => self.look_into(ppn, oob.seq, scan)?,
                _ => scan.meta.push(Found { ppn: place, oob }),
            }
        }
        Ok(())
    }

    /// What a packed page holds is replayed.
    fn look_into(&mut self, ppn: u32, seq: u64, scan: &mut Scan) -> Result<(), FtlError> {
        let fragments = match self.nand.read_packed(ppn) {
            Ok(fragments) => fragments,
            Err(NandError::Uncorrectable { .. }) => {
                scan.unreadable.push((seq, ppn));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let mut place = ppn * self.layout.subpages();
        for fragment in &fragments {
            let event = match fragment.key {
                PageKey::Data(lpn) | PageKey::Kept(lpn) => Event::Data { lpn, ppn: place },
                PageKey::Shared(vpn) => Event::Shared { vpn, ppn: place },
                _ => continue,
            };
            scan.events.push((seq, event));
            place += fragment.subpages;
        }
        Ok(())
    }

    /// How many sub-pages what begins at a place takes, and the gap behind it.
    pub(super) fn part_at(
        &mut self,
        place: u32,
        scan: &mut Scan,
    ) -> Result<Option<(u32, u32)>, FtlError> {
        let subpages = self.layout.subpages();
        if subpages == 1 {
            return Ok(Some((1, 0)));
        }
        let (ppn, start) = (self.layout.page_of(place), place % subpages);
        let parts = match scan.parts.entry(ppn) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(match self.parts_of(ppn) {
                Ok(parts) => parts,
                Err(NandError::Uncorrectable { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            }),
        };
        if parts.is_empty() {
            // It cannot be read, which its reader will be told. A policy is told nothing of it.
            return Ok(Some((1, 0)));
        }
        Ok(parts.iter().find(|part| part.start == start).map(|part| (part.len, part.gap)))
    }

    fn parts_of(&mut self, ppn: u32) -> Result<Vec<Part>, NandError> {
        let (oob, subpages) = (self.nand.read_oob(ppn)?, self.layout.subpages());
        if !matches!(oob.key, PageKey::Packed(_)) {
            return Ok(vec![Part::new(0, subpages, (oob.key, oob.tag))]);
        }
        let mut start = 0;
        let mut parts = Vec::new();
        for fragment in self.nand.read_packed(ppn)? {
            parts.push(Part::new(start, fragment.subpages, (fragment.key, fragment.tag)));
            start += fragment.subpages;
        }
        if let Some(last) = parts.last_mut() {
            last.gap = self.layout.gap_behind(start);
        }
        Ok(parts)
    }

    /// The bytes of one of the FTL's own pages; `None` if they cannot be read.
    pub(super) fn own_page(&mut self, ppn: u32) -> Result<Option<Vec<u8>>, NandError> {
        match self.nand.read_meta(self.layout.page_of(ppn)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(NandError::Uncorrectable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
