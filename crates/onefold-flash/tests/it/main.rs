//! Integration tests of the flash room.
//! Room: onefold-flash.

mod amplification;
mod bytes_files;
mod bytes_laws;
mod dedup_laws;
mod dedup_model;
mod drive_device;
mod spec;
mod timing;
