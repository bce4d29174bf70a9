//! Memory that outlives the process that wrote to it: what a killed server leaves to the next one.
//! Room: onefold-block.
//! Invariants: (1) what was stored in a region is there when it is opened again, however the
//! process ended, until the machine stops; (2) a region is held by one owner at a time, which the
//! callers see to by their own locks; (3) after the machine stopped, [`Handover::boot`] differs.
//! Checked by [`crate::conformance::handover`].

mod claims;
mod files;
mod mark;
mod region;
mod sim;

pub use claims::{Claimed, Shelf};
pub use files::FileHandover;
pub use mark::{MARK_BYTES, Mark, Unmarked};
pub use region::Region;
pub use sim::SimHandover;

use crate::media::MediaError;

/// Named regions of such memory.
pub trait Handover: Send + Sync {
    /// Which run of the machine this is. Regions of another run prove nothing.
    fn boot(&self) -> [u8; 16];

    /// Make a region of so many bytes, all zero; one of that name is replaced.
    /// [`MediaError::NoSpace`] where there is no memory for it: later stores never lack it.
    fn create(&self, name: &str, bytes: usize) -> Result<Region, MediaError>;

    /// Open a region as it was left. [`MediaError::NotFound`] if there is none.
    fn open(&self, name: &str) -> Result<Region, MediaError>;

    /// Remove a region; whoever holds it may go on using it. Removing what is not there is fine.
    fn remove(&self, name: &str) -> Result<(), MediaError>;

    /// The names of all regions, sorted.
    fn list(&self) -> Result<Vec<String>, MediaError>;
}
