//! Between the doors and what they serve: what every request goes through, whoever asks and by
//! whichever protocol. Who may do what with a volume and how much of it, what is counted and
//! written down, what took long, and whether there is memory for it.
//!
//! This is a crate of its own since it is run for every request: the command around it is built
//! without optimisation, as it only wires.

pub mod counted;
mod limiter;
pub mod recording;
pub mod reserve;
mod share;
pub mod sharing;
mod slow_device;
mod tap;

pub use counted::counted;
pub use limiter::{Limiter, Rates};
pub use recording::Recording;
pub use reserve::{Allocator, Careful};
pub use share::{Share, SharedDevice};
pub use sharing::{Allowed, ClientName, Limits, Right, Sharing};
pub use slow_device::SlowDevice;
pub use tap::Tap;

#[cfg(test)]
mod tests;
