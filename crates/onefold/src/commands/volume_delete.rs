//! `onefold volume delete`: a volume and what only it held.
//! Room: onefold.

use std::io::{BufRead, IsTerminal as _, Write as _};

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_pool::{Budgets, SNAPSHOT_MARK, Volume};
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

/// Who uses a volume or a snapshot now: how many clients of the server, if any.
pub fn clients_of(context: &Context<'_>, volume: &Volume) -> Option<String> {
    clients(context.live?.exports.clients_of(volume) as u64)
}

fn clients(count: u64) -> Option<String> {
    (count > 0).then(|| plural(count, "client", "clients"))
}

/// Delete the volume or the snapshot, and give up what only it had.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let (pool, name) = (context.pool, &request.name);
    let volume = pool.volume(name).map_err(failed)?;
    if let Some(clients) = clients_of(context, &volume)
        && !request.force
    {
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
    let asks = !args.yes && std::io::stdin().is_terminal();
    let done = delete(args, &door, asks.then_some(&confirmed), printer);
    let closed = door.close();
    let report = done?;
    closed?;
    printer.report(report, false)
}

/// Delete it, if whoever is asked agrees.
fn delete(
    args: &VolumeDeleteArgs,
    door: &Door,
    ask: Option<&dyn Fn(&str) -> bool>,
    printer: &Printer,
) -> Result<Report> {
    let name = &args.name;
    if let Some(agrees) = ask {
        let question = if is_snapshot(name) {
            Some(format!("Delete snapshot '{name}'? [y/N] "))
        } else {
            volume_list::listed(door, Some(name), printer)?.first().map(question)
        };
        if question.is_some_and(|question| !agrees(&question)) {
            let what = kind_of(name);
            return Err(Failure::nothing_done(format!("{what} '{name}' was not deleted")));
        }
    }
    let request = Request { name: name.clone(), force: args.force };
    door.call(&table::VOLUME_DELETE, &request, printer)
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
    is_yes(&mut std::io::stdin().lock())
}

/// Whether a line says yes.
fn is_yes(from: &mut impl BufRead) -> bool {
    let mut answer = String::new();
    let read = from.read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::commands::heard::Folder;
    use crate::output::Heard;

    #[test]
    fn one_client_is_enough_to_be_in_use() {
        assert_eq!(
            [0, 1, 2].map(clients),
            [None, Some("1 client".into()), Some("2 clients".into())]
        );
    }

    #[test]
    fn only_yes_is_yes() {
        for (line, is) in
            [("y\n", true), (" YES \n", true), ("n\n", false), ("\n", false), ("", false)]
        {
            assert_eq!(is_yes(&mut line.as_bytes()), is, "{line:?}");
        }
        assert!(!is_yes(&mut &b"y\xff\n"[..]), "what cannot be read agrees to nothing");
    }

    #[test]
    fn whoever_is_asked_decides_what_goes() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &[7; 4096]);
        here.ok("volume import ./p main ./data");
        here.ok("volume snapshot ./p main@a");
        let printer = Printer::heard(&Heard::default());
        let pool = here.path("p");
        let asked = RefCell::new(Vec::new());
        let call = |name: &str, agrees: bool| {
            let (name, pool) = (name.to_owned(), pool.clone());
            let args = VolumeDeleteArgs { pool, name, yes: false, force: false };
            let door = Door::find(&args.pool, Opening::Write(Budgets::default())).unwrap();
            let ask = |question: &str| {
                asked.borrow_mut().push(question.to_owned());
                agrees
            };
            let done = delete(&args, &door, Some(&ask), &printer);
            door.close().unwrap();
            done.map(|report| report.notes.concat()).map_err(|failure| failure.message)
        };
        assert_eq!(call("main@a", false).unwrap_err(), "snapshot 'main@a' was not deleted");
        assert!(call("none", true).unwrap_err().contains("'none'"));
        let freed = "deleted snapshot 'main@a', which freed ";
        assert!(call("main@a", true).unwrap().starts_with(freed));
        assert_eq!(call("main", false).unwrap_err(), "volume 'main' was not deleted");
        assert!(call("main", true).unwrap().starts_with("deleted volume 'main', which freed "));
        let (snapshot, volume) = (
            "Delete snapshot 'main@a'? [y/N] ",
            "Delete volume 'main' (4 KiB, 4 KiB of data)? [y/N] ",
        );
        assert_eq!(*asked.borrow(), [snapshot, snapshot, volume, volume]);
        assert!(here.refused("volume delete ./p main --yes", 2).contains("'main'"));
    }

    #[test]
    fn a_deletion_says_what_it_freed_and_one_of_nothing_why_not() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.ok("volume create ./p main --size 1M");
        assert!(here.refused("volume delete ./p none --yes", 2).contains("'none'"));
        let said = here.ok("volume delete ./p main --yes");
        assert_eq!((&*said.out, &*said.err), ("", "deleted volume 'main', which freed 0 B\n"));
    }
}
