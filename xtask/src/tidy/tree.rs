//! The files of the repository: what git keeps or would keep.
//! Room: xtask.

use anyhow::{Context, Result};

/// Largest file in the repository, in bytes: a clone stays small for ever.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// One file.
pub struct File {
    /// Its path from the root, with `/`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// What is in it, if that is text.
    pub text: Option<String>,
}

/// All files, by path.
pub struct Tree {
    /// In order of their paths.
    pub files: Vec<File>,
}

impl Tree {
    /// What is in the repository, ignored files aside.
    pub fn of_workspace() -> Result<Self> {
        let root = crate::root()?;
        let paths = crate::files::paths(&root)?;
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let at = root.join(&path);
            let bytes = std::fs::metadata(&at).with_context(|| path.clone())?.len();
            let text = if bytes <= FILE_BYTES_MAX {
                String::from_utf8(std::fs::read(at).with_context(|| path.clone())?).ok()
            } else {
                None
            };
            files.push(File { path, bytes, text });
        }
        Ok(Self { files })
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// A tree that a test makes up.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.to_owned(),
            bytes: text.len() as u64,
            text: Some(text.to_owned()),
        };
        Self { files: files.iter().map(file).collect() }
    }
}

fn extension(path: &str) -> Option<&str> {
    std::path::Path::new(path).extension()?.to_str()
}

/// Whether a file holds Rust.
pub fn is_rust(path: &str) -> bool {
    extension(path) == Some("rs")
}

/// Whether a person writes this file: locks and recorded cases come from tools.
pub fn is_written_here(path: &str) -> bool {
    extension(path) != Some("lock") && !path.contains("proptest-regressions/")
}

/// Whether a Rust file holds tests, benches or examples only.
pub fn is_test(path: &str) -> bool {
    let folders = ["tests/", "benches/", "examples/"];
    folders.iter().any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")))
        || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files_are_told_by_their_paths() {
        assert!(is_test("crates/a/tests/it/x.rs") && is_test("crates/a/src/map/tests.rs"));
        assert!(!is_test("crates/a/src/contests.rs"));
        assert!(is_rust("a/b.rs") && !is_rust("a/b.rst"));
        assert!(!is_written_here("Cargo.lock") && is_written_here("Cargo.toml"));
    }

    #[test]
    fn this_file_is_in_the_tree() {
        let tree = Tree::of_workspace().unwrap();
        assert!(tree.files.iter().any(|file| file.path == "xtask/src/tidy/tree.rs"));
        assert!(tree.files.iter().all(|file| !file.path.starts_with("target/")));
    }
}
