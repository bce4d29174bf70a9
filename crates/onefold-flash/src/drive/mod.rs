//! The emulated drive: the FTL over an array of bytes, as a block device that real clients use.
//! Room: onefold-flash.

mod build;
mod clock;
mod device;
mod error;
mod folder;
mod health;
mod host_scrambler;
mod lock;
mod pace;
mod smart;

pub use clock::{Clock, WallClock};
pub use device::{EmulatedDrive, HostCounts};
pub use error::DriveError;
pub use folder::{
    FileDrive, Inspection, NAND_FILE, OpenDrive, SPEC_FILE, check_spec, create, exists, inspect,
    read_spec,
};
pub use health::{DriveState, SavedHealth};
pub use host_scrambler::HostScrambler;
pub use pace::{Latencies, Pace};
pub use smart::{Bar, Deduplication, NandReport, SmartLog, SmartReport, WriteAmplification};
