//! `onefold volume delete`: a volume and what only it held.
//! Room: onefold.

use std::io::{IsTerminal as _, Write as _};

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_pool::{Budgets, SNAPSHOT_MARK};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{volume_list, volume_snapshot};
use crate::args::VolumeDeleteArgs;
use crate::failure::{Failure, Result};
use crate::operate::door::{Door, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;
use crate::status_view::VolumeJson;
use crate::table::plural;

/// A volume or a snapshot to delete.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Name of the volume, or of a snapshot such as main@monday.
    pub name: String,
    /// Delete it even though clients of the server use it.
    #[serde(default)]
    pub force: bool,
}

/// Delete the volume or the snapshot, and give up what only it had.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let (pool, name) = (context.pool, &request.name);
    let volume = pool.volume(name).map_err(failed)?;
    let clients = context.live.map_or(0, |live| live.exports.clients_of(&volume));
    if clients > 0 && !request.force {
        let clients = plural(clients as u64, "client", "clients");
        return Err(Failure::nothing_done(format!(
            "{} '{name}' is in use by {clients}",
            kind_of(name)
        ))
        .hint("disconnect what uses it first; --force deletes it all the same"));
    }
    let before = pool.status().map_err(failed)?;
    pool.delete_volume(name).map_err(failed)?;
    volume_snapshot::give_up_deleted(context)?;
    let after = pool.status().map_err(failed)?;
    let freed = ByteSize(before.stored_bytes.saturating_sub(after.stored_bytes));
    Ok(Report::note(format!("deleted {} '{name}', which freed {freed}", kind_of(name))))
}

/// Delete the volume, after asking where there is somebody to ask.
pub fn run(args: &VolumeDeleteArgs, printer: &Printer) -> Result<()> {
    let door = Door::find(&args.pool, Opening::Write(Budgets::default()))?;
    if !args.yes && std::io::stdin().is_terminal() {
        let name = &args.name;
        let question = if is_snapshot(name) {
            Some(format!("Delete snapshot '{name}'? [y/N] "))
        } else {
            volume_list::listed(&door, Some(name), printer)?.first().map(question)
        };
        if question.is_some_and(|question| !confirmed(&question)) {
            door.close()?;
            let what = kind_of(name);
            return Err(Failure::nothing_done(format!("{what} '{name}' was not deleted")));
        }
    }
    let request = Request { name: args.name.clone(), force: args.force };
    let report = door.call(&table::VOLUME_DELETE, &request, printer)?;
    door.close()?;
    printer.report(report, false)
}

/// Whether this is the name of a snapshot.
pub fn is_snapshot(name: &str) -> bool {
    name.contains(SNAPSHOT_MARK)
}

fn kind_of(name: &str) -> &'static str {
    if is_snapshot(name) { "snapshot" } else { "volume" }
}

fn question(volume: &VolumeJson) -> String {
    format!(
        "Delete volume '{}' ({}, {} of data)? [y/N] ",
        volume.name,
        ByteSize(volume.size_bytes),
        ByteSize(volume.mapped_bytes)
    )
}

/// Ask on the terminal.
pub fn confirmed(question: &str) -> bool {
    eprint!("{question}");
    // The question waits for an answer even if it could not be shown.
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
