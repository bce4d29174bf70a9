//! The emulated drive: the FTL over an array of bytes, as a block device that real clients use.
//! Room: onefold-flash.

mod build;
mod clock;
mod device;
mod door;
mod error;
mod files;
mod folder;
mod health;
mod host_counts;
mod host_scrambler;
mod inspect;
mod kept;
mod kept_pages;
mod making;
mod pace;
mod pending;
mod picture;
mod revise;
mod smart;
mod stored_spec;
#[cfg(test)]
mod tests;

pub use clock::{Clock, WallClock};
pub use device::EmulatedDrive;
pub use door::Door;
pub use error::DriveError;
pub use files::{COPIES_FILE, NAND_FILE, SPEC_FILE};
pub use folder::{FileDrive, OpenDrive, Remark};
pub use health::{DriveState, SavedHealth};
pub use host_counts::HostCounts;
pub use host_scrambler::HostScrambler;
pub use inspect::{Inspection, inspect};
pub use making::create;
pub use pace::{Latencies, Pace};
pub use pending::Pending;
pub use picture::Picture;
pub use revise::{revise, revise_at};
pub use smart::{
    Bar, Counted, Deduplication, NandReport, Protection, SmartLog, SmartReport, WriteAmplification,
};
pub use stored_spec::{exists, read_spec, spec_in_nand};
