//! A volume as a block device or a file of this machine, and how that is undone.
//! Room: onefold.
//! Invariants: (1) before anything is done to the machine a note says so, durably, and goes only
//! once it is undone: what a killed command leaves, `detach` undoes; (2) undoing what was not done,
//! or is undone, does no harm.

mod bridge;
mod carrier;
mod client;
mod netlink;
mod notes;
mod queues;
mod steps;

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

pub use carrier::run as carry;
pub use netlink::Netlink;
pub use notes::Note;
pub use steps::Step;

/// By what a volume is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// The kernel's NBD client: /dev/nbdN.
    Nbd,
    /// The kernel's ublk, and a process that carries requests to the server: /dev/ublkbN.
    Ublk,
    /// nbdfuse: a file, and a loop device on it where one is mounted.
    File,
}

impl Way {
    /// What this machine has, the kernel's first; or what to install.
    pub fn of_machine() -> Result<Self> {
        let root = rustix::process::geteuid().is_root();
        if root && Netlink::open().is_ok_and(|mut netlink| netlink.has_nbd()) {
            return Ok(Self::Nbd);
        }
        if root && onefold_ublk::Control::is_there() {
            return Ok(Self::Ublk);
        }
        if Path::new("/dev/fuse").exists() && steps::is_program("nbdfuse") {
            return Ok(Self::File);
        }
        let message = "this machine has neither the kernel's NBD client, nor its ublk, nor nbdfuse";
        Err(Failure::nothing_done(message)
            .hint(LOAD)
            .hint("or install the other one: apt-get install libnbd-bin fuse3")
            .hint("what else is missing says: onefold doctor"))
    }
}

/// What brings the kernel's client.
const LOAD: &str = "load the kernel's, as root: modprobe nbd";

/// The kernel's client was asked for, and is not there.
fn no_kernels(export: &str) -> Failure {
    Failure::nothing_done(format!("'{export}' cannot be attached: the kernel has no NBD client"))
        .hint(LOAD)
}

/// ublk was asked for, and is not there.
fn no_ublk(export: &str) -> Failure {
    Failure::nothing_done(format!("'{export}' cannot be attached: the kernel has no ublk"))
        .hint("load it, as root: modprobe ublk_drv")
}

/// What is to be attached.
pub struct Wanted<'a> {
    /// The server's socket.
    pub socket: &'a Path,
    /// The volume, or a snapshot.
    pub export: &'a str,
    /// Where it is to be mounted, if it is.
    pub mount: Option<&'a Path>,
    /// Whether nothing is to be changed.
    pub read_only: bool,
}

/// Attach, and undo everything if that fails half-way. Returns the device or file.
pub fn attach(way: Way, wanted: &Wanted<'_>, note: &mut Note) -> Result<PathBuf> {
    let done = match way {
        Way::Nbd => steps::by_kernel(wanted, note),
        Way::Ublk => steps::by_ublk(wanted, note),
        Way::File => steps::by_fuse(wanted, note),
    };
    done.map_err(|failure| match undo(note) {
        Ok(()) => failure,
        Err(left) => failure.hint(format!("not all was undone: {}", left.message)),
    })
}

/// Undo all that a note tells of, the last first, and remove it.
pub fn undo(note: &mut Note) -> Result<()> {
    while let Some(step) = note.last() {
        step.undo(note)?;
        note.forget_last()?;
    }
    note.remove()
}
