//! Integration tests of onefold-code: laws, known answers, twins.
//! Room: onefold-code.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod bch;
mod distance;
mod fingerprints;
mod golden;
mod ldpc;
mod recovery;
mod scramblers;
