//! `onefold archive diff`: what differs between two versions.
//! Room: onefold.

use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use onefold_archive::{Changed, Difference, LockKind, diff};
use onefold_block::ByteSize;
use serde::Serialize;

use super::archive::{failure, open};
use super::archive_read::{goes_on, hex_unless_text, write_path};
use super::archive_restore::stored_path;
use crate::args::ArchiveDiffArgs;
use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::table::count;

#[derive(Serialize)]
struct DifferenceJson {
    change: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    old_bytes: u64,
    new_bytes: u64,
}

/// Paths, and their bytes.
#[derive(Default)]
struct Sum {
    paths: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.paths += 1;
        self.bytes += bytes;
    }

    fn text(&self) -> String {
        format!("{} ({})", count(self.paths), ByteSize(self.bytes))
    }
}

/// Print the list, and below it what it comes to.
pub fn run(args: &ArchiveDiffArgs, printer: &Printer) -> Result<()> {
    let refused = |error| failure(&args.store, error);
    let archive = open(&args.store, &args.key, LockKind::Read, printer)?;
    let old = archive.version(Some(args.old)).map_err(refused)?;
    let new = archive.version(args.new).map_err(refused)?;
    let path = args.path.as_ref().map_or_else(Vec::new, |path| stored_path(path.as_bytes()));
    let mut out = BufWriter::new(std::io::stdout().lock());
    let to_a_person = std::io::stdout().is_terminal();
    let (mut added, mut removed, mut changed) = (Sum::default(), Sum::default(), Sum::default());
    let mut ended = Ok(true);
    diff(&old, &new, &path, &mut |difference| {
        let (old_bytes, new_bytes) = difference.sizes();
        match &difference {
            Difference::Added(_) => added.add(new_bytes),
            Difference::Removed(_) => removed.add(old_bytes),
            Difference::Changed { what: Changed::Metadata, .. } if !args.metadata => return true,
            Difference::Changed { .. } => changed.add(new_bytes),
        }
        ended = if args.json {
            json(&difference).and_then(|line| goes_on(writeln!(out, "{line}")))
        } else {
            let letter = write!(out, "{} ", difference.letter());
            goes_on(letter.and_then(|()| write_path(&mut out, difference.path(), to_a_person)))
        };
        matches!(ended, Ok(true))
    })
    .map_err(refused)?;
    if !ended? || !goes_on(out.flush())? {
        return Ok(());
    }
    let (was, is) = (old.info().number, new.info().number);
    printer.note(&format!(
        "from version {was} to {is}: {} added, {} removed, {} changed",
        added.text(),
        removed.text(),
        changed.text()
    ));
    Ok(())
}

fn json(difference: &Difference) -> Result<String> {
    let (old_bytes, new_bytes) = difference.sizes();
    let line = DifferenceJson {
        change: difference.name(),
        path: String::from_utf8_lossy(difference.path()).into_owned(),
        path_hex: hex_unless_text(difference.path()),
        old_bytes,
        new_bytes,
    };
    serde_json::to_string(&line).map_err(|e| Failure::bad(format!("cannot write JSON: {e}")))
}
