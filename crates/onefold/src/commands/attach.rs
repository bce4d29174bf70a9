//! `onefold attach` and `onefold detach`: a served volume as a device or file of this machine.
//! Room: onefold.

use std::path::{Path, PathBuf};

use onefold_nbd::ListenAddr;

use super::pool_addresses::{AddressesJson, Request};
use super::pool_drain::served;
use crate::args::{AttachArgs, DetachArgs};
use crate::attach::{self, Note, Wanted, Way};
use crate::failure::{Failure, Result};
use crate::operate::table;
use crate::output::Printer;

/// Attach, and print the device or file.
pub fn run(args: &AttachArgs, printer: &Printer) -> Result<()> {
    let socket = socket_of(&args.pool, printer)?;
    let mut note = Note::of(&args.pool, &args.volume)?;
    let (at, volume) = (args.pool.display(), &args.volume);
    if !note.is_empty() {
        let message = format!("volume '{volume}' is attached, or was not detached in order");
        return Err(Failure::nothing_done(message)
            .hint(format!("undo that first: onefold detach {at} {volume}")));
    }
    let way = args.by.map_or_else(Way::of_machine, Ok)?;
    let mount = args.folder.as_deref();
    let wanted = Wanted { socket: &socket, export: volume, mount, read_only: args.read_only };
    let device = attach::attach(way, &wanted, &mut note)?;
    printer.data(&format!("{}\n", device.display()))?;
    if let Some(folder) = mount {
        printer.note(&format!("mounted at '{}'", folder.display()));
    }
    printer.note(&format!("detach it with: onefold detach {at} {volume}"));
    Ok(())
}

/// Undo that.
pub fn detach(args: &DetachArgs, printer: &Printer) -> Result<()> {
    let mut note = Note::of(&args.pool, &args.volume)?;
    if note.is_empty() {
        note.remove()?;
        return Err(Failure::nothing_done(format!("volume '{}' is not attached", args.volume)));
    }
    attach::undo(&mut note).map_err(|failure| {
        failure.hint("what is still in use has to be left first; then detach it again")
    })?;
    printer.note(&format!("detached volume '{}'", args.volume));
    Ok(())
}

/// A Unix socket of the server that has the pool.
fn socket_of(pool: &Path, printer: &Printer) -> Result<PathBuf> {
    let door = served(pool)?;
    let report = door.call(&table::POOL_ADDRESSES, &Request::default(), printer)?;
    let told: AddressesJson = serde_json::from_value(report.result)
        .map_err(|error| Failure::bad(format!("the server's addresses make no sense: {error}")))?;
    let mut parsed = told.addresses.iter().filter_map(|one| one.address.parse().ok());
    let unix = parsed.find_map(|address| match address {
        ListenAddr::Unix(path) => Some(path),
        ListenAddr::Tcp { .. } | ListenAddr::Vsock { .. } => None,
    });
    unix.ok_or_else(|| {
        Failure::nothing_done("the server listens at no Unix socket, by which it could be attached")
            .hint("start it with one more address: --listen unix:PATH")
    })
}
