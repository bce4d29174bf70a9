//! Texts that tests hold word for word.
//! Room: onefold-block.

use std::path::Path;

/// Compare with a file beside the tests, which is written anew first with `write`: where
/// `ONEFOLD_UPDATE=1` says so to a test.
///
/// # Panics
/// At the first line that differs, with its number, and if the file cannot be read or written.
#[track_caller]
pub fn assert_text(path: &Path, now: &str, write: bool) {
    if write {
        std::fs::write(path, now).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let before = std::fs::read_to_string(path);
    let before = before.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (number, (now, before)) in (1..).zip(now.lines().zip(before.lines())) {
        assert_eq!(now, before, "line {number} of {}", path.display());
    }
    assert_eq!(now.lines().count(), before.lines().count(), "lines of {}", path.display());
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_line_that_differs_is_lacking_or_too_many_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let fits = |now: &'static str| catch_unwind(|| assert_text(&path, now, false)).is_ok();
        assert!(!fits(""), "there is no file");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let fit = ["one\ntwo\n", "one\n2\n", "one\n", "one\ntwo\nthree\n"].map(fits);
        assert_eq!(fit, [true, false, false, false]);
        assert_text(&path, "another\n", true);
        assert_text(&path, "another\n", false);
    }
}
