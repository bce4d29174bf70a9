//! An array that keeps a 16-byte identity of each page instead of its bytes.
//! Room: onefold-flash.
//! Invariants: those of [`crate::nand`]; a page whose program was interrupted, and every page of a
//! block whose erase was interrupted, reads as uncorrectable.
//! Cost: 48 B per page that was ever programmed, plus the bytes of the FTL's own pages; a program
//! or a read finds all that there is of a page at one place.

use std::collections::BTreeMap;

use crate::geometry::Geometry;
use crate::memory::prefetch;
use crate::nand::{
    Fragment, Identity, Interruptible, Nand, NandError, Oob, PageKey, Payload, Sizes,
};

/// The sequence of a page whose program was interrupted.
const TORN: u64 = u64::MAX;

/// How far ahead of what is programmed memory is asked for.
const PAGES_AHEAD: usize = 2;

/// What there is of a page.
#[derive(Clone, Copy, Debug)]
struct Stored {
    identity: u128,
    oob: Oob,
}

const NOTHING: Stored =
    Stored { identity: 0, oob: Oob { key: PageKey::Data(0), seq: 0, seed: 0, tag: 0 } };

const _: () = assert!(size_of::<Stored>() == 48);

/// The pages of one block.
#[derive(Clone, Debug, Default)]
struct Block {
    /// Empty until the first page is programmed.
    pages: Box<[Stored]>,
    programmed: u16,
    bad: bool,
    /// What packed pages hold; empty in a block that has none.
    packed: Vec<Box<[Fragment<Identity>]>>,
}

/// A NAND array of identities.
#[derive(Clone, Debug)]
pub struct IdentityNand {
    geometry: Geometry,
    blocks: Vec<Block>,
    meta: BTreeMap<u32, Box<[u8]>>,
    sizes: Option<Sizes>,
}

impl IdentityNand {
    /// An erased array. Blocks may have up to 65,535 pages.
    pub fn new(geometry: Geometry) -> Self {
        assert!(u16::try_from(geometry.pages_per_block).is_ok(), "block of over 65,535 pages");
        Self {
            geometry,
            blocks: vec![Block::default(); geometry.blocks() as usize],
            meta: BTreeMap::new(),
            sizes: None,
        }
    }

    /// With a compression engine that leaves pages as long as `sizes` says.
    #[must_use]
    pub fn with_sizes(self, sizes: Option<Sizes>) -> Self {
        Self { sizes, ..self }
    }

    fn forbidden(&self, what: &'static str, ppn: u32, why: &'static str) -> NandError {
        NandError::Forbidden { what, ppn, block: self.geometry.block_of(ppn), why }
    }

    #[inline]
    fn split(&self, ppn: u32) -> (usize, usize) {
        (
            (ppn / self.geometry.pages_per_block) as usize,
            (ppn % self.geometry.pages_per_block) as usize,
        )
    }

    /// Programs a page, which must be the next one of its block.
    #[inline]
    fn store(&mut self, ppn: u32, stored: Stored) -> Result<(), NandError> {
        let (number, page) = self.split(ppn);
        let block = &mut self.blocks[number];
        if block.bad || page != usize::from(block.programmed) {
            return Err(self.refused(ppn));
        }
        if block.pages.is_empty() {
            block.pages = vec![NOTHING; self.geometry.pages_per_block as usize].into();
        }
        block.pages[page] = stored;
        block.programmed += 1;
        prefetch(&block.pages, page + PAGES_AHEAD);
        Ok(())
    }

    /// Why a page cannot be programmed.
    #[cold]
    fn refused(&self, ppn: u32) -> NandError {
        let bad = self.blocks[self.split(ppn).0].bad;
        let out_of_order = "pages of a block are programmed in order, once";
        self.forbidden("program", ppn, if bad { "the block is bad" } else { out_of_order })
    }

