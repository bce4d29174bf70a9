//! What the compiler does not see: sizes, headers, dead files and links, leftovers, words, sources.
//! Room: xtask.
//! Source: the project's style: 100 columns, 70 lines a function, 800 lines a file, ASCII.
//! All checks are simple and by line; they rely on rustfmt's layout. Tests may have long
//! functions: a table of cases is best read in one piece.

mod bibliography;
mod dependencies;
mod documents;
mod functions;
mod leftovers;
mod lines;
mod modules;
mod tree;

use anyhow::Result;

use tree::Tree;

/// Everything untidy in this workspace, each as `path:line: what`.
pub fn check() -> Result<Vec<String>> {
    let tree = Tree::of_workspace()?;
    let mut found = Vec::new();
    for file in &tree.files {
        if file.bytes > tree::FILE_BYTES_MAX {
            found.push(format!(
                "{}: {} bytes, at most {} are kept in the repository",
                file.path,
                file.bytes,
                tree::FILE_BYTES_MAX
            ));
        }
        let Some(text) = &file.text else { continue };
        let mut add = |problems: Vec<(usize, String)>| {
            let named = |(line, what)| format!("{}:{line}: {what}", file.path);
            found.extend(problems.into_iter().map(named));
        };
        if tree::is_written_here(&file.path) {
            add(leftovers::words(text));
            add(leftovers::references(text));
        }
        // The tests of this check make pages up.
        if tree::is_written_here(&file.path) && !file.path.starts_with("xtask/src/tidy/") {
            add(documents::dead_mentions(&tree, text));
        }
        if documents::is_document(&file.path) {
            add(documents::wide(&file.path, text));
            add(documents::dead_links(&tree, file, text));
        }
        if tree::is_rust(&file.path) {
            add(lines::sizes(text));
            add(lines::characters(text));
            add(lines::header(&file.path, text));
            add(functions::long(&file.path, text));
            add(leftovers::code(text));
        }
    }
    found.extend(modules::dead(&tree));
    let text_of = |path: &str| tree.text(path).map(str::to_owned);
    let rust = tree.files.iter().filter(|file| tree::is_rust(&file.path));
    let tests: Vec<&str> = rust.filter_map(|file| file.text.as_deref()).collect();
    found.extend(crate::mutants::breakages::check_list(&text_of, &tests));
    found.extend(crate::mutants::equivalent::check_list(&text_of));
    found.extend(bibliography::loose(&tree));
    found.extend(dependencies::undocumented(&tree));
    found.sort();
    Ok(found)
}
