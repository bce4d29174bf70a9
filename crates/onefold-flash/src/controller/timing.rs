//! The durations of a specification, ready to be added.
//! Room: onefold-flash.

use onefold_sim::SimSpan;

use crate::op::{Cause, OpKind, Work};
use crate::spec::{DriveSpec, Suspend};

/// Which engine does a kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Cores of the controller.
    Cpu,
    /// Fingerprint engines.
    Hash,
    /// Engines of the error-correcting code.
    Ecc,
    /// Compression engines.
    Compression,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Hash, Self::Ecc, Self::Compression];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Hash => "hash",
            Self::Ecc => "ecc",
            Self::Compression => "compression",
        }
    }

    /// The engine of a kind of work.
    pub const fn of(work: Work) -> Self {
        match work {
            Work::Hash | Work::LightHash => Self::Hash,
            Work::ParityCorrection => Self::Ecc,
            Work::Compare | Work::Lookup => Self::Cpu,
            Work::Compress | Work::Decompress => Self::Compression,
        }
    }
}

/// Durations in nanoseconds, and rules.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timing {
    pub read_ns: u64,
    pub program_ns: u64,
    /// A page over the channel.
    pub transfer_ns: u64,
    pub command_ns: u64,
    pub cache_program: bool,
    pub suspend: Suspend,
    pub suspend_ns: u64,
    pub read_priority: bool,
    pub ecc_decode_ns: u64,
    /// By [`OpKind`].
    array_ns: [u64; 3],
    /// A page over the channel, by [`OpKind`] and [`Cause`].
    page_ns: [[u64; Cause::ALL.len()]; 3],
    work_ns: [u64; 7],
}

impl Timing {
    pub(crate) fn new(spec: &DriveSpec) -> Self {
        let (timing, controller) = (&spec.timing, &spec.controller);
        let bytes = u64::from(spec.geometry.page_bytes) + u64::from(spec.geometry.oob_bytes);
        let transfer_ns = transfer_ns(bytes, timing.bus_mb_per_s);
        let pages = Cause::ALL.map(|cause| match cause {
            // The page stays inside of its die.
            Cause::Gc | Cause::Wear if timing.copyback => 0,
            _ => transfer_ns,
        });
        let mut work_ns = [0; 7];
        let page_bytes = u64::from(spec.geometry.page_bytes);
        work_ns[Work::Compress as usize] =
            self::transfer_ns(page_bytes, controller.compress_mb_per_s);
        work_ns[Work::Decompress as usize] =
            self::transfer_ns(page_bytes, controller.decompress_mb_per_s);
        // What is hashed and compared is a page, or a codeword of one.
        let codewords = u64::from(spec.codewords());
        work_ns[Work::Hash as usize] = controller.hash_ns.div_ceil(codewords);
        work_ns[Work::LightHash as usize] = controller.light_hash_ns.div_ceil(codewords);
        work_ns[Work::ParityCorrection as usize] = controller.parity_correction_ns;
        work_ns[Work::Compare as usize] = controller.compare_ns.div_ceil(codewords);
        work_ns[Work::Lookup as usize] = controller.lookup_ns;
        Self {
            read_ns: timing.read_latency_ns,
            program_ns: timing.program_latency_ns,
            transfer_ns,
            command_ns: timing.command_overhead_ns,
            cache_program: timing.cache_program,
            suspend: timing.suspend,
            suspend_ns: timing.suspend_latency_ns,
            read_priority: controller.read_priority,
            ecc_decode_ns: controller.ecc_decode_ns,
            array_ns: [timing.read_latency_ns, timing.program_latency_ns, timing.erase_latency_ns],
            page_ns: [pages, pages, [0; Cause::ALL.len()]],
            work_ns,
        }
    }

    /// Time of the array for an operation.
    #[inline]
    pub(crate) const fn array_ns(&self, kind: OpKind) -> u64 {
        self.array_ns[kind as usize]
    }

    /// Time of an engine for a piece of work.
    pub(crate) const fn work_ns(&self, work: Work) -> u64 {
        self.work_ns[work as usize]
    }

    /// Time on the channel of the page of an operation.
    #[inline]
    pub(crate) const fn page_ns(&self, kind: OpKind, cause: Cause) -> u64 {
        self.page_ns[kind as usize][cause as usize]
    }

    /// Time on the channel before the array begins.
    #[inline]
    pub(crate) const fn in_ns(&self, kind: OpKind, cause: Cause) -> u64 {
        let page_ns = match kind {
            OpKind::Program => self.page_ns(kind, cause),
            OpKind::Read | OpKind::Erase => 0,
        };
        self.command_ns + page_ns
    }
}

/// Time of an engine for a piece of work.
pub(crate) fn work_ns(spec: &DriveSpec, work: Work) -> u64 {
    Timing::new(spec).work_ns(work)
}

/// Nanoseconds that bytes take at so many 10^6 bytes a second, rounded up; 0 at rate 0, which
/// stands for a link that takes no time.
pub(crate) fn transfer_ns(bytes: u64, mb_per_s: u64) -> u64 {
    if mb_per_s == 0 { 0 } else { SimSpan::of_transfer(bytes, mb_per_s * 1_000_000).ns() }
}
