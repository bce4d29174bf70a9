//! Making names again that an earlier attempt may have made.
//! Room: onefold-block.
//! A name whose folder could not be synced once may go with the power however often it is synced
//! after that. So who makes something again where a making failed keeps no name of the first one.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::media::{Folder, MediaError};

/// Remove the media of these names that are there.
///
/// # Errors
/// Whatever the folder refuses.
pub fn remove_left_over<'a>(
    folder: &dyn Folder,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), MediaError> {
    let there = folder.list()?;
    let left_over = |name: &&str| there.iter().any(|found| found == name);
    names.into_iter().filter(left_over).try_for_each(|name| folder.remove(name))
}

/// An empty subfolder that is new. One that cannot be removed stays: another disk is mounted there,
/// it is a link to another place, or it has folders inside. A failed making left none of these.
///
/// # Errors
/// Whatever the folder refuses. Media inside stay, and so does the subfolder then: whether there
/// are any is for the caller to look at.
pub fn subfolder(folder: &dyn Folder, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
    match folder.remove_subfolder(name) {
        Ok(()) | Err(MediaError::NotFound { .. }) => {}
        Err(MediaError::Io { source, .. }) if is_anothers(source.kind()) => {}
        Err(error) => return Err(error),
    }
    folder.subfolder(name)
}

fn is_anothers(kind: ErrorKind) -> bool {
    use ErrorKind::{DirectoryNotEmpty, NotADirectory, ResourceBusy};
    matches!(kind, ResourceBusy | NotADirectory | DirectoryNotEmpty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrashMode, FaultKind, FileFolder, OpKind, SimFolder};

    #[test]
    fn what_was_in_doubt_is_made_again_and_stays() {
        let folder = SimFolder::new();
        let make = |folder: &SimFolder| {
            remove_left_over(folder, ["a", "b"])?;
            subfolder(folder, "inner")?;
            folder.create("b")?;
            folder.sync_names()
        };
        folder.create("other").unwrap();
        folder.fail_once(&[OpKind::SyncNames], 1, FaultKind::Eio);
        make(&folder).unwrap_err();
        make(&folder).unwrap();
        let left = folder.after_crash(1, CrashMode::KeepNothing);
        assert_eq!(left.list().unwrap(), ["b"]);
        left.existing_subfolder("inner").unwrap();
        // Errors are told, each at its place.
        for nth in 1..=2 {
            folder.fail_once(&[OpKind::Remove], nth, FaultKind::Eio);
            let error = make(&folder).unwrap_err().to_string();
            assert!(error.contains(["b", "inner"][nth as usize - 1]), "{error}");
        }
        make(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_go_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let folder = FileFolder::open(place.path()).unwrap();
        let elsewhere = place.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, place.path().join("link")).unwrap();
        subfolder(&folder, "link").unwrap().create("x").unwrap();
        assert!(elsewhere.join("x").exists());
        folder.subfolder("kept").unwrap().subfolder("lost+found").unwrap();
        subfolder(&folder, "kept").unwrap();
        assert!(place.path().join("kept/lost+found").exists());
        folder.create("file").unwrap();
        assert!(subfolder(&folder, "file").is_err());
    }
}
