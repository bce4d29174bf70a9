//! What becomes durable before what in an array of bytes.
//! Room: onefold-flash.
//! Invariants: cells of an erased block are cleared when everything programmed before the erase is
//! durable, and not before; a page gets its second copy once it is durable.

use super::ByteNand;
use super::store::Store;
use crate::nand::NandError;

impl<S: Store> ByteNand<S> {
    /// Makes everything programmed so far durable, and then clears the cells of erased blocks.
    pub(super) fn settle(&mut self) -> Result<(), NandError> {
        if self.dirty != 0 {
            self.sync_store()?;
        }
        for block in std::mem::take(&mut self.pending) {
            self.blocks[block as usize].pending = false;
            self.clear(block)?;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, block: u32) -> Result<(), NandError> {
        let entry = self.blocks[block as usize].encode();
        // The entry first: without it, what is left of the old pages would count as data.
        let cleared =
            self.store.write_entry(block, &entry).and_then(|()| self.store.clear_block(block));
        self.cleared = true;
        self.stored(cleared)?;
        self.clear_copies(block)
    }

    pub(super) fn sync_store(&mut self) -> Result<(), NandError> {
        let synced = self.store.sync();
        self.stored(synced)?;
        (self.dirty, self.cleared) = (0, false);
        self.health.syncs += 1;
        self.prove()
    }
}
