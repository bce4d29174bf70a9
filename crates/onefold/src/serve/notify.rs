//! Tells the service manager that started this process when it serves and when it stops, by the
//! datagrams of `sd_notify`: `Type=notify` of systemd, and whoever else sets the variable.
//! Room: onefold.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Where the manager listens: a path, or a name in the abstract space behind `@`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Clients are served.
pub const READY: &str = "READY=1";
/// It reads its settings again, since now by the machine's own clock; `READY=1` follows.
pub fn reloading() -> String {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros())
}

/// It stops, and takes the time that it needs.
pub const STOPPING: &str = "STOPPING=1";

/// Tell the manager, if there is one. What it does not hear keeps nobody from being served.
pub fn tell(state: &str) {
    let Some(place) = std::env::var_os(VARIABLE).filter(|place| !place.is_empty()) else { return };
    if let Err(error) = send(&place, state) {
        tracing::warn!("the service manager is not told '{state}': {error}");
    }
}

fn send(place: &OsStr, state: &str) -> io::Result<()> {
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("onefold-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let at_path = UnixDatagram::bind(&path).unwrap();
        let at_name = UnixDatagram::bind_addr(&abstract_name).unwrap();
        for (socket, place) in
            [(at_path, path.into_os_string()), (at_name, format!("@{name}").into())]
        {
            socket.set_nonblocking(true).unwrap();
            send(&place, READY).unwrap();
            let mut heard = [0; 64];
            let length = socket.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], READY.as_bytes());
        }
        assert!(send(OsStr::new("/nosuch/place"), READY).is_err());
    }
}
