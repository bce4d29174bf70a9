//! What the FTL asks for ahead of time, to be asked for when its time comes.
//! Room: onefold-flash.

use crate::controller::{Controller, Placement};
use crate::op::{Driver, FlashOp, Work};

/// Something that the FTL asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Issue(FlashOp),
    Work(Work, bool),
    WaitFor(u32),
    /// It is done with a part of a request.
    PartEnds,
}

/// A driver that writes down what is asked for.
#[derive(Debug)]
pub(super) struct Recorder {
    pub placement: Placement,
    pub steps: Vec<Step>,
}

impl Driver for Recorder {
    #[inline]
    fn issue(&mut self, op: FlashOp) {
        self.steps.push(Step::Issue(op));
    }

    #[inline]
    fn work(&mut self, work: Work, foreground: bool) {
        self.steps.push(Step::Work(work, foreground));
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

/// Asks for what was written down, up to the end of a part; how many steps that were.
pub(super) fn replay(steps: &[Step], controller: &mut Controller) -> usize {
    for (at, step) in steps.iter().enumerate() {
        match *step {
            Step::Issue(op) => controller.issue(op),
            Step::Work(work, foreground) => controller.work(work, foreground),
            Step::WaitFor(ppn) => controller.wait_for(ppn),
            Step::PartEnds => return at + 1,
        }
    }
    steps.len()
}
