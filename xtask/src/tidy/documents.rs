//! Documents: width of prose, links that lead nowhere, mentions of pages that are not there.
//! Room: xtask.
//! Addresses on the network are not asked: a check must give the same answer without one.

use std::collections::BTreeSet;

use super::tree::{File, Tree};

/// Most characters of a line of prose. Tables, code and lines of one word cannot be broken.
const COLUMNS_MAX: usize = 100;

/// Pages that a program writes, and the one whose entries are kept as they were released.
const NOT_WRAPPED: [&str; 4] =
    ["docs/cli.md", "docs/reproduction.md", "docs/reproduction-full.md", "CHANGELOG.md"];

/// Whether a file is a document.
pub fn is_document(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// Lines of prose that are too wide.
pub fn wide(path: &str, text: &str) -> Vec<(usize, String)> {
    if NOT_WRAPPED.contains(&path) {
        return Vec::new();
    }
    let fits = |line: &str| {
        let words = line.trim_start().trim_start_matches(['-', '#', '>', ' ']);
        line.chars().count() <= COLUMNS_MAX || line.starts_with('|') || !words.contains(' ')
    };
    let wide = prose(text).filter(|(_, line)| !fits(line));
    wide.map(|(number, _)| (number, format!("prose wider than {COLUMNS_MAX} columns"))).collect()
}

/// Links of a document to files and headings that are not there.
pub fn dead_links(tree: &Tree, file: &File, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for target in targets(&without_code(line)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { file.path.clone() } else { beside(&file.path, path) };
            let folder = format!("{path}/");
            if !tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder)) {
                found.push((number, format!("dead link: there is no {path}")));
            } else if !anchor.is_empty()
                && !tree.text(&path).is_some_and(|page| anchors(page).contains(anchor))
            {
                found.push((number, format!("dead link: no heading #{anchor} in {path}")));
            }
        }
    }
    found
}

/// Pages under `docs/` that a text names although they are not there.
pub fn dead_mentions(tree: &Tree, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (at, _) in line.match_indices("docs/") {
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || "/._-".contains(c)) {
                continue;
            }
            let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            let end = line[at..].find(|c| !is_part(c)).map_or(line.len(), |length| at + length);
            let page = line[at..end].trim_end_matches(['.', '-']);
            if is_document(page) && tree.text(page).is_none() {
                found.push((number, format!("there is no {page}")));
            }
        }
    }
    found
}

/// The lines outside blocks of code, with their numbers.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// A line with blanks for what stands between backquotes.
pub fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part } else { " " }).collect()
}

/// What the links of a line lead to.
fn targets(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// The path from the root of what a document calls `path`.
fn beside(document: &str, path: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The names by which the headings of a page are linked to, and those that it gives itself.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(page) {
        let named = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(named.map(str::to_owned));
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|&c| c.is_alphanumeric() || "-_ ".contains(c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_measured_and_tables_and_code_are_not() {
        let long = "word ".repeat(21);
        let text = format!("{long}\n| {long} |\n```\n{long}\n```\n- {}\n", "x".repeat(120));
        let found = wide("docs/a.md", &text);
        assert_eq!(found, [(1, "prose wider than 100 columns".to_owned())]);
        assert!(wide("docs/cli.md", &text).is_empty());
    }

    #[test]
    fn links_to_missing_files_and_headings_are_dead() {
        let page = "# A page\n\n## Steps, and `more`\n<a id=\"own\"></a>\n";
        let text = "[a](b.md) [a](b.md#steps-and-more) [a](b.md#own) [a](../crates) [a](#here)\n\
                    ## Here\n`[a](code.md)` [a](https://example.org/x)\n\
                    [a](c.md)\n[a](b.md#gone) [a](../docs/b.md#a-page)\n[a](#gone)\n";
        let files = [("docs/a.md", text), ("docs/b.md", page), ("crates/x/src/lib.rs", "")];
        let tree = Tree::of(&files);
        let found = dead_links(&tree, &tree.files[0], text);
        let expected = [
            (4, "dead link: there is no docs/c.md".to_owned()),
            (5, "dead link: no heading #gone in docs/b.md".to_owned()),
            (6, "dead link: no heading #gone in docs/a.md".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn pages_that_code_names_must_be_there() {
        let tree = Tree::of(&[("docs/a.md", "")]);
        let text = "// see docs/a.md.\n// see docs/b-c.md, please\n// old/docs/d.md\n";
        assert_eq!(dead_mentions(&tree, text), [(2, "there is no docs/b-c.md".to_owned())]);
    }

    #[test]
    fn headings_of_one_name_are_numbered() {
        let names: Vec<String> =
            anchors("# A b\n# A b\n```\n# no\n```\n#no\n").into_iter().collect();
        assert_eq!(names, ["a-b", "a-b-1"]);
    }
}
