//! Tests of the vhost-user server from outside: rust-vmm's front end, and a driver of queues in
//! shared memory that may do as it likes.
//! Room: onefold-vhost.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test that takes it")]

mod bad_guests;
mod bad_monitors;
mod guest;
mod requests;
mod sessions;
