//! Installing the package where nobody else sees it, and serving from there.
//! Room: xtask.   Runs, as root: `packaging/try-install` and `packaging/try-booted`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::FOLDER;
use crate::programs::{answer, is_there, succeed};

/// The Debian that `debootstrap` makes; it is kept for the next time.
const SUITE: &str = "bookworm";

/// In a copy of this machine's system, with mounts and processes of its own. Where we are not root,
/// that is said.
pub fn check_in_copy(package: &Path) -> Result<bool> {
    let parts = ["unshare", "dpkg", "setpriv", "systemd-tmpfiles"];
    if let Some(missing) = parts.into_iter().find(|part| !is_there(part)) {
        println!("skipped: the package is not installed anywhere, as {missing} is missing");
        return Ok(true);
    }
    if answer(Command::new("id").arg("-u"))?.trim() != "0" {
        println!("skipped: the package is not installed anywhere, as that takes root");
        return Ok(true);
    }
    let folder = Path::new(FOLDER).join("copy");
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "packaging/try-install"]);
    Ok(command.arg(package).arg(&folder).status().context("cannot run unshare")?.success())
}

/// In a new Debian, which is booted with its own systemd.
pub fn check_in_new(package: &Path) -> Result<bool> {
    let root = Path::new(FOLDER).join("root");
    if !root.join("usr/bin/apt-get").is_file() {
        let _ = std::fs::remove_dir_all(&root);
        let mut make = Command::new("debootstrap");
        make.args(["--variant=minbase", SUITE]).arg(&root);
        succeed(&mut make).context("needs debootstrap, root and a network")?;
    }
    let mut command = Command::new("packaging/try-booted");
    command.arg(package).arg(&root);
    Ok(command.status().context("cannot run packaging/try-booted")?.success())
}
