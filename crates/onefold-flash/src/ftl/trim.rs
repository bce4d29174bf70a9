//! Logical pages that the host no longer wants.
//! Room: onefold-flash.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::error::FtlError;
use crate::ftl::journal::Record;
use crate::ftl::map::Place;
use crate::nand::Nand;
use crate::op::{Driver, Work};

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Declares a logical page unused.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn trim(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.trim_range(lpn, 1, d)
    }

    /// Declares logical pages unused, with one journal record.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::NoSpace`], [`FtlError::Nand`].
    pub fn trim_range(
        &mut self,
        lpn: u32,
        count: u32,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        if count == 0 {
            return Ok(());
        }
        self.check_range(lpn)?;
        self.check_range(lpn.saturating_add(count - 1))?;
        self.counters.host_pages_trimmed += u64::from(count);
        d.work(Work::Lookup, true);
        // A part at a time: the mapping page of each part must be in DRAM when it is changed.
        let (mut first, end) = (lpn, lpn + count);
        while first < end {
            let slots = self.own.slots();
            let after = slots.lpns(slots.of(first)).end.min(end);
            if self.own.is_on() {
                self.tend(first, d)?;
            }
            self.log(Record::Trim { lpn: first, count: after - first });
            for lpn in first..after {
                self.forget_waiting(lpn);
                let old = self.set_place(lpn, Place::None);
                self.release(old);
            }
            self.settle_journal(d)?;
            first = after;
        }
        Ok(())
    }
}
