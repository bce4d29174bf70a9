//! Ground floor: address and size types, the storage contracts, their conformance suites and
//! the small wrappers that compose over them.
//!
//! Rooms and doors above meet through these contracts and never through each other:
//! [`BlockDevice`] is what a door serves, [`ContainerStore`] is where a pool keeps its
//! containers, [`Media`] and [`Folder`] are the bytes underneath.

pub mod access;
pub mod address;
pub mod anew;
pub mod bucket;
pub mod bytes;
pub mod calendar;
pub mod conformance;
pub mod container_store;
mod copy_on_write;
pub mod device;
mod direct;
pub mod file_media;
pub mod folder_lock;
pub mod folder_store;
pub mod generation;
pub mod handover;
pub mod interleave;
pub mod kept_text;
pub mod meaning;
pub mod media;
pub mod mem_device;
pub mod memory;
mod nearest;
mod open_files;
pub mod retention;
pub mod seeded;
pub mod setting;
pub mod sim_media;
pub mod size;
pub mod small_file;
pub mod spent;
pub mod store_layer;
pub mod wrappers;

pub use access::{Group, set_mode};
pub use address::{ContainerId, Lba, Lpn, Ppn, Vpn};
pub use container_store::{ContainerStore, StoreError};
pub use device::{BlockDevice, BlockError, Extent, ExtentKind, WriteRequest, ZeroOptions};
pub use file_media::{FileFolder, check_name as check_file_name};
pub use folder_lock::{FolderLock, Hold, LOCK_FILE, LockError, is_of_a_lock, leave_all_folders};
pub use folder_store::FolderContainerStore;
pub use generation::{GENERATION_FILE, Generation, GenerationFile, Survival};
pub use meaning::Meaning;
pub use media::{FOLDER_MARK, Folder, Media, MediaError, data_end};
pub use mem_device::MemDevice;
pub use nearest::nearest;
pub use open_files::{OPEN_CONTAINERS_MAX, OPEN_CONTAINERS_MIN, keep_containers_open};
pub use retention::Keep;
pub use seeded::SplitMix64;
pub use sim_media::{CrashMode, FaultKind, OpKind, SimFolder};
pub use size::{ByteSize, ChunkSize, ParseSizeError};
pub use store_layer::StoreLayer;
