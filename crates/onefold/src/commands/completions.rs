//! `onefold completions`: the script by which a shell asks this program what it can offer.
//! Room: onefold.

use clap_complete::env::Shells;

use crate::completion::VARIABLE;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// Print the script of a shell.
pub fn run(shell: &str, printer: &Printer) -> Result<()> {
    let shells = Shells::builtins();
    let found = shells.completer(shell);
    let completer =
        found.ok_or_else(|| Failure::nothing_done(format!("there is no script for '{shell}'")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "onefold", "onefold", "onefold", &mut script)
        .map_err(|error| Failure::nothing_done(error.to_string()))?;
    printer.data(&String::from_utf8_lossy(&script))
}
