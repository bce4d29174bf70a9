//! The archive as its users see it: round trips, power cuts, damage, hostile stores, the system.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod browse;
mod compact;
mod crash;
mod damage;
mod deep;
mod differences;
mod groups;
mod hostile;
mod leftovers;
mod long_holes;
mod lost;
mod operations;
mod reads;
mod remade;
mod repair;
mod replaced;
mod rewriting;
mod round_trip;
mod sealed;
mod several_names;
mod support;
mod swapped;
mod system;
mod traces;
mod undone;
mod versions;
mod workers;
