//! Integration tests of the policies and the simulator.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bounds;
mod dumps;
mod golden;
mod laws;
mod lives;
mod pinned;
mod published;
mod resize;
mod restart;
mod story;
mod tier;
mod tier_edges;
mod tier_tags;
mod tier_told;
mod tier_undone;
mod twins;
mod write_through;
