//! Door: the NBD protocol without I/O, and one server for any block device.
//! Room: onefold-nbd.
//!
//! [`protocol`] turns bytes into requests and answers into bytes and touches no socket;
//! [`export`] says which devices there are under which names; [`server`] owns the sockets,
//! threads and limits. `docs/nbd.md` lists what of the protocol is done and what is not.

pub mod client;
pub mod export;
pub mod protocol;
pub mod server;

pub use client::Client;
pub use export::{Changes, Compared, ExportEntry, ExportTable, Exports};
pub use server::{
    Handed, ListenAddr, Server, ServerConfig, ServerError, ServerHandle, ShutdownReport, SlowCall,
    SlowLog, SlowRequests, SocketFile, TlsError, TlsFiles, TlsMode, Whose, listener_is_safe,
    private_socket,
};
