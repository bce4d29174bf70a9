//! An array that keeps a 16-byte identity of each page instead of its bytes.
//! Room: onefold-flash.
//! Invariants: those of [`crate::nand`]; a page whose program was interrupted, and every page of a
//! block whose erase was interrupted, reads as uncorrectable.
//! Cost: 44 B per page that was ever programmed, plus the bytes of the FTL's own pages.

use std::collections::BTreeMap;

use crate::geometry::Geometry;
use crate::nand::{
    Fragment, Identity, Interruptible, Nand, NandError, Oob, PageKey, Payload, Sizes,
};

const KIND_SHIFT: u32 = 56;
const TORN: u64 = 0xff;

/// The pages of one block.
#[derive(Clone, Debug)]
struct BlockPages {
    identity: Box<[u128]>,
    number: Box<[u32]>,
    /// Kind in the top byte, sequence below.
    kind_seq: Box<[u64]>,
    seed: Box<[u64]>,
    tag: Box<[u64]>,
    /// What packed pages hold; empty in a block that has none.
    packed: Vec<Box<[Fragment<Identity>]>>,
}

impl BlockPages {
    fn new(pages: usize) -> Self {
        Self {
            identity: vec![0; pages].into(),
            number: vec![0; pages].into(),
            kind_seq: vec![0; pages].into(),
            seed: vec![0; pages].into(),
            tag: vec![0; pages].into(),
            packed: Vec::new(),
        }
    }
}

/// A NAND array of identities.
#[derive(Clone, Debug)]
pub struct IdentityNand {
    geometry: Geometry,
    programmed: Vec<u16>,
    bad: Vec<bool>,
    blocks: Vec<Option<BlockPages>>,
    meta: BTreeMap<u32, Box<[u8]>>,
    sizes: Option<Sizes>,
}

