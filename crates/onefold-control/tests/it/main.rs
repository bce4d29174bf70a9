//! A server on a socket, and clients that behave badly.
//! Room: onefold-control.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod addresses;
mod clients;
mod guarded;
mod hostile;
