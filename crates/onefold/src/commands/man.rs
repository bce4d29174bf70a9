//! `onefold man`: the manual pages.
//! Room: onefold.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::Args;
use crate::failure::{Failure, Result};
use crate::out_file;
use crate::output::Printer;

/// Write a page for each command.
pub fn run(folder: &Path, printer: &Printer) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::unusable("make", folder, e))?;
    let mut command = Args::command();
    command.build();
    pages(&command, folder)?;
    printer.note(&format!("wrote the manual pages into {}", folder.display()));
    Ok(())
}

/// The page of a command, and those of all commands below it.
fn pages(command: &Command, folder: &Path) -> Result<()> {
    let page = Man::new(command.clone());
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| Failure::broke("write", &path, error))?;
    out_file::write(&path, &text, true)?;
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    below.into_iter().try_for_each(|command| pages(command, folder))
}

#[cfg(test)]
mod tests {
    use crate::commands::heard::Folder;

    #[test]
    fn scripts_of_shells_and_a_page_for_each_command_are_written() {
        let here = Folder::new();
        let said = here.ok("man ./pages");
        assert_eq!((&*said.out, &*said.err), ("", "wrote the manual pages into ./pages\n"));
        for page in ["onefold.1", "onefold-pool.1", "onefold-volume-import.1"] {
            let text = std::fs::read_to_string(here.path("pages").join(page)).unwrap();
            assert!(text.contains(".SH NAME"), "{page}");
        }
        assert!(!here.path("pages/onefold-carry.1").exists(), "it is for no person");
        let script = here.ok("completions bash").out;
        assert!(script.contains("onefold") && script.contains("complete"), "{script}");
    }
}
