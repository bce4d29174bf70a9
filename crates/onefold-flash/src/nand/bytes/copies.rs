//! Second copies of what cells say of themselves, in a file beside them.
//! Room: onefold-flash.   In: what is durable in the first file.   Out: that, when it is hurt.
//! Layout: docs/ssd-format.md.
//! Invariants: the copy of a page is written after the page is durable, so that a copy proves that
//! its page was there: a page that has one and cannot be read was damaged, not torn. Nothing here
//! has to be durable at a certain moment; a copy that is missing proves nothing.
//! Cost: 64 B a page and a write for each run of pages between two syncs; the FTL's own pages in
//! whole.

use std::sync::Arc;

use onefold_block::{Media, MediaError};

use super::block::ENTRY_BYTES;
use super::description::{Description, FileError, HEADER_BYTES};
use super::record::RECORD_BYTES;
use crate::geometry::Geometry;

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"ONEFCOPY";
/// The regions begin on multiples of this.
const ALIGN: u64 = 4096;

/// The file of second copies.
pub struct CopyFile {
    media: Arc<dyn Media>,
    geometry: Geometry,
    records: u64,
    own: u64,
}

impl std::fmt::Debug for CopyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyFile").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl CopyFile {
    /// Makes a file without copies.
    ///
    /// # Errors
    /// [`FileError::TooLong`], [`FileError::Media`].
    pub fn create(media: Arc<dyn Media>, description: &Description) -> Result<Self, FileError> {
        let this = Self::of(media, description.geometry);
        this.media.set_len(0)?;
        this.media.set_len(this.end())?;
        this.media.write(0, &description.encode(MAGIC)?)?;
        this.media.sync()?;
        Ok(this)
    }

    /// Opens the file, or makes it anew if it is not whole or belongs to another array: copies are
    /// a help and no condition.
    ///
    /// # Errors
    /// [`FileError::TooLong`], [`FileError::Media`].
    pub fn open(media: Arc<dyn Media>, wanted: &Description) -> Result<Self, FileError> {
        if !Self::describes(&*media, wanted) {
            return Self::create(media, wanted);
        }
        let this = Self::of(media, wanted.geometry);
        if this.media.len()? < this.end() {
            this.media.set_len(this.end())?;
        }
        Ok(this)
    }

    /// Whether a file holds copies of the array that is asked for.
    pub fn describes(media: &dyn Media, wanted: &Description) -> bool {
        Self::describe(media).is_some_and(|said| said.must_be(wanted).is_ok())
    }

    /// What a file of copies says of itself, if it is one.
    pub fn describe(media: &dyn Media) -> Option<Description> {
        let mut header = vec![0; HEADER_BYTES];
        media.read(0, &mut header).ok()?;
        Description::decode(&header, MAGIC).ok()
    }

    fn of(media: Arc<dyn Media>, geometry: Geometry) -> Self {
        let table = u64::from(geometry.blocks()) * ENTRY_BYTES as u64;
        let records = (HEADER_BYTES as u64 + table).next_multiple_of(ALIGN);
        let all_records = u64::from(geometry.pages()) * RECORD_BYTES as u64;
        let own = (records + all_records).next_multiple_of(ALIGN);
        Self { media, geometry, records, own }
    }

    fn page_and_oob(&self) -> u64 {
        u64::from(self.geometry.page_bytes) + u64::from(self.geometry.oob_bytes)
    }

    fn end(&self) -> u64 {
        self.own + u64::from(self.geometry.pages()) * self.page_and_oob()
    }

    fn own_at(&self, ppn: u32) -> u64 {
        self.own + u64::from(ppn) * self.page_and_oob()
    }

    pub(super) fn write_entry(&self, block: u32, entry: &[u8]) -> Result<(), MediaError> {
        self.media.write(HEADER_BYTES as u64 + u64::from(block) * ENTRY_BYTES as u64, entry)
    }

    /// The entries of all blocks, as far as they can be read: each has a checksum of its own.
    pub(super) fn read_entries(&self) -> Vec<u8> {
        let mut entries = vec![0; self.geometry.blocks() as usize * ENTRY_BYTES];
        let _ = self.media.read(HEADER_BYTES as u64, &mut entries);
        entries
    }

    /// Stores the records of pages from `first` on.
    pub(super) fn write_records(&self, first: u32, records: &[u8]) -> Result<(), MediaError> {
        self.media.write(self.records + u64::from(first) * RECORD_BYTES as u64, records)
    }

    /// Fills `records` from page `first` on; zeroes where nothing can be read.
    pub(super) fn read_records(&self, first: u32, records: &mut [u8]) {
        let at = self.records + u64::from(first) * RECORD_BYTES as u64;
        if self.media.read(at, records).is_err() {
            records.fill(0);
        }
    }

    /// Whether a block that begins with page `first` is known to have no records.
    pub(super) fn is_blank(&self, first: u32) -> bool {
        let from = self.records + u64::from(first) * RECORD_BYTES as u64;
        let end = from + u64::from(self.geometry.pages_per_block) * RECORD_BYTES as u64;
        matches!(self.media.next_data(from), Ok(data) if data.is_none_or(|data| data >= end))
    }

    pub(super) fn write_own(&self, ppn: u32, page_and_oob: &[u8]) -> Result<(), MediaError> {
        self.media.write(self.own_at(ppn), page_and_oob)
    }

    /// Fills both buffers from the copy of one of the FTL's own pages; whether it can be read.
    pub(super) fn read_own(&self, ppn: u32, page: &mut [u8], oob: &mut [u8]) -> bool {
        let at = self.own_at(ppn);
        let read = self.media.read(at, page);
        read.and_then(|()| self.media.read(at + page.len() as u64, oob)).is_ok()
    }

    /// Gives the space of a block's own pages back.
    pub(super) fn clear_own(&self, block: u32) -> Result<(), MediaError> {
        let first = self.geometry.first_page(block);
        let len = u64::from(self.geometry.pages_per_block) * self.page_and_oob();
        self.media.punch(self.own_at(first), len)
    }

    pub(super) fn sync(&self) -> Result<(), MediaError> {
        self.media.sync()
    }

    pub(super) fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.media.allocated_bytes()
    }
}
