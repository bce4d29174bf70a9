//! Benchmarks: builds `onefold` and `onefold-bench` and hands over.
//! Room: xtask.

use anyhow::{Context, Result};

use crate::cargo;

/// Measure with optimisation. Returns whether it ran to its end.
pub fn run(args: &[String]) -> Result<bool> {
    // The server that is measured is built, too: the bench finds it beside itself.
    let build = ["build", "--release", "--package", "onefold", "--package", "onefold-bench"];
    let built = cargo::command(&build).status().context("cannot run cargo")?;
    if !built.success() {
        return Ok(false);
    }
    let mut bench =
        cargo::command(&["run", "--quiet", "--release", "--package", "onefold-bench", "--"]);
    Ok(bench.args(args).status().context("cannot run cargo")?.success())
}
