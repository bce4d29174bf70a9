//! Door: a folder whose files are objects of an object store, such as a bucket of S3.
//!
//! An object is put whole or not at all, and cannot be appended to, renamed or locked. What an
//! archive asks of a folder is made of that:
//! - [`objects`] says what is asked of a store: requests, each of which may be lost;
//! - [`folder`] and `node` are a [`onefold_block::Folder`] of it: what is written waits in memory
//!   until it is to be durable, and is put as one object of the file's name, with the same bytes;
//! - [`lease`] says who may use the folder at the same time, by objects that must be renewed;
//! - [`sim`] is a store in memory that loses requests, answers and objects on command;
//! - `s3` is a client of S3, with the feature of that name.

mod blocks;
pub mod folder;
pub mod lease;
mod media;
mod node;
pub mod objects;
#[cfg(feature = "s3")]
pub mod s3;
pub mod sim;
mod upload;

pub use folder::ObjectFolder;
pub use lease::{Lease, LeaseChange, LeaseError, Use};
pub use objects::{Expect, Listed, ObjectError, Objects, Stored, Tail};
#[cfg(feature = "s3")]
pub use s3::{S3Objects, S3Place};
pub use sim::SimObjects;
