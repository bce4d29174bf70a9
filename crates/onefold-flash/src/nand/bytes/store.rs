//! Where the cells of an array are: in memory here, in a file beside.
//! Room: onefold-flash.   In: whole pages with their out-of-band bytes, whole blocks.

use onefold_block::MediaError;

use super::block::ENTRY_BYTES;
use super::copies::CopyFile;
use crate::geometry::Geometry;

/// Cells. Erased ones are zeroes. What is stored is durable after [`Store::sync`]; before that
/// any part of it may be lost in a power cut, in any order.
pub trait Store: Send {
    /// Stores a page and its out-of-band bytes.
    fn write_page(&mut self, ppn: u32, data: &[u8], oob: &[u8]) -> Result<(), MediaError>;

    /// Fills both buffers from a page.
    fn read_page(&self, ppn: u32, data: &mut [u8], oob: &mut [u8]) -> Result<(), MediaError>;

    /// The out-of-band bytes of `oob.len() / oob_bytes` pages from `ppn` on, within a block.
    fn read_oob(&self, ppn: u32, oob: &mut [u8]) -> Result<(), MediaError>;

    /// Whether the out-of-band bytes of a block, and their second copies, are known to be zeroes.
    fn is_blank(&self, _block: u32) -> Result<bool, MediaError> {
        Ok(false)
    }

    /// Makes all pages of a block zeroes, or leaves them as they are: they are not to be relied
    /// on afterwards.
    fn clear_block(&mut self, block: u32) -> Result<(), MediaError>;

    /// Stores the entry of a block.
    fn write_entry(&mut self, block: u32, entry: &[u8; ENTRY_BYTES]) -> Result<(), MediaError>;

    /// The entries of all blocks, one after another.
    fn read_entries(&self) -> Result<Vec<u8>, MediaError>;

    /// Makes everything stored so far durable.
    fn sync(&mut self) -> Result<(), MediaError>;

    /// Bytes that the cells take below.
    fn allocated_bytes(&self) -> Result<u64, MediaError>;

    /// The file of second copies, where there is one.
    fn copies(&self) -> Option<&CopyFile> {
        None
    }
}

/// Cells in memory: nothing outlives the process.
#[derive(Clone, Debug)]
pub struct MemStore {
    geometry: Geometry,
    /// Pages then out-of-band bytes of each block that was programmed.
    blocks: Vec<Option<Vec<u8>>>,
    entries: Vec<[u8; ENTRY_BYTES]>,
    /// Cleared blocks whose memory is used again.
    spare: Vec<Vec<u8>>,
}

impl MemStore {
    /// Erased cells.
    pub fn new(geometry: Geometry) -> Self {
        let blocks = geometry.blocks() as usize;
        Self {
            geometry,
            blocks: vec![None; blocks],
            entries: vec![[0; ENTRY_BYTES]; blocks],
            spare: Vec::new(),
        }
    }

    fn data_bytes(&self) -> usize {
        self.geometry.page_bytes as usize * self.geometry.pages_per_block as usize
    }

    fn block_bytes(&self) -> usize {
        self.data_bytes()
            + self.geometry.oob_bytes as usize * self.geometry.pages_per_block as usize
    }

    /// Block, and where data and out-of-band bytes of a page begin in it.
    fn place(&self, ppn: u32) -> (usize, usize, usize) {
        let block = self.geometry.block_of(ppn);
        let page = (ppn - self.geometry.first_page(block)) as usize;
        let data = page * self.geometry.page_bytes as usize;
        let oob = self.data_bytes() + page * self.geometry.oob_bytes as usize;
        (block as usize, data, oob)
    }
}

impl Store for MemStore {
    fn write_page(&mut self, ppn: u32, data: &[u8], oob: &[u8]) -> Result<(), MediaError> {
        let (block, data_at, oob_at) = self.place(ppn);
        let size = self.block_bytes();
        let spare = &mut self.spare;
        let bytes = self.blocks[block].get_or_insert_with(|| {
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.resize(size, 0);
            bytes
        });
        bytes[data_at..data_at + data.len()].copy_from_slice(data);
        bytes[oob_at..oob_at + oob.len()].copy_from_slice(oob);
        Ok(())
    }

    fn read_page(&self, ppn: u32, data: &mut [u8], oob: &mut [u8]) -> Result<(), MediaError> {
        let (block, data_at, oob_at) = self.place(ppn);
        if let Some(bytes) = &self.blocks[block] {
            data.copy_from_slice(&bytes[data_at..data_at + data.len()]);
            oob.copy_from_slice(&bytes[oob_at..oob_at + oob.len()]);
        } else {
            data.fill(0);
            oob.fill(0);
        }
        Ok(())
    }

    fn read_oob(&self, ppn: u32, oob: &mut [u8]) -> Result<(), MediaError> {
        let (block, _, oob_at) = self.place(ppn);
        match &self.blocks[block] {
            Some(bytes) => oob.copy_from_slice(&bytes[oob_at..oob_at + oob.len()]),
            None => oob.fill(0),
        }
        Ok(())
    }

    fn clear_block(&mut self, block: u32) -> Result<(), MediaError> {
        self.spare.extend(self.blocks[block as usize].take());
        // Enough for the blocks that a drive fills at a time.
        self.spare.truncate(64);
        Ok(())
    }

    fn write_entry(&mut self, block: u32, entry: &[u8; ENTRY_BYTES]) -> Result<(), MediaError> {
        self.entries[block as usize] = *entry;
        Ok(())
    }

    fn read_entries(&self) -> Result<Vec<u8>, MediaError> {
        Ok(self.entries.concat())
    }

    fn sync(&mut self) -> Result<(), MediaError> {
        Ok(())
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        let used = self.blocks.iter().filter(|block| block.is_some()).count() + self.spare.len();
        Ok((used * self.block_bytes()) as u64)
    }
}
