//! Benchmarks: builds `onefold` and `onefold-bench` and hands over.
//! Room: xtask.

use anyhow::{Context, Result};

use crate::cargo;

/// The smoke test: every benchmark once at tiny sizes, with the programs of the tests' build, of
/// which nothing is built that is there. Returns whether it ran to its end.
pub fn smoke() -> Result<bool> {
    let mut build = cargo::command(&crate::ci::TESTS_BUILD);
    let built = build.arg("--quiet").status().context("cannot run cargo")?;
    if !built.success() {
        return Ok(false);
    }
    let here = std::env::current_exe().context("where is this program?")?;
    let mut bench = std::process::Command::new(here.with_file_name("onefold-bench"));
    Ok(bench.args(["all", "--quick"]).status().context("cannot run the bench")?.success())
}

/// Measure with optimisation. Returns whether it ran to its end.
pub fn run(args: &[String]) -> Result<bool> {
    // The server that is measured is built, too: the bench finds it beside itself.
    let mut build =
        vec!["build", "--release", "--package", "onefold", "--package", "onefold-bench"];
    build.extend(["--features", "onefold/mount"]);
    let built = cargo::command(&build).status().context("cannot run cargo")?;
    if !built.success() {
        return Ok(false);
    }
    let mut bench =
        cargo::command(&["run", "--quiet", "--release", "--package", "onefold-bench", "--"]);
    Ok(bench.args(args).status().context("cannot run cargo")?.success())
}
