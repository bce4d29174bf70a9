//! The tiered container store: extents of a slow store's containers kept on a fast device.
//! Room: onefold-cache.
//!
//! `store` is the way of a read: `decide` says what to do about it, the extents are read and
//! checked, the slow store answers whatever the fast device cannot. `decide` puts the policy,
//! `log` (where extents go and which leave), `streams` (what is one use) and `wear` (what may be
//! written) together, without a byte of data. `segment` is what lies on the device, `recover` what
//! is made of it after a restart, `saved` what the policy knew, `size` how large it may be, and
//! `new_containers` has the bytes of containers that are being filled.

mod decide;
mod extent;
mod identity;
mod index;
#[cfg(test)]
mod interleavings;
mod log;
mod new_containers;
mod recover;
mod replay;
mod saved;
mod segment;
mod size;
mod state;
mod store;
mod streams;
mod sync;
mod wear;

pub use replay::Replay;
pub use saved::{TierError, TierTotals};
pub use size::{ParseTierSizeError, TierSize};
pub use state::TierStatus;
pub use store::{TierOptions, TieredStore};
pub use wear::WearBudget;
