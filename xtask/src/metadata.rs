//! What `cargo metadata` says of the workspace's crates.
//! Room: xtask.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo;

/// A crate of the workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its `package.metadata.house.floor`.
    pub floor: Option<f64>,
    /// Whether its files may import each other in circles: its `package.metadata.house.circles`,
    /// `false` if it does not say.
    pub circles: bool,
    /// What it depends on, in every way.
    pub dependencies: Vec<Dependency>,
}

/// One dependency of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// `normal`, `build` or `dev`.
    pub kind: String,
}

/// All crates of the workspace.
pub fn crates() -> Result<Vec<Crate>> {
    let args = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = cargo::command(&args).output().context("cannot run cargo metadata")?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {problem}");
    parse(&output.stdout)
}

fn parse(json: &[u8]) -> Result<Vec<Crate>> {
    let metadata: Value = serde_json::from_slice(json).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("no packages in cargo metadata")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        kind: value["kind"].as_str().unwrap_or("normal").to_owned(),
    };
    let package = |value: &Value| Crate {
        name: text(&value["name"]),
        floor: value["metadata"]["house"]["floor"].as_f64(),
        circles: value["metadata"]["house"]["circles"].as_bool().unwrap_or(false),
        dependencies: value["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            .map(dependency)
            .collect(),
    };
    Ok(packages.iter().map(package).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_and_kinds_of_dependencies_are_read() {
        let json = br#"{"packages": [
            {"name": "a", "metadata": {"house": {"floor": 2.5, "circles": true}}, "dependencies": [
                {"name": "b", "kind": null}, {"name": "c", "kind": "dev"}]},
            {"name": "b", "metadata": null, "dependencies": []}]}"#;
        let crates = parse(json).unwrap();
        let of = |name: &str, kind: &str| Dependency { name: name.into(), kind: kind.into() };
        assert_eq!((crates[0].floor, crates[0].circles), (Some(2.5), true));
        assert_eq!(crates[0].dependencies, [of("b", "normal"), of("c", "dev")]);
        let b = Crate { name: "b".into(), floor: None, circles: false, dependencies: vec![] };
        assert_eq!(crates[1], b);
        assert!(parse(b"{}").is_err());
    }

    #[test]
    fn this_workspace_is_found() {
        let names: Vec<String> = crates().unwrap().into_iter().map(|c| c.name).collect();
        assert!(names.iter().any(|name| name == "xtask"), "{names:?}");
    }
}
