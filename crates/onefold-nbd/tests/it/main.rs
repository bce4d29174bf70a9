//! Tests of the NBD server from outside: real clients, hostile clients, laws of the codec.
//! Room: onefold-nbd.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test that takes it")]

mod block_status;
mod codec;
mod crowds;
mod device;
mod extended;
mod hostile;
mod in_flight;
mod limits;
mod negotiation;
mod raw;
mod real_clients;
mod stopping;
mod threads;
mod tls;
mod tls_files;
mod tools;
