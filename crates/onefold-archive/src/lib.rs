//! Room: file trees in versions, each chunk kept once.
//!
//! The setting of deduplicating backup stores such as Destor: content-defined chunks in
//! containers, a recipe for every file, and ways to keep restores fast. The modules in the order
//! in which data meets them:
//! - [`tree::scan`] reads trees, [`adder`] takes paths and contents, `chunk_stream` cuts them;
//! - `index` knows which chunks there are, `rewrite` which of them to store again nevertheless;
//! - `containers` and `manifest` write them and their recipes, the latter in `packed` files, `log`
//!   tells of versions;
//! - [`diff()`] compares two versions;
//! - [`version`] finds a path, [`assembly`] reads chunks back, by several `workers` at once,
//!   [`tree::restore`] makes files;
//! - [`browse`] walks about in all versions and reads any byte, for whoever mounts an archive;
//! - [`seal`] encrypts what is on disk, below all others;
//! - `verify`, `remove`, `compact` and `repair` do what their names say, `parent` spares reading
//!   what did not change, [`trace`] says which containers are read.

pub mod adder;
pub mod archive;
pub mod assembly;
pub mod browse;
mod cache;
mod chunk_bytes;
mod chunk_stream;
mod compact;
mod container_writer;
mod containers;
mod diff;
pub mod error;
mod filler;
#[cfg(test)]
mod forged;
pub mod format;
mod group_compressor;
mod index;
pub mod lock;
mod log;
mod lost_entries;
mod machine_code;
mod manifest;
mod packed;
mod parent;
mod remove;
mod repair;
mod rewrite;
pub mod seal;
pub mod settings;
pub mod trace;
pub mod tree;
mod verify;
pub mod version;
mod workers;
mod zero_chunks;

pub use adder::{AddNotes, AddOptions, Adder};
pub use archive::{Archive, USER_SETTINGS_FILE};
pub use assembly::{ASSEMBLY_BYTES_MIN, Assembled, Assembly, ReadTotals};
pub use browse::{BrowseMemory, Browser, Found, FoundKind, Listed, Node, OpenFile};
pub use chunk_bytes::ChunkBytes;
pub use chunk_stream::Source;
pub use compact::Compacted;
pub use diff::{Changed, Difference, diff};
pub use error::ArchiveError;
pub use format::entry::{Entry, Kind, Metadata, Recipe, Stamp};
pub use format::log_record::{AddTotals, VersionInfo};
pub use index::INDEX_BYTES_MIN;
pub use lock::LockKind;
pub use remove::Removed;
pub use repair::RepairReport;
pub use rewrite::{Rewriting, SEGMENT_CHUNKS};
pub use seal::{Argon2Cost, NewKey, Secret, SecretKind};
pub use settings::{ArchiveIdentity, ArchiveSettings, Chunking, ParseChunkingError};
pub use trace::{ContainerAccess, zipf_order};
pub use verify::{Finding, VerifyReport};
pub use version::Version;
