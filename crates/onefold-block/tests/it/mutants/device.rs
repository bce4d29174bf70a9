//! Broken devices.
//! Room: onefold-block.

use std::sync::Arc;

use onefold_block::conformance::{check_read_only_device, device::CHECKS};
use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, MemDevice};
use onefold_block::{WriteRequest, ZeroOptions};

use super::{Memory, all_are_caught, fails};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    NewBytesAreDirty,
    SizeIsShort,
    OddBlockSize,
    LosesLastByte,
    RoundsOffsetsDown,
    ReadsWholeBlocksOnly,
    MergesWithOldBytes,
    WrapsOffsets,
    ForgetsToCheckTrims,
    ForgetsToCheckPrefetches,
    SaysOutOfRangeWithoutTheRange,
    RefusesEmptyRanges,
    EmptyStatusHasAnExtent,
    BatchRunsBackwards,
    BatchStopsAtAnError,
    BatchKeepsOldResults,
    ZeroesForgetTheTail,
    ZeroesNothing,
    FastZeroesHalf,
    NoHoleMakesHoles,
    TrimForgets,
    TrimTakesRaggedEnds,
    TrimLeavesNoHole,
    StatusIsAllHole,
    StatusIsTooLong,
    StatusHasEmptyExtents,
    StatusIsEmpty,
    FlushLosesTheFirstBlock,
    FuaWritesAreLost,
    PrefetchZeroes,
    RaggedEndIsLost,
    OtherThreadsLoseBytes,
    EveryFiftiethWriteIsLost,
}

/// Each bug and the check that must catch it.
const BUGS: &[(Bug, &str)] = &[
    (Bug::NewBytesAreDirty, "new device is zeroes"),
    (Bug::SizeIsShort, "new device is zeroes"),
    (Bug::OddBlockSize, "new device is zeroes"),
    (Bug::LosesLastByte, "writes of any alignment"),
    (Bug::RoundsOffsetsDown, "writes of any alignment"),
    (Bug::ReadsWholeBlocksOnly, "writes of any alignment"),
    (Bug::MergesWithOldBytes, "overlapping writes"),
    (Bug::WrapsOffsets, "range errors"),
    (Bug::ForgetsToCheckTrims, "range errors"),
    (Bug::ForgetsToCheckPrefetches, "range errors"),
    (Bug::SaysOutOfRangeWithoutTheRange, "range errors"),
    (Bug::BatchStopsAtAnError, "range errors"),
    (Bug::RefusesEmptyRanges, "empty ranges"),
    (Bug::EmptyStatusHasAnExtent, "empty ranges"),
    (Bug::BatchRunsBackwards, "write batch"),
    (Bug::BatchKeepsOldResults, "write batch"),
    (Bug::ZeroesForgetTheTail, "zeroes with every option"),
    (Bug::ZeroesNothing, "zeroes with every option"),
    (Bug::FastZeroesHalf, "zeroes with every option"),
    (Bug::NoHoleMakesHoles, "no-hole zeroes stay allocated"),
    (Bug::TrimForgets, "trim"),
    (Bug::TrimTakesRaggedEnds, "trim"),
    (Bug::TrimLeavesNoHole, "trim"),
    (Bug::StatusIsAllHole, "block status"),
    (Bug::StatusIsTooLong, "block status"),
    (Bug::StatusHasEmptyExtents, "block status"),
    (Bug::StatusIsEmpty, "block status"),
    (Bug::FlushLosesTheFirstBlock, "flush, FUA and prefetch keep contents"),
    (Bug::FuaWritesAreLost, "flush, FUA and prefetch keep contents"),
    (Bug::PrefetchZeroes, "flush, FUA and prefetch keep contents"),
    (Bug::RaggedEndIsLost, "ragged device size"),
    (Bug::OtherThreadsLoseBytes, "threads"),
    (Bug::EveryFiftiethWriteIsLost, "model"),
];

struct Broken {
    inner: MemDevice,
    bug: Option<Bug>,
    memory: Memory,
}

