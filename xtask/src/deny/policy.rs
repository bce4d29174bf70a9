//! The parts of `deny.toml` that are checked here.
//! Room: xtask.

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

/// What is accepted.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The systems that we build for.
    pub targets: Vec<String>,
    /// Licences, each perhaps with an exception: `X WITH Y`.
    pub licences: Vec<String>,
    /// Names of crates that are not taken.
    pub denied: Vec<String>,
    /// Whether our own crates must say which version they take.
    pub denies_wildcards: bool,
    registries: Vec<String>,
    repositories: Vec<String>,
}

impl Policy {
    /// Read `deny.toml`. A list that is missing is an error: an empty one would accept nothing,
    /// and a misspelt one would seem to.
    pub fn parse(text: &str) -> Result<Self> {
        let table: Table = text.parse().context("deny.toml")?;
        let section = |name: &str| {
            let section = table.get(name).and_then(Value::as_table);
            section.with_context(|| format!("deny.toml: no [{name}]"))
        };
        let strings = |table: &Table, name: &str| -> Result<Vec<String>> {
            let list = table.get(name).and_then(Value::as_array);
            let list = list.with_context(|| format!("deny.toml: no list `{name}`"))?;
            let strings: Vec<_> =
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            ensure!(strings.len() == list.len(), "deny.toml: `{name}` lists more than strings");
            Ok(strings)
        };
        let (bans, sources) = (section("bans")?, section("sources")?);
        let denied = bans.get("deny").and_then(Value::as_array).cloned().unwrap_or_default();
        let name = |entry: &Value| {
            let name = entry.as_str().or_else(|| entry.get("crate")?.as_str());
            name.map(str::to_owned).with_context(|| format!("deny.toml: no `crate` in {entry}"))
        };
        Ok(Self {
            targets: strings(section("graph")?, "targets")?,
            licences: strings(section("licenses")?, "allow")?,
            denied: denied.iter().map(name).collect::<Result<_>>()?,
            denies_wildcards: bans.get("wildcards").and_then(Value::as_str) == Some("deny"),
            registries: strings(sources, "allow-registry")?,
            repositories: strings(sources, "allow-git")?,
        })
    }

    /// Whether packages may come from there. `source` is as cargo writes it: a kind, `+`, an
    /// address and perhaps a query and a commit.
    pub fn accepts_source(&self, source: &str) -> bool {
        let (kind, address) = source.split_once('+').unwrap_or((source, ""));
        let address = address.split(['?', '#']).next().unwrap_or_default();
        let accepted = match kind {
            "registry" | "sparse" => &self.registries,
            "git" => &self.repositories,
            _ => return false,
        };
        accepted.iter().any(|known| known.trim_end_matches('/') == address.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[graph]\ntargets = []\n[licenses]\nallow = [\"MIT\"]\n[bans]\n\
                        deny = [{ crate = \"a\" }, \"b\"]\n[sources]\n\
                        allow-registry = [\"https://a.example/index/\"]\n\
                        allow-git = [\"https://g.example/x\"]\n";

    #[test]
    fn only_listed_places_are_accepted() {
        let policy = Policy::parse(TEXT).unwrap();
        assert_eq!(
            (policy.denied.as_slice(), policy.denies_wildcards),
            (&["a", "b"].map(str::to_owned)[..], false)
        );
        for good in ["registry+https://a.example/index", "git+https://g.example/x?branch=y#0123"] {
            assert!(policy.accepts_source(good), "{good}");
        }
        for bad in
            ["git+https://a.example/index", "registry+https://b.example", "path+file:///x", ""]
        {
            assert!(!policy.accepts_source(bad), "{bad}");
        }
    }

    #[test]
    fn a_list_that_is_missing_is_named() {
        for (name, instead) in [("allow =", "alow ="), ("targets", "target"), ("[bans]", "[ban]")] {
            assert!(Policy::parse(&TEXT.replace(name, instead)).is_err(), "{name}");
        }
    }
}
