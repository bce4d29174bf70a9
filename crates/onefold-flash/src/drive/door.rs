//! Doors of one drive: the same pages, each door with a word on what is written through it.
//! Room: onefold-flash.   In: byte ranges.   Out: requests of the drive, with the word.
//! Source: [ses-dedup] sec. III: the host chooses what is deduplicated.
//! Invariants: all doors show the same bytes; the word of the last request that wrote any part of a
//! page counts for the page.

use std::sync::Arc;

use onefold_block::device::WriteRequest;
use onefold_block::{BlockDevice, BlockError, Extent, ZeroOptions};

use super::device::EmulatedDrive;
use crate::dedup::Policy;
use crate::nand::PageBytes;
use crate::nand::bytes::Store;

/// A drive whose written pages are deduplicated, or keep their redundancy.
#[derive(Debug)]
pub struct Door<S: Store, P: Policy<PageBytes>> {
    drive: Arc<EmulatedDrive<S, P>>,
    deduplicate: Option<bool>,
}

impl<S: Store, P: Policy<PageBytes>> Door<S, P> {
    /// A door to `drive`. Through it pages are written to be deduplicated, wherever they lie; or to
    /// be kept, so that no page ever shares theirs; or, without a word, as the drive's policy is
    /// set.
    pub const fn new(drive: Arc<EmulatedDrive<S, P>>, deduplicate: Option<bool>) -> Self {
        Self { drive, deduplicate }
    }
}

impl<S: Store, P: Policy<PageBytes> + Send> BlockDevice for Door<S, P> {
    fn size_bytes(&self) -> u64 {
        self.drive.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.drive.preferred_block_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.drive.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.drive.write_asked(self.deduplicate, WriteRequest { offset, data, fua })
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.drive.zero_asked(self.deduplicate, (offset, len), options)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.drive.trim(offset, len, fua)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.drive.flush()
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.drive.block_status(offset, len)
    }
}
