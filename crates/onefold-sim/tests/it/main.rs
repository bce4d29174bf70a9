//! Models run from the outside: determinism, queueing theory, stalls.
//! Room: onefold-sim.

mod order;
mod queueing;
mod station;
