//! Disk images as QEMU makes them, whole and damaged. `qemu-img` is needed.
//! Room: onefold-image.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_hand;
mod damaged;
mod images;
mod streams;
