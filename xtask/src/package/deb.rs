//! The Debian package, by `cargo deb` from what `crates/onefold/Cargo.toml` says of it.
//! Room: xtask.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::FOLDER;
use crate::cargo;
use crate::programs::{answer, is_there, succeed};

/// How much time packing may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Small,
    Fast,
}

/// `cargo deb` looks for programs in the folder of a profile. Cargo builds nothing of this one.
const STAGE: &str = "stage";
/// Shells, and what their completions are called where they look for them.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "onefold"), ("zsh", "_onefold"), ("fish", "onefold.fish")];

/// Pack `program` with its manual pages, completions, unit and documents. Returns the package.
pub fn make(program: &Path, packing: Packing) -> Result<PathBuf> {
    ensure!(
        is_there("cargo-deb"),
        "needs cargo-deb: `cargo install --locked cargo-deb`, with its folder in PATH"
    );
    let stage = Path::new("target").join(STAGE);
    let _ = fs::remove_dir_all(&stage);
    fs::create_dir_all(stage.join("completions")).context("cannot make a folder for the parts")?;
    let staged = stage.join("onefold");
    succeed(Command::new("strip").arg("-o").arg(&staged).arg(program))?;
    succeed(Command::new(program).args(["man", "--quiet"]).arg(stage.join("man")))?;
    for (shell, file) in COMPLETIONS {
        let out = File::create(stage.join("completions").join(file))
            .context("cannot write completions")?;
        let mut write = Command::new(program);
        succeed(write.args(["completions", shell]).stdout(Stdio::from(out)))?;
    }
    for old in fs::read_dir(FOLDER)?.flatten() {
        if old.path().extension().is_some_and(|ending| ending == "deb") {
            fs::remove_file(old.path())?;
        }
    }
    let mut pack = cargo::command(&["deb", "--package", "onefold", "--no-build", "--no-strip"]);
    pack.args(["--profile", STAGE, "--output", FOLDER]);
    if packing == Packing::Fast {
        pack.arg("--fast");
    }
    let said = answer(&mut pack)?;
    let package = said.lines().last().map(PathBuf::from).context("cargo deb names no package")?;
    ensure!(package.is_file(), "there is no {}", package.display());
    Ok(package)
}
