//! Calling the programs of this machine.
//! Room: xtask.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Run a program that must end well.
pub fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} failed: {status}");
    Ok(())
}

/// Run a program that must end well, and return what it said.
pub fn answer(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {} {problem}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{name} said what is no text"))
}

/// Is there a program of this name?
pub fn is_there(program: &str) -> bool {
    path_of(program).is_some()
}

/// Where a program of this name is, also one for administrators.
pub fn path_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(beside);
    folders.map(|folder| folder.join(program)).find(|program| program.is_file())
}
