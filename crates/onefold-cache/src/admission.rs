//! Admission policies, one per file.
//! Room: onefold-cache.

pub mod always;
pub mod plc;
