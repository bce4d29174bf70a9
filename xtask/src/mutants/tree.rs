//! A copy of the sources in which things can be broken.
//! Room: xtask.
//! It lies in the target folder and shares the libraries that were built there. Its own packages
//! have a version of their own: else cargo would take programs built here for those of the sources,
//! and whoever ran their tests next would run these.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::schema::{Mutant, SWITCHES, guarded};
use crate::files::paths;

/// The copy.
pub struct Copy {
    /// Its root.
    pub root: PathBuf,
}

impl Copy {
    /// Bring the copy of that name up to date with the sources. Files that did not change are left
    /// as they are, so that cargo builds only what it must.
    pub fn refresh(root: &Path, name: &str) -> Result<Self> {
        let copy = target(root).join(name);
        let wanted = paths(root)?;
        for path in &wanted {
            let text = std::fs::read(root.join(path)).with_context(|| path.clone())?;
            match path.as_str() {
                "Cargo.toml" | "Cargo.lock" => {
                    let versioned = with_own_version(&String::from_utf8(text)?, name);
                    put(&copy.join(path), versioned.as_bytes())?;
                }
                _ => put(&copy.join(path), &text)?,
            }
        }
        let stale = |path: &Path| {
            path.strip_prefix(&copy)
                .is_ok_and(|path| !wanted.iter().any(|name| Path::new(name) == path))
        };
        for folder in ["crates", "fuzz", "xtask"] {
            remove(&copy.join(folder), &stale)?;
        }
        Ok(Self { root: copy })
    }

    /// Write the files of a crate with the mutants behind their switches. Returns, for each file,
    /// where each mutant stands in it.
    pub fn write(&self, root: &Path, name: &str, mutants: &[Mutant]) -> Result<Places> {
        let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        for mutant in mutants {
            files.entry(&mutant.file).or_default().push(mutant);
        }
        let all = paths(root)?;
        let top = top_of(name, &all)?;
        files.entry(&top).or_default();
        let mut places = Places::new();
        for path in all.iter().filter(|path| is_source(name, path)) {
            let text = std::fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
            let inside = files.get(path.as_str()).map_or(&[][..], Vec::as_slice);
            let (mut text, at) = guarded(&text, inside);
            if *path == top {
                text.push_str(SWITCHES);
            }
            put(&self.root.join(path), text.as_bytes())?;
            places.insert(path.clone(), at);
        }
        Ok(places)
    }
}

/// The file at the top of a crate: of its library, or of its program where it has none.
fn top_of(name: &str, all: &[String]) -> Result<String> {
    let tops = ["lib", "main"].map(|top| format!("crates/{name}/src/{top}.rs"));
    let top = tops.into_iter().find(|top| all.contains(top));
    top.with_context(|| format!("{name} has neither a library nor a program"))
}

/// By file, the switches in it with the bytes that they take.
pub type Places = BTreeMap<String, Vec<(u32, std::ops::Range<usize>)>>;

/// Whether a path is a source of a crate that may be broken: not a test, nor one of the libraries
/// that tests are written with, which only other tests would notice.
pub fn is_source(name: &str, path: &str) -> bool {
    path.starts_with(&format!("crates/{name}/src/"))
        && Path::new(path).extension().is_some_and(|extension| extension == "rs")
        && !path.ends_with("_tests.rs")
        && !["/tests", "/conformance", "/interleave", "/interleavings", "/map/sharing"]
            .iter()
            .any(|name| path.contains(&format!("{name}/")) || path.ends_with(&format!("{name}.rs")))
}

/// The target folder. With one of its own, named to cargo, it disturbs nobody who builds in this
/// tree meanwhile.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The workspace's `Cargo.toml` or `Cargo.lock`, with another version for packages that come from
/// no registry.
fn with_own_version(text: &str, name: &str) -> String {
    let sections = text.split("\n\n").map(|section| {
        let ours = section.contains("[workspace.package]")
            || section.starts_with("[[package]]") && !section.contains("\nsource = ");
        let lines = section.split('\n').map(|line| match line.strip_prefix("version = \"") {
            Some(version) if ours => {
                format!("version = \"{}+{name}\"", version.trim_end_matches('"'))
            }
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    sections.collect::<Vec<_>>().join("\n\n")
}

fn put(path: &Path, content: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(path, content).with_context(|| path.display().to_string())
}

/// Remove the files under `folder` that are stale.
fn remove(folder: &Path, stale: &dyn Fn(&Path) -> bool) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove(&path, stale)?;
        } else if stale(&path) {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_a_library_has_a_program() {
        let all = ["crates/a/src/lib.rs", "crates/a/src/main.rs", "crates/b/src/main.rs"];
        let all = all.map(str::to_owned);
        assert_eq!(top_of("a", &all).unwrap(), all[0]);
        assert_eq!(top_of("b", &all).unwrap(), all[2]);
        assert!(top_of("c", &all).is_err());
    }

    #[test]
    fn packages_of_the_copy_have_a_version_that_no_other_has() {
        let manifest = "[workspace]\nmembers = []\n\n[workspace.package]\nversion = \"0.1.0\"\n\n\
                        [workspace.dependencies]\nversion = \"2\"\n";
        let expected = manifest.replace("0.1.0", "0.1.0+mutants");
        assert_eq!(with_own_version(manifest, "mutants"), expected);
        let foreign = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\n";
        let ours = "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n";
        let expected = format!("{foreign}{}", ours.replace("1.0.0", "1.0.0+mutants"));
        assert_eq!(with_own_version(&format!("{foreign}{ours}"), "mutants"), expected);
    }

    #[test]
    fn tests_and_other_crates_are_no_sources() {
        assert!(is_source("onefold-nbd", "crates/onefold-nbd/src/server/mod.rs"));
        for other in [
            "crates/onefold-nbd/tests/it/a.rs",
            "crates/onefold-nbd/src/a/tests.rs",
            "crates/onefold-nbd/src/a/life_tests.rs",
            "crates/onefold-nbd/src/conformance/a.rs",
            "crates/onefold-nbd/src/map/sharing.rs",
        ] {
            assert!(!is_source("onefold-nbd", other));
        }
        assert!(!is_source("onefold-nbd", "crates/onefold-pool/src/lib.rs"));
    }
}
