//! The tiered container store: whole containers of a slow store kept on a fast one.
//! Room: onefold-cache.
//!
//! `store` is the way of a read: the policy decides, the copy is checked, the slow store answers
//! whatever the fast one cannot. `copy` is what a copy looks like on the fast device, `saved`
//! what survives a restart, `size` how large it may be.

mod copy;
mod identity;
#[cfg(test)]
mod interleavings;
mod saved;
mod size;
mod store;
mod sync;

pub use saved::{TierError, TierTotals};
pub use size::{ParseTierSizeError, TierSize};
pub use store::{TierOptions, TierStatus, TieredStore};
