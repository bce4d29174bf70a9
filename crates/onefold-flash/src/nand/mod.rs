//! The NAND array: what holds pages, and refuses what NAND refuses.
//! Room: onefold-flash.
//! Invariants, held by every implementation and never by its caller's good will:
//! (1) the pages of a block are programmed in order, each once between erases;
//! (2) only whole blocks are erased; (3) an erased page cannot be read as data;
//! (4) a bad block takes neither program nor erase.

mod blank;
pub mod bytes;
mod fragment;
mod identity;
mod identity_nand;
mod pattern;
mod power_cut;
mod sizes;
pub mod wear;

pub use blank::BlankNand;
pub use bytes::{ByteNand, PageBytes};
pub use fragment::{Fragment, fragment_at};
pub use identity::Identity;
pub use identity_nand::IdentityNand;
pub use pattern::{Pattern, likeness};
pub use power_cut::{Cut, Faults, Interruptible, PowerCut};
pub use sizes::Sizes;
pub use wear::WearModel;

use thiserror::Error;

use crate::geometry::Geometry;

/// What a page holds, as its out-of-band area says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageKey {
    /// Data of one logical page.
    Data(u32),
    /// Data of one logical page that the host wants kept apart from any copy of it.
    Kept(u32),
    /// Data that several logical pages share, under this virtual page number.
    Shared(u32),
    /// Compressed pages of the host, so many: each says itself whose it is.
    Packed(u32),
    /// A page of the mapping table: entries `index * entries_per_page ..`.
    Map(u32),
    /// A page of journal records.
    Journal(u32),
    /// A page of the checkpoint's directory.
    Directory(u32),
    /// The root of a checkpoint.
    Root(u32),
}

impl PageKey {
    /// Whether this is data of the host, and not a page of the FTL's own.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Data(_) | Self::Kept(_) | Self::Shared(_) | Self::Packed(_))
    }
}

/// The FTL's fields of the out-of-band area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    /// Whose page this is.
    pub key: PageKey,
    /// When this page was programmed, in programs and journal records since the drive was made.
    pub seq: u64,
    /// Data: the LPN that seeded the scrambler, which stays with the page when it is shared or
    /// moved. Map: the `seq` of which its entries are (a moved page is older than its place).
    pub seed: u64,
    /// The fingerprint that the deduplication policy gave the page, 0 without one.
    pub tag: u64,
}

