//! Files that no `mod` leads to: nobody compiles them.
//! Room: xtask.

use super::tree::{Tree, is_rust};

/// Rust files that are no root of a target and that no parent module names.
pub fn dead(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| is_rust(&file.path) && !is_root(&file.path)) {
        let Some((parents, name)) = parents(&file.path) else { continue };
        let named = |parent: &String| tree.text(parent).is_some_and(|text| declares(text, name));
        if !parents.iter().any(named) {
            found.push(format!("{}:1: dead: no `mod {name};` leads here", file.path));
        }
    }
    found
}

/// Whether cargo compiles this file without being told by another one.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts.as_slice(),
        [.., "build.rs"]
            | [.., "src", "lib.rs" | "main.rs"]
            | [.., "src", "bin", _]
            | [.., "src", "bin", _, "main.rs"]
            | [.., "tests" | "benches" | "examples" | "fuzz_targets", _]
            | [.., "tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// The files that may declare this module, and its name in them.
fn parents(path: &str) -> Option<(Vec<String>, &str)> {
    let stem = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs"))?;
    let (folder, name) = stem.rsplit_once('/')?;
    let inside = ["lib.rs", "main.rs", "mod.rs"].map(|file| format!("{folder}/{file}"));
    Some((inside.into_iter().chain([format!("{folder}.rs")]).collect(), name))
}

fn declares(text: &str, name: &str) -> bool {
    let declaration = format!("mod {name};");
    let by_path = format!("{name}.rs\"]");
    text.lines().map(str::trim).any(|line| {
        let before = line.strip_suffix(&declaration);
        before.is_some_and(|b| b.is_empty() || b.ends_with(' ') && !b.contains("//"))
            || line.starts_with("#[path") && line.ends_with(&by_path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_names_is_dead() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "mod named;\npub(crate) mod folder;\n// mod dead;\n"),
            ("a/src/named.rs", "mod inner;\n"),
            ("a/src/named/inner.rs", ""),
            ("a/src/folder/mod.rs", "pub mod leaf;\n"),
            ("a/src/folder/leaf.rs", ""),
            ("a/src/dead.rs", ""),
            ("a/src/folder/dead_too.rs", ""),
            ("a/tests/it/main.rs", "mod part;\n"),
            ("a/tests/it/part.rs", ""),
            ("a/tests/it/lost.rs", ""),
            ("a/src/bin/tool.rs", ""),
            ("build.rs", ""),
        ]);
        let found = dead(&tree);
        let paths: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(paths, ["a/src/dead.rs", "a/src/folder/dead_too.rs", "a/tests/it/lost.rs"]);
    }
}
