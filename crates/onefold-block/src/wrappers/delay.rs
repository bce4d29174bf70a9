//! A device that takes its time.
//! Room: onefold-block.
//! Invariants: every request waits once, before it reaches the device below, for the fixed time
//! of its verb and the time of its bytes; a batch waits once for the sum of its requests.

use std::sync::Arc;

use super::{Clock, Verb};
use crate::device::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};

/// What one verb costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbDelay {
    /// For each request, in nanoseconds.
    pub fixed_ns: u64,
    /// For each KiB of its range, in nanoseconds; parts of a KiB in proportion, rounded up.
    pub per_kib_ns: u64,
}

impl VerbDelay {
    /// The time of one request over `len` bytes, in nanoseconds.
    pub fn of(self, len: u64) -> u64 {
        let bytes_ns = (u128::from(self.per_kib_ns) * u128::from(len)).div_ceil(1024);
        u64::try_from(bytes_ns).unwrap_or(u64::MAX).saturating_add(self.fixed_ns)
    }
}

/// What each verb costs; nothing unless set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelaySpec {
    delays: [VerbDelay; Verb::ALL.len()],
}

impl DelaySpec {
    /// The same, with `verb` costing `delay`.
    #[must_use]
    pub const fn with(mut self, verb: Verb, delay: VerbDelay) -> Self {
        self.delays[verb.index()] = delay;
        self
    }

    /// What a verb costs.
    pub const fn of(&self, verb: Verb) -> VerbDelay {
        self.delays[verb.index()]
    }
}

/// A device that waits before it hands requests on.
pub struct DelayDevice<D> {
    inner: D,
    spec: DelaySpec,
    clock: Arc<dyn Clock>,
}

impl<D: BlockDevice> DelayDevice<D> {
    /// Stand before `inner` and wait by `clock`.
    pub fn new(inner: D, spec: DelaySpec, clock: Arc<dyn Clock>) -> Self {
        Self { inner, spec, clock }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn wait(&self, verb: Verb, len: u64) {
        self.sleep(self.spec.of(verb).of(len));
    }

    fn sleep(&self, duration_ns: u64) {
        if duration_ns > 0 {
            self.clock.sleep_ns(duration_ns);
        }
    }
}

impl<D: BlockDevice> BlockDevice for DelayDevice<D> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.inner.preferred_block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.wait(Verb::Read, buf.len() as u64);
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.wait(Verb::Write, data.len() as u64);
        self.inner.write_at(offset, data, fua)
    }

    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        let delay = self.spec.of(Verb::Write);
        let costs = reqs.iter().map(|request| delay.of(request.data.len() as u64));
        self.sleep(costs.fold(0, u64::saturating_add));
        self.inner.write_batch(reqs, results);
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.wait(Verb::WriteZeroes, len);
        self.inner.write_zeroes(offset, len, options)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.wait(Verb::Trim, len);
        self.inner.trim(offset, len, fua)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.wait(Verb::Flush, 0);
        self.inner.flush()
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.wait(Verb::BlockStatus, len);
        self.inner.block_status(offset, len)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.wait(Verb::Prefetch, len);
        self.inner.prefetch(offset, len)
    }
}