impl Broken {
    fn new(size: u64, bug: Option<Bug>) -> Self {
        let size = match bug {
            Some(Bug::SizeIsShort) => size - 512,
            Some(Bug::RaggedEndIsLost) => size / 4096 * 4096,
            _ => size,
        };
        let inner = MemDevice::new(size);
        if bug == Some(Bug::NewBytesAreDirty) {
            inner.write_at(size / 2, &[1], false).unwrap();
        }
        Self { inner, bug, memory: Memory::new() }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn check_empty(&self, len: u64) -> Result<(), BlockError> {
        if self.has(Bug::RefusesEmptyRanges) && len == 0 {
            return Err(BlockError::Corrupt("an empty range".into()));
        }
        Ok(())
    }

    fn wrapped(&self, offset: u64) -> u64 {
        if self.has(Bug::WrapsOffsets) { offset % self.inner.size_bytes() } else { offset }
    }
}

impl BlockDevice for Broken {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        if self.has(Bug::OddBlockSize) { 5000 } else { self.inner.preferred_block_bytes() }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.check_empty(buf.len() as u64)?;
        self.inner.read_at(self.wrapped(offset), buf).map_err(|error| match error {
            BlockError::OutOfRange { size, .. } if self.has(Bug::SaysOutOfRangeWithoutTheRange) => {
                BlockError::OutOfRange { offset: 0, len: 0, size }
            }
            error => error,
        })?;
        if self.has(Bug::ReadsWholeBlocksOnly) {
            let whole = buf.len() / 4096 * 4096;
            buf[whole..].fill(0);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.check_empty(data.len() as u64)?;
        let offset = match self.bug {
            Some(Bug::RoundsOffsetsDown) => offset / 512 * 512,
            _ => self.wrapped(offset),
        };
        let loses_last = self.has(Bug::LosesLastByte)
            || (self.has(Bug::OtherThreadsLoseBytes) && self.memory.is_stranger());
        let lost = (self.has(Bug::FuaWritesAreLost) && fua)
            || (self.has(Bug::EveryFiftiethWriteIsLost) && self.memory.every(50));
        if lost {
            return Ok(());
        }
        let mut data = data.to_vec();
        if self.has(Bug::MergesWithOldBytes) && data.len() < 4 {
            let mut old = vec![0; data.len()];
            self.inner.read_at(offset, &mut old)?;
            data.iter_mut().zip(old).for_each(|(new, old)| *new |= old);
        }
        self.inner.write_at(offset, &data[..data.len() - usize::from(loses_last)], fua)
    }

    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        if !self.has(Bug::BatchKeepsOldResults) {
            results.clear();
        }
        let write = |r: &WriteRequest<'_>| self.write_at(r.offset, r.data, r.fua);
        match self.bug {
            Some(Bug::BatchRunsBackwards) => results.extend(reqs.iter().rev().map(write)),
            Some(Bug::BatchStopsAtAnError) => {
                results.extend(reqs.iter().map(write).take_while(Result::is_ok));
            }
            _ => results.extend(reqs.iter().map(write)),
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.check_empty(len)?;
        let keep_hole = ZeroOptions { no_hole: false, ..options };
        match self.bug {
            Some(Bug::NoHoleMakesHoles) => self.inner.write_zeroes(offset, len, keep_hole),
            Some(Bug::ZeroesForgetTheTail) if len > 4096 && !len.is_multiple_of(4096) => {
                self.inner.write_zeroes(offset, len / 4096 * 4096, options)
            }
            Some(Bug::ZeroesNothing) => Ok(()),
            Some(Bug::FastZeroesHalf) if options.fast_only => {
                self.inner.write_zeroes(offset, len / 2, options)?;
                Err(BlockError::NotFast)
            }
            _ => self.inner.write_zeroes(self.wrapped(offset), len, options),
        }
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.check_empty(len)?;
        let no_hole = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
        match self.bug {
            Some(Bug::TrimForgets) => Ok(()),
            Some(Bug::TrimTakesRaggedEnds) => {
                self.inner.write_zeroes(offset, len, ZeroOptions::default())
            }
            Some(Bug::TrimLeavesNoHole) => {
                self.inner.trim(offset, len, fua)?;
                let start = offset.next_multiple_of(4096);
                let end = (offset + len) / 4096 * 4096;
                self.inner.write_zeroes(start, end.saturating_sub(start), no_hole)
            }
            Some(Bug::ForgetsToCheckTrims) => {
                let size = self.size_bytes();
                let start = offset.min(size);
                self.inner.trim(start, len.min(size - start), fua)
            }
            _ => self.inner.trim(self.wrapped(offset), len, fua),
        }
    }

