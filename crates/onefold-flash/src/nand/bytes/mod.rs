//! An array of real bytes: every page goes through scrambler and code into cells that err.
//! Room: onefold-flash.   In: pages of bytes.   Out: the same bytes, or an error; never others.
//! Invariants, besides those of [`Nand`]: (1) a page that comes back has the CRC-32 it was stored
//! with; (2) seed and tag travel with a page through every copy; (3) before a block that was
//! erased is cleared or programmed anew, everything programmed before the erase is durable, so
//! that no power cut can take both an old copy and the new one; (4) before a page of the FTL's own
//! is programmed, everything programmed before it is durable, save pages of its own kind.
//! Cost: scrambling, encoding and a CRC per program; a syndrome, a CRC and descrambling per read
//! without errors. 40 B per block.

mod block;
mod channel;
mod copies;
mod description;
mod file;
mod health;
mod open;
mod packed;
mod page;
mod proof;
mod record;
mod store;
#[cfg(test)]
mod tests;
mod unproven;

pub use block::{BlockEntry, ENTRY_BYTES};
pub use channel::{BCH_NAME, Channel, ChannelSpec, DETECT_NAME, page_code};
pub use copies::CopyFile;
pub use description::{Description, FileError};
pub use file::FileStore;
pub use health::NandHealth;
pub use open::OpenError;
pub use page::PageBytes;
pub use record::{Found, RECORD_BYTES, Record, RecordCodec};
pub use store::{MemStore, Store};

use packed::Packer;
use record::kind_bit;
use unproven::{PageBits, Unproven};

use onefold_block::MediaError;
use onefold_code::{PageAddress, PageStatus, ParityFingerprint};

use crate::dedup::Engine;
use crate::geometry::Geometry;
use crate::nand::wear::{RATE_MAX, Reading, WearModel};
use crate::nand::{Fragment, Nand, NandError, Oob, PageKey, Pattern, Payload, likeness};

/// A NAND array that holds bytes.
#[derive(Debug)]
pub struct ByteNand<S> {
    geometry: Geometry,
    store: S,
    channel: Channel,
    records: RecordCodec,
    wear: WearModel,
    blocks: Vec<BlockEntry>,
    /// Erased blocks whose cells wait for the next sync.
    pending: Vec<u32>,
    /// Pages programmed since the last sync.
    unproven: Vec<Unproven>,
    /// Pages whose second copy says that they were durable.
    proven: PageBits,
    /// Blocks that may hold pages of the FTL's own.
    own_blocks: Vec<bool>,
    /// What was programmed since the last sync, one bit for each kind of key.
    dirty: u8,
    /// Whether cells of erased blocks were cleared since the last sync.
    cleared: bool,
    /// The page in hand: its bytes, then its out-of-band bytes.
    page: Vec<u8>,
    oob: Vec<u8>,
    /// A page beside the one in hand, and its out-of-band bytes.
    beside: (Vec<u8>, Vec<u8>),
    /// Seconds of whatever clock the owner keeps.
    now_s: u64,
    health: NandHealth,
    /// The compression engine, if there is one.
    packer: Option<Packer>,
    /// Why the store cannot be trusted any more.
    broken: Option<String>,
}

/// The parity of a page as the flash holds it, without errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredParity {
    /// The parity of all codewords of the scrambled page.
    pub parity: Vec<u8>,
    /// What the scrambler was loaded with; `None` where it was not used.
    pub scrambler_seed: Option<u64>,
}

impl StoredParity {
    /// The fingerprint of the page's content, from its stored parity alone (SES-Dedup).
    ///
    /// # Errors
    /// [`onefold_code::CodeError::Length`] for a fingerprint of another code or page size.
    pub fn fingerprint(&self, of: &ParityFingerprint) -> Result<u64, onefold_code::CodeError> {
        match self.scrambler_seed {
            Some(seed) => of.of_stored(seed, &self.parity),
            None => of.of_plain(&self.parity),
        }
    }
}

