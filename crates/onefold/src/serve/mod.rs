//! What a serving process does besides answering clients: it waits, tidies, and leaves in order.
//! Room: onefold.

pub mod background;
pub mod child;
pub mod connect;
#[cfg(feature = "models")]
pub mod control;
pub mod events;
pub mod guard;
pub mod handed;
pub mod index_filler;
pub mod late_exports;
pub mod listeners;
pub mod live_record;
pub mod machines;
pub mod notify;
pub mod pool_exports;
pub mod record;
pub mod reload;
pub mod schedule;
pub mod scrubbing;
pub mod stop;
