//! What a policy may see of the drive while it looks at a page.
//! Room: onefold-flash.

use crate::dedup::Look;
use crate::ftl::books::Books;
use crate::ftl::layout::Layout;
use crate::ftl::packing::Packing;
use crate::nand::Nand;
use crate::op::{Driver, Work};

/// The drive as a policy may see it while the FTL's other fields stay free to change.
macro_rules! view {
    ($ftl:expr, $driver:expr, $foreground:expr) => {
        crate::ftl::view::View {
            layout: &$ftl.layout,
            packing: &$ftl.packing,
            books: &$ftl.books,
            driver: $driver,
            foreground: $foreground,
        }
    };
}
pub(super) use view;

/// What a policy may see of the drive while it looks at a page.
pub(super) struct View<'a, N: Nand, D> {
    pub layout: &'a Layout<N>,
    pub packing: &'a Packing<N::Page>,
    pub books: &'a Books<N>,
    pub driver: &'a mut D,
    /// Whether the current request waits for the policy's work.
    pub foreground: bool,
}

impl<N: Nand, D: Driver> View<'_, N, D> {
    /// Whether a place is one of what waits to be packed.
    fn waits(&self, place: u32) -> bool {
        self.layout.packs() && self.packing.is_here(place)
    }
}

impl<N: Nand, D: Driver> Look for View<'_, N, D> {
    fn is_live(&self, place: u32) -> bool {
        // Places behind the last one of the flash are of what waits to be packed.
        self.books.shareable(place).unwrap_or_else(|| self.packing.may_be_shared(place))
    }

    fn is_idle(&self, place: u32) -> bool {
        // What waits is in memory.
        self.waits(place) || self.driver.is_idle(self.layout.plane_of(place))
    }

    fn locate(&self, lpn: u32) -> Option<u32> {
        self.packing.place_of(lpn).or_else(|| self.books.locate_known(lpn))
    }

    fn read_ns(&self, place: u32) -> u64 {
        if self.waits(place) { 0 } else { self.driver.read_ns(self.layout.plane_of(place)) }
    }

    fn program_ns(&self) -> u64 {
        self.driver.program_ns()
    }

    fn work_ns(&self, work: Work) -> u64 {
        self.driver.work_ns(work)
    }

    fn work(&mut self, work: Work) {
        self.driver.work(work, self.foreground);
    }

    fn work_beside(&mut self, work: Work) {
        self.driver.work(work, false);
    }
}
