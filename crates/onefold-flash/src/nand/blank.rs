//! An array that remembers no content: for what needs only the FTL's decisions.
//! Room: onefold-flash.
//! Cost: 2 B per block, nothing per page. It cannot be recovered from: it has no out-of-band area.

use crate::geometry::Geometry;
use crate::nand::{Nand, NandError, Oob, PageKey, Payload};

/// A NAND array without content.
#[derive(Clone, Debug)]
pub struct BlankNand {
    geometry: Geometry,
    /// Pages programmed since the last erase, per block.
    programmed: Vec<u16>,
}

impl BlankNand {
    /// An erased array. Blocks may have up to 65,535 pages.
    pub fn new(geometry: Geometry) -> Self {
        assert!(u16::try_from(geometry.pages_per_block).is_ok(), "block of over 65,535 pages");
        Self { geometry, programmed: vec![0; geometry.blocks() as usize] }
    }

    fn take_next(&mut self, ppn: u32) -> Result<(), NandError> {
        let block = self.geometry.block_of(ppn);
        let next = &mut self.programmed[block as usize];
        if ppn - self.geometry.first_page(block) != u32::from(*next) {
            let why = "pages of a block are programmed in order, once";
            return Err(NandError::Forbidden { what: "program", ppn, block, why });
        }
        *next += 1;
        Ok(())
    }

    fn check_programmed(&self, ppn: u32) -> Result<(), NandError> {
        let block = self.geometry.block_of(ppn);
        let programmed = u32::from(self.programmed[block as usize]);
        if ppn - self.geometry.first_page(block) < programmed {
            Ok(())
        } else {
            Err(NandError::Erased { ppn })
        }
    }
}

impl Nand for BlankNand {
    type Page = ();

    const KEEPS_META: bool = false;
    const PACKS: bool = false;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn program(
        &mut self,
        ppn: u32,
        _payload: Payload<'_, ()>,
        _oob: &Oob,
    ) -> Result<(), NandError> {
        self.take_next(ppn)
    }

    fn copy(&mut self, from: u32, to: u32, _key: PageKey, _seq: u64) -> Result<u64, NandError> {
        self.check_programmed(from)?;
        self.take_next(to)?;
        Ok(0)
    }

    fn read(&mut self, ppn: u32) -> Result<(), NandError> {
        self.check_programmed(ppn)
    }

    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError> {
        self.check_programmed(ppn)?;
        Err(NandError::Uncorrectable { ppn, retries: 0 })
    }

    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        self.check_programmed(ppn)?;
        Err(NandError::Uncorrectable { ppn, retries: 0 })
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        self.programmed[block as usize] = 0;
        Ok(())
    }

    fn is_bad(&self, _block: u32) -> bool {
        false
    }

    fn sync(&mut self) -> Result<(), NandError> {
        Ok(())
    }
}
