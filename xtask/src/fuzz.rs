//! Fuzzing: builds `onefold-fuzz` with optimisation and checks, and hands over.
//! Room: xtask.
//!
//! Nearly everything that a store has on disk has a checksum, and inputs that change some bytes end
//! there. With `--blind` the targets are built, in a copy of the tree, with checksums that are all
//! zero: then they meet what comes behind, as whoever makes a store to do harm would.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo;
use crate::mutants::tree::{Copy, target};

const BLIND: &str = "--blind";

/// The copy in the target folder, and the folder that it is built in.
const COPY: &str = "blind";

/// Try inputs. Returns whether nothing broke.
pub fn run(args: &[String]) -> Result<bool> {
    let root = crate::root()?;
    let blind = args.iter().any(|arg| arg == BLIND);
    let mut fuzz = if blind { blinded(&root)? } else { cargo::command(&[]) };
    // As the tests are built: optimised, with assertions and checks for overflow.
    fuzz.args(["run", "--quiet", "--profile", "test", "--package", "onefold-fuzz", "--"]);
    fuzz.args(args.iter().filter(|&arg| arg != BLIND));
    Ok(fuzz.status().context("cannot run cargo")?.success())
}

/// A cargo for a copy of the tree in which checksums say nothing.
fn blinded(root: &Path) -> Result<Command> {
    let copy = Copy::refresh(root, COPY)?;
    let mut command = cargo::command(&["--config"]);
    command.arg("patch.crates-io.crc32fast.path=\"fuzz/blind-checksums\"");
    command.current_dir(&copy.root).env("CARGO_TARGET_DIR", target(root));
    Ok(command)
}
