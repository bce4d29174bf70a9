//! The emulated drive: the FTL over an array of bytes, as a block device that real clients use.
//! Room: onefold-flash.

mod clock;
mod device;
mod pace;

pub use clock::{Clock, WallClock};
pub use device::{EmulatedDrive, HostCounts};
pub use pace::{Latencies, Pace};
