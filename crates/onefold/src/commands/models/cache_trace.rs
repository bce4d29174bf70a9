//! The trace that a simulation of caches reads.
//! Room: onefold.

use std::path::Path;

use onefold_cache::Spec;
use onefold_cache::trace::{Gather, Trace};
use onefold_workload::TraceFormat;

use crate::commands::trace_open;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// A trace or an option that cannot be used.
pub(super) fn unusable(error: impl std::error::Error) -> Failure {
    Failure::nothing_done(error.to_string())
}

/// All requests of a trace in the units of `spec`.
pub(super) fn read_trace(
    path: &Path,
    format: Option<TraceFormat>,
    spec: &Spec,
    printer: &Printer,
) -> Result<Trace> {
    let mut trace = trace_open::open(path, format)?;
    let mut gather = Gather::new(spec.units());
    trace_open::each(&mut trace, path, printer, |request| {
        gather.add(request);
        Ok(())
    })?;
    Ok(gather.finish())
}
