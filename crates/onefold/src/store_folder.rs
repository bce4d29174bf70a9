//! Making the folder of a store: its owner's alone, or shared with one group.
//! Room: onefold.

use std::path::Path;

use onefold_block::{FileFolder, Group};

use crate::failure::{Failure, Result};

/// Make the folder, or take one that is there. An empty one is closed to everybody else; one that
/// holds something is left as it is, for whoever knows what belongs there.
pub fn make(path: &Path, group: Option<Group>) -> Result<FileFolder> {
    let refused = |error| Failure::nothing_done(format!("{error}"));
    let mut folder = FileFolder::create(path).map_err(refused)?;
    let empty = std::fs::read_dir(path)
        .map_err(|error| Failure::unusable("list", path, error))?
        .next()
        .is_none();
    if empty {
        folder.restrict(group).map_err(refused)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_new_folder_is_closed_to_others_and_one_that_holds_something_is_left_as_it_is() {
        let at = tempfile::tempdir().unwrap();
        let others = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o077;
        let (new, used) = (at.path().join("new"), at.path().join("used"));
        make(&new, None).unwrap();
        assert_eq!(others(&new), 0);
        std::fs::create_dir(&used).unwrap();
        std::fs::set_permissions(&used, Permissions::from_mode(0o755)).unwrap();
        std::fs::write(used.join("file"), "").unwrap();
        make(&used, None).unwrap();
        assert_eq!(others(&used), 0o055);
    }
}
