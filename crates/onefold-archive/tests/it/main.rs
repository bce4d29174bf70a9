//! The archive as its users see it: round trips, power cuts, damage, hostile stores, the system.

mod crash;
mod damage;
mod hostile;
mod leftovers;
mod rewriting;
mod round_trip;
mod support;
mod system;
mod traces;
