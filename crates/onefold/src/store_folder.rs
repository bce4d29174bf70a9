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
