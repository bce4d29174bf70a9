//! Integration tests of the policies and the simulator.

mod experiments;
mod golden;
mod restart;
mod tier;
mod twins;
