//! What a client is told about an export before it begins.
//! Room: onefold-nbd.

use onefold_block::BlockDevice;

use super::constants::{MAX_REQUEST_BYTES, transmission_flag as flag};

/// Smallest preferred block size the protocol accepts, in bytes.
const MIN_PREFERRED_BYTES: u32 = 512;

/// Size, block size and access of an export, fixed when a client picks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size in bytes.
    pub size_bytes: u64,
    /// The block size at which requests are cheapest, in bytes: a power of two.
    pub preferred_block_bytes: u32,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl ExportInfo {
    /// What there is to know of a device; `read_only` forbids changes even where it allows them.
    pub fn of(device: &dyn BlockDevice, read_only: bool) -> Self {
        let preferred = device.preferred_block_bytes();
        Self {
            size_bytes: device.size_bytes(),
            preferred_block_bytes: preferred.clamp(MIN_PREFERRED_BYTES, MAX_REQUEST_BYTES),
            read_only: read_only || device.is_read_only(),
        }
    }

    /// The transmission flags. Multi-conn is always set because a device's flush covers every
    /// call that returned, whichever connection made it, and connections keep nothing back.
    pub const fn transmission_flags(&self, structured: bool) -> u16 {
        let mut flags = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_CACHE
            | flag::CAN_MULTI_CONN;
        if self.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        }
        if structured {
            flags |= flag::SEND_DF;
        }
        flags
    }
}