    #[inline]
    fn stored(&self, ppn: u32) -> Result<&Stored, NandError> {
        let (number, page) = self.split(ppn);
        let block = &self.blocks[number];
        match block.pages.get(page) {
            Some(stored) if page < usize::from(block.programmed) => {
                if stored.oob.seq == TORN {
                    return Err(NandError::Uncorrectable { ppn, retries: 0 });
                }
                Ok(stored)
            }
            _ => Err(NandError::Erased { ppn }),
        }
    }
}

impl Nand for IdentityNand {
    type Page = Identity;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn program(
        &mut self,
        ppn: u32,
        payload: Payload<'_, Identity>,
        oob: &Oob,
    ) -> Result<(), NandError> {
        let identity = match payload {
            Payload::Data(identity) => identity.0,
            Payload::Meta(bytes) if bytes.len() > self.geometry.page_bytes as usize => {
                return Err(self.forbidden("program", ppn, "the bytes are more than a page"));
            }
            Payload::Meta(_) | Payload::Packed(_) => NOTHING.identity,
        };
        debug_assert!(oob.seq < TORN, "no page has the sequence of a torn one");
        self.store(ppn, Stored { identity, oob: *oob })?;
        if let Payload::Packed(fragments) = payload {
            let (block, page) = self.split(ppn);
            let packed = &mut self.blocks[block].packed;
            packed.resize_with(self.geometry.pages_per_block as usize, Box::default);
            packed[page] = fragments.into();
        }
        if let Payload::Meta(bytes) = payload {
            self.meta.insert(ppn, bytes.into());
        }
        Ok(())
    }

    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError> {
        let Stored { identity, oob } = *self.stored(from)?;
        self.store(to, Stored { identity, oob: Oob { key, seq, ..oob } })?;
        Ok(oob.tag)
    }

    #[inline]
    fn expect_copy(&self, ppn: u32) {
        let (block, page) = self.split(ppn);
        prefetch(&self.blocks[block].pages, page);
    }

    fn read(&mut self, ppn: u32) -> Result<Identity, NandError> {
        let stored = self.stored(ppn)?;
        match stored.oob.key {
            PageKey::Data(_) | PageKey::Kept(_) | PageKey::Shared(_) => {
                Ok(Identity(stored.identity))
            }
            _ => Err(self.forbidden("read", ppn, "the page is no data page")),
        }
    }

    fn read_packed(&mut self, ppn: u32) -> Result<Vec<Fragment<Identity>>, NandError> {
        let (block, page) = self.split(ppn);
        match self.stored(ppn)?.oob.key {
            PageKey::Packed(_) => Ok(self.blocks[block].packed[page].to_vec()),
            _ => Err(self.forbidden("read", ppn, "the page is no packed page")),
        }
    }

    fn compress(
        &mut self,
        lpn: u32,
        page: &Identity,
        request: Option<bool>,
    ) -> Option<Fragment<Identity>> {
        let sizes = self.sizes.as_ref()?;
        let subpages = sizes.subpages_of(lpn, *page, request);
        (subpages < sizes.subpages).then_some(Fragment {
            key: PageKey::Data(lpn),
            seed: lpn.into(),
            tag: 0,
            subpages,
            content: Some(*page),
        })
    }

    fn expand(&mut self, ppn: u32, fragment: &Fragment<Identity>) -> Result<Identity, NandError> {
        fragment.content.ok_or(NandError::Uncorrectable { ppn, retries: 0 })
    }

    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError> {
        self.stored(ppn)?;
        match self.meta.get(&ppn) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(self.forbidden("read", ppn, "the page is a data page")),
        }
    }

    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        Ok(self.stored(ppn)?.oob)
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        let first = self.geometry.first_page(block);
        if self.blocks[block as usize].bad {
            return Err(self.forbidden("erase", first, "the block is bad"));
        }
        self.blocks[block as usize].programmed = 0;
        let after = first + self.geometry.pages_per_block;
        while let Some((&ppn, _)) = self.meta.range(first..after).next() {
            self.meta.remove(&ppn);
        }
        Ok(())
    }

    fn is_bad(&self, block: u32) -> bool {
        self.blocks[block as usize].bad
    }

    fn sync(&mut self) -> Result<(), NandError> {
        Ok(())
    }
}

