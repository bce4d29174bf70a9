//! `cargo xtask deny`: what we depend on has a licence, a source and a name that `deny.toml`
//! accepts.
//! Room: xtask.
//! The check over `cargo metadata` needs nothing but cargo. Where `cargo-deny` is installed it
//! reads the same file and is asked too, and so is its database of known weaknesses if it can be
//! had.

mod graph;
mod licence;
mod policy;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use self::graph::Package;
use self::policy::Policy;
use crate::cargo;

/// What is accepted.
const PATH: &str = "deny.toml";

/// Everything that is not accepted, ours first. `cargo-deny` prints its own findings.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(PATH)).context(PATH)?;
    let policy = Policy::parse(&text)?;
    let mut problems = violations(&policy, &graph::packages(&policy.targets)?);
    if has_cargo_deny() {
        problems.extend(ask_cargo_deny()?);
    } else {
        println!("deny: cargo-deny is not installed; known weaknesses were not looked up");
    }
    Ok(problems)
}

fn has_cargo_deny() -> bool {
    let mut command = Command::new("cargo-deny");
    let quiet = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn ask_cargo_deny() -> Result<Vec<String>> {
    let deny = |args: &[&str]| -> Result<bool> {
        let words: Vec<&str> =
            ["deny", "--log-level", "error"].iter().chain(args).copied().collect();
        let status = cargo::command(&words).status().context("cannot run cargo deny")?;
        Ok(status.success())
    };
    let mut problems = Vec::new();
    if !deny(&["check", "licenses", "bans", "sources"])? {
        problems.push(format!("{PATH}:1: cargo deny refuses what it printed above"));
    }
    if !deny(&["fetch", "db"])? {
        println!("deny: the advisory database cannot be had; known weaknesses were not looked up");
    } else if !deny(&["check", "--disable-fetch", "advisories"])? {
        problems.push(format!("{PATH}:1: cargo deny knows of a weakness, printed above"));
    }
    Ok(problems)
}

/// What of these packages the policy does not accept, a line for each.
fn violations(policy: &Policy, packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        if let Some(source) = &package.source {
            if !policy.accepts_source(source) {
                found.push(format!("{name}: its source {source} is not in {PATH}"));
            }
            match &package.licence {
                None => found.push(format!("{name}: it names no licence")),
                Some(text) => match licence::accepted(text, &policy.licences) {
                    Ok(true) => {}
                    Ok(false) => {
                        found.push(format!("{name}: its licence `{text}` is not in {PATH}"));
                    }
                    Err(why) => found.push(format!("{name}: its licence `{text}`: {why}")),
                },
            }
        }
        if policy.denied.contains(&package.name) {
            found.push(format!("{name}: {PATH} denies it"));
        }
        if policy.denies_wildcards && package.source.is_none() {
            let any = package.any_version.iter();
            found.extend(any.map(|used| format!("{name}: it takes any version of {used}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    const POLICY: &str = "[graph]\ntargets = [\"x86_64-unknown-linux-gnu\"]\n\
        [licenses]\nallow = [\"MIT\", \"Apache-2.0\"]\n\
        [bans]\nwildcards = \"deny\"\ndeny = [{ crate = \"openssl-sys\" }]\n\
        [sources]\nallow-registry = [\"https://github.com/rust-lang/crates.io-index\"]\n\
        allow-git = []\n";

    /// What the policy says of one made-up package beside a workspace of our own.
    fn verdict(name: &str, licence: &str, source: &str, requirement: &str) -> Vec<String> {
        let metadata = serde_json::json!({
            "packages": [
                {"name": "ours", "version": "0.1.0", "id": "ours", "license": null, "source": null,
                 "dependencies": [{"name": name, "req": requirement, "source": source},
                                  {"name": "beside", "req": "*", "path": "/x"}]},
                {"name": name, "version": "1.2.3", "id": "theirs", "license": licence,
                 "source": source, "dependencies": []},
                {"name": "unused", "version": "9.9.9", "id": "unused", "license": "GPL-3.0",
                 "source": "git+https://example.org/x", "dependencies": []},
            ],
            "resolve": {"nodes": [{"id": "ours"}, {"id": "theirs"}]},
        });
        let packages = graph::parse(metadata.to_string().as_bytes()).unwrap();
        violations(&Policy::parse(POLICY).unwrap(), &packages)
    }

    #[test]
    fn a_licence_that_is_not_accepted_fails() {
        assert_eq!(verdict("good", "MIT OR GPL-3.0-only", CRATES_IO, "^1"), Vec::<String>::new());
        for refused in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "", "MIT OR (", "SSPL-1.0"] {
            let found = verdict("bad", refused, CRATES_IO, "^1");
            assert_eq!(found.len(), 1, "{refused}: {found:?}");
            assert!(found[0].starts_with("bad 1.2.3: "), "{found:?}");
        }
    }

    #[test]
    fn a_source_that_is_not_accepted_fails() {
        for source in ["registry+https://example.org/index", "git+https://github.com/a/b#c"] {
            let found = verdict("far", "MIT", source, "^1");
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("source"), "{found:?}");
        }
    }

    #[test]
    fn a_denied_crate_and_any_version_fail() {
        assert_eq!(
            verdict("openssl-sys", "MIT", CRATES_IO, "*"),
            [
                "ours 0.1.0: it takes any version of openssl-sys",
                "openssl-sys 1.2.3: deny.toml denies it"
            ]
        );
    }

    #[test]
    fn a_package_without_a_licence_fails() {
        let package = Package { licence: None, ..package("silent") };
        let found = violations(&Policy::parse(POLICY).unwrap(), &[package]);
        assert_eq!(found, ["silent 1.0.0: it names no licence"]);
    }

    fn package(name: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            source: Some(CRATES_IO.to_owned()),
            any_version: Vec::new(),
        }
    }
}
