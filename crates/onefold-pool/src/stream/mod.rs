//! A snapshot as a stream of bytes, whole or as what changed since another, for other pools.
//! Room: onefold-pool.
//! Source: docs/stream-format.md.
//!
//! `frame` is the envelope that all of a stream comes in, `sender` makes frames of a snapshot,
//! `reader` takes them off a reader and believes nothing, `receiver` puts them into a volume, and
//! `mark` remembers there how far that came.

mod error;
mod frame;
mod mark;
mod reader;
mod receiver;
mod sender;

pub use error::StreamError;
pub use frame::{Frame, Header, Item, MAGIC, Names};
pub use mark::Mark;
pub use reader::StreamReader;
pub use receiver::{ReceiveError, Receiver, receiving_bytes};
