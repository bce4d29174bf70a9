//! Programming pages of an array of bytes: from the page in hand into the cells.
//! Room: onefold-flash.
//! Invariants: pages of a block are programmed in order, in cells that were cleared; a block whose
//! end has come fails at the page that was drawn for it, and takes nothing after that.

use onefold_code::PageAddress;

use super::record::{RECORD_BYTES, Record, kind_bit};
use super::store::Store;
use super::{ByteNand, PageBytes};
use crate::nand::{Fragment, NandError, Oob, PageKey};

impl<S: Store> ByteNand<S> {
    /// Checks that a page is the next one of a good block, and makes the block's cells ready.
    pub(super) fn begin_program(&mut self, ppn: u32) -> Result<(), NandError> {
        let block = self.geometry.block_of(ppn);
        let page = ppn - self.geometry.first_page(block);
        let entry = &self.blocks[block as usize];
        if entry.bad {
            return Err(self.forbidden("program", ppn, "the block is bad"));
        }
        if page != entry.programmed {
            let why = "pages of a block are programmed in order, once";
            return Err(self.forbidden("program", ppn, why));
        }
        if entry.pending {
            // The erase that freed these cells is only now about to be needed.
            self.settle()?;
        }
        let entry = &mut self.blocks[block as usize];
        let (fails_at, page_of_failure) =
            self.wear.end_of_life(block, self.geometry.pages_per_block);
        if entry.erases >= fails_at && page_of_failure == Some(page) {
            self.retire(block)?;
            self.health.program_failures += 1;
            return Err(NandError::Failed { what: "program", block });
        }
        if page == 0 {
            entry.filled_s = self.now_s;
        }
        entry.programmed += 1;
        Ok(())
    }

    /// Programs compressed pages as one page of the flash.
    pub(super) fn program_packed(
        &mut self,
        ppn: u32,
        fragments: &[Fragment<PageBytes>],
        oob: &Oob,
    ) -> Result<(), NandError> {
        let Some(packer) = &self.packer else {
            return Err(self.forbidden("program", ppn, "there is no compression engine"));
        };
        let scrambles = packer.is_before_scrambler();
        self.begin_program(ppn)?;
        if let Some(packer) = &self.packer {
            packer.lay(fragments, &mut self.page);
        }
        // A packed page has no logical address: its place is as good.
        let (scrambler_seed, page_crc) =
            if scrambles { self.encode(ppn, u64::from(ppn)) } else { (0, self.encode_plain()) };
        let record = Record {
            oob: *oob,
            meta_len: 0,
            scrambler_seed,
            erases: self.blocks[self.geometry.block_of(ppn) as usize].erases,
            page_crc,
            lost: false,
            plain: !scrambles,
        };
        self.finish_program(ppn, &record)
    }

    pub(super) fn retire(&mut self, block: u32) -> Result<(), NandError> {
        self.blocks[block as usize].bad = true;
        let entry = self.blocks[block as usize].encode();
        let written = self.store.write_entry(block, &entry);
        self.stored(written)
    }

    /// Stores the page in hand with its parity and record.
    pub(super) fn finish_program(&mut self, ppn: u32, record: &Record) -> Result<(), NandError> {
        let parity = self.parity_bytes();
        let mut bytes = [0; RECORD_BYTES];
        self.records.encode(record, &mut bytes);
        self.oob[parity..parity + RECORD_BYTES].copy_from_slice(&bytes);
        self.dirty |= kind_bit(record.oob.key);
        self.health.programs += 1;
        self.health.plain_programs += u64::from(record.plain);
        let written = self.store.write_page(ppn, &self.page, &self.oob);
        self.stored(written)?;
        self.note_unproven(ppn, record, &bytes);
        Ok(())
    }

    /// Scrambles and encodes the page in hand for its place.
    pub(super) fn encode(&mut self, ppn: u32, lba: u64) -> (u64, u32) {
        let block = self.geometry.block_of(ppn);
        let address = PageAddress {
            lba,
            page_in_block: ppn - self.geometry.first_page(block),
            column: 0,
            erase_count: self.blocks[block as usize].erases,
        };
        let parity = self.channel.parity_bytes();
        self.channel
            .store(&address, &mut self.page, &mut self.oob[..parity])
            .expect("lengths and the addresses of the drive were checked when it was opened")
    }

    /// Encodes the page in hand as it is.
    pub(super) fn encode_plain(&mut self) -> u32 {
        let parity = self.channel.parity_bytes();
        self.channel
            .encode(&self.page, &mut self.oob[..parity])
            .expect("lengths were checked when the drive was opened")
    }

    /// Corrected on the way; scrambled and encoded anew only where the seed belongs to the place.
    /// Data that cannot be corrected is lost: the new page says so, and reads as uncorrectable.
    pub(super) fn copied(
        &mut self,
        from: u32,
        to: u32,
        key: PageKey,
        seq: u64,
    ) -> Result<u64, NandError> {
        let found = match self.fetch(from) {
            // Garbage collection must go on, and whoever reads the page is told.
            Err(NandError::Uncorrectable { .. }) if key.is_data() => None,
            fetched => Some(fetched?),
        };
        let (seed, tag) = match &found {
            Some(record) => (record.oob.seed, record.oob.tag),
            None => self.known_of_lost(from, key)?,
        };
        self.begin_program(to)?;
        let oob = Oob { key, seq, seed, tag };
        let erases = self.blocks[self.geometry.block_of(to) as usize].erases;
        let record = match found {
            None => {
                self.page.fill(0);
                let (scrambler_seed, page_crc) = self.encode(to, seed);
                self.health.lost_pages += 1;
                let (meta_len, lost, plain) = (0, true, false);
                Record { oob, meta_len, scrambler_seed, erases, page_crc, lost, plain }
            }
            Some(record) if record.plain || self.channel.survives_moves() => {
                self.health.copies_as_stored += 1;
                Record { oob, erases, ..record }
            }
            Some(record) => {
                self.channel.descramble(record.scrambler_seed, &mut self.page);
                let (scrambler_seed, page_crc) = self.encode(to, seed);
                self.health.copies_encoded += 1;
                Record { oob, scrambler_seed, erases, page_crc, ..record }
            }
        };
        self.finish_program(to, &record)?;
        Ok(tag)
    }

    /// What is known of the seed and the tag of a page whose bytes cannot be read.
    fn known_of_lost(&mut self, ppn: u32, key: PageKey) -> Result<(u64, u64), NandError> {
        let read = self.store.read_oob(ppn, &mut self.oob);
        self.stored(read)?;
        let bytes = self.oob[self.parity_bytes()..].first_chunk();
        let found = bytes.and_then(|bytes| self.records.decode(bytes).record());
        if let Some(record) = found.or_else(|| self.proven_record(ppn)) {
            return Ok((record.oob.seed, record.oob.tag));
        }
        Ok(match key {
            PageKey::Data(lpn) | PageKey::Kept(lpn) => (u64::from(lpn), 0),
            _ => (0, 0),
        })
    }
}