impl<S: Store> ByteNand<S> {
    /// With a compression engine, on flash pages of so many sub-pages.
    #[must_use]
    pub fn with_engine(self, engine: Engine, subpages: u32) -> Self {
        let packer = (engine != Engine::None).then(|| Packer::new(engine, subpages));
        Self { packer, ..self }
    }

    /// Programs compressed pages as one page of the flash.
    fn program_packed(
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

    /// The scrambler and the code.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// How its cells wear.
    pub fn wear(&self) -> &WearModel {
        &self.wear
    }

    /// What has happened to it since it was opened.
    pub fn health(&self) -> &NandHealth {
        &self.health
    }

    /// The history of a block.
    pub fn block(&self, block: u32) -> &BlockEntry {
        &self.blocks[block as usize]
    }

    /// The cells.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Tells it the time, in seconds; retention counts from when a block was first programmed.
    pub fn set_time(&mut self, now_s: u64) {
        self.now_s = now_s;
    }

    /// The raw bit error rate that a scrambled page would be read with now, without retries.
    pub fn rate(&self, ppn: u32) -> f64 {
        let entry = &self.blocks[self.geometry.block_of(ppn) as usize];
        self.wear.rate(entry.erases, self.now_s.saturating_sub(entry.filled_s), entry.reads, 0)
    }

    /// The parity of a page as it is stored, corrected: what SES-Dedup makes fingerprints of.
    ///
    /// # Errors
    /// As [`Nand::read`].
    pub fn stored_parity(&mut self, ppn: u32) -> Result<StoredParity, NandError> {
        let record = self.fetch(ppn)?;
        let parity = self.oob[..self.channel.parity_bytes()].to_vec();
        let scrambler_seed = (!record.plain).then_some(record.scrambler_seed);
        Ok(StoredParity { parity, scrambler_seed })
    }

    fn parity_bytes(&self) -> usize {
        self.channel.parity_bytes()
    }

    fn forbidden(&self, what: &'static str, ppn: u32, why: &'static str) -> NandError {
        NandError::Forbidden { what, ppn, block: self.geometry.block_of(ppn), why }
    }

    fn check_intact(&self) -> Result<(), NandError> {
        match &self.broken {
            Some(why) => Err(NandError::Io(format!("refused after an earlier failure: {why}"))),
            None => Ok(()),
        }
    }

    /// The value of a call to the store; after a failure nothing is done any more.
    fn stored<T>(&mut self, result: Result<T, MediaError>) -> Result<T, NandError> {
        result.map_err(|error| {
            let why = error.to_string();
            self.broken = Some(why.clone());
            NandError::Io(why)
        })
    }

    /// Checks that a page is the next one of a good block, and makes the block's cells ready.
    fn begin_program(&mut self, ppn: u32) -> Result<(), NandError> {
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

    fn retire(&mut self, block: u32) -> Result<(), NandError> {
        self.blocks[block as usize].bad = true;
        let entry = self.blocks[block as usize].encode();
        let written = self.store.write_entry(block, &entry);
        self.stored(written)
    }

    /// Stores the page in hand with its parity and record.
    fn finish_program(&mut self, ppn: u32, record: &Record) -> Result<(), NandError> {
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
    fn encode(&mut self, ppn: u32, lba: u64) -> (u64, u32) {
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
    fn encode_plain(&mut self) -> u32 {
        let parity = self.channel.parity_bytes();
        self.channel
            .encode(&self.page, &mut self.oob[..parity])
            .expect("lengths were checked when the drive was opened")
    }

    /// Checks that a page can hold something.
    fn check_programmed(&self, ppn: u32) -> Result<(), NandError> {
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
    fn fetch(&mut self, ppn: u32) -> Result<Record, NandError> {
        self.check_programmed(ppn)?;
        let entry = &mut self.blocks[self.geometry.block_of(ppn) as usize];
        entry.reads += 1;
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
    /// [`WearModel::similar_factor`]. No reading of the flash.
    ///
    /// # Errors
    /// [`NandError::Erased`], [`NandError::Io`].
    pub fn likeness_of(&mut self, ppn: u32) -> Result<f64, NandError> {
        self.check_programmed(ppn)?;
        let read = self.store.read_page(ppn, &mut self.page, &mut self.oob);
        self.stored(read)?;
        self.likeness_in_hand(ppn)
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

    /// Whether all of the page in hand, as stored, got to the cells.
    fn is_whole(&mut self, crc: u32) -> bool {
        let parity = self.parity_bytes();
        let status = self.channel.correct(&mut self.page, &mut self.oob[..parity], crc);
        matches!(status, Ok(PageStatus::Clean | PageStatus::Corrected(_)))
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
    fn correct(&mut self, erases: u32) -> Option<Record> {
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

    /// Makes everything programmed so far durable, and then clears the cells of erased blocks.
    fn settle(&mut self) -> Result<(), NandError> {
        if self.dirty != 0 {
            self.sync_store()?;
        }
        for block in std::mem::take(&mut self.pending) {
            self.blocks[block as usize].pending = false;
            self.clear(block)?;
        }
        Ok(())
    }

    fn clear(&mut self, block: u32) -> Result<(), NandError> {
        let entry = self.blocks[block as usize].encode();
        // The entry first: without it, what is left of the old pages would count as data.
        let cleared =
            self.store.write_entry(block, &entry).and_then(|()| self.store.clear_block(block));
        self.cleared = true;
        self.stored(cleared)?;
        self.clear_copies(block)
    }

    fn sync_store(&mut self) -> Result<(), NandError> {
        let synced = self.store.sync();
        self.stored(synced)?;
        (self.dirty, self.cleared) = (0, false);
        self.health.syncs += 1;
        self.prove()
    }
}

impl<S: Store> Nand for ByteNand<S> {
    type Page = PageBytes;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn program(
        &mut self,
        ppn: u32,
        payload: Payload<'_, PageBytes>,
        oob: &Oob,
    ) -> Result<(), NandError> {
        self.check_intact()?;
        let bytes: &[u8] = match &payload {
            Payload::Data(page) => page,
            Payload::Meta(bytes) => bytes,
            Payload::Packed(fragments) => return self.program_packed(ppn, fragments, oob),
        };
        let whole = matches!(payload, Payload::Data(_));
        if !whole && self.dirty & !kind_bit(oob.key) != 0 {
            // Flash keeps the order of programs, a file does not: no power cut may leave a
            // mapping, a journal or a root without the pages that it speaks of.
            self.settle()?;
        }
        assert!(
            bytes.len() == self.page.len() || !whole && bytes.len() < self.page.len(),
            "{} bytes for a page of {}",
            bytes.len(),
            self.page.len()
        );
        self.begin_program(ppn)?;
        self.page[..bytes.len()].copy_from_slice(bytes);
        self.page[bytes.len()..].fill(0);
        // Pages of the FTL's own have no logical address: their place is as good.
        let lba = if whole { oob.seed } else { u64::from(ppn) };
        let plain = matches!(payload, Payload::Data(page) if page.is_plain_on_flash());
        let (scrambler_seed, page_crc) =
            if plain { (0, self.encode_plain()) } else { self.encode(ppn, lba) };
        let record = Record {
            oob: *oob,
            meta_len: if whole { 0 } else { bytes.len() as u32 },
            scrambler_seed,
            erases: self.blocks[self.geometry.block_of(ppn) as usize].erases,
            page_crc,
            lost: false,
            plain,
        };
        self.finish_program(ppn, &record)
    }

    /// Corrected on the way; scrambled and encoded anew only where the seed belongs to the place.
    /// Data that cannot be corrected is lost: the new page says so, and reads as uncorrectable.
    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError> {
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

    fn read(&mut self, ppn: u32) -> Result<PageBytes, NandError> {
        let record = self.fetch(ppn)?;
        if record.plain {
            return Ok(PageBytes::plain_on_flash(self.page.clone()));
        }
        self.channel.descramble(record.scrambler_seed, &mut self.page);
        Ok(PageBytes::from(&self.page[..]))
    }

    fn read_packed(&mut self, ppn: u32) -> Result<Vec<Fragment<PageBytes>>, NandError> {
        let record = self.fetch(ppn)?;
        if !matches!(record.oob.key, PageKey::Packed(_)) {
            // Taken for one when it could not be read.
            return Err(NandError::Uncorrectable { ppn, retries: 0 });
        }
        if !record.plain {
            self.channel.descramble(record.scrambler_seed, &mut self.page);
        }
        let subpages = self.packer.as_ref().map_or(1, Packer::subpages);
        packed::fragments(&self.page, subpages).ok_or(NandError::Uncorrectable { ppn, retries: 0 })
    }

    fn compress(
        &mut self,
        lpn: u32,
        page: &PageBytes,
        _request: Option<bool>,
    ) -> Option<Fragment<PageBytes>> {
        self.packer.as_mut()?.compress(&self.channel, lpn, page)
    }

    fn expand(&mut self, ppn: u32, fragment: &Fragment<PageBytes>) -> Result<PageBytes, NandError> {
        let expanded = self.packer.as_mut().and_then(|it| it.expand(&self.channel, fragment));
        expanded.ok_or(NandError::Uncorrectable { ppn, retries: 0 })
    }

    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError> {
        let record = self.fetch(ppn)?;
        self.channel.descramble(record.scrambler_seed, &mut self.page);
        Ok(self.page[..(record.meta_len as usize).min(self.page.len())].to_vec())
    }

    /// For a page that was there when the array was opened and is not proven to have been durable
    /// its bytes are checked too: a power cut may have taken them and left these fields. Of a
    /// proven page these fields are known even if nothing of it can be read.
    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        self.check_programmed(ppn)?;
        let block = self.geometry.block_of(ppn);
        let entry = &self.blocks[block as usize];
        let found = ppn - self.geometry.first_page(block) < entry.found;
        let may_be_torn = found && !self.proven.holds(ppn);
        let erases = entry.erases;
        let parity = self.parity_bytes();
        let read = if may_be_torn {
            self.store.read_page(ppn, &mut self.page, &mut self.oob)
        } else {
            self.store.read_oob(ppn, &mut self.oob)
        };
        self.stored(read)?;
        let bytes = self.oob[parity..].first_chunk();
        match bytes.map(|bytes| self.records.decode(bytes)) {
            Some(Found::Record(record))
                if record.erases == erases && (!may_be_torn || self.is_whole(record.page_crc)) =>
            {
                if may_be_torn {
                    self.note_found(ppn, &record)?;
                }
                Ok(record.oob)
            }
            _ => match self.proven_record(ppn) {
                Some(record) => Ok(record.oob),
                None => Err(NandError::Uncorrectable { ppn, retries: 0 }),
            },
        }
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        self.check_intact()?;
        let first = self.geometry.first_page(block);
        if self.blocks[block as usize].bad {
            return Err(self.forbidden("erase", first, "the block is bad"));
        }
        let erases = self.blocks[block as usize].erases + 1;
        let (fails_at, page) = self.wear.end_of_life(block, self.geometry.pages_per_block);
        if erases >= fails_at && page.is_none() {
            self.retire(block)?;
            self.health.erase_failures += 1;
            return Err(NandError::Failed { what: "erase", block });
        }
        self.health.erases += 1;
        self.forget_proofs(block);
        let was_pending = self.blocks[block as usize].pending;
        self.blocks[block as usize] =
            BlockEntry { erases, pending: self.dirty != 0 || was_pending, ..BlockEntry::default() };
        if was_pending {
            return Ok(());
        }
        if self.dirty != 0 {
            self.pending.push(block);
            return Ok(());
        }
        self.clear(block)
    }

    fn is_bad(&self, block: u32) -> bool {
        self.blocks[block as usize].bad
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.check_intact()?;
        self.settle()?;
        if self.cleared {
            self.sync_store()?;
        }
        Ok(())
    }

    fn pattern(&self, page: &PageBytes) -> Option<Pattern> {
        let plain = page.is_plain_on_flash() || self.channel.scrambler().is_none();
        plain.then(|| Pattern::of(page))
    }
}
