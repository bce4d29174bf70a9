//! Every dependency has a line that says why it is there, and every such line a dependency.
//! Room: xtask.

use std::collections::BTreeSet;

use super::tree::Tree;

/// The page with the reasons: list items that begin with the name in backquotes.
const PAGE: &str = "docs/dependencies.md";
const MANIFEST: &str = "Cargo.toml";

/// Dependencies without a reason, and reasons without a dependency.
pub fn undocumented(tree: &Tree) -> Vec<String> {
    let Some(manifest) = tree.text(MANIFEST) else { return Vec::new() };
    let used: BTreeSet<&str> = dependencies(manifest).collect();
    let explained: BTreeSet<&str> = tree.text(PAGE).into_iter().flat_map(reasons).collect();
    let missing = used.difference(&explained).map(|name| format!("{PAGE}:1: no reason for {name}"));
    let stale = explained.difference(&used);
    let stale = stale.map(|name| format!("{PAGE}:1: {name} is no dependency of the workspace"));
    missing.chain(stale).collect()
}

/// Names under `[workspace.dependencies]`, our own crates aside.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .filter(|name| !name.starts_with('#') && !name.starts_with("onefold"))
}

fn reasons(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_dependencies_must_agree() {
        let manifest = "[workspace]\nx = 1\n\n[workspace.dependencies]\nanyhow = \"1\"\n# why\n\
                        serde = { version = \"1\" }\nonefold-pool = { path = \"p\" }\n\n[profile]\n\
                        debug = 1\n";
        let check = |page: &str| undocumented(&Tree::of(&[(MANIFEST, manifest), (PAGE, page)]));
        assert!(check("# D\n- `anyhow`: errors\n- `serde`: data\n").is_empty());
        assert_eq!(check("- `serde`: data\n"), ["docs/dependencies.md:1: no reason for anyhow"]);
        assert!(check("- `anyhow`\n- `serde`\n- `gone`\n")[0].contains("gone is no dependency"));
    }
}
