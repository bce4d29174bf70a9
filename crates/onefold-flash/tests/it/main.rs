//! Integration tests of the flash room.
//! Room: onefold-flash.

mod amplification;
mod bytes_files;
mod bytes_laws;
mod dedup_model;
mod drive_device;
mod drive_power;
mod same_decisions;
mod shared_seeds;
mod conservation;
mod drive;
mod drive_device;
mod power;
mod spec;
mod timing;
