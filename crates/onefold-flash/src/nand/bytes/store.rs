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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onefold_block::SplitMix64;

    use super::*;
    use crate::testing::plane::plane;

    const PAGE: usize = 4096;
    const OOB: usize = 128;

    /// Any page, then any pages of a block out of band, beside a map of what was stored.
    #[test]
    fn cells_hold_what_was_stored_in_them_and_zeroes_elsewhere() {
        let geometry = plane(6, 4);
        let mut store = MemStore::new(geometry);
        let mut model: BTreeMap<u32, (Vec<u8>, Vec<u8>)> = BTreeMap::new();
        let mut entries = vec![0; 6 * ENTRY_BYTES];
        let mut random = SplitMix64::new(4);
        for step in 0..300 {
            let ppn = random.below(24) as u32;
            let block = ppn / 4;
            match random.below(6) {
                0 => {
                    store.clear_block(block).expect("cleared");
                    model.retain(|&at, _| at / 4 != block);
                }
                1 => {
                    let entry: [u8; ENTRY_BYTES] = std::array::from_fn(|_| random.below(256) as u8);
                    store.write_entry(block, &entry).expect("written");
                    let at = block as usize * ENTRY_BYTES;
                    entries[at..at + ENTRY_BYTES].copy_from_slice(&entry);
                }
                _ => {
                    let (data, oob) = (random.bytes(PAGE), random.bytes(OOB));
                    store.write_page(ppn, &data, &oob).expect("written");
                    model.insert(ppn, (data, oob));
                }
            }
            let expected =
                |at: u32| model.get(&at).cloned().unwrap_or_else(|| (vec![0; PAGE], vec![0; OOB]));
            for at in block * 4..block * 4 + 4 {
                let (mut data, mut oob) = (vec![1; PAGE], vec![1; OOB]);
                store.read_page(at, &mut data, &mut oob).expect("read");
                assert!((data, oob) == expected(at), "step {step}, page {at}");
                let rest = (block + 1) * 4 - at;
                let mut oobs = vec![1; OOB * rest as usize];
                store.read_oob(at, &mut oobs).expect("read");
                let all: Vec<u8> = (at..at + rest).flat_map(|at| expected(at).1).collect();
                assert!(oobs == all, "step {step}, from page {at}");
            }
            assert!(store.read_entries().expect("read") == entries, "step {step}");
            assert!(!store.is_blank(block).expect("answered"), "it does not know");
        }
    }

    #[test]
    fn memory_of_cleared_blocks_is_kept_for_the_next_ones_and_no_more() {
        let mut store = MemStore::new(plane(100, 1));
        let block = (PAGE + OOB) as u64;
        let taken = |store: &MemStore| store.allocated_bytes().expect("known") / block;
        for ppn in 0..100 {
            assert_eq!(taken(&store), u64::from(ppn));
            store.write_page(ppn, &[5; PAGE], &[6; OOB]).expect("written");
        }
        for number in 0..100 {
            store.clear_block(number).expect("cleared");
        }
        assert_eq!(taken(&store), 64);
        store.write_page(3, &[7; PAGE], &[8; OOB]).expect("written");
        assert_eq!(taken(&store), 64, "one of them is in use again");
        assert_eq!(store.allocated_bytes().expect("known") % block, 0);
    }
}
