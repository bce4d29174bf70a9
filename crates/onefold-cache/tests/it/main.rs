//! Integration tests of the policies and the simulator.

mod dumps;
mod experiments;
mod golden;
mod laws;
mod restart;
mod twins;