/// What is to be programmed.
#[derive(Debug)]
pub enum Payload<'a, P> {
    /// Data of the host.
    Data(&'a P),
    /// Compressed pages of the host, one behind the other.
    Packed(&'a [Fragment<P>]),
    /// Bytes of the FTL's own: mapping, journal, checkpoint; at most a page.
    Meta(&'a [u8]),
}

/// Why the array refused or failed an operation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NandError {
    /// Programming out of order or twice, or reading or erasing what must not be.
    #[error("{what} of page {ppn} (block {block}) is forbidden: {why}")]
    Forbidden {
        /// The operation.
        what: &'static str,
        /// The page.
        ppn: u32,
        /// Its block.
        block: u32,
        /// The rule.
        why: &'static str,
    },
    /// The page was never programmed since its block was erased.
    #[error("page {ppn} is erased")]
    Erased {
        /// The page.
        ppn: u32,
    },
    /// More bits are wrong than the code and all read retries correct.
    #[error("page {ppn} cannot be corrected after {retries} read retries")]
    Uncorrectable {
        /// The page.
        ppn: u32,
        /// Read retries made.
        retries: u32,
    },
    /// The program or erase failed: the block is worn out.
    #[error("{what} of block {block} failed: the block has gone bad")]
    Failed {
        /// The operation.
        what: &'static str,
        /// The block.
        block: u32,
    },
    /// Power was cut during or before this operation; the array answers nothing until it is back.
    #[error("the power is off")]
    PowerOff,
    /// The file under an emulated array failed.
    #[error("{0}")]
    Io(String),
}

/// A NAND array. `Page` is the content of a data page: bytes, an identity, or nothing.
///
/// Operations happen in the order called. What was programmed is durable after [`Nand::sync`], or
/// at once where the implementation says so.
pub trait Nand {
    /// Content of a data page; equality is byte-by-byte comparison.
    type Page: Clone + PartialEq;

    /// Whether out-of-band areas and the FTL's own pages can be read back.
    const KEEPS_META: bool = true;
    /// Whether flash pages can hold several compressed pages; where not, a run does not pay for
    /// the question.
    const PACKS: bool = true;

    /// The shape.
    fn geometry(&self) -> &Geometry;

    /// Programs the next page of a block.
    fn program(
        &mut self,
        ppn: u32,
        payload: Payload<'_, Self::Page>,
        oob: &Oob,
    ) -> Result<(), NandError>;

    /// Copies a data page to another place with a new out-of-band key and sequence, corrected and
    /// encoded anew on the way. Seed and tag travel with the page; the tag is the answer.
    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError>;

    /// A page will soon be copied: what there is of it comes into the processor's cache.
    #[inline]
    fn expect_copy(&self, _ppn: u32) {}

    /// The content of a data page.
    fn read(&mut self, ppn: u32) -> Result<Self::Page, NandError>;

    /// The compressed pages in a packed one, in their order.
    fn read_packed(&mut self, ppn: u32) -> Result<Vec<Fragment<Self::Page>>, NandError> {
        Err(NandError::Uncorrectable { ppn, retries: 0 })
    }

    /// A page as the compression engine puts it out; `None` if it takes a whole flash page all the
    /// same. `request` is what the host says of it.
    fn compress(
        &mut self,
        _lpn: u32,
        _page: &Self::Page,
        _request: Option<bool>,
    ) -> Option<Fragment<Self::Page>> {
        None
    }

    /// What a compressed page was.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] for one that is no such output, at this page.
    fn expand(
        &mut self,
        ppn: u32,
        _fragment: &Fragment<Self::Page>,
    ) -> Result<Self::Page, NandError> {
        Err(NandError::Uncorrectable { ppn, retries: 0 })
    }

    /// The bytes of one of the FTL's own pages.
    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError>;

    /// The out-of-band fields; [`NandError::Erased`] for an erased page,
    /// [`NandError::Uncorrectable`] for a page whose program was interrupted.
    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError>;

    /// Erases a block.
    fn erase(&mut self, block: u32) -> Result<(), NandError>;

    /// Whether the block is marked bad. What was programmed in it before stays readable.
    fn is_bad(&self, block: u32) -> bool;

    /// Makes every operation so far durable.
    fn sync(&mut self) -> Result<(), NandError>;

    /// What the cells of a page would look like; `None` for noise, as behind a scrambler, and
    /// where pages are no bytes.
    fn pattern(&self, _page: &Self::Page) -> Option<Pattern> {
        None
    }
}

impl<N: Nand> Nand for &mut N {
    type Page = N::Page;

    const KEEPS_META: bool = N::KEEPS_META;
    const PACKS: bool = N::PACKS;

    fn geometry(&self) -> &Geometry {
        (**self).geometry()
    }

    fn program(
        &mut self,
        ppn: u32,
        payload: Payload<'_, Self::Page>,
        oob: &Oob,
    ) -> Result<(), NandError> {
        (**self).program(ppn, payload, oob)
    }

    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError> {
        (**self).copy(from, to, key, seq)
    }

    fn expect_copy(&self, ppn: u32) {
        (**self).expect_copy(ppn);
    }

    fn read(&mut self, ppn: u32) -> Result<Self::Page, NandError> {
        (**self).read(ppn)
    }

    fn read_packed(&mut self, ppn: u32) -> Result<Vec<Fragment<N::Page>>, NandError> {
        (**self).read_packed(ppn)
    }

    fn compress(
        &mut self,
        lpn: u32,
        page: &N::Page,
        request: Option<bool>,
    ) -> Option<Fragment<N::Page>> {
        (**self).compress(lpn, page, request)
    }

    fn expand(&mut self, ppn: u32, fragment: &Fragment<N::Page>) -> Result<N::Page, NandError> {
        (**self).expand(ppn, fragment)
    }

    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError> {
        (**self).read_meta(ppn)
    }

    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        (**self).read_oob(ppn)
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        (**self).erase(block)
    }

    fn is_bad(&self, block: u32) -> bool {
        (**self).is_bad(block)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        (**self).sync()
    }

    fn pattern(&self, page: &Self::Page) -> Option<Pattern> {
        (**self).pattern(page)
    }
}
