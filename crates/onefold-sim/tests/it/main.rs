//! Models run from the outside: determinism, queueing theory, stalls.
//! Room: onefold-sim.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]

mod golden;
mod order;
mod queueing;
mod station;
