//! Which files are in the repository.
//! Room: xtask.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What git keeps or would keep, ignored files aside, in order of the paths from the root.
pub fn paths(root: &Path) -> Result<Vec<String>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output =
        Command::new("git").args(args).current_dir(root).output().context("cannot run git")?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git ls-files failed: {problem}");
    let list = String::from_utf8(output.stdout).context("a path that is not UTF-8")?;
    // A file that is deleted but not yet committed as such is no file.
    let is_file =
        |path: &&str| std::fs::symlink_metadata(root.join(path)).is_ok_and(|data| data.is_file());
    let mut paths: Vec<String> =
        list.split_terminator('\0').filter(is_file).map(str::to_owned).collect();
    paths.sort_unstable();
    paths.dedup();
    Ok(paths)
}
