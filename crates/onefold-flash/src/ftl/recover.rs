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

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::dedup::Policy;
use crate::ftl::blocks::BlockState;
use crate::ftl::checkpoint::{OPEN, Root};
use crate::ftl::journal::{self, JournalPage, Record};
use crate::ftl::map::{NONE, Owner, Place};
use crate::ftl::settings::FtlSettings;
use crate::ftl::shared::{self, VirtualTable};
use crate::ftl::{Ftl, FtlError, STREAMS, Stream};
use crate::nand::{Nand, NandError, Oob, PageKey};
use crate::op::Untimed;

/// Who fills the half-filled blocks that are found: first collection, which frees others.
const RESUMED: [Stream; STREAMS] =
    [Stream::Moved, Stream::Host, Stream::Apart, Stream::MovedHot, Stream::Levelled];

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
enum Event {
    Data { lpn: u32, ppn: u32 },
    Shared { vpn: u32, ppn: u32 },
    Record(Record),
}

/// What one flash page holds of the host, by sub-page.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u32,
    len: u32,
    gap: u32,
    tag: u64,
    kept: bool,
}

/// A page of the FTL's own that was found. Its place is that of its first sub-page.
#[derive(Clone, Copy, Debug)]
struct Found {
    ppn: u32,
    oob: Oob,
}

/// What is known of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Sequence of the first readable page.
    first: Option<u64>,
    own: bool,
    scanned: bool,
    written: u32,
    last_seq: u64,
}

