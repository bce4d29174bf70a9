//! What the FTL asks of the flash, and of whoever keeps time.
//! Room: onefold-flash.   Out: `FlashOp`s in the order in which they take effect.
//! Invariants: operations on one plane take effect in the order issued, but for host reads, which
//! a driver may serve earlier; a block is erased only after every copy out of it was issued.

/// What is done to a page or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Reads a page.
    Read,
    /// Programs a page.
    Program,
    /// Erases the block of a page.
    Erase,
}

/// On whose account an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A request of the host.
    Host,
    /// Garbage collection.
    Gc,
    /// Static wear levelling.
    Wear,
    /// Mapping pages, journal and checkpoints.
    Map,
    /// Comparing candidates for sharing.
    Dedup,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 5] = [Self::Host, Self::Gc, Self::Wear, Self::Map, Self::Dedup];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Gc => "gc",
            Self::Wear => "wear",
            Self::Map => "map",
            Self::Dedup => "dedup",
        }
    }
}

/// One operation on the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashOp {
    /// What.
    pub kind: OpKind,
    /// On whose account.
    pub cause: Cause,
    /// The page; for an erase, the first page of the block.
    pub ppn: u32,
    /// Whether the current host request waits for it. Foreground operations of one request run
    /// one after another; others only queue on their plane.
    pub foreground: bool,
}

/// Controller work that takes time but touches no flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// A collision-resistant fingerprint of a page (SHA-1 or SHA-256).
    Hash,
    /// A light fingerprint of a page (CRC-32).
    LightHash,
    /// Correcting the parity of a page for its scrambler.
    ParityCorrection,
    /// Comparing two pages byte by byte.
    Compare,
    /// Looking up and changing mapping or fingerprint tables.
    Lookup,
    /// Compressing a page.
    Compress,
    /// Getting a page back from its compressed form.
    Decompress,
}

/// Who carries operations out in time. The FTL calls it in the order of its decisions.
pub trait Driver {
    /// An operation has been decided, and its effect on the flash is already visible to the FTL.
    fn issue(&mut self, op: FlashOp);

    /// The controller works for the current request (`foreground`) or beside it.
    fn work(&mut self, work: Work, foreground: bool);

    /// The current request is not done before the host's program of this page is, if that is still
    /// under way. Without time, nothing is.
    fn wait_for(&mut self, _ppn: u32) {}

    /// Whether the plane has nothing to do now. Without time, always.
    fn is_idle(&self, plane: u32) -> bool;

    /// Nanoseconds until a page on the plane would have been read for the current request, waiting
    /// included. Without time, 0.
    fn read_ns(&self, _plane: u32) -> u64 {
        0
    }

    /// Nanoseconds until the current request's page would have been programmed, waiting included,
    /// wherever it may go. Without time, 0.
    fn program_ns(&self) -> u64 {
        0
    }

    /// Nanoseconds until this work would be done for the current request, waiting for its engine
    /// included. Without time, 0.
    fn work_ns(&self, _work: Work) -> u64 {
        0
    }

    /// A plane that the next host page had best go to, if the driver cares.
    fn preferred_plane(&mut self) -> Option<u32>;

    /// The time of day in nanoseconds for ages and retention; without time, a count of host pages.
    fn now_ns(&self) -> u64;
}

/// A driver that is lent; any driver too, so that code is built once for all of them.
impl<D: Driver + ?Sized> Driver for &mut D {
    fn issue(&mut self, op: FlashOp) {
        (**self).issue(op);
    }

    fn work(&mut self, work: Work, foreground: bool) {
        (**self).work(work, foreground);
    }

    fn wait_for(&mut self, ppn: u32) {
        (**self).wait_for(ppn);
    }

    fn is_idle(&self, plane: u32) -> bool {
        (**self).is_idle(plane)
    }

    fn read_ns(&self, plane: u32) -> u64 {
        (**self).read_ns(plane)
    }

    fn program_ns(&self) -> u64 {
        (**self).program_ns()
    }

    fn work_ns(&self, work: Work) -> u64 {
        (**self).work_ns(work)
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        (**self).preferred_plane()
    }

    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }
}

/// Operations counted by kind and cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    counts: [[u64; 5]; 3],
}

impl OpCounts {
    /// Adds one.
    pub fn add(&mut self, kind: OpKind, cause: Cause) {
        self.counts[kind as usize][cause as usize] += 1;
    }

    /// Operations of this kind and cause.
    pub const fn of(&self, kind: OpKind, cause: Cause) -> u64 {
        self.counts[kind as usize][cause as usize]
    }

    /// What was counted after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less =
            |kind: usize, cause: usize| self.counts[kind][cause] - earlier.counts[kind][cause];
        Self { counts: std::array::from_fn(|k| std::array::from_fn(|c| less(k, c))) }
    }

    /// Operations of this kind.
    pub fn all(&self, kind: OpKind) -> u64 {
        self.counts[kind as usize].iter().sum()
    }
}

/// The driver without time: everything is idle and done at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untimed;

impl Driver for Untimed {
    fn issue(&mut self, _op: FlashOp) {}

    fn work(&mut self, _work: Work, _foreground: bool) {}

    fn is_idle(&self, _plane: u32) -> bool {
        true
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        None
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers that no default is, and all that it was told.
    #[derive(Default)]
    struct Strange(Vec<String>);

    impl Driver for Strange {
        fn issue(&mut self, op: FlashOp) {
            self.0.push(format!("{op:?}"));
        }

        fn work(&mut self, work: Work, foreground: bool) {
            self.0.push(format!("{work:?} {foreground}"));
        }

        fn wait_for(&mut self, ppn: u32) {
            self.0.push(format!("wait {ppn}"));
        }

        fn is_idle(&self, plane: u32) -> bool {
            plane == 1
        }

        fn read_ns(&self, plane: u32) -> u64 {
            10 + u64::from(plane)
        }

        fn program_ns(&self) -> u64 {
            20
        }

        fn work_ns(&self, work: Work) -> u64 {
            30 + u64::from(work == Work::Hash)
        }

        fn preferred_plane(&mut self) -> Option<u32> {
            Some(4)
        }

        fn now_ns(&self) -> u64 {
            50
        }
    }

    /// All that may be asked of a driver.
    fn ask(d: &mut impl Driver) -> (bool, [u64; 4], Option<u32>) {
        let (kind, cause) = (OpKind::Erase, Cause::Wear);
        d.issue(FlashOp { kind, cause, ppn: 7, foreground: true });
        d.work(Work::Compare, false);
        d.wait_for(8);
        let times = [d.read_ns(3), d.program_ns(), d.work_ns(Work::Hash), d.now_ns()];
        (d.is_idle(1) && !d.is_idle(0), times, d.preferred_plane())
    }

    #[test]
    fn a_driver_that_is_lent_hears_and_answers_as_it_does_itself() {
        let (mut itself, mut lent) = (Strange::default(), Strange::default());
        let answers = ask(&mut itself);
        assert_eq!(answers, (true, [13, 20, 31, 50], Some(4)));
        assert_eq!(ask(&mut (&mut lent as &mut dyn Driver)), answers);
        assert_eq!((lent.0.len(), &lent.0), (3, &itself.0));
    }

    #[test]
    fn without_time_nothing_takes_any() {
        let mut d = Untimed;
        let times = [d.read_ns(3), d.program_ns(), d.work_ns(Work::Hash), d.now_ns()];
        assert_eq!((times, d.is_idle(0), d.preferred_plane()), ([0; 4], true, None));
    }
}
