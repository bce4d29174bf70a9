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
use super::copies::CopyFile;
use super::health::NandHealth;
use super::record::{RECORD_BYTES, Record, RecordCodec};
use super::store::Store;
use super::unproven::PageBits;
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
        // What a process left to its host's cache is relied on from here on.
        this.store.sync()?;
        let entries = this.store.read_entries()?;
        let second =
            this.store.copies().map_or_else(|| vec![0; entries.len()], CopyFile::read_entries);
        let mut oobs = vec![0; (geometry.oob_bytes * geometry.pages_per_block) as usize];
        let mut copies = vec![0; RECORD_BYTES * geometry.pages_per_block as usize];
        for block in 0..geometry.blocks() {
            let entry = |all: &[u8]| {
                let (entries, _) = all.as_chunks::<ENTRY_BYTES>();
                BlockEntry::decode(&entries[block as usize]).unwrap_or_default()
            };
            // A damaged entry has lost its history; the pages still say which erase they follow.
            let entry = entry(&entries).or_copy(entry(&second));
            if this.store.is_blank(block)? {
                // Most of a drive that is new.
                let pages = BlockEntry { programmed: 0, found: 0, pending: false, ..entry };
                this.blocks[block as usize] = pages;
                continue;
            }
            let first = geometry.first_page(block);
            this.store.read_oob(first, &mut oobs)?;
            if let Some(file) = this.store.copies() {
                file.read_records(first, &mut copies);
            }
            this.survey(block, entry, &oobs, &copies);
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
        let proven =
            store.copies().map_or_else(PageBits::default, |_| PageBits::new(geometry.pages()));
        Ok(Self {
            geometry,
            store,
            channel,
            records: RecordCodec::new(),
            wear,
            blocks: vec![BlockEntry::default(); geometry.blocks() as usize],
            pending: Vec::new(),
            unproven: Vec::new(),
            proven,
            own_blocks: vec![false; geometry.blocks() as usize],
            dirty: 0,
            cleared: false,
            page: vec![0; geometry.page_bytes as usize],
            oob: vec![0; oob_bytes as usize],
            beside: (vec![0; geometry.page_bytes as usize], vec![0; oob_bytes as usize]),
            now_s: 0,
            health: NandHealth::default(),
            packer: None,
            broken: None,
        })
    }

    /// Which pages of a block count, by their out-of-band bytes as stored and the second copies of
    /// those; which of them are proven.
    fn survey(&mut self, block: u32, entry: BlockEntry, oobs: &[u8], copies: &[u8]) {
        let parity = self.channel.parity_bytes();
        let (copies, _) = copies.as_chunks::<RECORD_BYTES>();
        let said: Vec<[Option<Record>; 2]> = oobs
            .chunks_exact(self.geometry.oob_bytes as usize)
            .zip(copies)
            .map(|(oob, copy)| {
                let bytes = oob[parity..].first_chunk();
                let first = bytes.and_then(|bytes| self.records.decode(bytes).record());
                // Mostly they are the same.
                let same = bytes == Some(copy);
                [first, if same { first } else { self.records.decode(copy).record() }]
            })
            .collect();
        let every = || said.iter().flatten().flatten().map(|record| record.erases);
        let erases = every().fold(entry.erases, u32::max);
        let counts = |record: &Option<Record>| record.is_some_and(|r| r.erases == erases);
        let last = said.iter().rposition(|either| either.iter().any(counts));
        let found = last.map_or(0, |last| last as u32 + 1);
        let first = self.geometry.first_page(block);
        for (ppn, [_, copy]) in (first..).zip(&said) {
            self.proven.set(ppn, counts(copy));
        }
        self.own_blocks[block as usize] =
            said.iter().flatten().flatten().any(|record| !record.oob.key.is_data());
        let newer = erases != entry.erases;
        self.blocks[block as usize] = BlockEntry {
            erases,
            programmed: found,
            found,
            reads: if newer { 0 } else { entry.reads },
            filled_s: entry.filled_s,
            bad: entry.bad,
            pending: false,
        };
    }
}
