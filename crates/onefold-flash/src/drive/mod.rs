//! The emulated drive: the FTL over an array of bytes, as a block device that real clients use.
//! Room: onefold-flash.

mod build;
mod clock;
mod device;
mod door;
mod error;
mod folder;
mod health;
mod host_scrambler;
mod kept;
mod kept_pages;
mod pace;
mod pending;
mod picture;
mod revise;
mod smart;

pub use clock::{Clock, WallClock};
pub use device::{EmulatedDrive, HostCounts};
pub use door::Door;
pub use error::DriveError;
pub use folder::{
    COPIES_FILE, FileDrive, Inspection, NAND_FILE, OpenDrive, Remark, SPEC_FILE, create, exists,
    inspect, read_spec,
};
pub use health::{DriveState, SavedHealth};
pub use host_scrambler::HostScrambler;
pub use pace::{Latencies, Pace};
pub use pending::Pending;
pub use picture::Picture;
pub use revise::{revise, revise_at};
pub use smart::{
    Bar, Counted, Deduplication, NandReport, Protection, SmartLog, SmartReport, WriteAmplification,
};
