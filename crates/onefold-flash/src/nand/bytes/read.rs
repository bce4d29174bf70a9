//! Reading pages of an array of bytes: with the errors of their cells, and corrected.
//! Room: onefold-flash.
//! Invariants: a page that comes back has the CRC-32 it was stored with, and was programmed since
//! its block was erased.

use onefold_code::PageStatus;

use super::ByteNand;
use super::record::{Found, RECORD_BYTES, Record};
use super::store::Store;
use crate::nand::wear::{RATE_MAX, Reading};
use crate::nand::{NandError, likeness};

impl<S: Store> ByteNand<S> {
    /// Checks that a page can hold something.
    pub(super) fn check_programmed(&self, ppn: u32) -> Result<(), NandError> {
        self.check_intact()?;
        let block = self.geometry.block_of(ppn);
        if ppn - self.geometry.first_page(block) < self.blocks[block as usize].programmed {
            Ok(())
        } else {
            Err(NandError::Erased { ppn })
        }
    }

    /// Reads a page with retries until it can be corrected; page and parity are then in hand,
    /// still scrambled.
    pub(super) fn fetch(&mut self, ppn: u32) -> Result<Record, NandError> {
        self.check_programmed(ppn)?;
        let entry = &mut self.blocks[self.geometry.block_of(ppn) as usize];
        entry.reads = entry.reads.saturating_add(1);
        let (erases, reads) = (entry.erases, entry.reads);
        let age = self.now_s.saturating_sub(entry.filled_s);
        self.health.reads += 1;
        let mut factor = None;
        for retry in 0..=self.wear.retries {
            let read = self.store.read_page(ppn, &mut self.page, &mut self.oob);
            self.stored(read)?;
            let rate = self.wear.rate(erases, age, reads, retry);
            let factor = match factor {
                Some(factor) => factor,
                None => *factor.insert(self.pattern_factor(ppn)?),
            };
            let rate = (rate * factor).min(RATE_MAX);
            let flipped = self.disturb(rate, &Reading { ppn, erases, reads });
            self.health.raw_bit_errors += flipped as u64;
            self.health.bits_read += self.used_bits();
            if let Some(record) = self.correct(erases) {
                if record.lost {
                    return Err(NandError::Uncorrectable { ppn, retries: 0 });
                }
                self.health.retries += u64::from(retry);
                return Ok(record);
            }
        }
        self.health.retries += u64::from(self.wear.retries);
        if let Some(record) = self.rescue(ppn)?.filter(|record| !record.lost) {
            self.health.rescued += 1;
            return Ok(record);
        }
        self.health.uncorrectable += 1;
        Err(NandError::Uncorrectable { ppn, retries: self.wear.retries })
    }

    /// What the pattern in the cells of the page in hand, still without errors, and of those
    /// beside it makes of its rate.
    fn pattern_factor(&mut self, ppn: u32) -> Result<f64, NandError> {
        let plain = Record::says_plain(&self.oob[self.parity_bytes()..]);
        let own = if plain { self.wear.plain_factor } else { 1.0 };
        let worse = self.wear.similar_factor - 1.0;
        Ok(if worse > 0.0 { own * (1.0 + worse * self.likeness_in_hand(ppn)?) } else { own })
    }

    /// The mean likeness of the page in hand, as stored, to those programmed before and after it
    /// in its block; a side where there is none counts as noise.
    fn likeness_in_hand(&mut self, ppn: u32) -> Result<f64, NandError> {
        let block = self.geometry.block_of(ppn);
        let first = self.geometry.first_page(block);
        let programmed = first..first + self.blocks[block as usize].programmed;
        let mut sum = 0.0;
        for at in [ppn.checked_sub(1), ppn.checked_add(1)].into_iter().flatten() {
            if programmed.contains(&at) {
                let (page, oob) = &mut self.beside;
                let read = self.store.read_page(at, page, oob);
                self.stored(read)?;
                sum += likeness(&self.page, &self.beside.0);
            }
        }
        Ok(sum / 2.0)
    }

    /// The mean likeness of a page's cells to those of its neighbours in the block: see
    /// [`crate::nand::WearModel::similar_factor`]. No reading of the flash.
    ///
    /// # Errors
    /// [`NandError::Erased`], [`NandError::Io`].
    pub fn likeness_of(&mut self, ppn: u32) -> Result<f64, NandError> {
        self.check_programmed(ppn)?;
        let read = self.store.read_page(ppn, &mut self.page, &mut self.oob);
        self.stored(read)?;
        self.likeness_in_hand(ppn)
    }

    fn used_bits(&self) -> u64 {
        8 * (self.page.len() + self.parity_bytes() + RECORD_BYTES) as u64
    }

    /// Flips the bits of the page in hand that this reading gets wrong.
    fn disturb(&mut self, rate: f64, reading: &Reading) -> usize {
        if rate <= 0.0 {
            return 0;
        }
        let bits = self.used_bits();
        let (page, oob) = (&mut self.page, &mut self.oob);
        self.wear.errors(rate, reading, bits, |bit| {
            let (at, mask) = ((bit / 8) as usize, 1 << (bit % 8));
            match at.checked_sub(page.len()) {
                None => page[at] ^= mask,
                Some(at) => oob[at] ^= mask,
            }
        })
    }

    /// Corrects the page in hand; `None` if that cannot be done or it is left over from before
    /// an erase.
    pub(super) fn correct(&mut self, erases: u32) -> Option<Record> {
        let parity = self.parity_bytes();
        let bytes: &[u8; RECORD_BYTES] = self.oob[parity..].first_chunk()?;
        let Found::Record(record) = self.records.decode(bytes) else { return None };
        if record.erases != erases {
            return None;
        }
        let status = self
            .channel
            .correct(&mut self.page, &mut self.oob[..parity], record.page_crc)
            .expect("lengths were checked when the array was opened");
        match status {
            PageStatus::Clean => Some(record),
            PageStatus::Corrected(bits) => {
                self.health.corrected_bits += bits as u64;
                self.health.corrected_pages += 1;
                Some(record)
            }
            PageStatus::Failed { .. } => None,
            PageStatus::Miscorrected => {
                self.health.miscorrected += 1;
                None
            }
        }
    }

    /// Whether all of the page in hand, as stored, got to the cells.
    pub(super) fn is_whole(&mut self, crc: u32) -> bool {
        let parity = self.parity_bytes();
        let status = self.channel.correct(&mut self.page, &mut self.oob[..parity], crc);
        matches!(status, Ok(PageStatus::Clean | PageStatus::Corrected(_)))
    }
}
