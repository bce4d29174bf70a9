//! One file per experiment.
//! Room: onefold-lab.

pub mod array;
pub mod beyond_cache_wear;
pub mod beyond_compression;
pub mod beyond_gleaner;
pub mod beyond_gleaner_hostile;
pub mod beyond_host_cost;
pub mod beyond_idle_hint;
pub mod beyond_lifetime;
pub mod beyond_plain_patterns;
pub mod beyond_policies;
pub mod cache_frontier;
pub mod collisions;
pub mod drives;
pub mod equal_memory;
pub mod families;
pub mod hostile;
pub mod park_shin;
pub mod plc;
pub mod ses_arithmetic;
pub mod ses_fig1;
pub mod ses_fig2;
pub mod ses_fig4;
pub mod ses_fig5;
pub mod ses_table3;
pub mod ses_table4;