impl IdentityNand {
    /// An erased array. Blocks may have up to 65,535 pages.
    pub fn new(geometry: Geometry) -> Self {
        assert!(u16::try_from(geometry.pages_per_block).is_ok(), "block of over 65,535 pages");
        let blocks = geometry.blocks() as usize;
        Self {
            geometry,
            programmed: vec![0; blocks],
            bad: vec![false; blocks],
            blocks: vec![None; blocks],
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

    fn split(&self, ppn: u32) -> (usize, usize) {
        (
            (ppn / self.geometry.pages_per_block) as usize,
            (ppn % self.geometry.pages_per_block) as usize,
        )
    }

    /// Claims the page as the next one of its block.
    fn take_next(&mut self, ppn: u32) -> Result<(usize, usize), NandError> {
        let (block, page) = self.split(ppn);
        if self.bad[block] {
            return Err(self.forbidden("program", ppn, "the block is bad"));
        }
        if page != usize::from(self.programmed[block]) {
            let why = "pages of a block are programmed in order, once";
            return Err(self.forbidden("program", ppn, why));
        }
        self.programmed[block] += 1;
        if self.blocks[block].is_none() {
            let pages = self.geometry.pages_per_block as usize;
            self.blocks[block] = Some(BlockPages::new(pages));
        }
        Ok((block, page))
    }

    fn pages(&self, ppn: u32) -> Result<(&BlockPages, usize), NandError> {
        let (block, page) = self.split(ppn);
        match &self.blocks[block] {
            Some(pages) if page < usize::from(self.programmed[block]) => {
                if pages.kind_seq[page] >> KIND_SHIFT == TORN {
                    return Err(NandError::Uncorrectable { ppn, retries: 0 });
                }
                Ok((pages, page))
            }
            _ => Err(NandError::Erased { ppn }),
        }
    }

    fn store(&mut self, at: (usize, usize), identity: u128, oob: &Oob) {
        let (kind, number) = match oob.key {
            PageKey::Data(lpn) => (0, lpn),
            PageKey::Shared(vpn) => (1, vpn),
            PageKey::Map(index) => (2, index),
            PageKey::Journal(slot) => (3, slot),
            PageKey::Directory(index) => (4, index),
            PageKey::Root(number) => (5, number),
            PageKey::Kept(lpn) => (6, lpn),
            PageKey::Packed(count) => (7, count),
        };
        debug_assert!(oob.seq < 1 << KIND_SHIFT, "sequence numbers fit in 56 bits");
        let pages = self.blocks[at.0].as_mut().expect("claimed before");
        pages.identity[at.1] = identity;
        pages.number[at.1] = number;
        pages.kind_seq[at.1] = oob.seq | kind << KIND_SHIFT;
        pages.seed[at.1] = oob.seed;
        pages.tag[at.1] = oob.tag;
    }
}

fn key_of(kind: u64, number: u32) -> PageKey {
    match kind {
        0 => PageKey::Data(number),
        1 => PageKey::Shared(number),
        2 => PageKey::Map(number),
        3 => PageKey::Journal(number),
        4 => PageKey::Directory(number),
        6 => PageKey::Kept(number),
        7 => PageKey::Packed(number),
        _ => PageKey::Root(number),
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
            Payload::Meta(_) | Payload::Packed(_) => 0,
        };
        let at = self.take_next(ppn)?;
        if let Payload::Packed(fragments) = payload {
            let pages = self.geometry.pages_per_block as usize;
            let block = self.blocks[at.0].as_mut().expect("claimed just now");
            block.packed.resize_with(pages, Box::default);
            block.packed[at.1] = fragments.into();
        }
        if let Payload::Meta(bytes) = payload {
            self.meta.insert(ppn, bytes.into());
        }
        self.store(at, identity, oob);
        Ok(())
    }

    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError> {
        let (pages, page) = self.pages(from)?;
        let (identity, seed, tag) = (pages.identity[page], pages.seed[page], pages.tag[page]);
        let at = self.take_next(to)?;
        self.store(at, identity, &Oob { key, seq, seed, tag });
        Ok(tag)
    }

    fn read(&mut self, ppn: u32) -> Result<Identity, NandError> {
        let (pages, page) = self.pages(ppn)?;
        match key_of(pages.kind_seq[page] >> KIND_SHIFT, 0) {
            PageKey::Data(_) | PageKey::Kept(_) | PageKey::Shared(_) => {
                Ok(Identity(pages.identity[page]))
            }
            _ => Err(self.forbidden("read", ppn, "the page is no data page")),
        }
    }

    fn read_packed(&mut self, ppn: u32) -> Result<Vec<Fragment<Identity>>, NandError> {
        let (pages, page) = self.pages(ppn)?;
        match key_of(pages.kind_seq[page] >> KIND_SHIFT, 0) {
            PageKey::Packed(_) => Ok(pages.packed[page].to_vec()),
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
        self.pages(ppn)?;
        match self.meta.get(&ppn) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(self.forbidden("read", ppn, "the page is a data page")),
        }
    }

    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        let (pages, page) = self.pages(ppn)?;
        let kind_seq = pages.kind_seq[page];
        Ok(Oob {
            key: key_of(kind_seq >> KIND_SHIFT, pages.number[page]),
            seq: kind_seq & ((1 << KIND_SHIFT) - 1),
            seed: pages.seed[page],
            tag: pages.tag[page],
        })
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        let first = self.geometry.first_page(block);
        if self.bad[block as usize] {
            return Err(self.forbidden("erase", first, "the block is bad"));
        }
        self.programmed[block as usize] = 0;
        let after = first + self.geometry.pages_per_block;
        while let Some((&ppn, _)) = self.meta.range(first..after).next() {
            self.meta.remove(&ppn);
        }
        Ok(())
    }

    fn is_bad(&self, block: u32) -> bool {
        self.bad[block as usize]
    }

    fn sync(&mut self) -> Result<(), NandError> {
        Ok(())
    }
}

impl Interruptible for IdentityNand {
    fn tear_program(&mut self, ppn: u32) {
        if let Ok((block, page)) = self.take_next(ppn) {
            let pages = self.blocks[block].as_mut().expect("claimed just now");
            pages.kind_seq[page] = TORN << KIND_SHIFT;
        }
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
        self.bad[block as usize] = true;
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
        assert!(matches!(nand.read_oob(0), Err(NandError::Uncorrectable { .. })));
        nand.program(1, Payload::Data(&Identity(1)), &oob(PageKey::Data(0), 1)).expect("goes on");
        nand.tear_erase(0);
        assert!(matches!(nand.read(1), Err(NandError::Uncorrectable { .. })));
        nand.erase(0).expect("erases");
        assert!(matches!(nand.read(1), Err(NandError::Erased { .. })));
    }
}
