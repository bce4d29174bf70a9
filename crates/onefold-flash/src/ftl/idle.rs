//! What a drive does in idle moments, and in which order.
//! Room: onefold-flash.   In: idle moments.   Out: one step of background work at a time.
//! Orders: deduplication first (as Park & Shin have it), collection first, or by need. By need,
//! planes come first that would have to collect while the host waits: those in which a victim is
//! half done, and those with fewer free blocks than the load was seen to take between two idle
//! moments. Then comes deduplication, and then collection up to `gc_idle_blocks`.
//! What the load takes is learnt from its spells: the pages programmed for the host between two
//! idle moments. The need rises to a larger spell at once, and falls half of the way to a smaller
//! one, so that one short spell among long ones is not the end of what was known.
//! Invariants: nothing but the order depends on the need; a step that finds nothing to do in one
//! kind of work goes on to the next.

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::counters::Counters;
use crate::ftl::error::FtlError;
use crate::nand::Nand;
use crate::op::{Cause, Driver, OpKind};
use crate::spec::IdleOrder;

/// Which of the work may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    All,
    /// Only what the next writes would have to wait for otherwise.
    Needed,
}

/// The background work of one drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleWork {
    order: IdleOrder,
    /// The plane whose turn it is to be collected.
    plane: u32,
    /// Host pages that one spell of the load programs, as far as is known.
    need: u64,
    /// Host pages that had been programmed at the last step.
    programmed: u64,
}

impl IdleWork {
    /// Nothing is known of the load yet. What `counters` hold already was programmed before it, by
    /// preconditioning or an earlier load.
    pub(crate) fn new(order: IdleOrder, counters: &Counters) -> Self {
        Self { order, plane: 0, need: 0, programmed: of_host(counters) }
    }

    /// Whether the order is by need.
    pub(crate) const fn is_by_need(&self) -> bool {
        matches!(self.order, IdleOrder::ByNeed)
    }

    /// Does something; `false` when there is nothing left to do in `scope`. `collects` is whether
    /// free blocks are of any use.
    ///
    /// # Errors
    /// [`FtlError`].
    pub(crate) fn step<N: Nand, P: Policy<N::Page>>(
        &mut self,
        scope: Scope,
        ftl: &mut Ftl<N, P>,
        collects: bool,
        d: &mut impl Driver,
    ) -> Result<bool, FtlError> {
        self.learn(of_host(ftl.counters()));
        if scope == Scope::Needed {
            return Ok(collects && self.collect(ftl, Some(self.need), d)?);
        }
        match self.order {
            IdleOrder::ByNeed => Ok(collects && self.collect(ftl, Some(self.need), d)?
                || ftl.deduplicate_step(d)?
                || collects && self.collect(ftl, None, d)?),
            IdleOrder::GcFirst => {
                Ok(collects && self.collect(ftl, None, d)? || ftl.deduplicate_step(d)?)
            }
            IdleOrder::ByPolicy | IdleOrder::DedupFirst => {
                Ok(ftl.deduplicate_step(d)? || collects && self.collect(ftl, None, d)?)
            }
        }
    }

    /// So many host pages have been programmed in all.
    fn learn(&mut self, programmed: u64) {
        // A drive that is opened again counts from 0.
        let spell = programmed.saturating_sub(self.programmed);
        if spell > 0 {
            self.need = spell.max(u64::midpoint(self.need, spell));
        }
        self.programmed = programmed;
    }

    /// Collects in the next plane that has something to collect; with a need, that is short of it.
    fn collect<N: Nand, P: Policy<N::Page>>(
        &mut self,
        ftl: &mut Ftl<N, P>,
        need: Option<u64>,
        d: &mut impl Driver,
    ) -> Result<bool, FtlError> {
        let planes = ftl.geometry().planes();
        let share = need.map(|need| need.div_ceil(u64::from(planes)));
        for _ in 0..planes {
            let plane = self.plane;
            self.plane = (plane + 1) % planes;
            let wanted = share.is_none_or(|pages| ftl.is_short(plane, pages));
            if wanted && ftl.collect_idle(plane, d)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Pages programmed for the host.
const fn of_host(counters: &Counters) -> u64 {
    counters.ops.of(OpKind::Program, Cause::Host)
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Whether so many pages of the host could not be programmed in a plane without collecting
    /// meanwhile; but never because of more free blocks than idle moments are to leave.
    fn is_short(&self, plane: u32, pages: u64) -> bool {
        self.victims.has(plane) || self.space.is_short(plane, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedup::NoDedup;
    use crate::ftl::settings::FtlSettings;
    use crate::geometry::Geometry;
    use crate::nand::{Identity, IdentityNand};
    use crate::op::Untimed;

    #[test]
    fn a_plane_is_short_of_more_than_it_has_and_while_its_victim_is_half_done() {
        let geometry = Geometry {
            channels: 1,
            packages: 1,
            dies_per_package: 1,
            planes_per_die: 1,
            blocks_per_plane: 16,
            pages_per_block: 8,
            page_bytes: 512,
            oob_bytes: 64,
        };
        let settings = FtlSettings {
            logical_pages: 64,
            gc_reserve_blocks: 2,
            gc_idle_blocks: 6,
            ..FtlSettings::default()
        };
        let nand = IdentityNand::new(geometry);
        let mut ftl = Ftl::format(nand, NoDedup, settings).expect("fits");
        // Eight blocks, and three more in which every second page of four of them is written anew.
        for lpn in (0..64).chain((0..32).step_by(2)).chain(32..38) {
            ftl.write(lpn, &Identity(lpn.into()), &mut Untimed).expect("written");
        }
        assert_eq!((ftl.space.blocks().free_of(0), ftl.victims.has(0)), (5, false));
        // Two pages are left in the open block, and each block of free ones beyond three holds
        // eight more; no more than six blocks are ever asked for.
        assert_eq!(
            [0, 18, 19, 1000].map(|pages| ftl.is_short(0, pages)),
            [false, false, true, true]
        );
        assert!(ftl.collect_idle(0, &mut Untimed).expect("a step"));
        assert!(ftl.is_short(0, 0), "writes would have to finish the victim");
        let mut steps = 0;
        while ftl.victims.has(0) {
            assert!(ftl.collect_idle(0, &mut Untimed).expect("a step"));
            steps += 1;
            assert!(steps < 9, "a block has eight pages");
        }
        assert!(!ftl.is_short(0, 0));
    }

    #[test]
    fn the_need_rises_at_once_and_falls_by_half() {
        let mut counters = Counters::default();
        (0..500).for_each(|_| counters.ops.add(OpKind::Program, Cause::Host));
        let mut work = IdleWork::new(IdleOrder::ByNeed, &counters);
        assert_eq!((work.need, work.plane), (0, 0), "nothing is known yet");
        let mut programmed = 500;
        let mut after = |spell: u64| {
            programmed += spell;
            work.learn(programmed);
            work.need
        };
        assert_eq!([100, 0, 4, 4, 300, 2].map(&mut after), [100, 100, 52, 28, 300, 151]);
        // Counts that begin anew are no spell, nor was what was there before.
        work.learn(0);
        work.learn(7);
        assert_eq!(work.need, 79);
    }
}
