//! Keeping the emulated drive at the speed of the modelled one.
//! Room: onefold-flash.   In: `FlashOp`s and controller work.   Out: when the request is done.
//! Every plane does one operation at a time, in the order issued. A request's foreground
//! operations follow each other; background ones only queue. Buses and links are not modelled
//! here: this is for clients to feel, the simulator is for figures.

use crate::geometry::Geometry;
use crate::op::{Driver, FlashOp, OpKind, Work};

/// How long things take, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Reading a page.
    pub read_ns: u64,
    /// Programming a page.
    pub program_ns: u64,
    /// Erasing a block.
    pub erase_ns: u64,
    /// A collision-resistant fingerprint.
    pub hash_ns: u64,
    /// A light fingerprint.
    pub light_hash_ns: u64,
    /// Correcting a parity for its scrambler.
    pub parity_correction_ns: u64,
    /// Comparing two pages.
    pub compare_ns: u64,
    /// Looking up or changing a table.
    pub lookup_ns: u64,
    /// Compressing a page.
    pub compress_ns: u64,
    /// Decompressing a page.
    pub decompress_ns: u64,
}

impl Latencies {
    const fn op(&self, kind: OpKind) -> u64 {
        match kind {
            OpKind::Read => self.read_ns,
            OpKind::Program => self.program_ns,
            OpKind::Erase => self.erase_ns,
        }
    }

    const fn work(&self, work: Work) -> u64 {
        match work {
            Work::Hash => self.hash_ns,
            Work::LightHash => self.light_hash_ns,
            Work::ParityCorrection => self.parity_correction_ns,
            Work::Compare => self.compare_ns,
            Work::Lookup => self.lookup_ns,
            Work::Compress => self.compress_ns,
            Work::Decompress => self.decompress_ns,
        }
    }
}

/// The driver of an emulated drive: counts nothing, but knows when everything would be done.
#[derive(Clone, Debug)]
pub struct Pace {
    geometry: Geometry,
    latencies: Latencies,
    /// When each plane has done what it was asked for.
    busy_until: Vec<u64>,
    /// Where the current request has got to.
    at_ns: u64,
}

impl Pace {
    /// A drive at rest.
    pub fn new(geometry: Geometry, latencies: Latencies) -> Self {
        let planes = geometry.planes() as usize;
        Self { geometry, latencies, busy_until: vec![0; planes], at_ns: 0 }
    }

    /// A request comes in now.
    pub fn begin(&mut self, now_ns: u64) {
        self.at_ns = now_ns;
    }

    /// The request's last reading had to be done so many times more.
    pub fn retried(&mut self, times: u32) {
        self.at_ns += u64::from(times) * self.latencies.read_ns;
    }

    /// When the request is done.
    pub fn done_ns(&self) -> u64 {
        self.at_ns
    }

    /// When everything asked for so far is done.
    pub fn all_done_ns(&self) -> u64 {
        self.busy_until.iter().copied().fold(self.at_ns, u64::max)
    }
}

impl Driver for Pace {
    fn issue(&mut self, op: FlashOp) {
        let plane = self.geometry.plane_of(op.ppn) as usize;
        let end = self.busy_until[plane].max(self.at_ns) + self.latencies.op(op.kind);
        self.busy_until[plane] = end;
        if op.foreground {
            self.at_ns = end;
        }
    }

    fn work(&mut self, work: Work, foreground: bool) {
        if foreground {
            self.at_ns += self.latencies.work(work);
        }
    }

    fn is_idle(&self, plane: u32) -> bool {
        self.busy_until[plane as usize] <= self.at_ns
    }

    fn read_ns(&self, plane: u32) -> u64 {
        self.busy_until[plane as usize].saturating_sub(self.at_ns) + self.latencies.read_ns
    }

    fn program_ns(&self) -> u64 {
        let free = self.busy_until.iter().copied().min().unwrap_or(0);
        free.saturating_sub(self.at_ns) + self.latencies.program_ns
    }

    fn work_ns(&self, work: Work) -> u64 {
        self.latencies.work(work)
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        None
    }

    fn now_ns(&self) -> u64 {
        self.at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Cause;

    #[test]
    fn foreground_operations_add_up_and_background_ones_delay_their_plane() {
        let geometry = Geometry {
            channels: 1,
            packages: 1,
            dies_per_package: 1,
            planes_per_die: 2,
            blocks_per_plane: 2,
            pages_per_block: 2,
            page_bytes: 4096,
            oob_bytes: 192,
        };
        let latencies = Latencies {
            read_ns: 10,
            program_ns: 100,
            erase_ns: 1000,
            lookup_ns: 1,
            ..Latencies::default()
        };
        let mut pace = Pace::new(geometry, latencies);
        let op = |kind, ppn, foreground| FlashOp { kind, cause: Cause::Host, ppn, foreground };
        pace.begin(5000);
        pace.work(Work::Lookup, true);
        pace.issue(op(OpKind::Program, 0, true));
        assert_eq!(pace.done_ns(), 5101);
        pace.issue(op(OpKind::Erase, 2, false));
        assert_eq!((pace.done_ns(), pace.all_done_ns()), (5101, 6101));
        assert!(!pace.is_idle(0) && pace.is_idle(1));
        assert_eq!((pace.read_ns(0), pace.read_ns(1), pace.program_ns()), (1010, 10, 100));
        // The next read of that plane waits for the erase, one of the other plane does not.
        pace.begin(5200);
        pace.issue(op(OpKind::Read, 4, true));
        assert_eq!(pace.done_ns(), 5210);
        pace.issue(op(OpKind::Read, 1, true));
        assert_eq!(pace.done_ns(), 6111);
        pace.retried(3);
        assert_eq!(pace.done_ns(), 6141);
    }
}
