//! Why a session with a monitor ends.
//! Room: onefold-vhost.

use std::io;

use thiserror::Error;

use crate::memory::MemoryError;

/// Why a session ended.
#[derive(Debug, Error)]
pub(crate) enum SessionError {
    #[error("message {0}, which was not offered")]
    Unknown(u32),
    #[error("message {0} without all it says")]
    Short(u32),
    #[error("features that were not offered: {0:#x}")]
    Features(u64),
    #[error("queue {0}, of which there is none")]
    NoQueue(u64),
    #[error("a queue of {0} entries")]
    Entries(u32),
    #[error("a queue outside of the guest's memory")]
    Elsewhere,
    #[error("{0}")]
    Queue(#[from] virtio_queue::Error),
    #[error("{0}")]
    Memory(#[from] MemoryError),
    #[error("{0}")]
    Io(#[from] io::Error),
}
