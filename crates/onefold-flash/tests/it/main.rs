//! Integration tests of the flash room.
//! Room: onefold-flash.

mod amplification;
mod bytes_laws;
mod spec;
mod timing;
