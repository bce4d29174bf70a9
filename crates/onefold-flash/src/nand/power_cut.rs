//! An array whose power is cut and whose blocks fail, as a plan says.
//! Room: onefold-flash.
//! Invariants: after the cut every operation answers [`NandError::PowerOff`] until
//! [`PowerCut::restore`]; the same plan and seed fail the same operations.

use onefold_block::SplitMix64;

use crate::geometry::Geometry;
use crate::nand::{Fragment, Nand, NandError, Oob, PageKey, Pattern, Payload};

/// An array that can be left in the states that a power cut or a worn block leaves.
pub trait Interruptible: Nand {
    /// The program of the next page of a block is interrupted: the page is used and unreadable.
    fn tear_program(&mut self, ppn: u32);

    /// The erase of a block is interrupted: none of its pages can be read or programmed.
    fn tear_erase(&mut self, block: u32);

    /// The block is marked bad; what was programmed in it stays readable.
    fn mark_bad(&mut self, block: u32);
}

/// What a power cut does to the operation it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The operation never began.
    Before,
    /// It was interrupted in the middle.
    Torn,
    /// It was done, but nobody heard of it.
    After,
}

/// What chances are told in.
const MILLION: u64 = 1_000_000;

/// How often operations fail because a block is worn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Programs that fail, in a million.
    pub program_ppm: u32,
    /// Erases that fail, in a million.
    pub erase_ppm: u32,
    /// Most blocks that go bad.
    pub blocks_max: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// An array with a fault plan.
#[derive(Debug)]
pub struct PowerCut<N> {
    inner: N,
    /// Programs and erases until the cut.
    left: Option<(u64, Cut)>,
    off: bool,
    faults: Faults,
    failed: u32,
    random: SplitMix64,
    operations: u64,
}

enum Step {
    Go,
    Tear,
    GoThenOff,
}

impl<N: Interruptible> PowerCut<N> {
    /// An array that fails as `faults` says and whose power stays on.
    pub fn new(inner: N, faults: Faults) -> Self {
        let random = SplitMix64::new(faults.seed);
        Self { inner, left: None, off: false, faults, failed: 0, random, operations: 0 }
    }

    /// Cuts the power at the program or erase after the next `operations` ones.
    pub fn cut_after(&mut self, operations: u64, cut: Cut) {
        self.left = Some((operations, cut));
    }

    /// Whether the power is off.
    pub const fn is_off(&self) -> bool {
        self.off
    }

    /// Programs and erases so far.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// Power is back, and no cut is planned.
    pub fn restore(&mut self) {
        self.off = false;
        self.left = None;
    }

    /// The array behind.
    pub fn inner(&mut self) -> &mut N {
        &mut self.inner
    }

    fn step(&mut self) -> Result<Step, NandError> {
        if self.off {
            return Err(NandError::PowerOff);
        }
        self.operations += 1;
        let Some((left, cut)) = &mut self.left else { return Ok(Step::Go) };
        if *left > 0 {
            *left -= 1;
            return Ok(Step::Go);
        }
        self.off = true;
        match cut {
            Cut::Before => Err(NandError::PowerOff),
            Cut::Torn => Ok(Step::Tear),
            Cut::After => Ok(Step::GoThenOff),
        }
    }

    fn fails(&mut self, ppm: u32) -> bool {
        let fails = self.failed < self.faults.blocks_max && self.random.chance(ppm.into(), MILLION);
        self.failed += u32::from(fails);
        fails
    }

    fn programmed(
        &mut self,
        ppn: u32,
        program: impl FnOnce(&mut N) -> Result<u64, NandError>,
    ) -> Result<u64, NandError> {
        let step = self.step()?;
        if matches!(step, Step::Tear) {
            self.inner.tear_program(ppn);
            return Err(NandError::PowerOff);
        }
        let block = self.inner.geometry().block_of(ppn);
        if !self.inner.is_bad(block) && self.fails(self.faults.program_ppm) {
            self.inner.tear_program(ppn);
            self.inner.mark_bad(block);
            return Err(NandError::Failed { what: "program", block });
        }
        let answer = program(&mut self.inner)?;
        if matches!(step, Step::GoThenOff) { Err(NandError::PowerOff) } else { Ok(answer) }
    }

    const fn check_power(&self) -> Result<(), NandError> {
        if self.off { Err(NandError::PowerOff) } else { Ok(()) }
    }
}

impl<N: Interruptible> Nand for PowerCut<N> {
    type Page = N::Page;

    const KEEPS_META: bool = N::KEEPS_META;
    const PACKS: bool = N::PACKS;

    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn program(
        &mut self,
        ppn: u32,
        payload: Payload<'_, N::Page>,
        oob: &Oob,
    ) -> Result<(), NandError> {
        self.programmed(ppn, |inner| inner.program(ppn, payload, oob).map(|()| 0)).map(|_| ())
    }

    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError> {
        self.programmed(to, |inner| inner.copy(from, to, key, seq))
    }

    fn read(&mut self, ppn: u32) -> Result<N::Page, NandError> {
        self.check_power()?;
        self.inner.read(ppn)
    }

    fn read_packed(&mut self, ppn: u32) -> Result<Vec<Fragment<N::Page>>, NandError> {
        self.check_power()?;
        self.inner.read_packed(ppn)
    }

    fn compress(
        &mut self,
        lpn: u32,
        page: &N::Page,
        request: Option<bool>,
    ) -> Option<Fragment<N::Page>> {
        self.inner.compress(lpn, page, request)
    }

    fn expand(&mut self, ppn: u32, fragment: &Fragment<N::Page>) -> Result<N::Page, NandError> {
        self.inner.expand(ppn, fragment)
    }

    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError> {
        self.check_power()?;
        self.inner.read_meta(ppn)
    }

    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        self.check_power()?;
        self.inner.read_oob(ppn)
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        let step = self.step()?;
        if matches!(step, Step::Tear) {
            self.inner.tear_erase(block);
            return Err(NandError::PowerOff);
        }
        if !self.inner.is_bad(block) && self.fails(self.faults.erase_ppm) {
            self.inner.mark_bad(block);
            return Err(NandError::Failed { what: "erase", block });
        }
        self.inner.erase(block)?;
        if matches!(step, Step::GoThenOff) { Err(NandError::PowerOff) } else { Ok(()) }
    }

    fn is_bad(&self, block: u32) -> bool {
        self.inner.is_bad(block)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.check_power()?;
        self.inner.sync()
    }

    fn pattern(&self, page: &N::Page) -> Option<Pattern> {
        self.inner.pattern(page)
    }
}

#[cfg(test)]
mod tests;
