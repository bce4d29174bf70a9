//! Imports go downstairs only: a crate may depend on crates of lower floors and on nothing beside
//! or above it. Dependencies of tests follow the same rule.
//! Room: xtask.

use anyhow::Result;

use crate::metadata::{self, Crate};

/// What breaks the rule in this workspace.
pub fn check() -> Result<Vec<String>> {
    Ok(violations(&metadata::crates()?))
}

fn violations(crates: &[Crate]) -> Vec<String> {
    let mut found = Vec::new();
    for user in crates {
        let Some(floor) = user.floor else {
            found.push(format!("{}: no `floor` in [package.metadata.house]", user.name));
            continue;
        };
        for dependency in &user.dependencies {
            let used = crates.iter().find(|other| other.name == dependency.name);
            let Some((used, below)) = used.and_then(|used| Some((used, used.floor?))) else {
                continue;
            };
            if below >= floor {
                found.push(format!(
                    "{} (floor {floor}) must not depend on {} (floor {below}): {} dependencies \
                     go downstairs only",
                    user.name, used.name, dependency.kind
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::metadata::Dependency;

    use super::*;

    fn krate(name: &str, floor: f64, dependencies: &[(&str, &str)]) -> Crate {
        let of = |&(name, kind): &(&str, &str)| Dependency { name: name.into(), kind: kind.into() };
        let dependencies = dependencies.iter().map(of).collect();
        Crate { name: name.into(), floor: Some(floor), circles: false, dependencies }
    }

    #[test]
    fn a_planted_violation_of_each_kind_is_found() {
        for kind in ["normal", "build", "dev"] {
            for (user, used) in [(1.0, 1.0), (1.0, 1.5), (1.5, 2.0)] {
                let crates = [krate("user", user, &[("used", kind)]), krate("used", used, &[])];
                let found = violations(&crates);
                assert_eq!(found.len(), 1, "{user} uses {used}: {found:?}");
                assert!(found[0].contains("user") && found[0].contains(kind), "{found:?}");
            }
        }
    }

    #[test]
    fn imports_downstairs_and_from_outside_are_fine() {
        let crates = [
            krate("roof", 2.5, &[("room", "normal"), ("ground", "dev"), ("serde", "normal")]),
            krate("room", 2.0, &[("ground", "build")]),
            krate("ground", 0.0, &[]),
        ];
        assert_eq!(violations(&crates), Vec::<String>::new());
    }

    #[test]
    fn a_crate_without_a_floor_is_named() {
        let homeless = Crate { floor: None, ..krate("homeless", 0.0, &[]) };
        assert!(violations(&[homeless])[0].starts_with("homeless: no `floor`"));
    }

    #[test]
    fn this_workspace_keeps_the_rule() {
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }
}
