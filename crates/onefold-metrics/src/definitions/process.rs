//! The process that serves.
//! Room: onefold-metrics.

use super::rows;
use crate::definition::Definition;
use crate::sample::{ProcessSample, Sample};

#[expect(clippy::unnecessary_wraps, reason = "other subjects may be missing")]
fn process(sample: &Sample) -> Option<&ProcessSample> {
    Some(&sample.process)
}

/// Of the process.
pub static METRICS: &[Definition] = rows! { process;
    Gauge "onefold_process_memory_bytes"
        "Memory of the process, without its program and files" => |process| process.memory_bytes;
    Counter "onefold_process_cpu_seconds_total"
        "Time of processors that the process took" => |process| process.cpu_seconds;
    Gauge "onefold_process_start_time_seconds"
        "When the process started, in seconds since 1970" => |process| process.started_s;
};
