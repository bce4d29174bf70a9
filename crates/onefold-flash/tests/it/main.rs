//! Integration tests of the flash room.
//! Room: onefold-flash.

mod amplification;
mod bytes_files;
mod bytes_laws;
mod conservation;
mod drive;
mod drive_device;
mod power;
mod spec;
mod timing;
