//! The inputs that are kept: what a target's inputs look like, and every one that once broke it.
//! Room: onefold-fuzz.

use std::path::{Path, PathBuf};

/// The folder of a target's kept inputs.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

/// The kept inputs of a target with their names, in order.
pub fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder(target)).into_iter().flatten();
    let file = |entry: std::fs::DirEntry| {
        let bytes = std::fs::read(entry.path()).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), bytes))
    };
    let mut all: Vec<_> = entries.filter_map(Result::ok).filter_map(file).collect();
    all.sort();
    all
}
