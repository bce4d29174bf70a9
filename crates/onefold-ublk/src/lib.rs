//! A block device of this machine that a program answers for, by the kernel's `ublk`: requests come
//! out of a ring, their data lie in buffers of the program, and how they ended goes back.
//! Room: onefold-ublk.   Out: /dev/ublkbN.
//! Source: `include/uapi/linux/ublk_cmd.h` and `Documentation/block/ublk.rst` of Linux 6.12.
//! Invariants: (1) a buffer is the kernel's or the program's, never both: what is borrowed from a
//! queue belongs to a request that was taken and is not finished; (2) every request that was taken
//! is finished once.

mod control;
mod queue;
mod uapi;

pub use control::{Control, Device, Durable, Shape};
pub use queue::{Event, Queue};
pub use uapi::{Kind, Request};
