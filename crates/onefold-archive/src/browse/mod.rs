//! An archive as one tree to walk about in: every version a folder, any byte of any file at once.
//! Room: onefold-archive.
//! What a mounted archive is made of, without a file system: [`node`] numbers what there is,
//! [`tree`] finds and lists it, `content` reads bytes of files and `windows` those of containers,
//! `cache` bounds what is kept.

mod content;
pub mod node;
pub mod tree;
mod windows;

pub use content::OpenFile;
pub use node::Node;
pub use tree::{BrowseMemory, Browser, Found, FoundKind, Listed};