impl Interruptible for IdentityNand {
    fn tear_program(&mut self, ppn: u32) {
        let torn = Oob { seq: TORN, ..NOTHING.oob };
        // What may not be programmed cannot be torn.
        let _ = self.store(ppn, Stored { oob: torn, ..NOTHING });
    }

    fn tear_erase(&mut self, block: u32) {
        if self.erase(block).is_ok() {
            let first = self.geometry.first_page(block);
            for page in 0..self.geometry.pages_per_block {
                self.tear_program(first + page);
            }
        }
    }

    fn mark_bad(&mut self, block: u32) {
        self.blocks[block as usize].bad = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> IdentityNand {
        IdentityNand::new(Geometry {
            channels: 1,
            packages: 1,
            dies_per_package: 1,
            planes_per_die: 1,
            blocks_per_plane: 4,
            pages_per_block: 4,
            page_bytes: 512,
            oob_bytes: 64,
        })
    }

    fn oob(key: PageKey, seq: u64) -> Oob {
        Oob { key, seq, seed: 77, tag: 99 }
    }

    #[test]
    fn pages_come_back_and_travel_with_seed_and_tag() {
        let mut nand = small();
        let page = Identity(5);
        nand.program(0, Payload::Data(&page), &oob(PageKey::Data(3), 1)).expect("programs");
        assert_eq!(nand.copy(0, 4, PageKey::Shared(8), 2).expect("copies"), 99);
        assert_eq!(nand.read(4).expect("reads"), page);
        let moved = Oob { key: PageKey::Shared(8), seq: 2, seed: 77, tag: 99 };
        assert_eq!(nand.read_oob(4).expect("reads"), moved);
        let meta = oob(PageKey::Map(1), 3);
        nand.program(1, Payload::Meta(b"map"), &meta).expect("programs");
        assert_eq!(nand.read_meta(1).expect("reads"), b"map");
        assert_eq!(nand.read_oob(1).expect("reads"), meta);
        assert!(nand.read(1).is_err() && nand.read_meta(0).is_err());
    }

    #[test]
    fn what_nand_forbids_is_refused() {
        let mut nand = small();
        let page = Identity(5);
        let key = oob(PageKey::Data(0), 1);
        assert!(nand.program(1, Payload::Data(&page), &key).is_err(), "out of order");
        nand.program(0, Payload::Data(&page), &key).expect("first page");
        assert!(nand.program(0, Payload::Data(&page), &key).is_err(), "twice");
        assert!(nand.program(1, Payload::Meta(&[0; 513]), &key).is_err(), "more than a page");
        assert!(matches!(nand.read(1), Err(NandError::Erased { ppn: 1 })));
        nand.erase(0).expect("erases");
        assert!(matches!(nand.read(0), Err(NandError::Erased { ppn: 0 })));
        nand.mark_bad(0);
        assert!(nand.program(0, Payload::Data(&page), &key).is_err() && nand.erase(0).is_err());
    }

    #[test]
    fn interrupted_operations_leave_unreadable_pages() {
        let mut nand = small();
        nand.tear_program(0);
        assert!(matches!(nand.read_oob(0), Err(NandError::Uncorrectable { ppn: 0, retries: 0 })));
        nand.program(1, Payload::Data(&Identity(1)), &oob(PageKey::Data(0), 1)).expect("goes on");
        nand.tear_erase(0);
        assert!(matches!(nand.read(1), Err(NandError::Uncorrectable { .. })));
        nand.erase(0).expect("erases");
        assert!(matches!(nand.read(1), Err(NandError::Erased { .. })));
    }
}
