//! Sources are cited by keys, `[like-this-24]`: every key has an entry, every entry a reader.
//! Room: xtask.
//! A key has a hyphen, so that rustdoc does not take it for the name of an item.

use std::collections::BTreeSet;

use super::documents::{is_document, without_code};
use super::tree::{Tree, is_rust};

/// The page with the entries: list items that begin with an anchor of the key's name.
const PAGE: &str = "docs/bibliography.md";
const ENTRY: &str = "- <a id=\"";

/// Keys without an entry, and entries that nothing cites.
pub fn loose(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let entries: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix(ENTRY)?.split('"').next()).collect();
    let mut found = Vec::new();
    let mut cited = BTreeSet::new();
    for file in tree.files.iter().filter(|file| is_rust(&file.path)) {
        let Some(text) = &file.text else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            for key in keys(&without_code(comment)) {
                if !entries.contains(key.as_str()) {
                    found.push(format!("{}:{number}: no [{key}] in {PAGE}", file.path));
                }
                cited.insert(key);
            }
        }
    }
    // Links from documents to an entry that is not there are dead links already.
    let pages = tree.files.iter().filter(|file| is_document(&file.path) && file.path != PAGE);
    let links: String = pages.filter_map(|file| file.text.as_deref()).collect();
    for entry in entries {
        if !cited.contains(entry) && !links.contains(&format!("bibliography.md#{entry})")) {
            found.push(format!("{PAGE}:1: nothing cites [{entry}]"));
        }
    }
    found
}

/// The keys that a comment cites.
fn keys(comment: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for (at, _) in comment.match_indices('[') {
        let Some((key, rest)) = comment[at + 1..].split_once(']') else { continue };
        let plain = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        let is_key = key.contains('-')
            && key.split('-').all(plain)
            && key.starts_with(|c: char| c.is_ascii_lowercase());
        if is_key && !rest.starts_with('(') {
            keys.push(key.to_owned());
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_entries_must_agree() {
        let page = "- <a id=\"a-01\"></a>**[a-01]** A.\n- <a id=\"b-02\"></a>**[b-02]** B.\n\
                    - <a id=\"c-03\"></a>**[c-03]** C.\n";
        let code = "//! Source: [a-01] sec. 2, [x-99].\nlet a = x[b-02];\n";
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", code),
            (PAGE, page),
            ("docs/d.md", "[b-02](bibliography.md#b-02)\n"),
        ]);
        let expected = [
            format!("crates/a/src/lib.rs:1: no [x-99] in {PAGE}"),
            format!("{PAGE}:1: nothing cites [c-03]"),
        ];
        assert_eq!(loose(&tree), expected);
    }

    #[test]
    fn only_keys_are_keys() {
        assert_eq!(keys("[s3-fifo-23], ([a-1]) and [b-2]."), ["s3-fifo-23", "a-1", "b-2"]);
        let others = "[Foo] [0-9] [a_b-c] [a-b](x.md) [a--b] [-a-] x[3] [ab]";
        assert_eq!(keys(others), Vec::<String>::new());
    }
}