/// What the array holds, as far as it was looked at.
struct Scan {
    seen: Vec<Seen>,
    meta: Vec<Found>,
    events: Vec<(u64, Event)>,
    /// Mapping pages that cannot be read.
    lost_segments: Vec<u32>,
    /// Packed pages that cannot be read, with their sequence.
    unreadable: Vec<(u64, u32)>,
    /// What flash pages that were looked at hold, where pages are packed.
    parts: BTreeMap<u32, Vec<Part>>,
    seq_max: u64,
    report: Recovered,
}

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
        if !ftl.meta.on || !N::KEEPS_META {
            let message = "a volatile drive cannot be opened again".to_owned();
            return Err(FtlError::Unrecoverable(message));
        }
        let blocks = ftl.geometry.blocks();
        let mut scan = Scan {
            seen: vec![Seen::default(); blocks as usize],
            meta: Vec::new(),
            events: Vec::new(),
            lost_segments: Vec::new(),
            unreadable: Vec::new(),
            parts: BTreeMap::new(),
            seq_max: 0,
            report: Recovered::default(),
        };
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
        let stored = ftl.restore_segments(&mut scan)?;
        let known = ftl.not_stored(&scan, known);
        scan.events.extend(known.iter().map(|&(seq, record)| (seq, Event::Record(record))));
        let stored = ftl.replay(&root, stored, &mut scan)?;
        ftl.restore_owners(&stored, &mut scan)?;
        ftl.restore_blocks(&mut scan)?;
        ftl.seq = scan.seq_max + 1;
        ftl.meta.journal.durable = ftl.seq;
        ftl.meta.round.odd = root.odd;
        ftl.begin_round();
        // Before anything moves: which pages are kept is known from their own fields only.
        if ftl.packs() {
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
        if !self.meta.journal.on {
            return Vec::new();
        }
        let stored = scan.meta.iter().filter(|found| is_journal(found));
        let stored = stored.map(|found| found.oob.seed).max().unwrap_or(0);
        known.iter().copied().filter(|&(seq, _)| seq > stored).collect()
    }

    /// Puts records that were replayed without being on the flash there, before any block goes
    /// whose pages died by them.
    fn store_known(&mut self, known: Vec<(u64, Record)>) -> Result<(), FtlError> {
        let Some(&(last, _)) = known.last() else { return Ok(()) };
        self.meta.journal.durable = 0;
        for block in 0..self.geometry.blocks() {
            self.blocks.need(block, last);
        }
        let mut known = known.into_iter().peekable();
        while known.peek().is_some() {
            let page = known.by_ref().take(self.meta.journal.records_per_page);
            self.meta.journal.pending = page.collect();
            self.meta.journal.last = self.meta.journal.pending.last().map_or(last, |&(seq, _)| seq);
            self.store_journal(&mut Untimed)?;
        }
        self.meta.journal.durable = self.seq;
        Ok(())
    }

    /// Records that are not on the flash yet, with their sequence, in order.
    pub(crate) fn pending_records(&self) -> &[(u64, Record)] {
        &self.meta.journal.pending
    }

    /// Records that a page of the journal holds.
    pub(crate) fn records_per_page(&self) -> usize {
        self.meta.journal.records_per_page
    }

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

    fn look_at_first(&mut self, block: u32, scan: &mut Scan) -> Result<(), FtlError> {
        let first = self.geometry.first_page(block);
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
    fn scan_block(&mut self, block: u32, scan: &mut Scan) -> Result<(), FtlError> {
        scan.seen[block as usize].scanned = true;
        let first = self.geometry.first_page(block);
        for ppn in first..first + self.geometry.pages_per_block {
            let oob = match self.oob(ppn, scan) {
                Err(NandError::Erased { .. }) => break,
                Err(error) => return Err(error.into()),
                Ok(oob) => oob,
            };
            let seen = &mut scan.seen[block as usize];
            seen.written = ppn - first + 1;
            let Some(oob) = oob else { continue };
            let place = ppn * self.subpages();
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
        let mut place = ppn * self.subpages();
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

    /// What begins at a place of a flash page: whole pages have one part.
    fn part_at(&mut self, place: u32, scan: &mut Scan) -> Result<Option<Part>, FtlError> {
        let subpages = self.subpages();
        let whole = Part { start: 0, len: subpages, gap: 0, tag: 0, kept: false };
        if subpages == 1 {
            return Ok(Some(whole));
        }
        let (ppn, start) = (self.page_of(place), place % subpages);
        let parts = match scan.parts.entry(ppn) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(match self.parts_of(ppn, whole) {
                Ok(parts) => parts,
                Err(NandError::Uncorrectable { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            }),
        };
        if parts.is_empty() {
            // It cannot be read, which its reader will be told. A policy is told nothing of it.
            return Ok(Some(Part { start, len: 1, gap: 0, tag: 0, kept: true }));
        }
        Ok(parts.iter().find(|part| part.start == start).copied())
    }

    fn parts_of(&mut self, ppn: u32, whole: Part) -> Result<Vec<Part>, NandError> {
        let oob = self.nand.read_oob(ppn)?;
        let kept = |key: PageKey| matches!(key, PageKey::Kept(_));
        if !matches!(oob.key, PageKey::Packed(_)) {
            return Ok(vec![Part { tag: oob.tag, kept: kept(oob.key), ..whole }]);
        }
        let mut start = 0;
        let mut parts = Vec::new();
        for fragment in self.nand.read_packed(ppn)? {
            let (len, tag) = (fragment.subpages, fragment.tag);
            parts.push(Part { start, len, gap: 0, tag, kept: kept(fragment.key) });
            start += len;
        }
        if let Some(last) = parts.last_mut() {
            last.gap = self.gap_behind(start.min(whole.len));
        }
        Ok(parts)
    }

    /// The bytes of one of the FTL's own pages; `None` if they cannot be read.
    fn own_page(&mut self, ppn: u32) -> Result<Option<Vec<u8>>, NandError> {
        match self.nand.read_meta(self.page_of(ppn)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(NandError::Uncorrectable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn newest_root(&mut self, scan: &Scan) -> Result<Root, FtlError> {
        let roots = scan.meta.iter().filter(|found| matches!(found.oob.key, PageKey::Root(_)));
        let newest = roots.max_by_key(|found| (found.oob.seed, found.oob.seq)).copied();
        let Some(found) = newest else {
            let message = "the array holds no drive: no root was found in it".to_owned();
            return Err(FtlError::Unrecoverable(message));
        };
        // An older root would bring back older data.
        let Some(bytes) = self.own_page(found.ppn)? else {
            return Err(FtlError::Unrecoverable(format!(
                "page {} with the root of the newest checkpoint (sequence {}) is damaged",
                self.page_of(found.ppn),
                found.oob.seed
            )));
        };
        let root = Root::decode(&bytes).ok_or_else(|| {
            let page = self.page_of(found.ppn);
            FtlError::Unrecoverable(format!("page {page} is no root, though marked as one"))
        })?;
        let expected = (self.settings.logical_pages, self.geometry.pages());
        if (root.logical_pages, root.pages) != expected {
            return Err(FtlError::Unrecoverable(format!(
                "the drive has {} logical pages of {}, the settings say {} of {}",
                root.logical_pages, root.pages, expected.0, expected.1
            )));
        }
        if root.subpages != self.subpages() {
            return Err(FtlError::Unrecoverable(format!(
                "the drive packs pages into {} sub-pages, the settings say {}",
                root.subpages,
                self.subpages()
            )));
        }
        self.meta.place[self.meta.slots.root() as usize] = found.ppn;
        Ok(root)
    }

    /// Erase counts, which mapping pages there were, and the answer: which blocks were open at the
    /// root's sequence.
    fn restore_states(&mut self, root: &Root, scan: &Scan) -> Result<Vec<bool>, FtlError> {
        let mut words = Vec::new();
        for index in 0..self.meta.slots.states {
            let states = scan.meta.iter().filter(|found| {
                found.oob.key == PageKey::Directory(index) && found.oob.seed == root.seq
            });
            let newest = states.max_by_key(|found| found.oob.seq).copied();
            let Some(found) = newest else {
                let message = format!("page {index} of the block states is missing");
                return Err(FtlError::Unrecoverable(message));
            };
            let slot = self.meta.slots.state(index, root.odd);
            self.meta.place[slot as usize] = found.ppn;
            let Some(bytes) = self.own_page(found.ppn)? else {
                let page = self.page_of(found.ppn);
                let message = format!("page {page} with block states ({index}) is damaged");
                return Err(FtlError::Unrecoverable(message));
            };
            words.extend(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)));
        }
        let blocks = self.geometry.blocks();
        let Some((states, segments)) = words.split_at_checked(blocks as usize) else {
            return Err(FtlError::Unrecoverable("the block states are too short".to_owned()));
        };
        for (block, &state) in (0..blocks).zip(states) {
            self.blocks.restore_erases(block, state & !OPEN);
        }
        for (at, words) in self.meta.stored_at.iter_mut().zip(segments.as_chunks::<2>().0) {
            *at = u64::from(words[0]) | u64::from(words[1]) << 32;
        }
        Ok(states.iter().map(|state| state & OPEN != 0).collect())
    }

    /// Loads the newest mapping pages; the answer is the stored virtual table. A segment's
    /// `dirty_at` is the sequence of its entries until replay has changed it.
    fn restore_segments(&mut self, scan: &mut Scan) -> Result<Vec<u32>, FtlError> {
        let slots = self.meta.slots;
        let mut newest: Vec<Option<Found>> = vec![None; slots.segments as usize];
        for found in &scan.meta {
            if let PageKey::Map(segment) = found.oob.key
                && segment < slots.segments
            {
                let best = &mut newest[segment as usize];
                let age = |found: &Found| (found.oob.seed, found.oob.seq);
                if best.is_none_or(|best| age(&best) < age(found)) {
                    *best = Some(*found);
                }
            }
        }
        let mut stored = Vec::new();
        for segment in 0..slots.segments {
            self.meta.dirty_at[segment as usize] = 0;
            let expected = self.meta.stored_at[segment as usize];
            let found = newest[segment as usize].filter(|found| found.oob.seed >= expected);
            let bytes = match found {
                Some(found) => self.own_page(found.ppn)?,
                None => None,
            };
            let (Some(found), Some(bytes)) = (found, bytes) else {
                // What the page held is gone; what came after it is replayed.
                let held = found.map_or(expected, |found| found.oob.seed);
                if held > 0 && segment < slots.logical {
                    self.map.lose(slots.lpns(segment));
                    scan.report.lost_entries += u64::from(slots.entries);
                }
                self.meta.dirty_at[segment as usize] = held;
                if held > 0 {
                    // Kept until it is stored anew, so that no older page takes its place.
                    self.meta.stored_at[segment as usize] = held;
                    self.meta.place[segment as usize] = found.map_or(NONE, |found| found.ppn);
                    scan.lost_segments.push(segment);
                }
                continue;
            };
            self.meta.stored_at[segment as usize] = found.oob.seed;
            self.meta.place[segment as usize] = found.ppn;
            self.meta.dirty_at[segment as usize] = found.oob.seed;
            if segment < slots.logical {
                self.map.load(slots.lpns(segment), &bytes);
            } else {
                let first = ((segment - slots.logical) * slots.entries) as usize;
                let (words, _) = bytes.as_chunks::<4>();
                stored.resize(stored.len().max(first + words.len()), shared::UNUSED);
                for (entry, &word) in stored[first..].iter_mut().zip(words) {
                    *entry = u32::from_le_bytes(word);
                }
            }
        }
        Ok(stored)
    }

    /// Replays pages and records on top of the segments that are older.
    fn replay(
        &mut self,
        root: &Root,
        mut stored: Vec<u32>,
        scan: &mut Scan,
    ) -> Result<Vec<u32>, FtlError> {
        let mut pages: Vec<Found> = scan.meta.iter().copied().filter(is_journal).collect();
        pages.sort_by_key(|found| (found.oob.seed, found.oob.seq));
        let mut last_kept = 0;
        for found in pages.iter().filter(|found| found.oob.seed > root.seq) {
            // The same page twice: collection moved it and was cut before it erased the first one.
            if found.oob.seed == last_kept {
                continue;
            }
            last_kept = found.oob.seed;
            let Some(bytes) = self.own_page(found.ppn)? else {
                return Err(FtlError::Unrecoverable(format!(
                    "page {} of the journal, with what was trimmed and shared up to sequence {}, \
                     is damaged",
                    self.page_of(found.ppn),
                    found.oob.seed
                )));
            };
            let records = journal::decode(&bytes);
            scan.events.extend(records.into_iter().map(|(seq, r)| (seq, Event::Record(r))));
            let slot = self.meta.place.len() as u32;
            self.meta.place.push(found.ppn);
            let last_seq = found.oob.seed;
            self.meta.journal.pages.push_back(JournalPage { slot, last_seq });
        }
        // Whose newer content it held is not known.
        if let Some((seq, ppn)) = scan.unreadable.iter().find(|(seq, _)| *seq > root.seq) {
            return Err(FtlError::Unrecoverable(format!(
                "page {ppn}, with compressed pages written at sequence {seq}, is damaged"
            )));
        }
        scan.events.sort_unstable_by_key(|&(seq, _)| seq);
        let base = self.meta.dirty_at.clone();
        self.meta.dirty_at.fill(super::meta::CLEAN);
        for &segment in &scan.lost_segments {
            self.meta.dirty(segment, base[segment as usize]);
        }
        for (seq, event) in std::mem::take(&mut scan.events) {
            scan.seq_max = scan.seq_max.max(seq);
            scan.report.replayed += u64::from(self.apply(seq, event, &base, &mut stored));
        }
        Ok(stored)
    }

    fn apply(&mut self, seq: u64, event: Event, base: &[u64], stored: &mut Vec<u32>) -> bool {
        match event {
            Event::Data { lpn, ppn } => self.apply_place(seq, lpn, Place::Own(ppn), base),
            Event::Shared { vpn, ppn } => self.apply_virtual(seq, vpn, ppn, base, stored),
            Event::Record(Record::Trim { lpn, count }) => {
                let trimmed =
                    (lpn..lpn + count).filter(|&lpn| self.apply_place(seq, lpn, Place::None, base));
                trimmed.count() > 0
            }
            Event::Record(Record::Bind { lpn, vpn, ppn }) => {
                let bound = self.apply_place(seq, lpn, Place::Virtual(vpn), base);
                self.apply_virtual(seq, vpn, ppn, base, stored) || bound
            }
            Event::Record(Record::Alias { vpn, of, ppn }) => {
                let alias = shared::stored_alias(of);
                let aliased = self.apply_virtual(seq, vpn, alias, base, stored);
                self.apply_virtual(seq, of, ppn, base, stored) || aliased
            }
        }
    }

    fn apply_place(&mut self, seq: u64, lpn: u32, place: Place, base: &[u64]) -> bool {
        let segment = lpn / self.meta.slots.entries;
        let newer = lpn < self.map.len() && seq > base[segment as usize];
        if newer {
            self.map.replace(lpn, place);
            self.meta.dirty(segment, seq);
        }
        newer
    }

    fn apply_virtual(
        &mut self,
        seq: u64,
        vpn: u32,
        target: u32,
        base: &[u64],
        stored: &mut Vec<u32>,
    ) -> bool {
        let segment = self.meta.slots.logical + vpn / self.meta.slots.entries;
        let newer = segment < self.meta.slots.segments && seq > base[segment as usize];
        if newer {
            stored.resize(stored.len().max(vpn as usize + 1), shared::UNUSED);
            stored[vpn as usize] = target;
            self.meta.dirty(segment, seq);
        }
        newer
    }

    /// Rebuilds the reverse map and the reference counts. Entries of data that is not there are
    /// dropped and counted.
    fn restore_owners(&mut self, stored: &[u32], scan: &mut Scan) -> Result<(), FtlError> {
        let mut names = vec![0_u32; stored.len()];
        for lpn in 0..self.map.len() {
            if let Place::Virtual(vpn) = self.map.get(lpn) {
                match names.get_mut(vpn as usize) {
                    Some(count) => *count += 1,
                    None => self.lose_entry(lpn, scan),
                }
            }
        }
        let (table, lost) = VirtualTable::recovered(stored, &names);
        self.shared = table;
        let mut gone = vec![false; stored.len()];
        for vpn in lost {
            gone[vpn as usize] = true;
        }
        for vpn in 0..self.shared.len() {
            let live = self.shared.references(vpn) > 0;
            if !live || gone[vpn as usize] || self.shared.alias_of(vpn).is_some() {
                continue;
            }
            let ppn = self.shared.ppn(vpn);
            if !self.settle_found(ppn, Owner::Shared(vpn), scan)? {
                gone[vpn as usize] = true;
            }
        }
        for lpn in 0..self.map.len() {
            match self.map.get(lpn) {
                Place::Own(ppn) => {
                    if !self.settle_found(ppn, Owner::Data(lpn), scan)? {
                        self.lose_entry(lpn, scan);
                    }
                }
                Place::Virtual(vpn) if !gone[self.shared.resolve(vpn) as usize] => {}
                Place::None | Place::Lost => {}
                Place::Virtual(_) => self.lose_entry(lpn, scan),
            }
        }
        for slot in 0..self.meta.place.len() {
            let ppn = self.meta.place[slot];
            if ppn != NONE {
                self.settle(ppn, Owner::Meta(slot as u32));
            }
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
        if !self.is_there(place, scan) || self.owners.is_live(place) {
            return Ok(false);
        }
        let Some(part) = self.part_at(place, scan)? else { return Ok(false) };
        self.settle_part(place, owner, part.len, part.gap);
        Ok(true)
    }

    fn lose_entry(&mut self, lpn: u32, scan: &mut Scan) {
        scan.report.lost_entries += 1;
        let seq = scan.seq_max;
        self.meta.dirty(lpn / self.meta.slots.entries, seq);
        // With a journal everything that an entry names is durable before the entry: what is
        // not there was damaged, and must not read as never written.
        let left = if self.meta.journal.on { Place::Lost } else { Place::None };
        if let Place::Virtual(vpn) = self.map.replace(lpn, left)
            && vpn < self.shared.len()
        {
            let root = self.shared.resolve(vpn);
            if let Some(ppn) = self.shared.release(vpn)
                && self.owners.get(ppn) == Owner::Shared(root)
            {
                self.drop_page(ppn);
            }
        }
    }

    /// Whether a page was programmed, as far as the scan knows.
    fn is_there(&self, ppn: u32, scan: &Scan) -> bool {
        let Some(seen) = scan.seen.get(self.block_of(ppn) as usize) else { return false };
        let page = self.page_of(ppn) - self.geometry.first_page(self.block_of(ppn));
        !seen.own && (!seen.scanned || (seen.first.is_some() && page < seen.written))
    }

    /// Which blocks are free, full, to be filled on, to be emptied or to be erased again.
    fn restore_blocks(&mut self, scan: &mut Scan) -> Result<(), FtlError> {
        let pages = self.geometry.pages_per_block;
        let mut next_stream = vec![0; self.geometry.planes() as usize];
        for block in 0..self.geometry.blocks() {
            let seen = scan.seen[block as usize];
            if self.nand.is_bad(block) {
                self.restore_bad(block);
                continue;
            }
            let written = if seen.scanned { seen.written } else { pages };
            if written == 0 {
                continue;
            }
            let closed_at = seen.last_seq.max(seen.first.unwrap_or(0));
            if seen.first.is_none() {
                self.blocks.restore(block, BlockState::Full, written, 0);
                self.erase_again(block, scan)?;
                continue;
            }
            let plane = self.geometry.plane_of_block(block) as usize;
            let streams = &mut self.open[plane];
            let state = if written == pages {
                BlockState::Full
            } else if seen.own && self.meta.open.is_none() {
                self.meta.open = Some(block);
                BlockState::Open
            } else if !seen.own && next_stream[plane] < RESUMED.len() {
                streams[RESUMED[next_stream[plane]] as usize] = Some(block);
                next_stream[plane] += 1;
                BlockState::Open
            } else {
                BlockState::Full
            };
            self.blocks.restore(block, state, written, closed_at);
        }
        Ok(())
    }

    /// A bad block with data in it failed and was not emptied before the power went.
    fn restore_bad(&mut self, block: u32) {
        if self.blocks.live(block) > 0 {
            self.blocks.condemn_retired(block);
        }
    }

    /// Tells the policy of every live page and its tag, but for those that the host wants kept.
    fn tell_policy(&mut self) -> Result<(), FtlError> {
        for ppn in 0..self.geometry.pages() {
            let owner = self.owners.get(ppn);
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
                self.owners.set(ppn, Owner::Kept(lpn));
            }
        }
        Ok(())
    }

    /// The same where flash pages were looked into already.
    fn tell_policy_of_parts(&mut self, scan: &Scan) {
        for (&ppn, parts) in &scan.parts {
            let first = ppn * self.subpages();
            for place in first..first + self.subpages() {
                let owner = self.owners.get(place);
                let part = parts.iter().find(|part| first + part.start == place);
                match (owner, part) {
                    (Owner::Data(_) | Owner::Shared(_), Some(part)) if !part.kept => {
                        self.policy.recovered(place, part.tag);
                    }
                    // If nobody knows what the host wanted, a page too many is better than a copy
                    // lost.
                    (Owner::Data(lpn), _) => self.owners.set(place, Owner::Kept(lpn)),
                    _ => {}
                }
            }
        }
    }

    fn erase_again(&mut self, block: u32, scan: &mut Scan) -> Result<(), FtlError> {
        scan.report.blocks_erased += 1;
        match self.nand.erase(block) {
            Ok(()) => self.blocks.erased(block),
            Err(NandError::Failed { .. }) => self.blocks.retire(block),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn is_journal(found: &Found) -> bool {
    matches!(found.oob.key, PageKey::Journal(_))
}
