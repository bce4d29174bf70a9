//! Integration tests of the policies and the simulator.

mod golden;
mod restart;
mod tier;
mod twins;
