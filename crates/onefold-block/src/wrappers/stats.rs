//! A device that counts what goes through it and, where it is given a clock, how long it takes.
//! Room: onefold-block.
//! Invariants: every request is counted once, when it ends, as a success or as an error; bytes
//! are those of requests that succeeded. Counts only grow, and outlive the device.
//! Cost: three relaxed atomic additions a request; for its time two more and two looks at a clock,
//! which it shares with who watches the call (`spent`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Clock, Verb};
use crate::device::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};
use crate::spent;

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

/// Longest times of the classes that requests are sorted into, in nanoseconds: 1, 2 and 5 of each
/// power of ten, from 1 microsecond to 10 seconds. What takes longer is in a class of its own.
pub const TIME_BOUNDS_NS: [u64; 22] = {
    let mut bounds = [0; 22];
    let (mut at, mut power) = (0, 1000);
    while at < bounds.len() {
        bounds[at] = [1, 2, 5][at % 3] * power;
        at += 1;
        if at % 3 == 0 {
            power *= 10;
        }
    }
    bounds
};

/// How long the requests of a verb took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Requests of each class, and those that took longer than all.
    pub requests: [u64; TIME_BOUNDS_NS.len() + 1],
    /// All of it together, in nanoseconds.
    pub sum_ns: u64,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    times: [AtomicU64; TIME_BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

/// What a [`StatsDevice`] counts with; several may share one.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    verbs: [Counters; Verb::ALL.len()],
    batches: AtomicU64,
    fua_requests: AtomicU64,
}

impl DeviceCounters {
    /// The counts now. Requests that end meanwhile may be counted in part.
    pub fn snapshot(&self) -> DeviceStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceStats {
            verbs: std::array::from_fn(|index| VerbStats {
                requests: load(&self.verbs[index].requests),
                errors: load(&self.verbs[index].errors),
                bytes: load(&self.verbs[index].bytes),
            }),
            batches: load(&self.batches),
            fua_requests: load(&self.fua_requests),
        }
    }

    /// How long requests of a verb took, those of devices with a clock.
    pub fn times(&self, verb: Verb) -> Times {
        let counters = &self.verbs[verb.index()];
        Times {
            requests: std::array::from_fn(|class| counters.times[class].load(Ordering::Relaxed)),
            sum_ns: counters.sum_ns.load(Ordering::Relaxed),
        }
    }
}

/// A device that counts before another device.
pub struct StatsDevice<D> {
    inner: D,
    counters: Arc<DeviceCounters>,
    clock: Option<Arc<dyn Clock>>,
}

impl<D: BlockDevice> StatsDevice<D> {
    /// Stand before `inner`, with all counts at zero.
    pub fn new(inner: D) -> Self {
        Self { inner, counters: Arc::default(), clock: None }
    }

    /// Stand before `inner`, and add to these counts and times.
    pub fn timed(inner: D, counters: Arc<DeviceCounters>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, counters, clock: Some(clock) }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counts now. Requests that end meanwhile may be counted in part.
    pub fn snapshot(&self) -> DeviceStats {
        self.counters.snapshot()
    }

    fn begin_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, spent::begin)
    }

    fn count<T>(
        &self,
        verb: Verb,
        len: u64,
        fua: bool,
        call: impl FnOnce(&D) -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        let begun_ns = self.begin_ns();
        let result = call(&self.inner);
        self.tally(verb, len, fua, result.is_ok());
        self.tally_time(verb, 1, begun_ns);
        result
    }

    /// So many requests took as long as it is since then, each.
    fn tally_time(&self, verb: Verb, requests: u64, begun_ns: u64) {
        let Some(clock) = &self.clock else { return };
        let took_ns = spent::end(clock).saturating_sub(begun_ns);
        let class = TIME_BOUNDS_NS.partition_point(|&bound| bound < took_ns);
        let counters = &self.counters.verbs[verb.index()];
        counters.times[class].fetch_add(requests, Ordering::Relaxed);
        counters.sum_ns.fetch_add(took_ns.saturating_mul(requests), Ordering::Relaxed);
    }

    fn tally(&self, verb: Verb, len: u64, fua: bool, succeeded: bool) {
        let counters = &self.counters.verbs[verb.index()];
        counters.requests.fetch_add(1, Ordering::Relaxed);
        if succeeded {
            counters.bytes.fetch_add(len, Ordering::Relaxed);
        } else {
            counters.errors.fetch_add(1, Ordering::Relaxed);
        }
        if fua {
            self.counters.fua_requests.fetch_add(1, Ordering::Relaxed);
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
        let len = buf.len() as u64;
        self.count(Verb::Read, len, false, |inner| inner.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        let len = data.len() as u64;
        self.count(Verb::Write, len, fua, |inner| inner.write_at(offset, data, fua))
    }

    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        let begun_ns = self.begin_ns();
        self.inner.write_batch(reqs, results);
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        for (request, result) in reqs.iter().zip(results.iter()) {
            self.tally(Verb::Write, request.data.len() as u64, request.fua, result.is_ok());
        }
        // All of them waited for the last one.
        self.tally_time(Verb::Write, reqs.len() as u64, begun_ns);
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        let call = |inner: &D| inner.write_zeroes(offset, len, options);
        self.count(Verb::WriteZeroes, len, options.fua, call)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.count(Verb::Trim, len, fua, |inner| inner.trim(offset, len, fua))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.count(Verb::Flush, 0, false, BlockDevice::flush)
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.count(Verb::BlockStatus, len, false, |inner| inner.block_status(offset, len))
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.count(Verb::Prefetch, len, false, |inner| inner.prefetch(offset, len))
    }
}
