//! What the FTL asks for ahead of time, to be asked for when its time comes.
//! Room: onefold-flash.

use crate::controller::{Controller, Placement, Timing};
use crate::ftl::Written;
use crate::op::{Driver, FlashOp, Work};
use crate::run::completion::Verdict;

/// Something that the FTL asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Issue(FlashOp),
    Work(Work, bool),
    WaitFor(u32),
    /// It is done with a part of a request.
    PartEnds,
    /// The same, and a page was programmed for it.
    Programmed,
    /// The same, and a page is shared for it.
    Shared,
}

impl Step {
    /// The end of a part that wrote a page.
    pub(super) const fn end_of(written: Written) -> Self {
        if written.is_shared() { Self::Shared } else { Self::Programmed }
    }
}

/// A driver that writes down what is asked for, but for work that takes no time.
#[derive(Debug)]
pub(super) struct Recorder {
    pub placement: Placement,
    timing: Timing,
    pub steps: Vec<Step>,
}

impl Recorder {
    /// For this controller, to be asked later.
    pub(super) fn of(controller: &Controller) -> Self {
        let (placement, timing) = (controller.placement().clone(), controller.timing().clone());
        Self { placement, timing, steps: Vec::new() }
    }
}

impl Driver for Recorder {
    #[inline]
    fn issue(&mut self, op: FlashOp) {
        self.steps.push(Step::Issue(op));
    }

    #[inline]
    fn work(&mut self, work: Work, foreground: bool) {
        if self.timing.work_ns(work) > 0 {
            self.steps.push(Step::Work(work, foreground));
        }
    }

    fn wait_for(&mut self, ppn: u32) {
        self.steps.push(Step::WaitFor(ppn));
    }

    fn is_idle(&self, _plane: u32) -> bool {
        unreachable!("{ASKED}")
    }

    fn read_ns(&self, _plane: u32) -> u64 {
        unreachable!("{ASKED}")
    }

    fn program_ns(&self) -> u64 {
        unreachable!("{ASKED}")
    }

    fn work_ns(&self, _work: Work) -> u64 {
        unreachable!("{ASKED}")
    }

    #[inline]
    fn preferred_plane(&mut self) -> Option<u32> {
        Some(self.placement.next_in_turn())
    }

    fn now_ns(&self) -> u64 {
        unreachable!("{ASKED}")
    }
}

const ASKED: &str = "who decides by the clock does not decide ahead of it";

/// Asks for what was written down, up to the end of a part, and adds what became of that; how many
/// steps that were.
pub(super) fn replay(steps: &[Step], controller: &mut Controller, verdict: &mut Verdict) -> usize {
    for (at, step) in steps.iter().enumerate() {
        match *step {
            Step::Issue(op) => controller.issue(op),
            Step::Work(work, foreground) => controller.work(work, foreground),
            Step::WaitFor(ppn) => controller.wait_for(ppn),
            end @ (Step::PartEnds | Step::Programmed | Step::Shared) => {
                add_end(verdict, end);
                return at + 1;
            }
        }
    }
    steps.len()
}

fn add_end(verdict: &mut Verdict, end: Step) {
    verdict.programmed += u32::from(end == Step::Programmed);
    verdict.shared += u32::from(end == Step::Shared);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_small() {
        // All of them pass from one core to the other, and a written page has two or more.
        assert_eq!(size_of::<Step>(), 8);
    }

    #[test]
    fn what_is_written_ends_a_part_as_what_became_of_it() {
        for (written, end) in [
            (Written::Programmed { ppn: 1 }, Step::Programmed),
            (Written::Waits, Step::Programmed),
            (Written::Shared { ppn: 1 }, Step::Shared),
            (Written::SharesWaiting, Step::Shared),
        ] {
            assert_eq!(Step::end_of(written), end);
            let mut verdict = Verdict::default();
            verdict.add(written);
            let mut replayed = Verdict::default();
            add_end(&mut replayed, end);
            assert_eq!(replayed, verdict);
        }
    }
}
