//! The documents as a site, by mdBook, without a link that leads nowhere.
//! Room: xtask.   In: documents, in the order of `docs/SUMMARY.md`.   Out: `target/package/site`.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::FOLDER;
use crate::programs::{is_there, succeed};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Build it, and follow every link.
pub fn make() -> Result<()> {
    ensure!(is_there("mdbook"), "needs mdbook: `cargo install --locked mdbook`");
    let book = Path::new(FOLDER).join("book");
    let site = Path::new(FOLDER).join("site");
    for folder in [&book, &site] {
        let _ = fs::remove_dir_all(folder);
    }
    fs::create_dir_all(book.join("src"))?;
    fs::copy("packaging/book.toml", book.join("book.toml"))?;
    let summary = at_the_root(&fs::read_to_string(SUMMARY).context("cannot read the summary")?);
    fs::write(book.join("src/SUMMARY.md"), &summary)?;
    for file in with_what_they_link_to(links(&summary).map(PathBuf::from).collect())? {
        let copy = book.join("src").join(&file);
        fs::create_dir_all(copy.parent().context("a file has a folder")?)?;
        fs::copy(&file, &copy).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let site_again = std::env::current_dir()?.join(&site);
    succeed(Command::new("mdbook").arg("build").arg(&book).arg("--dest-dir").arg(site_again))?;
    let dead = dead_links(&site)?;
    ensure!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    println!("{}", site.join("index.html").display());
    Ok(())
}

/// The summary as it reads one folder further up, where mdBook wants it.
fn at_the_root(summary: &str) -> String {
    summary.replace("](", "](docs/").replace("](docs/../", "](")
}

/// Documents, and whatever they show or link to, over and over.
fn with_what_they_link_to(documents: VecDeque<PathBuf>) -> Result<BTreeSet<PathBuf>> {
    let mut waiting = documents;
    let mut files = BTreeSet::new();
    while let Some(file) = waiting.pop_front() {
        if !file.is_file() || !files.insert(file.clone()) {
            continue;
        }
        if file.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        waiting.extend(links(&text).filter_map(|link| within(&folder.join(link))));
    }
    Ok(files)
}

/// Where Markdown links to, without the part of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let (link, _) = rest.split_once(')')?;
        let link = link.split('#').next()?;
        (!link.is_empty() && !link.contains(':') && !link.contains(char::is_whitespace))
            .then_some(link)
    })
}

/// A path without `..`, if it stays in the repository.
fn within(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop().then_some(())?;
        } else if let Component::Normal(name) = part {
            plain.push(name);
        }
    }
    Some(plain)
}

/// Of all pages, what `href` and `src` name and is not there.
fn dead_links(site: &Path) -> Result<Vec<String>> {
    let mut dead = Vec::new();
    for page in pages(site)? {
        let html = fs::read_to_string(&page)?;
        let folder = page.parent().unwrap_or(site);
        for link in ["href=\"", "src=\""].iter().flat_map(|mark| html.split(mark).skip(1)) {
            let link = link.split('"').next().unwrap_or_default();
            let (path, part) = link.split_once('#').unwrap_or((link, ""));
            if path.contains(':') || path.starts_with('/') {
                continue;
            }
            let target = if path.is_empty() { page.clone() } else { folder.join(path) };
            let there = if !target.exists() {
                false
            } else if part.is_empty() || target.extension().is_none_or(|end| end != "html") {
                true
            } else {
                fs::read_to_string(&target)?.contains(&format!("id=\"{part}\""))
            };
            if !there {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    dead.sort_unstable();
    dead.dedup();
    Ok(dead)
}

fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                pages.push(path);
            }
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_in_the_summary() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let summary = at_the_root(&fs::read_to_string(root.join(SUMMARY)).unwrap());
        let listed: BTreeSet<&str> = links(&summary).collect();
        for entry in fs::read_dir(root.join("docs")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "md") && !path.ends_with(SUMMARY) {
                let listing = path.strip_prefix(root).unwrap().to_str().unwrap();
                assert!(listed.contains(listing), "{listing} is not listed");
            }
        }
        for file in listed {
            assert!(root.join(file).is_file(), "there is no {file}");
        }
    }

    #[test]
    fn links_are_found_and_followed_within_the_repository() {
        let text = "[a](b.md#c) and ![d](plots/e.svg), [f](https://example.org), [g](#h)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "plots/e.svg"]);
        assert_eq!(within(Path::new("docs/../deny.toml")), Some(PathBuf::from("deny.toml")));
        assert_eq!(within(Path::new("docs/../../etc/passwd")), None);
    }

    #[test]
    fn a_dead_link_is_named() {
        let site = tempfile::tempdir().unwrap();
        let page = |name: &str, text: &str| fs::write(site.path().join(name), text).unwrap();
        page("a.html", r#"<h1 id="top"></h1><a href="b.html"></a><a href="b.html#part"></a>"#);
        page("b.html", r##"<a href="a.html#top"></a><img src="gone.svg"><a href="#none">"##);
        let dead = dead_links(site.path()).unwrap();
        let ends: Vec<&str> = dead.iter().filter_map(|line| line.split(": ").nth(1)).collect();
        assert_eq!(ends, ["b.html#part", "#none", "gone.svg"]);
    }
}
