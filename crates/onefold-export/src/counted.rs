//! A device whose requests are counted and timed.
//! Room: onefold-export.

use std::sync::Arc;

use onefold_block::BlockDevice;
use onefold_block::wrappers::{Clock, DeviceCounters, StatsDevice};

/// Count what is asked of a device, and how long it takes by this clock.
pub fn counted(
    device: impl BlockDevice + 'static,
    counters: Arc<DeviceCounters>,
    clock: Arc<dyn Clock>,
) -> Arc<dyn BlockDevice> {
    // Known by its contract alone, so that the code for it is made here and not in each caller.
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    Arc::new(StatsDevice::timed(device, counters, clock))
}
