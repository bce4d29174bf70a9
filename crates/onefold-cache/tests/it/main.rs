//! Integration tests of the policies and the simulator.

mod restart;
