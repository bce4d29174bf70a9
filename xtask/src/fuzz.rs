//! Fuzzing: builds `onefold-fuzz` with optimisation and checks, and hands over.
//! Room: xtask.

use anyhow::{Context, Result};

use crate::cargo;

/// Try inputs. Returns whether nothing broke.
pub fn run(args: &[String]) -> Result<bool> {
    // As the tests are built: optimised, with assertions and checks for overflow.
    let mut fuzz =
        cargo::command(&["run", "--quiet", "--profile", "test", "--package", "onefold-fuzz", "--"]);
    Ok(fuzz.args(args).status().context("cannot run cargo")?.success())
}
