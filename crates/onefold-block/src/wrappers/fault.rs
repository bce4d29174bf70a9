//! A device that fails on command.
//! Room: onefold-block.
//! Invariants: a request that fails does not reach the device below; those of a batch that do
//! not fail still reach it together and in order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::Verb;
use crate::device::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};
use crate::seeded::SplitMix64;

/// The error that a planned fault answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceFault {
    /// [`BlockError::Io`] with EIO.
    Io,
    /// [`BlockError::NoSpace`].
    NoSpace,
    /// [`BlockError::Corrupt`].
    Corrupt,
    /// [`BlockError::Poisoned`].
    Poisoned,
    /// [`BlockError::ShuttingDown`].
    ShuttingDown,
}

impl DeviceFault {
    fn error(self, verb: Verb) -> BlockError {
        let context = format!("planned fault of {verb}");
        match self {
            Self::Io => BlockError::Io { context, source: Errno::IO.into() },
            Self::NoSpace => BlockError::NoSpace(context),
            Self::Corrupt => BlockError::Corrupt(context),
            Self::Poisoned => BlockError::Poisoned(context),
            Self::ShuttingDown => BlockError::ShuttingDown,
        }
    }
}

#[derive(Debug)]
enum When {
    /// Once, after that many more requests.
    Once(u64),
    /// Always, after that many more requests.
    From(u64),
    /// That many times out of so many, by chance.
    Ratio(u64, u64),
}

#[derive(Debug)]
struct Rule {
    verbs: Vec<Verb>,
    when: When,
    fault: DeviceFault,
}

#[derive(Debug)]
struct Plan {
    rules: Vec<Rule>,
    random: SplitMix64,
}

/// A device with planned faults before another device.
#[derive(Debug)]
pub struct FaultDevice<D> {
    inner: D,
    plan: Mutex<Plan>,
}

impl<D: BlockDevice> FaultDevice<D> {
    /// Stand before `inner`, without any fault yet; chance comes from `seed`.
    pub fn new(inner: D, seed: u64) -> Self {
        let plan = Plan { rules: Vec::new(), random: SplitMix64::new(seed) };
        Self { inner, plan: Mutex::new(plan) }
    }

    /// Fail the `nth` request from now among `verbs` (1 is the next).
    pub fn fail_once(&self, verbs: &[Verb], nth: u64, fault: DeviceFault) {
        assert!(nth > 0, "the next request is the first");
        self.add(verbs, When::Once(nth - 1), fault);
    }

    /// Fail every request among `verbs` from the `nth` on.
    pub fn fail_from(&self, verbs: &[Verb], nth: u64, fault: DeviceFault) {
        assert!(nth > 0, "the next request is the first");
        self.add(verbs, When::From(nth - 1), fault);
    }

    /// Fail `numerator` of `denominator` requests among `verbs`, by chance.
    pub fn fail_ratio(&self, verbs: &[Verb], ratio: (u64, u64), fault: DeviceFault) {
        let (numerator, denominator) = ratio;
        assert!(denominator > 0, "a share of nothing");
        self.add(verbs, When::Ratio(numerator, denominator), fault);
    }

    /// Forget all planned faults.
    pub fn clear_faults(&self) {
        self.plan().rules.clear();
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn add(&self, verbs: &[Verb], when: When, fault: DeviceFault) {
        self.plan().rules.push(Rule { verbs: verbs.to_vec(), when, fault });
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, verb: Verb) -> Result<(), BlockError> {
        self.plan().next(verb).map_or(Ok(()), |fault| Err(fault.error(verb)))
    }
}

impl Plan {
    /// The fault of this request, if one is planned; every rule counts every request.
    fn next(&mut self, verb: Verb) -> Option<DeviceFault> {
        let mut hit = None;
        let random = &mut self.random;
        self.rules.retain_mut(|rule| {
            if !rule.verbs.contains(&verb) {
                return true;
            }
            let (fails, stays) = match &mut rule.when {
                When::Once(0) => (true, false),
                When::From(0) => (true, true),
                When::Once(left) | When::From(left) => {
                    *left -= 1;
                    (false, true)
                }
                When::Ratio(numerator, denominator) => {
                    (random.chance(*numerator, *denominator), true)
                }
            };
            if fails {
                hit = hit.or(Some(rule.fault));
            }
            stays
        });
        hit
    }
}

impl<D: BlockDevice> BlockDevice for FaultDevice<D> {
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
        self.pass(Verb::Read)?;
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.pass(Verb::Write)?;
        self.inner.write_at(offset, data, fua)
    }

    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        let verdicts: Vec<_> = reqs.iter().map(|_| self.pass(Verb::Write)).collect();
        let passed: Vec<WriteRequest<'_>> =
            reqs.iter().zip(&verdicts).filter(|(_, v)| v.is_ok()).map(|(r, _)| *r).collect();
        self.inner.write_batch(&passed, results);
        let mut below = std::mem::take(results).into_iter();
        results.extend(verdicts.into_iter().map(|verdict| {
            verdict.and_then(|()| below.next().expect("a batch answers every request"))
        }));
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.pass(Verb::WriteZeroes)?;
        self.inner.write_zeroes(offset, len, options)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.pass(Verb::Trim)?;
        self.inner.trim(offset, len, fua)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.pass(Verb::Flush)?;
        self.inner.flush()
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.pass(Verb::BlockStatus)?;
        self.inner.block_status(offset, len)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.pass(Verb::Prefetch)?;
        self.inner.prefetch(offset, len)
    }
}
