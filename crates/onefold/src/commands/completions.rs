//! `onefold completions`: a shell's completion script.
//! Room: onefold.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Args;
use crate::failure::Result;
use crate::output::Printer;

/// Print the script.
pub fn run(shell: Shell, printer: &Printer) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "onefold", &mut script);
    printer.data(&String::from_utf8_lossy(&script))
}
