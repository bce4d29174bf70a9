//! A store made to harm whoever restores it.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use onefold_archive::tree::restore::{RestoreOptions, restore};
use onefold_archive::{AddOptions, Archive, Kind};
use onefold_block::{Folder as _, SimFolder, SplitMix64};
use proptest::prelude::*;

use crate::support::{add, entry, names, new_archive, small, tree};

/// Restore an archive in which a link comes before files "in" it.
fn restore_through(link: &[u8], kind: Kind, overwrite: bool) -> (tempfile::TempDir, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let (_, mut archive) = new_archive(&small());
    let mut adder = archive.add(AddOptions::default()).unwrap();
    adder.entry(entry(link, kind)).unwrap();
    let inside = [link, b"/evil"].concat();
    adder.file(entry(&inside, Kind::File), false, &mut &b"evil"[..]).unwrap().unwrap();
    let inside = [link, b"/fifo"].concat();
    adder.entry(entry(&inside, Kind::Fifo)).unwrap();
    adder.commit().unwrap();
    let version = archive.version(None).unwrap();
    let target = dir.path().join("target");
    let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
    let report = restore(&archive, &version, &[], &target, &options, &mut |_| true).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "written outside of the target");
    let problems = report.problems.into_iter().map(|problem| problem.path).collect();
    (dir, problems)
}

#[test]
fn nothing_is_written_through_a_link_of_the_store() {
    for target in ["../outside", "/tmp", "/", ".."] {
        for overwrite in [false, true] {
            let kind = Kind::Symlink { target: target.into() };
            let (_, problems) = restore_through(b"link", kind, overwrite);
            assert_eq!(problems, ["link/evil", "link/fifo"], "through a link to {target}");
        }
    }
    let (_, problems) = restore_through(b"pipe", Kind::Fifo, false);
    assert_eq!(problems, ["pipe/evil", "pipe/fifo"]);
}

#[test]
fn nothing_is_written_through_a_link_in_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, target) = (dir.path().join("outside"), dir.path().join("target"));
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::create_dir_all(&target).unwrap();
    symlink("../outside", target.join("a")).unwrap();
    symlink("../outside/file", target.join("b")).unwrap();
    let (_, mut archive) = new_archive(&small());
    let tree = [
        (b"a".to_vec(), None),
        (b"a/x".to_vec(), Some(b"x".to_vec())),
        (b"b".to_vec(), Some(b"new".to_vec())),
    ]
    .into();
    add(&mut archive, &tree).unwrap();
    let version = archive.version(None).unwrap();
    let options = RestoreOptions { overwrite: true, ..RestoreOptions::default() };
    let report = restore(&archive, &version, &[], &target, &options, &mut |_| true).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
    assert_eq!(report.entries, 1, "only what was made is counted");
    assert_eq!(std::fs::read(target.join("b")).unwrap(), b"new", "the link was replaced");
}

#[test]
fn a_target_that_holds_something_is_refused_or_kept() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine"), "precious").unwrap();
    let (_, mut archive) = new_archive(&small());
    add(&mut archive, &[(b"theirs".to_vec(), Some(b"x".to_vec()))].into()).unwrap();
    let version = archive.version(None).unwrap();
    let mut options = RestoreOptions::default();
    let refused = restore(&archive, &version, &[], dir.path(), &options, &mut |_| true);
    assert!(refused.unwrap_err().to_string().contains("mine"));
    options.overwrite = true;
    restore(&archive, &version, &[], dir.path(), &options, &mut |_| true).unwrap();
    assert_eq!(std::fs::read(dir.path().join("mine")).unwrap(), b"precious");
    assert_eq!(std::fs::read(dir.path().join("theirs")).unwrap(), b"x");
}

/// Every file of a small archive, as bytes.
fn files(folder: &SimFolder) -> Vec<(Option<&'static str>, String)> {
    let mut files: Vec<_> = folder.list().unwrap().into_iter().map(|name| (None, name)).collect();
    for sub in ["versions", "containers"] {
        files.extend(names(folder, sub).into_iter().map(|name| (Some(sub), name)));
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Parsers see garbage and answer with errors: no panic, no endless work.
    #[test]
    fn garbage_in_any_file_is_an_error(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        garbage in prop::collection::vec(any::<u8>(), 1..80),
        cut in any::<bool>(),
    ) {
        let (folder, mut archive) = new_archive(&small());
        add(&mut archive, &tree(&mut SplitMix64::new(1), 4, 9000)).unwrap();
        let files = files(&folder);
        let (sub, name) = &files[pick.index(files.len())];
        let holder = match sub {
            Some(sub) => folder.subfolder(sub).unwrap(),
            None => Arc::new(folder.clone()),
        };
        let file = holder.open(name).unwrap();
        let at = at.index(file.len().unwrap() as usize) as u64;
        file.write(at, &garbage).unwrap();
        if cut {
            file.set_len(at + garbage.len() as u64).unwrap();
        }
        if let Ok(archive) = Archive::open(Arc::new(folder.clone())) {
            let _ = archive.verify(&mut |_, _| true);
            let _ = crate::support::read(&archive, 1);
        }
        if let Ok(mut archive) = Archive::open(Arc::new(folder)) {
            let _ = add(&mut archive, &tree(&mut SplitMix64::new(1), 4, 9000));
        }
    }
}
