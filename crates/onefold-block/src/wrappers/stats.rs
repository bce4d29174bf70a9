//! A device that counts what goes through it.
//! Room: onefold-block.
//! Invariants: every request is counted once, when it ends, as a success or as an error; bytes
//! are those of requests that succeeded.
//! Cost: three relaxed atomic additions a request.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Verb;
use crate::device::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};

/// The counts of one verb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbStats {
    /// Requests that ended, errors included.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of the ranges of requests that succeeded.
    pub bytes: u64,
}

/// The counts of every verb at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    verbs: [VerbStats; Verb::ALL.len()],
    /// Batches of writes; their requests are counted as writes.
    pub batches: u64,
    /// Requests that asked for force unit access, errors included.
    pub fua_requests: u64,
}

impl DeviceStats {
    /// The counts of one verb.
    pub const fn of(&self, verb: Verb) -> VerbStats {
        self.verbs[verb.index()]
    }

    /// What was counted between an earlier moment and this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = *self;
        for (now, then) in difference.verbs.iter_mut().zip(&earlier.verbs) {
            now.requests -= then.requests;
            now.errors -= then.errors;
            now.bytes -= then.bytes;
        }
        difference.batches -= earlier.batches;
        difference.fua_requests -= earlier.fua_requests;
        difference
    }
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
}

/// A device that counts before another device.
#[derive(Debug)]
pub struct StatsDevice<D> {
    inner: D,
    counters: [Counters; Verb::ALL.len()],
    batches: AtomicU64,
    fua_requests: AtomicU64,
}

impl<D: BlockDevice> StatsDevice<D> {
    /// Stand before `inner`, with all counts at zero.
    pub fn new(inner: D) -> Self {
        Self {
            inner,
            counters: Default::default(),
            batches: AtomicU64::new(0),
            fua_requests: AtomicU64::new(0),
        }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counts now. Requests that end meanwhile may be counted in part.
    pub fn snapshot(&self) -> DeviceStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceStats {
            verbs: std::array::from_fn(|index| VerbStats {
                requests: load(&self.counters[index].requests),
                errors: load(&self.counters[index].errors),
                bytes: load(&self.counters[index].bytes),
            }),
            batches: load(&self.batches),
            fua_requests: load(&self.fua_requests),
        }
    }

    fn count<T>(
        &self,
        verb: Verb,
        len: u64,
        fua: bool,
        result: Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        self.tally(verb, len, fua, result.is_ok());
        result
    }

    fn tally(&self, verb: Verb, len: u64, fua: bool, succeeded: bool) {
        let counters = &self.counters[verb.index()];
        counters.requests.fetch_add(1, Ordering::Relaxed);
        if succeeded {
            counters.bytes.fetch_add(len, Ordering::Relaxed);
        } else {
            counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        if fua {
            self.fua_requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<D: BlockDevice> BlockDevice for StatsDevice<D> {
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
        self.count(Verb::Read, buf.len() as u64, false, self.inner.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        let result = self.inner.write_at(offset, data, fua);
        self.count(Verb::Write, data.len() as u64, fua, result)
    }

    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        self.inner.write_batch(reqs, results);
        self.batches.fetch_add(1, Ordering::Relaxed);
        for (request, result) in reqs.iter().zip(results.iter()) {
            self.tally(Verb::Write, request.data.len() as u64, request.fua, result.is_ok());
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        let result = self.inner.write_zeroes(offset, len, options);
        self.count(Verb::WriteZeroes, len, options.fua, result)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.count(Verb::Trim, len, fua, self.inner.trim(offset, len, fua))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.count(Verb::Flush, 0, false, self.inner.flush())
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.count(Verb::BlockStatus, len, false, self.inner.block_status(offset, len))
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.count(Verb::Prefetch, len, false, self.inner.prefetch(offset, len))
    }
}
