//! Inputs that are unusual, missing or in the way.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use onefold_estimate::{EstimateError, Options, ProblemKind, Progress, scan};
use rustix::fs::{Mode, OFlags};

use crate::tree::{Tree, noise, options, report};

#[test]
fn nothing_in_nothing_out() {
    let tree = Tree::new();
    let empty = report(&[&tree.path()], &options());
    assert_eq!((empty.input.files, empty.input.bytes, empty.input.folders), (0, 0, 1));
    assert_eq!(empty.answer.line, "dedup 1.00x  compress 1.00x  total 1.00x (0.0 % saved)");
    assert!(empty.is_clean() && !empty.to_json().is_empty() && !empty.to_text(5).is_empty());
    tree.file("empty", b"");
    let one = report(&[&tree.path()], &options());
    assert_eq!((one.input.files, one.input.bytes), (1, 0));
    assert_eq!(one.by_extension[0].files, 1);
    let error = scan(&[], &options(), &Progress::new()).unwrap_err();
    assert!(matches!(error, EstimateError::NoInput));
    let error = scan(&[tree.at("none")], &options(), &Progress::new()).unwrap_err();
    assert!(error.to_string().contains("none: No such file"), "{error}");
}

#[test]
fn files_of_one_byte_count_one_byte() {
    let tree = Tree::new();
    for i in 0..100_u8 {
        tree.file(&format!("{i:03}"), &[i % 4]);
    }
    let report = report(&[&tree.path()], &options());
    for row in &report.chunk_sizes {
        assert_eq!((row.chunks, row.unique_chunks, row.unique_bytes), (100, 3, 3));
        assert_eq!((row.zero_chunks, row.zero_bytes, row.duplicate_bytes), (25, 25, 72));
    }
}

#[test]
fn padding_that_outweighs_is_said_so() {
    let tree = Tree::new();
    for i in 0..10 {
        tree.file(&i.to_string(), &noise(i, 100));
    }
    let report = report(&[&tree.path()], &options());
    assert!(report.answer.saved_fraction < 0.0);
    assert!(report.answer.line.contains("% more than now)"), "{}", report.answer.line);
}

#[test]
fn all_zeroes_need_nothing() {
    let tree = Tree::new();
    tree.file("zeroes", &vec![0; 1 << 20]);
    let report = report(&[&tree.path()], &options());
    assert_eq!((report.answer.dedup_ratio, report.answer.saved_fraction), (None, 1.0));
    assert_eq!(report.answer.line, "dedup all  compress 1.00x  total all (100.0 % saved)");
    assert_eq!(report.compression[0].metadata_bytes, 0);
}

#[test]
fn holes_are_zeroes_that_need_no_reading() {
    let data = noise(1, 100_000);
    let len = 3 << 30;
    let sparse = Tree::new();
    let at = (1 << 30) + 12_345;
    sparse.sparse("image", len, &[(0, &data), (at, &data), (len - 5000, &data[..5000])]);
    let result = report(&[&sparse.path()], &options());
    assert_eq!(result.input.bytes, len);
    for row in &result.chunk_sizes {
        let total = row.zero_bytes + row.unique_bytes + row.duplicate_bytes;
        assert_eq!(total, len, "{}", row.method);
        assert!(row.unique_bytes <= 3 * (128 << 10) + 100_000);
    }
    // The same bytes without holes give the same numbers, chunk by chunk.
    let (small, dense) = (Tree::new(), Tree::new());
    let cut = 3 << 20;
    let path = small.sparse("image", cut, &[(0, &data), (1_234_567, &data), (cut - 7, &data[..7])]);
    dense.file("image", &fs::read(path).expect("the test set it up"));
    let (small, dense) =
        (report(&[&small.path()], &options()), report(&[&dense.path()], &options()));
    assert_eq!(small.chunk_sizes, dense.chunk_sizes);
    assert_eq!(small.compression, dense.compression);
    assert_eq!(dense.input.hole_bytes, 0);
}

