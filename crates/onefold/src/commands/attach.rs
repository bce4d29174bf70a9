//! `onefold attach` and `onefold detach`: a served volume as a device or file of this machine.
//! Room: onefold.

use std::path::{Path, PathBuf};

use onefold_nbd::ListenAddr;

use super::pool_addresses::{AddressesJson, Request};
use super::pool_drain::served;
use super::volume_delete::is_snapshot;
use super::{volume_list, volume_snapshots};
use crate::args::{AttachArgs, DetachArgs};
use crate::attach::{self, Note, Wanted, Way};
use crate::failure::{Failure, Result};
use crate::operate::door::Door;
use crate::operate::table;
use crate::output::Printer;
use crate::shell::quoted;

/// Attach, and print the device or file.
pub fn run(args: &AttachArgs, printer: &Printer) -> Result<()> {
    let door = served(&args.pool)?;
    let socket = socket_of(&door, printer)?;
    let mut note = Note::of(&args.pool, &args.volume)?;
    let volume = &args.volume;
    let detach =
        format!("onefold detach {} {}", quoted(&args.pool.to_string_lossy()), quoted(volume));
    if !note.is_empty() {
        let message = format!("volume '{volume}' is attached, or was not detached in order");
        return Err(Failure::nothing_done(message).hint(format!("undo that first: {detach}")));
    }
    must_be_there(&door, &args.pool, volume, printer)?;
    let way = args.by.map_or_else(Way::of_machine, Ok)?;
    let mount = args.folder.as_deref();
    let wanted = Wanted { socket: &socket, export: volume, mount, read_only: args.read_only };
    let device = attach::attach(way, &wanted, &mut note)?;
    printer.data(&format!("{}\n", device.display()))?;
    if let Some(folder) = mount {
        printer.note(&format!("mounted at '{}'", folder.display()));
    }
    printer.note(&format!("detach it with: {detach}"));
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

/// Refuse a name that no export has, by what there is: a client of the kernel or nbdfuse would say
/// that it failed and no more.
fn must_be_there(door: &Door, pool: &Path, export: &str, printer: &Printer) -> Result<()> {
    // The server says whether it is in a generation.
    let name = without_generation(export);
    if is_snapshot(name) {
        volume_snapshots::must_be_there(door, pool, name, printer)
    } else {
        // The first one has no name as well.
        let name = Some(name).filter(|name| !name.is_empty());
        volume_list::listed(door, name, printer).map(drop)
    }
}

/// The name of an export without the generation that is asked for: `main` of `main@g7`.
fn without_generation(export: &str) -> &str {
    match export.rsplit_once("@g") {
        Some((name, number)) if number.parse::<u64>().is_ok() => name,
        _ => export,
    }
}

/// A Unix socket of the server that has the pool.
fn socket_of(door: &Door, printer: &Printer) -> Result<PathBuf> {
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
