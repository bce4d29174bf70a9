//! The requests of a trace for a model that replays them.
//! Room: onefold.

use std::path::Path;

use onefold_workload::{TraceFormat, TraceRequests};

use crate::commands::trace_open;
use crate::failure::Result;

/// Open a trace; errors of its requests are sentences that name it.
pub fn replay(path: &Path, format: Option<TraceFormat>) -> Result<TraceRequests> {
    let trace = trace_open::open(path, format)?;
    let name = path.display().to_string();
    Ok(Box::new(trace.map(move |request| {
        request.map_err(|error| {
            let source = std::error::Error::source(&error);
            let why = source.map(|why| format!(": {why}")).unwrap_or_default();
            format!("trace '{name}': {error}{why}")
        })
    })))
}
