//! The steady state of endless random writes, written in one pass over the drive.
//! Room: onefold-flash.   In: an empty drive.   Out: a full one, every logical page written.
//! In the steady state, of every A pages programmed one is from the host and A - 1 are copies of
//! pages that survived a whole turn of the log. So as many pages are written as the drive keeps in
//! use, each with probability 1 - 1/A a page that was not written yet (it stands for a survivor),
//! else one drawn as the workload draws. What is left unwritten then follows
//! m' = -(1 - a) - a m / U with a = 1/A, which reaches 0 just when the drive is full: that is the
//! fixed point of [desnoyers-12] itself, so the blocks hold live pages in the shares of the steady
//! state, exactly for FIFO and nearly for greedy collection, which then settles. Uniform writes to
//! a drive without deduplication need none of this: the FTL builds their state.
//! Cost: one write per physical page, and a turn of the log more for other than FIFO collection to
//! settle.

use onefold_sim::RandomStreams;
use onefold_workload::Generator;

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::nand::Nand;
use crate::op::Untimed;
use crate::run::RunError;
use crate::run::request::SimPage;
use crate::spec::{DriveSpec, PatternKind, VictimName};
use crate::theory;

/// Contents of preconditioned pages are numbered from here, beyond those of any run.
const NUMBERS: u64 = 1 << 62;

/// Writes each page that the workload addresses once, in order, none like another, and lets
/// deduplication look at all of them.
pub(super) fn prefill<N, P>(spec: &DriveSpec, ftl: &mut Ftl<N, P>) -> Result<(), RunError>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let wrong = |error| RunError::Idle { error };
    for lpn in 0..spec.footprint_pages() as u32 {
        let page = N::Page::fresh(NUMBERS + u64::from(lpn));
        ftl.write(lpn, &page, &mut Untimed).map_err(wrong)?;
    }
    while ftl.deduplicate_step(&mut Untimed).map_err(wrong)? {}
    Ok(())
}

/// Fills the drive.
pub(super) fn fill<N, P>(spec: &DriveSpec, ftl: &mut Ftl<N, P>) -> Result<(), RunError>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let logical = spec.logical_pages();
    let table = &spec.workload;
    let whole = table.pattern == PatternKind::Uniform && spec.footprint_pages() == logical.into();
    if whole && spec.dedup.policy == "none" {
        let page = |lpn: u32| N::Page::fresh(NUMBERS + u64::from(lpn));
        return ftl.precondition_steady(page).map_err(|error| RunError::Idle { error });
    }
    let alpha = ftl.effective_alpha().max(1.0 + 1e-9);
    let in_use = (alpha * f64::from(logical)) as u64;
    let survivors = 1.0 - 1.0 / theory::fifo(alpha);
    let mut workload = spec.workload_spec();
    workload.requests = u64::MAX;
    workload.seed = spec.seed ^ 0x005e_eded;
    let wrong =
        |error: onefold_workload::generate::SpecError| RunError::Workload(error.to_string());
    let mut draws = Generator::new(workload)
        .map_err(wrong)?
        .map(move |request| (request.offset / u64::from(spec.geometry.page_bytes)) as u32);
    let mut random = RandomStreams::new(spec.seed).stream("run.steady");
    // Pages not written yet, in random order; those that a draw hit meanwhile are passed over.
    let mut left: Vec<u32> = (0..logical).collect();
    random.shuffle(&mut left);
    let mut fresh = NUMBERS;
    let mut write = |ftl: &mut Ftl<N, P>, lpn: u32| {
        fresh += 1;
        ftl.write(lpn, &N::Page::fresh(fresh), &mut Untimed)
            .map(|_| ())
            .map_err(|error| RunError::Idle { error })
    };
    let share = (survivors * (1_u64 << 32) as f64) as u64;
    // Kept here: the FTL may have only a part of its map in DRAM.
    let mut written = vec![false; logical as usize];
    for _ in 0..in_use {
        if random.next_u64() >> 32 < share {
            while left.last().is_some_and(|&lpn| written[lpn as usize]) {
                left.pop();
            }
            if let Some(lpn) = left.pop() {
                written[lpn as usize] = true;
                write(ftl, lpn)?;
                continue;
            }
        }
        let lpn = draws.next().expect("draws do not end");
        written[lpn as usize] = true;
        write(ftl, lpn)?;
    }
    for lpn in left {
        if !written[lpn as usize] {
            write(ftl, lpn)?;
        }
    }
    if spec.ftl.victim != VictimName::Fifo {
        // A turn of the log is as many pages from the host and survivors together.
        let turn = in_use as f64 * (1.0 - survivors);
        for _ in 0..turn as u64 {
            let lpn = draws.next().expect("draws do not end");
            write(ftl, lpn)?;
        }
    }
    Ok(())
}
