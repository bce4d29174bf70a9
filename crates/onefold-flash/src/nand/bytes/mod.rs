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
mod program;
mod proof;
mod read;
mod record;
mod settle;
mod store;
mod stored_parity;
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
pub use stored_parity::StoredParity;

use packed::Packer;
use record::kind_bit;
use unproven::{PageBits, Unproven};

use onefold_block::MediaError;

use crate::dedup::Engine;
use crate::geometry::Geometry;
use crate::nand::wear::WearModel;
use crate::nand::{Fragment, Nand, NandError, Oob, PageKey, Pattern, Payload};

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

impl<S: Store> ByteNand<S> {
    /// With a compression engine, on flash pages of so many sub-pages.
    #[must_use]
    pub fn with_engine(self, engine: Engine, subpages: u32) -> Self {
        let packer = (engine != Engine::None).then(|| Packer::new(engine, subpages));
        Self { packer, ..self }
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

    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError> {
        self.copied(from, to, key, seq)
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
        let (fails_at, page) = self.wear.end_of_life(block, self.geometry.pages_per_block);
        let next = self.blocks[block as usize].erases.checked_add(1);
        let Some(erases) = next.filter(|&erases| erases < fails_at || page.is_some()) else {
            self.retire(block)?;
            self.health.erase_failures += 1;
            return Err(NandError::Failed { what: "erase", block });
        };
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
