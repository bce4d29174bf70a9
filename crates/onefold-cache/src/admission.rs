//! Admission policies, one per file.
//! Room: onefold-cache.

pub mod always;
pub mod chosen;
pub mod dynamic_random;
pub mod faded_lfu;
pub mod larc;
pub mod lazy_lfu;
pub mod plc;
mod purse;
pub mod reject_first;
pub mod toll;
