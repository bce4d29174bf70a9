//! What every implementation of a contract must do, as checks that any of them can be put through.
//! Room: onefold-block.
//! In: a function that makes a new, empty implementation. Out: nothing, or a panic that says
//! which check failed, at which bytes, and the seed that replays it.
//!
//! Each suite is a table of named checks, so that a test can also run them one by one. The suites
//! are themselves tested against implementations broken on purpose.

pub mod container_store;
pub mod device;
pub mod handover;
pub mod media;

use std::fmt::Display;

pub use container_store::check_container_store;
pub use device::{check_device, check_read_only_device};
pub use handover::check_handover;
pub use media::check_folder;

/// The value of a call that must succeed.
#[track_caller]
fn ok<T, E: Display>(result: Result<T, E>, what: impl Display) -> T {
    result.unwrap_or_else(|error| panic!("{what} must succeed, but: {error}"))
}

/// Compare contents, naming the first byte that differs instead of printing them all.
#[track_caller]
fn assert_same(found: &[u8], expected: &[u8], first_offset: u64, what: impl Display) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths differ");
    if let Some(index) = found.iter().zip(expected).position(|(a, b)| a != b) {
        let (is, should) = (found[index], expected[index]);
        let at = first_offset + index as u64;
        panic!("{what}: byte {at} is {is:#04x} and should be {should:#04x}");
    }
}
