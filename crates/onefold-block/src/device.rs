//! The block device contract: what a door serves and a room implements.
//! Room: onefold-block.
//! Invariants: (1) a call either does the whole range or returns an error; after an error the
//! range holds old or new data block by block, never a mix below the device's block size.
//! (2) `Ok` from [`BlockDevice::flush`], or from a call with `fua`, means that everything that
//! call promises survives a power cut. Checked by [`crate::conformance::device`].

use std::io;

use thiserror::Error;

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    /// First byte, from the start of the device.
    pub offset: u64,
    /// The bytes to store; any length and alignment inside the device.
    pub data: &'a [u8],
    /// Force unit access: `Ok` only once this write is durable.
    pub fua: bool,
}

/// How a range is to be zeroed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroOptions {
    /// Force unit access: `Ok` only once the zeroes are durable.
    pub fua: bool,
    /// The range shall stay allocated: block status reports zeroes, not a hole (NBD `NO_HOLE`).
    pub no_hole: bool,
    /// Fail with [`BlockError::NotFast`] rather than do it as slowly as a write (NBD `FAST_ZERO`).
    pub fast_only: bool,
}

/// What a run of bytes is backed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Stored data.
    Data,
    /// Reads as zeroes and takes no space.
    Hole,
    /// Reads as zeroes and counts as allocated.
    Zero,
}

/// A run of bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, never zero.
    pub len_bytes: u64,
    /// What backs it.
    pub kind: ExtentKind,
}

/// Why a device refused or failed a request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The range does not lie inside the device.
    #[error(
        "bytes {offset}..{end} are outside the device of {size} bytes",
        end = offset.saturating_add(*.len)
    )]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Length asked for.
        len: u64,
        /// Size of the device in bytes.
        size: u64,
    },
    /// The device was opened read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// There is no space for new data; reads and flushes go on, and writes do once there is.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// Stored bytes failed their checksum or a reference leads nowhere.
    #[error("corrupt data: {0}")]
    Corrupt(String),
    /// An earlier failure makes success unprovable until the device is reopened.
    #[error("refused after an earlier failure until reopened: {0}")]
    Poisoned(String),
    /// A fast zero was asked for where only a slow one is possible.
    #[error("zeroing this range would be no faster than writing it")]
    NotFast,
    /// The device is shutting down.
    #[error("the device is shutting down")]
    ShuttingDown,
    /// The layer below failed.
    #[error("{context}: {source}")]
    Io {
        /// What was being done.
        context: String,
        /// The system's own error.
        source: io::Error,
    },
}

/// A random-access array of bytes with explicit durability. All methods take `&self`: any number
/// of threads may call at once, and overlapping concurrent writes land in some order.
pub trait BlockDevice: Send + Sync {
    /// Size in bytes. Requests that reach past it fail with [`BlockError::OutOfRange`].
    fn size_bytes(&self) -> u64;

    /// The size and alignment, in bytes, at which requests are cheapest (a power of two).
    fn preferred_block_bytes(&self) -> u32;

    /// Whether all changes are refused with [`BlockError::ReadOnly`].
    fn is_read_only(&self) -> bool {
        false
    }

    /// Fill `buf` from `offset`.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError>;

    /// Store `data` at `offset`; with `fua`, durably.
    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError>;

    /// Store several pieces as if one after another, answering each; a device that works in
    /// batches does better here than call by call. `results` is cleared first and then holds
    /// one entry per request, in order.
    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        results.clear();
        results.extend(requests.iter().map(|r| self.write_at(r.offset, r.data, r.fua)));
    }

    /// Make a range read as zeroes.
    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError>;

    /// Say that a range is no longer needed. Whole blocks of it become holes that read as
    /// zeroes; the ragged ends keep their contents.
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError>;

    /// Make every change whose call returned before this one started durable.
    fn flush(&self) -> Result<(), BlockError>;

    /// Describe what backs a range: extents in order that add up to exactly `len` bytes or, where
    /// the device limits its answer, to a shorter prefix of at least one extent.
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError>;

    /// A hint that a range is about to be read. It may be ignored.
    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        check_range(offset, len, self.size_bytes())
    }
}

impl<T: BlockDevice + ?Sized> BlockDevice for std::sync::Arc<T> {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }
    fn preferred_block_bytes(&self) -> u32 {
        (**self).preferred_block_bytes()
    }
    fn is_read_only(&self) -> bool {
        (**self).is_read_only()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        (**self).read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        (**self).write_at(offset, data, fua)
    }
    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        (**self).write_batch(reqs, results);
    }
    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        (**self).write_zeroes(offset, len, options)
    }
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        (**self).trim(offset, len, fua)
    }
    fn flush(&self) -> Result<(), BlockError> {
        (**self).flush()
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        (**self).block_status(offset, len)
    }
    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        (**self).prefetch(offset, len)
    }
}

/// The one check of a byte range against a device size, free of overflow.
pub fn check_range(offset: u64, len: u64, size: u64) -> Result<(), BlockError> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(BlockError::OutOfRange { offset, len, size }),
    }
}
