//! The packages that are built for the systems that we build for.
//! Room: xtask.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo;

/// One package of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The licence that its manifest gives, if any.
    pub licence: Option<String>,
    /// Where it comes from, as cargo writes it; none for one that lies in a folder of ours.
    pub source: Option<String>,
    /// What it takes from elsewhere in whatever version there is.
    pub any_version: Vec<String>,
}

/// All packages that cargo would build for one of the targets, with all features.
pub fn packages(targets: &[String]) -> Result<Vec<Package>> {
    let mut args = vec!["metadata", "--format-version", "1", "--locked", "--all-features"];
    for target in targets {
        args.extend(["--filter-platform", target]);
    }
    let output = cargo::command(&args).output().context("cannot run cargo metadata")?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {problem}");
    parse(&output.stdout)
}

/// The packages of the graph that `cargo metadata` describes.
pub fn parse(json: &[u8]) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_slice(json).context("cargo metadata is not JSON")?;
    let list = |value: &Value| value.as_array().cloned().context("cargo metadata lacks a list");
    let nodes = list(&metadata["resolve"]["nodes"])?;
    let built: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut packages = Vec::new();
    for package in list(&metadata["packages"])? {
        if !built.contains(package["id"].as_str().unwrap_or_default()) {
            continue;
        }
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let any = dependencies.filter(|used| used["req"] == "*" && used["path"].is_null());
        packages.push(Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: package["license"].as_str().map(str::to_owned),
            source: package["source"].as_str().map(str::to_owned),
            any_version: any.map(|used| text(&used["name"])).collect(),
        });
    }
    ensure!(!packages.is_empty(), "cargo metadata names no packages");
    Ok(packages)
}
