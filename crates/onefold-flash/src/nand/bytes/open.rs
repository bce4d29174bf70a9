//! Making and opening an array of bytes: which pages of each block hold something.
//! Room: onefold-flash.   In: a store.   Out: `ByteNand`.
//! Invariants: a block's erase count is the highest that its entry or one of its pages says; a
//! page that says less is left over from before an erase; what was lost before the last page that
//! counts is torn and not erased.

use onefold_block::MediaError;
use onefold_code::CodeError;
use thiserror::Error;

use super::block::{BlockEntry, ENTRY_BYTES};
use super::channel::{Channel, ChannelSpec};
use super::health::NandHealth;
use super::record::{Found, RECORD_BYTES, RecordCodec};
use super::store::Store;
use super::{ByteNand, MemStore};
use crate::geometry::{Geometry, GeometryError};
use crate::nand::wear::WearModel;

/// Why an array cannot be made or opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The shape is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The code or the scrambler cannot be had, or not for such pages.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// Parity and the FTL's fields need more room than a page has beside its data.
    #[error(
        "oob_bytes is {oob_bytes}, but {code} takes {parity_bytes} bytes of parity and the FTL's \
         fields {RECORD_BYTES}: at least {needed} are accepted",
        needed = .parity_bytes + RECORD_BYTES
    )]
    OobTooSmall {
        /// Out-of-band bytes of a page.
        oob_bytes: u32,
        /// Name of the code.
        code: String,
        /// Parity bytes of a page.
        parity_bytes: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl ByteNand<MemStore> {
    /// A new array in memory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn in_memory(
        geometry: Geometry,
        channel: &ChannelSpec,
        wear: WearModel,
    ) -> Result<Self, OpenError> {
        geometry.check()?;
        Self::create(MemStore::new(geometry), geometry, channel, wear)
    }
}

impl<S: Store> ByteNand<S> {
    /// Makes a new array of erased cells; blocks that are bad from the start are marked.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn create(
        store: S,
        geometry: Geometry,
        channel: &ChannelSpec,
        wear: WearModel,
    ) -> Result<Self, OpenError> {
        let mut this = Self::assemble(store, geometry, channel, wear)?;
        for block in (0..geometry.blocks()).filter(|&b| this.wear.is_factory_bad(b)) {
            let entry = &mut this.blocks[block as usize];
            entry.bad = true;
            this.store.write_entry(block, &entry.encode())?;
        }
        this.store.sync()?;
        Ok(this)
    }

    /// Opens the array that a store holds, whatever a power cut has left of it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        store: S,
        geometry: Geometry,
        channel: &ChannelSpec,
        wear: WearModel,
    ) -> Result<Self, OpenError> {
        let mut this = Self::assemble(store, geometry, channel, wear)?;
        let entries = this.store.read_entries()?;
        let mut oobs = vec![0; (geometry.oob_bytes * geometry.pages_per_block) as usize];
        for (block, entry) in (0..geometry.blocks()).zip(entries.chunks_exact(ENTRY_BYTES)) {
            let entry = entry.first_chunk().and_then(BlockEntry::decode);
            this.store.read_oob(geometry.first_page(block), &mut oobs)?;
            // A damaged entry has lost its history; the pages still say which erase they follow.
            this.blocks[block as usize] = this.survey(entry.unwrap_or_default(), &oobs);
        }
        Ok(this)
    }

    fn assemble(
        store: S,
        geometry: Geometry,
        spec: &ChannelSpec,
        wear: WearModel,
    ) -> Result<Self, OpenError> {
        geometry.check()?;
        let channel = Channel::new(spec, geometry.page_bytes as usize, geometry.pages())?;
        let (oob_bytes, parity_bytes) = (geometry.oob_bytes, channel.parity_bytes());
        if (oob_bytes as usize) < parity_bytes + RECORD_BYTES {
            let code = spec.code.clone();
            return Err(OpenError::OobTooSmall { oob_bytes, code, parity_bytes });
        }
        Ok(Self {
            geometry,
            store,
            channel,
            records: RecordCodec::new(),
            wear,
            blocks: vec![BlockEntry::default(); geometry.blocks() as usize],
            pending: Vec::new(),
            dirty: 0,
            cleared: false,
            page: vec![0; geometry.page_bytes as usize],
            oob: vec![0; oob_bytes as usize],
            now_s: 0,
            health: NandHealth::default(),
            broken: None,
        })
    }

    /// Which pages of a block count, by their out-of-band bytes as stored.
    fn survey(&self, entry: BlockEntry, oobs: &[u8]) -> BlockEntry {
        let parity = self.channel.parity_bytes();
        let said: Vec<Found> = oobs
            .chunks_exact(self.geometry.oob_bytes as usize)
            .filter_map(|oob| oob[parity..].first_chunk())
            .map(|record| self.records.decode(record))
            .collect();
        let erases_of = |found: &Found| match found {
            Found::Record(record) => Some(record.erases),
            Found::Erased | Found::Unreadable => None,
        };
        let erases = said.iter().filter_map(erases_of).fold(entry.erases, u32::max);
        let last = said.iter().rposition(|found| erases_of(found) == Some(erases));
        let found = last.map_or(0, |last| last as u32 + 1);
        let newer = erases != entry.erases;
        BlockEntry {
            erases,
            programmed: found,
            found,
            reads: if newer { 0 } else { entry.reads },
            filled_s: entry.filled_s,
            bad: entry.bad,
            pending: false,
        }
    }
}
