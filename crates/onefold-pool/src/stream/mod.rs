//! A snapshot as a stream of bytes, whole or as what changed since another, for other pools.
//! Room: onefold-pool.
//! Source: docs/stream-format.md.
//!
//! `frame` is the envelope that all of a stream comes in, `sender` makes frames of a snapshot,
//! `asked` leaves out what a receiver has and puts it in again there,
//! `reader` takes them off a reader and believes nothing, `receiver` puts them into a volume, and
//! `mark` remembers there how far that came.

mod asked;
#[cfg(test)]
mod asked_tests;
mod error;
mod frame;
#[cfg(test)]
mod frames_tests;
mod mark;
mod reader;
mod receiver;
mod sender;

pub use asked::{Answering, Asker, Find, Naming};
pub use error::StreamError;
pub use frame::{Frame, Header, Item, MAGIC, Names};
pub use mark::Mark;
pub use reader::StreamReader;
pub use receiver::{MARK_BYTES, ReceiveError, Receiver, receiving_bytes};
