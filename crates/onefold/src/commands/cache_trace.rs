//! The trace that a simulation of caches reads.
//! Room: onefold.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use onefold_cache::Spec;
use onefold_cache::trace::Trace;
use onefold_workload::{Format, TraceReader};

use crate::failure::{Failure, Result};

/// A trace or an option that cannot be used.
pub(super) fn unusable(error: impl std::error::Error) -> Failure {
    Failure::nothing_done(error.to_string())
}

/// All requests of a trace in the units of `spec`.
pub(super) fn read_trace(path: &Path, format: &str, spec: &Spec) -> Result<Trace> {
    let format: Format = format.parse().map_err(unusable)?;
    let file = File::open(path).map_err(|error| Failure::unusable("open trace", path, error))?;
    let reader = TraceReader::new(format, BufReader::new(file));
    Trace::read(reader, spec.units())
        .map_err(|error| Failure::nothing_done(format!("{}: {error}", path.display())))
}
