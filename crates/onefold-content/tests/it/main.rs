//! Integration tests of onefold-content, one binary.
//! Room: onefold-content.

mod chunk;
mod compress;
mod fingerprint;
mod lz4_format;
mod samples;
