//! What a file remembers of its length, what is at hand, and files of others.
//! Room: onefold-block.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn made() -> (tempfile::TempDir, FileMedia) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    (dir, FileMedia::new(file, path, false))
}

#[test]
fn a_length_is_made_durable_if_it_changed_or_if_that_failed_before() {
    let (_dir, media) = made();
    let changed = || media.length_changed.load(Ordering::Acquire);
    media.write(0, &[1; 100]).unwrap();
    assert!(changed(), "it grew");
    media.sync().unwrap();
    assert!(!changed(), "it is durable");
    media.write(50, &[2; 50]).unwrap();
    assert!(!changed(), "within");
    media.write(50, &[2; 51]).unwrap();
    assert!(changed(), "by one byte");
    media.sync().unwrap();
    media.set_len(7).unwrap();
    assert!(changed(), "it was cut");
    // The endless zeroes of the system are never durable.
    let Ok(file) = File::open("/dev/zero") else { return };
    let zeroes = FileMedia::new(file, "/dev/zero".into(), false);
    if zeroes.sync().is_err() {
        assert!(zeroes.length_changed.load(Ordering::Acquire));
    }
}

#[test]
fn what_is_in_memory_is_at_hand_and_what_is_not_there_never_is() {
    let (_dir, media) = made();
    media.write(0, b"some bytes").unwrap();
    let mut known = [0; 5];
    let buffers = &mut [IoSliceMut::new(&mut known)];
    let can = preadv2(&media.file, buffers, 5, ReadWriteFlags::NOWAIT) == Ok(5);
    let mut found = [0; 5];
    assert_eq!(media.read_at_hand(5, &mut found), can);
    assert!(!can || &found == b"bytes");
    assert!(!media.read_at_hand(6, &mut found), "a byte more than there are");
}

#[test]
fn a_file_that_may_only_be_read_is_read() {
    let (dir, media) = made();
    media.write(0, b"theirs").unwrap();
    media.file.set_permissions(Permissions::from_mode(0o400)).unwrap();
    let folder = FileFolder::open(dir.path()).unwrap();
    let file = Folder::open(&folder, "file").unwrap();
    let mut found = [0; 6];
    file.read(0, &mut found).unwrap();
    assert_eq!(&found, b"theirs");
    // Root may write it all the same.
    assert_eq!(file.write(0, b"x").is_ok(), rustix::process::geteuid().is_root());
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
        assert!(refuses_writing(&kind.into()), "{kind}");
    }
    assert!(!refuses_writing(&io::ErrorKind::NotFound.into()));
}

#[test]
fn a_folder_that_is_open_is_followed_and_what_takes_its_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let folder = FileFolder::create(&here).unwrap();
    let inner = folder.subfolder("inner").unwrap();
    let write = |folder: &dyn Folder, name: &str, text: &[u8]| {
        folder.create(name).unwrap().write(0, text).unwrap();
    };
    write(&folder, "known", b"mine");
    fs::rename(&here, &there).unwrap();
    // Somebody else's, with the same names in it.
    let other = FileFolder::create(&here).unwrap();
    let foreign = other.subfolder("inner").unwrap();
    for folder in [&other as &dyn Folder, &*foreign] {
        write(folder, "known", b"theirs");
    }

    write(&folder, "made", b"mine");
    write(&*inner, "known", b"mine");
    folder.subfolder("late").unwrap();
    write(&*folder.existing_subfolder("late").unwrap(), "file", b"mine");
    folder.remove_subfolder("late").unwrap_err();
    assert_eq!(folder.list().unwrap(), ["known", "made"]);
    let mut found = [0; 4];
    Folder::open(&folder, "known").unwrap().read(0, &mut found).unwrap();
    assert_eq!(&found, b"mine");
    folder.rename("made", "renamed").unwrap();
    folder.remove("known").unwrap();
    assert_eq!(fs::read(there.join("inner/known")).unwrap(), b"mine");
    assert_eq!(fs::read(there.join("renamed")).unwrap(), b"mine");
    assert_eq!(fs::read(there.join("late/file")).unwrap(), b"mine");
    for name in ["known", "inner/known"] {
        assert_eq!(fs::read(here.join(name)).unwrap(), b"theirs", "{name}");
    }
    assert_eq!(other.list().unwrap(), ["known"]);

    // One that was removed takes nothing more, wherever another one is now.
    drop(inner);
    fs::remove_dir_all(&there).unwrap();
    for error in [folder.create("new").err().unwrap(), folder.subfolder("new").err().unwrap()] {
        assert!(matches!(error, MediaError::NotFound { .. }), "{error}");
    }
    assert_eq!(other.list().unwrap(), ["known"]);
}
