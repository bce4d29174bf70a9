//! Real trees in versions: published packages, and this project's history.
//! Room: onefold-bench.
//! The packages are fixed to the version, so that everybody measures the same bytes. Two are mostly
//! text in small files, one is half fonts, pictures and machine code, one nearly all machine code.
//! The smoke test has no network and takes what this machine has installed of documentation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::lab::Lab;

/// Versions of a tree.
pub struct Tree {
    /// What it is.
    pub name: String,
    /// A folder for each, oldest first.
    pub versions: Vec<PathBuf>,
}

/// Python packages, with six of their versions.
const PACKAGES: [(&str, [&str; VERSIONS]); 4] = [
    ("django", ["4.0.10", "4.1.13", "4.2.16", "5.0.9", "5.1.3", "5.2"]),
    ("sympy", ["1.7", "1.8", "1.9", "1.10", "1.11", "1.12"]),
    ("matplotlib", ["3.6.0", "3.7.5", "3.8.0", "3.8.4", "3.9.4", "3.10.0"]),
    ("numpy", ["1.24.4", "1.25.2", "1.26.4", "2.0.2", "2.1.3", "2.2.6"]),
];
const DOCUMENTED: &str = "installed documentation";
const HISTORY: &str = "this project's history";
/// Versions of each tree.
const VERSIONS: usize = 6;
/// Where packages are documented.
const DOCS: &str = "/usr/share/doc";

/// Make them below `here`.
pub fn make(lab: &Lab, here: &Path) -> Result<Vec<Tree>> {
    if lab.quick {
        return Ok(vec![documented(&here.join("doc"), 20, 2)?]);
    }
    let mut all = Vec::new();
    for (package, versions) in &PACKAGES {
        if lab.wants(package) {
            all.push(published(&here.join(package), package, versions)?);
        }
    }
    if lab.wants(HISTORY) {
        all.push(history(&here.join("history"))?);
    }
    ensure!(!all.is_empty(), "there is no such tree to measure with");
    Ok(all)
}

/// A machine onto which packages are installed: each version has more of what is documented.
fn documented(here: &Path, most: usize, versions: usize) -> Result<Tree> {
    let listed = fs::read_dir(DOCS).with_context(|| format!("cannot list {DOCS}"))?;
    let mut names: Vec<PathBuf> = listed.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    names.sort();
    names.truncate(most);
    ensure!(!names.is_empty(), "{DOCS} is empty");
    let mut all = Vec::new();
    for version in 1..=versions {
        let folder = here.join(version.to_string());
        fs::create_dir_all(&folder).context("cannot make a folder")?;
        let some = &names[..(names.len() * (versions + version)).div_ceil(2 * versions)];
        run(Command::new("cp").arg("-a").args(some).arg(&folder))?;
        all.push(folder);
    }
    Ok(Tree { name: DOCUMENTED.to_owned(), versions: all })
}

/// This project, at moments that are equally many commits apart.
fn history(here: &Path) -> Result<Tree> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let git = || {
        let mut git = Command::new("git");
        git.args(["-C", root]);
        git
    };
    let said = git().args(["rev-list", "--first-parent", "--reverse", "HEAD"]).output();
    let said = said.context("git is needed")?;
    let commits = String::from_utf8(said.stdout).context("git says what is no text")?;
    let commits: Vec<&str> = commits.lines().collect();
    ensure!(commits.len() >= 2 * VERSIONS, "this project's history is too short here");
    let mut versions = Vec::new();
    for version in 1..=VERSIONS {
        let folder = here.join(version.to_string());
        fs::create_dir_all(&folder).context("cannot make a folder")?;
        let tar = here.join("tar");
        let commit = commits[commits.len() * (VERSIONS + version) / (2 * VERSIONS) - 1];
        run(git().args(["archive", "--output"]).arg(&tar).arg(commit))?;
        run(Command::new("tar").arg("--extract").arg("--file").arg(&tar).arg("-C").arg(&folder))?;
        versions.push(folder);
    }
    Ok(Tree { name: HISTORY.to_owned(), versions })
}

/// Unpacked wheels of a Python package, from its registry.
fn published(here: &Path, package: &str, numbers: &[&str]) -> Result<Tree> {
    let mut versions = Vec::new();
    for number in numbers {
        let (wheels, folder) = (here.join(format!("wheel-{number}")), here.join(number));
        run(Command::new("pip3")
            .args(["download", "--quiet", "--no-deps", "--only-binary=:all:"])
            .args(["--python-version", "3.11", "--platform", "manylinux2014_x86_64", "--dest"])
            .arg(&wheels)
            .arg(format!("{package}=={number}")))?;
        let wheel = fs::read_dir(&wheels).context("cannot list wheels")?.next();
        let wheel = wheel.context("no wheel came")?.context("cannot list wheels")?.path();
        run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&folder))?;
        versions.push(folder);
    }
    Ok(Tree { name: package.to_owned(), versions })
}

fn run(command: &mut Command) -> Result<()> {
    let said = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let told = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "{command:?}: {}: {told}", said.status);
    Ok(())
}
