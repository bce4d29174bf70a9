//! Files of a room that import each other in a circle: none of them can be understood alone.
//! Room: xtask.
//! A crate has none, unless it says `circles = true` in its `[package.metadata.house]`; who says so
//! without need is told, too. A name that a module only passes on (`pub use`) is its file's that
//! defines it, and unit tests may import anything.

mod imports;

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::metadata::{self, Crate};
use imports::Module;

/// What breaks the rule in this workspace.
pub fn check() -> Result<Vec<String>> {
    let root = crate::root()?;
    let paths = crate::files::paths(&root)?;
    let mut found = Vec::new();
    for room in metadata::crates()? {
        let source = format!("crates/{}/src/", room.name);
        let mut modules = Vec::new();
        for path in paths.iter().filter(|path| path.starts_with(&source)) {
            let text = std::fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
            let name = path.strip_prefix(&source).and_then(|path| path.strip_suffix(".rs"));
            if let Some(name) = name.filter(|name| !name.ends_with("tests")) {
                modules.push(Module::parse(name, &text).with_context(|| path.clone())?);
            }
        }
        found.extend(problems(&room, &circles(&modules)));
    }
    Ok(found)
}

/// What is wrong with these circles of a crate, or with there being none.
fn problems(room: &Crate, circles: &[Vec<String>]) -> Vec<String> {
    match (room.circles, circles) {
        (true, []) => vec![format!("{}: it has no circles: `circles = true` can go", room.name)],
        (true, _) => Vec::new(),
        (false, circles) => {
            let tell = |files: &Vec<String>| {
                format!("{}: import each other in a circle: {}", room.name, files.join(", "))
            };
            circles.iter().map(tell).collect()
        }
    }
}

/// The circles, each with its files in order.
fn circles(modules: &[Module]) -> Vec<Vec<String>> {
    let by_path: BTreeMap<&[String], usize> =
        (0..).zip(modules).map(|(at, module)| (&module.path[..], at)).collect();
    let edges: Vec<Vec<usize>> = (0..)
        .zip(modules)
        .map(|(at, module)| {
            let used = module.uses.iter().filter_map(|path| defines(path, &by_path, modules, 0));
            used.filter(|&other| other != at).collect()
        })
        .collect();
    let reached: Vec<Vec<bool>> = (0..modules.len()).map(|from| reach(from, &edges)).collect();
    let mut left: Vec<bool> = vec![true; modules.len()];
    let mut found = Vec::new();
    for (at, from_here) in reached.iter().enumerate() {
        let ring: Vec<usize> = (at..modules.len())
            .filter(|&other| left[other] && from_here[other] && reached[other][at])
            .collect();
        for &other in &ring {
            left[other] = false;
        }
        if ring.len() > 1 {
            found.push(ring.into_iter().map(|other| modules[other].name()).collect());
        }
    }
    found
}

/// All that is imported from a module on, at first hand or not.
fn reach(from: usize, edges: &[Vec<usize>]) -> Vec<bool> {
    let mut reached = vec![false; edges.len()];
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for &other in &edges[at] {
            if !std::mem::replace(&mut reached[other], true) {
                next.push(other);
            }
        }
    }
    reached
}

/// The module that defines what a path names, as far as files tell.
fn defines(
    path: &[String],
    by_path: &BTreeMap<&[String], usize>,
    modules: &[Module],
    passed_on: usize,
) -> Option<usize> {
    let (at, rest) = (0..=path.len())
        .rev()
        .find_map(|len| by_path.get(&path[..len]).map(|&at| (at, &path[len..])))?;
    let passed = rest.first().and_then(|name| modules[at].passes_on.get(name));
    match passed {
        // No name is passed on through more modules than there are.
        Some(from) if passed_on < modules.len() => {
            let whole: Vec<String> = from.iter().chain(&rest[1..]).cloned().collect();
            defines(&whole, by_path, modules, passed_on + 1)
        }
        _ => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let modules: Vec<Module> =
            files.iter().map(|(name, text)| Module::parse(name, text).unwrap()).collect();
        circles(&modules)
    }

    #[test]
    fn a_planted_circle_is_found_however_it_is_imported() {
        for back in [
            "use crate::a::one::One;",
            "use super::one::{self, One};",
            "fn f(x: &crate::a::one::One) {}",
            "use crate::a::{Other, One};",
        ] {
            let found = found(&[
                ("lib", "mod a;"),
                ("a/mod", "mod one; mod two; mod three; pub use one::One;"),
                ("a/one", "use crate::a::two::Two; pub struct One;"),
                ("a/two", "use super::three; pub struct Two;"),
                ("a/three", back),
            ]);
            assert_eq!(found, [["a/one", "a/two", "a/three"].map(str::to_owned)], "{back}");
        }
    }

    #[test]
    fn names_passed_on_unit_tests_and_children_make_no_circle() {
        let found = found(&[
            ("lib", "pub mod a; pub use a::Shape;"),
            ("a/mod", "mod one; mod two; pub use one::One; pub trait Shape {}"),
            ("a/one", "use crate::a::Shape; #[cfg(test)] mod tests { use crate::a::two::Two; }"),
            ("a/two", "use crate::a::One; pub struct Two;"),
        ]);
        assert_eq!(found, Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_crate_says_that_it_has_circles_if_it_has_some_and_only_then() {
        let room = |circles| Crate { name: "a".into(), floor: None, circles, dependencies: vec![] };
        let ring = vec![vec!["one".to_owned(), "two".to_owned()]];
        assert_eq!(problems(&room(false), &[]), Vec::<String>::new());
        assert_eq!(problems(&room(false), &ring), ["a: import each other in a circle: one, two"]);
        assert_eq!(problems(&room(true), &ring), Vec::<String>::new());
        assert_eq!(problems(&room(true), &[]), ["a: it has no circles: `circles = true` can go"]);
    }
}
