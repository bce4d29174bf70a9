//! What unit tests have in common with the tests from outside.
//! Room: onefold-flash.

#[allow(dead_code, reason = "tests from outside take more of it")]
#[path = "../tests/it/validation/perfect.rs"]
pub mod perfect;
#[path = "../tests/it/validation/plane.rs"]
pub mod plane;
