//! Integration tests of onefold-content, one binary.
//! Room: onefold-content.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]

mod chunk;
mod compress;
mod fingerprint;
mod golden;
mod lz4_format;
mod samples;
