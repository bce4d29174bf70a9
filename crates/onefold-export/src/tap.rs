//! A device that can be recorded from one request to the next, while clients have it.
//! Room: onefold-export.
//! Cost: one load a request while nothing is recorded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use onefold_block::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};

/// A device, and where its requests go instead while it is recorded.
pub struct Tap {
    plain: Arc<dyn BlockDevice>,
    is_on: AtomicBool,
    recorded: RwLock<Option<Arc<dyn BlockDevice>>>,
}

impl Tap {
    /// One that is not recorded.
    pub fn new(plain: Arc<dyn BlockDevice>) -> Self {
        Self { plain, is_on: AtomicBool::new(false), recorded: RwLock::new(None) }
    }

    /// The device behind.
    pub fn plain(&self) -> &Arc<dyn BlockDevice> {
        &self.plain
    }

    /// From the next request on go through this, which ends at [`Tap::plain`]; or through nothing.
    pub fn go_through(&self, recorded: Option<Arc<dyn BlockDevice>>) {
        let is_on = recorded.is_some();
        *self.recorded.write().unwrap_or_else(PoisonError::into_inner) = recorded;
        self.is_on.store(is_on, Ordering::Release);
    }

    /// Whoever answers now. Requests under way keep whom they have, so that nobody waits.
    fn with<T>(&self, ask: impl FnOnce(&dyn BlockDevice) -> T) -> T {
        if !self.is_on.load(Ordering::Acquire) {
            return ask(&*self.plain);
        }
        let recorded = self.recorded.read().unwrap_or_else(PoisonError::into_inner).clone();
        ask(recorded.as_deref().unwrap_or(&*self.plain))
    }
}

impl BlockDevice for Tap {
    fn size_bytes(&self) -> u64 {
        self.plain.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.plain.preferred_block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.plain.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.with(|device| device.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.with(|device| device.write_at(offset, data, fua))
    }

    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        self.with(|device| device.write_batch(requests, results));
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.with(|device| device.write_zeroes(offset, len, options))
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.with(|device| device.trim(offset, len, fua))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.with(|device| device.flush())
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.plain.block_status(offset, len)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.plain.prefetch(offset, len)
    }
}
