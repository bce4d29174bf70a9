//! A block device for a virtual machine, by vhost-user: the machine's monitor hands its memory
//! over, and requests are taken from queues in it and answered there.
//! Room: onefold-vhost.   In: any [`BlockDevice`], a Unix socket.
//! Invariants: (1) nothing that a guest or its monitor says stops the server or another client;
//! (2) what is stored is what was hashed, whatever a guest does to its memory meanwhile; (3) the
//! requests of a queue are answered in their order, so that a monitor that connects again goes on
//! where the queue says.

mod channel;
mod config;
mod disk;
mod error;
mod memory;
mod message;
mod request;
mod ring;
mod server;
mod session;
mod worker;

pub use server::{Handle, Server, ServerConfig};

use std::sync::Arc;

use onefold_block::BlockDevice;

/// Where the device of a socket comes from, asked for each client.
pub trait Source: Send + Sync {
    /// The device, or why the client gets none.
    fn open(&self) -> Result<Arc<dyn BlockDevice>, String>;

    /// Its name, for guests and the log.
    fn name(&self) -> String;
}
