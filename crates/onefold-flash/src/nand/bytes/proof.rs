//! Which pages are known to have been durable, and what helps when one of them is damaged.
//! Room: onefold-flash.   In: programs and syncs.   Out: second copies, and pages from them.
//! Invariants: a page is proven when its record has a second copy, which is written only after the
//! page was durable. A proven page is never taken for torn: what it was is known even if nothing
//! of it can be read.

use onefold_block::MediaError;
use onefold_code::PageStatus;

use super::ByteNand;
use super::copies::CopyFile;
use super::record::{Found, RECORD_BYTES, Record, kind_bit};
use super::store::Store;
use super::unproven::Unproven;
use crate::nand::{NandError, PageKey};

/// Found pages that wait for their second copies at most.
const UNPROVEN_MAX: usize = 1 << 16;

const fn is_own(key: PageKey) -> bool {
    kind_bit(key) != 1
}

fn write_copies(copies: &CopyFile, pages: &[Unproven]) -> Result<(), MediaError> {
    let mut run = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        run.extend_from_slice(&page.record);
        if pages.get(at + 1).is_none_or(|next| next.ppn != page.ppn + 1) {
            let count = (run.len() / RECORD_BYTES) as u32;
            copies.write_records(page.ppn + 1 - count, &run)?;
            run.clear();
        }
        if let Some(own) = &page.own {
            copies.write_own(page.ppn, own)?;
        }
    }
    Ok(())
}

impl<S: Store> ByteNand<S> {
    /// The page in hand was programmed: once it is durable it gets a second copy.
    pub(super) fn note_unproven(&mut self, ppn: u32, record: &Record, bytes: &[u8; RECORD_BYTES]) {
        if self.store.copies().is_none() {
            return;
        }
        let own = is_own(record.oob.key).then(|| [&self.page[..], &self.oob[..]].concat());
        if own.is_some() {
            self.own_blocks[self.geometry.block_of(ppn) as usize] = true;
        }
        self.unproven.push(Unproven { ppn, erases: record.erases, record: *bytes, own });
    }

    /// A page that was there when the array was opened, and is not proven to be durable, is in hand
    /// and whole: it is written again, and gets a second copy when that is durable.
    pub(super) fn note_found(&mut self, ppn: u32, record: &Record) -> Result<(), NandError> {
        if self.store.copies().is_none() {
            return Ok(());
        }
        let mut bytes = [0; RECORD_BYTES];
        self.records.encode(record, &mut bytes);
        let parity = self.parity_bytes();
        self.oob[parity..parity + RECORD_BYTES].copy_from_slice(&bytes);
        // If its sync failed, it may be lost with the power however often it is synced after that.
        let written = self.store.write_page(ppn, &self.page, &self.oob);
        self.stored(written)?;
        self.dirty |= kind_bit(record.oob.key);
        self.note_unproven(ppn, record, &bytes);
        if self.unproven.len() > UNPROVEN_MAX {
            self.sync_store()?;
        }
        Ok(())
    }

    /// Writes second copies of what was found whole since the array was opened.
    ///
    /// # Errors
    /// [`NandError::Io`].
    pub fn prove_found(&mut self) -> Result<(), NandError> {
        if self.dirty == 0 { self.prove() } else { self.sync_store() }
    }

    /// Everything programmed so far is durable.
    pub(super) fn prove(&mut self) -> Result<(), NandError> {
        let mut pages = std::mem::take(&mut self.unproven);
        let Some(copies) = self.store.copies() else { return Ok(()) };
        let (geometry, blocks) = (&self.geometry, &self.blocks);
        // Some were erased since.
        pages.retain(|page| blocks[geometry.block_of(page.ppn) as usize].erases == page.erases);
        pages.sort_unstable_by_key(|page| page.ppn);
        // A page may have been looked at twice.
        pages.dedup_by_key(|page| page.ppn);
        let written = write_copies(copies, &pages);
        self.stored(written)?;
        for page in &pages {
            self.proven.set(page.ppn, true);
        }
        Ok(())
    }

    /// A block was erased: what is known of its pages is of the past.
    pub(super) fn forget_proofs(&mut self, block: u32) {
        let first = self.geometry.first_page(block);
        for ppn in first..first + self.geometry.pages_per_block {
            self.proven.set(ppn, false);
        }
    }

    /// Gives the space of second copies of a block back, where that is worth it.
    pub(super) fn clear_copies(&mut self, block: u32) -> Result<(), NandError> {
        let own = std::mem::take(&mut self.own_blocks[block as usize]);
        let Some(copies) = self.store.copies().filter(|_| own) else { return Ok(()) };
        let cleared = copies.clear_own(block);
        self.stored(cleared)
    }

    /// Makes the second copies durable, which nothing depends on.
    ///
    /// # Errors
    /// [`NandError::Io`].
    pub fn sync_copies(&mut self) -> Result<(), NandError> {
        let synced = self.store.copies().map_or(Ok(()), CopyFile::sync);
        self.stored(synced)
    }

    /// What a proven page said of itself.
    pub(super) fn proven_record(&self, ppn: u32) -> Option<Record> {
        let copies = self.store.copies().filter(|_| self.proven.holds(ppn))?;
        let mut bytes = [0; RECORD_BYTES];
        copies.read_records(ppn, &mut bytes);
        let erases = self.blocks[self.geometry.block_of(ppn) as usize].erases;
        match self.records.decode(&bytes) {
            Found::Record(record) if record.erases == erases => Some(record),
            _ => None,
        }
    }

    /// Takes a page in hand whose cells were damaged: one of the FTL's own from its second copy,
    /// data from what is left of it. Cells that are only worn stay unreadable.
    pub(super) fn rescue(&mut self, ppn: u32) -> Result<Option<Record>, NandError> {
        let Some(record) = self.proven_record(ppn) else { return Ok(None) };
        if is_own(record.oob.key) {
            let copies = self.store.copies();
            if !copies.is_some_and(|it| it.read_own(ppn, &mut self.page, &mut self.oob)) {
                return Ok(None);
            }
            return Ok(self.correct(record.erases).filter(|found| found.oob == record.oob));
        }
        let read = self.store.read_page(ppn, &mut self.page, &mut self.oob);
        self.stored(read)?;
        let parity = self.parity_bytes();
        let stored = self.oob[parity..].first_chunk().map(|bytes| self.records.decode(bytes));
        if matches!(stored, Some(Found::Record(found)) if found.erases == record.erases) {
            return Ok(None);
        }
        if crc32fast::hash(&self.page) == record.page_crc {
            self.channel
                .encode(&self.page, &mut self.oob[..parity])
                .expect("lengths were checked when the array was opened");
            return Ok(Some(record));
        }
        let corrected =
            self.channel.correct(&mut self.page, &mut self.oob[..parity], record.page_crc);
        let whole = matches!(corrected, Ok(PageStatus::Clean | PageStatus::Corrected(_)));
        Ok(whole.then_some(record))
    }
}
