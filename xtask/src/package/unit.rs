//! How much a service may do, as systemd judges its unit.
//! Room: xtask.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs::is_there;

/// Tenths of `systemd-analyze security`'s scale, on which 100 may do everything.
const MOST_EXPOSED: &str = "20";

/// Have systemd judge a unit; where it is missing that is said.
pub fn judge(unit: &Path) -> Result<()> {
    if !is_there("systemd-analyze") {
        println!("skipped: the unit is not judged, as systemd-analyze is missing");
        return Ok(());
    }
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold", MOST_EXPOSED])
        .arg(unit)
        .output()
        .context("cannot run systemd-analyze")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let verdict = said.lines().rfind(|line| line.contains("exposure")).unwrap_or_default();
    println!("{}", verdict.trim());
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the unit may do too much: {said}{problem}");
    Ok(())
}