    fn flush(&self) -> Result<(), BlockError> {
        if self.has(Bug::FlushLosesTheFirstBlock) {
            self.inner.trim(0, 512 << 10, false)?;
        }
        self.inner.flush()
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.check_empty(len)?;
        let mut extents = self.inner.block_status(offset, len)?;
        match self.bug {
            Some(Bug::EmptyStatusHasAnExtent) if len == 0 => {
                extents.push(Extent { len_bytes: 0, kind: ExtentKind::Hole });
            }
            Some(Bug::StatusIsAllHole) => {
                extents = vec![Extent { len_bytes: len, kind: ExtentKind::Hole }];
            }
            Some(Bug::StatusIsTooLong) => {
                extents.push(Extent { len_bytes: 1, kind: ExtentKind::Data });
            }
            Some(Bug::StatusHasEmptyExtents) => {
                extents.push(Extent { len_bytes: 0, kind: ExtentKind::Data });
            }
            Some(Bug::StatusIsEmpty) => extents.clear(),
            _ => {}
        }
        Ok(extents)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.check_empty(len)?;
        match self.bug {
            Some(Bug::ForgetsToCheckPrefetches) => Ok(()),
            Some(Bug::PrefetchZeroes) => self.inner.trim(offset, len, false),
            _ => self.inner.prefetch(self.wrapped(offset), len),
        }
    }
}

#[test]
fn every_broken_device_is_caught() {
    let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    all_are_caught(BUGS, &names, |name, bug| {
        let (_, check) = CHECKS.iter().find(|(n, _)| *n == name).expect("the name is of the table");
        fails(|| check(&|size| Arc::new(Broken::new(size, bug))))
    });
}

/// Takes changes although it says that it does not, or the other way round.
struct HalfReadOnly {
    inner: MemDevice,
    says_so: bool,
    takes: &'static str,
}

impl HalfReadOnly {
    fn answer(&self, verb: &str) -> Result<(), BlockError> {
        if self.takes == verb { Ok(()) } else { Err(BlockError::ReadOnly) }
    }
}

impl BlockDevice for HalfReadOnly {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn preferred_block_bytes(&self) -> u32 {
        4096
    }
    fn is_read_only(&self) -> bool {
        self.says_so
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, _: u64, _: &[u8], _: bool) -> Result<(), BlockError> {
        self.answer("write")
    }
    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        results.clear();
        results.extend(reqs.iter().map(|_| self.answer("batch")));
    }
    fn write_zeroes(&self, _: u64, _: u64, _: ZeroOptions) -> Result<(), BlockError> {
        self.answer("zero")
    }
    fn trim(&self, _: u64, _: u64, _: bool) -> Result<(), BlockError> {
        self.answer("trim")
    }
    fn flush(&self) -> Result<(), BlockError> {
        if self.takes == "no flush" { Err(BlockError::ReadOnly) } else { Ok(()) }
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.inner.block_status(offset, len)
    }
}

#[test]
fn every_broken_read_only_device_is_caught() {
    let make = |says_so, takes| HalfReadOnly { inner: MemDevice::new(8192), says_so, takes };
    check_read_only_device(&make(true, "nothing"));
    for takes in ["write", "batch", "zero", "trim", "no flush"] {
        assert!(fails(|| check_read_only_device(&make(true, takes))), "{takes}");
    }
    assert!(fails(|| check_read_only_device(&make(false, "nothing"))));
}
