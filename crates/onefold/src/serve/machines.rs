//! A socket that virtual machines have a disk from, by vhost-user.
//! Room: onefold.

use std::sync::Arc;
use std::time::Duration;

use onefold_block::BlockDevice;
use onefold_export::SlowDevice;
use onefold_nbd::{
    Client, Exports, ServerError, SlowLog, SlowRequests, SocketFile, private_socket,
};
use onefold_vhost::{Handle, Server, ServerConfig, Source};

use super::listeners::{Listening, refused};
use crate::args::MachineSocket;
use crate::failure::Result;

/// Most machines that have the disk of a socket at once.
pub const MACHINES_MAX: usize = 4;
/// Most files that one of them takes: its socket, another one back, the pieces of its memory, and
/// three for each of 64 queues.
pub const FILES_OF_A_MACHINE: u64 = 1 + 1 + 8 + 3 * 64;

/// A server, and where it is.
pub struct Machines {
    server: Server,
    socket: MachineSocket,
    // The file goes after the server.
    _file: SocketFile,
}

/// The export of a socket, as it is when a machine comes.
struct Export {
    exports: Arc<dyn Exports>,
    name: String,
    /// Whom the log of slow requests means.
    peer: String,
    slow: Arc<SlowLog>,
}

impl Source for Export {
    fn open(&self) -> std::result::Result<Arc<dyn BlockDevice>, String> {
        // Whoever may connect to the socket is let in for its user or group.
        let client = &Client::Local;
        let device = self.exports.open(&self.name, client).ok_or_else(|| {
            let why = self.exports.refusal(&self.name, client);
            why.unwrap_or_else(|| format!("there is no export '{}'", self.name))
        })?;
        let (log, peer, export) = (Arc::clone(&self.slow), self.peer.clone(), self.name());
        Ok(Arc::new(SlowDevice { device, log, peer, export }))
    }

    /// The first one, which is asked for by no name, has one, unless it is a drive's.
    fn name(&self) -> String {
        let first = || self.exports.list(&Client::Local).into_iter().next();
        let unnamed = self.name.is_empty();
        let first = if unnamed { first() } else { None };
        first.map_or_else(|| self.name.clone(), |entry| entry.name)
    }
}

impl Machines {
    /// Listen.
    pub fn start(
        socket: &MachineSocket,
        exports: &Arc<dyn Exports>,
        (how, slow): (&Listening, Option<&SlowRequests>),
    ) -> Result<Self> {
        let address = socket.to_string();
        let failed = |source| refused(ServerError::Bind { address: address.clone(), source });
        let (listener, file) = private_socket(&socket.path, how.group).map_err(failed)?;
        let export = Export {
            exports: Arc::clone(exports),
            name: socket.export.clone(),
            peer: address.clone(),
            slow: Arc::new(SlowLog::new(slow)),
        };
        let config = ServerConfig { read_only: how.read_only, max_connections: MACHINES_MAX };
        let server = Server::start(listener, &address, Arc::new(export), config);
        Ok(Self { server: server.map_err(failed)?, socket: socket.clone(), _file: file })
    }

    /// Where.
    pub const fn socket(&self) -> &MachineSocket {
        &self.socket
    }

    /// A view of the server.
    pub fn handle(&self) -> Handle {
        self.server.handle()
    }

    /// Stop; how many machines hang in a request that does not return.
    pub fn stop(self, grace: Duration) -> usize {
        self.server.shutdown(grace)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::MemDevice;
    use onefold_nbd::ExportTable;

    use super::*;

    #[test]
    fn a_disk_is_called_what_its_volume_is_also_where_no_name_was_given() {
        let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(4096));
        let table = |names: &[&str]| {
            let with = |table: ExportTable, name: &&str| table.with(name, "", Arc::clone(&device));
            names.iter().fold(ExportTable::new(), with)
        };
        let called = |names: &[&str], name: &str| {
            let (exports, name) = (Arc::new(table(names)), name.to_owned());
            let slow = Arc::new(SlowLog::new(None));
            Export { exports, name, peer: String::new(), slow }.name()
        };
        for (names, name, expected) in [
            (&["main", "vm1"][..], "", "main"),
            (&["main", "vm1"], "vm1", "vm1"),
            (&["main"], "later", "later"),
            (&["", "keep"], "", ""),
            (&[], "", ""),
        ] {
            assert_eq!(called(names, name), expected, "{names:?} {name}");
        }
    }
}
