//! The requests of a trace for a model that replays them.
//! Room: onefold.

use std::path::Path;

use onefold_workload::{TraceFormat, TraceRequests};

use crate::commands::trace_open;
use crate::failure::Result;

/// Open a trace; errors of its requests are sentences that name it.
pub fn replay(path: &Path, format: Option<TraceFormat>) -> Result<TraceRequests> {
    Ok(trace_open::open(path, format)?.into_requests(&path.display().to_string()))
}
