//! What a scan leaves out: paths that match patterns, and folders that are marked as caches.
//! Room: onefold-archive.

use std::ffi::{CStr, OsStr};
use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::ArchiveError;
use crate::tree::status::Status;
use crate::tree::walk::open_file;

/// The file that marks a folder as a cache, and what it begins with
/// (<https://bford.info/cachedir/>).
pub const CACHE_TAG: &CStr = c"CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Patterns: one without a `/` is matched with names, another with whole paths in the version. `*`,
/// `?` and `[a-z]` do not match a `/`, `**` does; `{a,b}` is either; `\` takes a special meaning
/// away.
#[derive(Clone, Debug, Default)]
pub struct Excludes {
    names: GlobSet,
    paths: GlobSet,
}

impl Excludes {
    /// From patterns; one that has no meaning is refused by name.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, ArchiveError> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let refused = |error: globset::Error| ArchiveError::Setting(format!("exclude: {error}"));
        for pattern in patterns {
            let is_path = pattern.contains('/');
            let trimmed = pattern.trim_matches('/');
            if trimmed.is_empty() {
                let problem = format!("exclude '{pattern}': expected a name or a path");
                return Err(ArchiveError::Setting(problem));
            }
            let glob = GlobBuilder::new(trimmed).literal_separator(true).build();
            let set = if is_path { &mut paths } else { &mut names };
            set.add(glob.map_err(refused)?);
        }
        Ok(Self { names: names.build().map_err(refused)?, paths: paths.build().map_err(refused)? })
    }

    /// Whether to leave out what has this path in the version, and what is in it.
    pub fn matches(&self, stored: &[u8], name: &[u8]) -> bool {
        let as_path = |bytes| Path::new(OsStr::from_bytes(bytes));
        self.names.is_match(as_path(name)) || self.paths.is_match(as_path(stored))
    }
}

/// The patterns of a file: one a line, without those that are empty or begin with `#`.
pub fn patterns_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Whether a program marked the open folder as its cache.
pub(super) fn is_cache(folder: BorrowedFd<'_>) -> bool {
    let mut start = [0; CACHE_SIGNATURE.len()];
    // Only what is a file is opened.
    let is_file = Status::of_name(folder, CACHE_TAG, false).is_ok_and(|tag| tag.kind.is_file());
    let mut read = || open_file(folder, CACHE_TAG)?.0.read_exact(&mut start);
    is_file && read().is_ok() && start == *CACHE_SIGNATURE
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::symlink;

    use rustix::fs::{FileType, Mode};

    use super::*;

    #[test]
    fn patterns_match_like_a_shell_does() {
        let cases: [(&str, &[u8], bool); 18] = [
            ("*.o", b"x/a.o", true),
            ("*.o", b"a.oo", false),
            ("a*b*c", b"aXbYbZc", true),
            ("a/*/c", b"a/b/c", true),
            ("a/*/c", b"a/b/d/c", false),
            ("a/**/c", b"a/b/d/c", true),
            ("**/cache", b"a/b/cache", true),
            ("??", b"ab", true),
            ("*", b"x", true),
            ("a**", b"a", true),
            ("target", b"a/b/target", true),
            ("/a/b", b"a/b", true),
            ("a/b/", b"a/b", true),
            ("a/b", b"c/a/b", false),
            ("*.{jpg,png}", b"x/y.png", true),
            ("v[0-9]", b"v7", true),
            ("\\*", b"a", false),
            ("x?", b"x\xff", true),
        ];
        for (pattern, path, expected) in cases {
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap();
            let found = Excludes::new([pattern]).unwrap().matches(path, name);
            assert_eq!(found, expected, "{pattern} {path:?}");
        }
        assert!(!Excludes::default().matches(b"a", b"a"));
        for bad in ["", "/", "a[", "{a"] {
            let error = Excludes::new([bad]).unwrap_err().to_string();
            assert!(error.starts_with("exclude"), "{bad}: {error}");
        }
        let text = "# what we do not need\n\n*.o\n a b\r\n";
        assert_eq!(patterns_of(text).collect::<Vec<_>>(), ["*.o", " a b"]);
    }

    #[test]
    fn a_mark_is_a_file_and_neither_a_link_nor_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let folder = File::open(dir.path()).unwrap();
        let tag = dir.path().join("CACHEDIR.TAG");
        assert!(!is_cache(folder.as_fd()));
        fs::write(&tag, CACHE_SIGNATURE).unwrap();
        assert!(is_cache(folder.as_fd()));
        fs::rename(&tag, dir.path().join("other")).unwrap();
        symlink("other", &tag).unwrap();
        assert!(!is_cache(folder.as_fd()));
        fs::remove_file(&tag).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(&folder, CACHE_TAG, FileType::Fifo, mode, 0).unwrap();
        assert!(!is_cache(folder.as_fd()));
        fs::remove_file(&tag).unwrap();
        fs::write(&tag, &CACHE_SIGNATURE[1..]).unwrap();
        assert!(!is_cache(folder.as_fd()));
    }
}
