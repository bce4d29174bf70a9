//! One file per experiment.
//! Room: onefold-lab.

pub mod cache_frontier;
pub mod collisions;
pub mod plc;
pub mod ses_arithmetic;
pub mod ses_fig1;
pub mod ses_table3;
