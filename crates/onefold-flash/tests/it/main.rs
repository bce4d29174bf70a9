//! Integration tests of the flash room.
//! Room: onefold-flash.

mod amplification;
mod announced;
mod bytes_files;
mod bytes_laws;
mod conservation;
mod dedup_laws;
mod dedup_model;
mod dedup_power;
mod drive;
mod drive_device;
mod drive_power;
mod power;
mod same_decisions;
mod shared_seeds;
mod spec;
mod timing;
