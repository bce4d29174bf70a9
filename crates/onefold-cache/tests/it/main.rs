//! Integration tests of the policies and the simulator.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod dumps;
mod golden;
mod laws;
mod restart;
mod tier;
mod twins;
