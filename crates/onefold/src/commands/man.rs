//! `onefold man`: the manual pages.
//! Room: onefold.

use std::path::Path;

use clap::CommandFactory as _;

use crate::args::Args;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// Write a page for each command.
pub fn run(folder: &Path, printer: &Printer) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::unusable("make", folder, e))?;
    clap_mangen::generate_to(Args::command(), folder)
        .map_err(|e| Failure::broke("write manual pages into", folder, e))?;
    printer.note(&format!("wrote the manual pages into {}", folder.display()));
    Ok(())
}