#[test]
fn links_and_special_files_are_counted_and_named() {
    let tree = Tree::new();
    let data = noise(1, 10_000);
    let file = tree.file("a/file", &data);
    fs::hard_link(&file, tree.at("a/hard")).expect("the test set it up");
    fs::hard_link(&file, tree.at("z")).expect("the test set it up");
    symlink(&file, tree.at("soft")).expect("the test set it up");
    symlink(tree.path(), tree.at("loop")).expect("the test set it up");
    symlink("nowhere", tree.at("dangling")).expect("the test set it up");
    let folder = rustix::fs::open(tree.path(), OFlags::DIRECTORY, Mode::empty())
        .expect("the test set it up");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(&folder, "pipe", kind, Mode::RUSR | Mode::WUSR, 0)
        .expect("the test set it up");
    let report = report(&[&tree.path()], &options());
    let input = &report.input;
    assert_eq!((input.files, input.bytes, input.symlinks), (1, 10_000, 3));
    assert_eq!((input.hard_links, input.hard_link_bytes), (2, 20_000));
    assert_eq!(report.problems.special_files, 1);
    let named = &report.problems.named[0];
    assert_eq!((named.kind, named.reason.as_str()), (ProblemKind::Special, "pipe"));
    assert!(named.path.ends_with("/pipe"));
    assert!(report.is_clean(), "special files are no failure");
    // An input that is a symbolic link is followed.
    let linked = crate::tree::report(&[&tree.at("soft")], &options());
    assert_eq!((linked.input.files, linked.input.bytes), (1, 10_000));
}

/// A path longer than the system takes cannot be opened, not even by a superuser.
#[test]
fn what_cannot_be_reached_is_counted_named_and_skipped() {
    let tree = Tree::new();
    tree.file("good", &noise(1, 5000));
    let name = "d".repeat(250);
    let open = |at: BorrowedFd<'_>, name: &str| {
        rustix::fs::openat(at, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .expect("the test set it up")
    };
    let mut folder = open(rustix::fs::CWD, tree.path().to_str().expect("the test set it up"));
    for _ in 0..17 {
        rustix::fs::mkdirat(&folder, &name, Mode::RWXU).expect("the test set it up");
        let next = open(folder.as_fd(), &name);
        folder = next;
    }
    let report = report(&[&tree.path()], &options());
    assert_eq!(report.input.bytes, 5000);
    let p = &report.problems;
    assert_eq!(p.unreadable_files + p.unreadable_folders, 1);
    assert!(p.named[0].reason.contains("too long"), "{:?}", p.named[0]);
    assert!(report.complete && !report.is_clean());
    let text = report.to_text(5);
    assert!(text.contains("skipped: 1 unreadable f"), "{text}");
}

#[test]
fn a_file_without_permission_is_named() {
    let tree = Tree::new();
    let path = tree.file("secret.key", &noise(1, 5000));
    tree.file("open.txt", &noise(2, 3000));
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o0))
        .expect("the test set it up");
    let report = report(&[&tree.path()], &options());
    if fs::File::open(&path).is_ok() {
        // A superuser reads everything.
        assert_eq!(report.input.bytes, 8000);
        return;
    }
    assert_eq!((report.input.bytes, report.input.files), (3000, 2));
    assert_eq!((report.problems.unreadable_files, report.problems.unread_bytes), (1, 5000));
    assert!(!report.is_clean());
}

#[test]
fn overlapping_inputs_are_counted_once_and_order_is_kept() {
    let tree = Tree::new();
    tree.file("a/x", &noise(1, 5000));
    let inside: PathBuf = tree.at("a");
    let report = report(&[&tree.path(), &inside], &options());
    assert_eq!(report.input.bytes, 5000);
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].contains("counted once"));
}

#[test]
fn names_that_are_no_text_do_not_disturb() {
    use std::os::unix::ffi::OsStrExt;
    let tree = Tree::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xE9.\xFF");
    fs::write(tree.path().join(name), noise(1, 5000)).expect("the test set it up");
    fs::write(tree.at("new\nline\x1b[31m.txt"), noise(1, 5000)).expect("the test set it up");
    let report = report(&[&tree.path()], &options());
    assert_eq!((report.input.files, report.answer.dedup_ratio), (2, Some(2.0)));
    let text = report.to_text(5);
    assert!(!text.contains('\x1b'), "control characters must not reach a terminal");
}

#[test]
fn memory_that_is_too_little_is_refused_by_name() {
    let tree = Tree::new();
    let options = Options { memory_bytes: 100_000, ..options() };
    let error = scan(&[tree.path()], &options, &Progress::new()).unwrap_err();
    assert!(matches!(error, EstimateError::Memory { .. }), "{error}");
    let EstimateError::Memory { need, .. } = error else { return };
    let options = Options { memory_bytes: need.bytes(), ..options };
    assert!(scan(&[tree.path()], &options, &Progress::new()).is_ok());
}
