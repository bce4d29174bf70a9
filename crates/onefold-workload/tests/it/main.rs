//! Traces of every format, generators, content and scans, as users meet them.
//! Room: onefold-workload.

mod content;
mod formats;
mod generators;
mod laws;
mod scans;
