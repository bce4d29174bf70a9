//! Making a drive in a folder, and ending a making that was cut short.
//! Room: onefold-flash.   In: a specification.   Out: the files of an empty drive.
//! Invariants: a folder is a drive once its specification is there, which is made last; no name of
//! a drive that is open is in doubt.

use std::hash::{BuildHasher as _, Hasher as _};

use onefold_block::{Folder, GENERATION_FILE, GenerationFile, is_of_a_lock, small_file};

use super::error::DriveError;
use super::files::{COPIES_FILE, MAKING_FILE, NAND_FILE, SPEC_FILE};
use super::health::{FILES, SavedHealth};
use super::stored_spec::{check_settings, settings, spec_text};
use crate::ftl::Ftl;
use crate::nand::Nand as _;
use crate::nand::bytes::{ByteNand, CopyFile, Description, FileStore};
use crate::spec::DriveSpec;

/// What is made before the specification.
const FILES_MADE: [&str; 5] = [NAND_FILE, COPIES_FILE, FILES[0], FILES[1], GENERATION_FILE];

/// Makes a new, empty drive in a folder that is empty, or that a making left half-way.
///
/// # Errors
/// [`DriveError::NotEmpty`], and whatever the parts refuse.
pub fn create(folder: &dyn Folder, spec: &DriveSpec) -> Result<(), DriveError> {
    let names = folder.list()?;
    let begun = names.iter().any(|name| name == MAKING_FILE);
    let base = |name: &str| name.strip_suffix(small_file::UNFINISHED).unwrap_or(name).to_owned();
    let may_be = |name: &str| match &*base(name) {
        MAKING_FILE => true,
        // With it, it would be a drive.
        SPEC_FILE => begun && name != SPEC_FILE,
        ours => is_of_a_lock(ours) || begun && FILES_MADE.contains(&ours),
    };
    if let Some(other) = names.iter().find(|name| !may_be(name)) {
        return Err(DriveError::NotEmpty(other.clone()));
    }
    let channel = spec.channel()?;
    check_settings(spec)?;
    small_file::replace(folder, MAKING_FILE, &[])?;
    // Names whose sync failed may go with the power, however often they are synced after that.
    for name in names.iter().filter(|name| FILES_MADE.contains(&name.as_str())) {
        folder.remove(name)?;
    }
    let text = spec.to_commented_toml();
    let description =
        Description { id: new_id(), ..Description::new(spec.geometry, &channel, &text) };
    let copies = CopyFile::create(folder.create(COPIES_FILE)?, &description)?;
    let store = FileStore::create(folder.create(NAND_FILE)?, &description)?.with_copies(copies);
    let nand = ByteNand::create(store, spec.geometry, &channel, spec.wear_model())?;
    let mut nand = nand.with_engine(spec.engine(), spec.ftl.subpages);
    nand.sync().map_err(crate::FtlError::from)?;
    let mut ftl = Ftl::format(nand, spec.bytes_policy()?, settings(spec))?;
    ftl.flush(&mut crate::Untimed)?;
    ftl.nand().sync_copies().map_err(crate::FtlError::from)?;
    let mut saved = SavedHealth { clean: true, ..SavedHealth::default() };
    for _ in FILES {
        saved.save(folder)?;
    }
    GenerationFile::create(folder, description.id)?;
    small_file::replace(folder, SPEC_FILE, text.as_bytes())?;
    folder.remove(MAKING_FILE)?;
    folder.sync_names()?;
    Ok(())
}

/// Ends a making that came to the specification and not to its end: whether that will stay is in
/// doubt.
pub(super) fn end_making(folder: &dyn Folder) -> Result<(), DriveError> {
    if folder.list()?.iter().any(|name| name == MAKING_FILE) {
        let text = spec_text(folder)?;
        small_file::replace(folder, SPEC_FILE, text.as_bytes())?;
        folder.remove(MAKING_FILE)?;
        folder.sync_names()?;
    }
    Ok(())
}

/// A number that no other drive has. Only that matters of it: nothing else depends on it.
#[expect(clippy::disallowed_types, reason = "no decision of the drive depends on its identity")]
fn new_id() -> [u8; 16] {
    // Every one of these is keyed anew from the system's random numbers.
    let half = || std::hash::RandomState::new().build_hasher().finish().to_le_bytes();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half());
    id[8..].copy_from_slice(&half());
    id
}

#[cfg(test)]
mod tests {
    use super::new_id;

    #[test]
    fn all_of_an_identity_is_drawn() {
        let [one, other] = [new_id(), new_id()];
        for half in [0..8, 8..16] {
            assert!(one[half.clone()] != other[half.clone()] && one[half] != [0; 8]);
        }
    }
}
