//! The specification in a drive's folder, and what the FTL makes of it.
//! Room: onefold-flash.   In: a folder.   Out: a checked specification.

use onefold_block::{Folder, MediaError, small_file};

use super::error::DriveError;
use super::files::{MAKING_FILE, NAND_FILE, SPEC_FILE};
use crate::dedup::NoDedup;
use crate::ftl::{Durability, Ftl, FtlSettings};
use crate::nand::bytes::FileStore;
use crate::nand::{ByteNand, IdentityNand, WearModel};
use crate::spec::{DriveSpec, PRESET_NAMES, SpecBuilder};

/// The longest specification that is read, in bytes; one with every comment has some 10 KiB.
const SPEC_BYTES_MAX: u64 = 1 << 20;

/// Whether a folder holds a drive that was made to the end: the specification is made last.
pub fn exists(folder: &dyn Folder) -> bool {
    folder.open(SPEC_FILE).is_ok()
}

/// The specification of the drive in a folder.
///
/// # Errors
/// [`DriveError::NoDrive`], [`DriveError::Spec`], [`DriveError::Media`].
pub fn read_spec(folder: &dyn Folder) -> Result<DriveSpec, DriveError> {
    let text = spec_text(folder)?;
    let read = SpecBuilder::preset(PRESET_NAMES[0])
        .and_then(|builder| builder.file(SPEC_FILE, &text))
        .and_then(SpecBuilder::build);
    read.map_err(|error| DriveError::Spec(error.to_string()))
}

/// Where in the NAND file of a drive that was made, and has lost its specification, the one lies
/// that it was made with: the first byte, and how many.
pub fn spec_in_nand(folder: &dyn Folder) -> Option<(u64, u64)> {
    let unmade = folder.open(MAKING_FILE).is_ok();
    if unmade || exists(folder) {
        return None;
    }
    let nand = FileStore::describe(&*folder.open(NAND_FILE).ok()?).ok()?;
    (!nand.spec.is_empty()).then(|| (nand.spec_at(), nand.spec.len() as u64))
}

/// The text of a drive's specification.
pub(super) fn spec_text(folder: &dyn Folder) -> Result<String, DriveError> {
    let text = match small_file::read(folder, SPEC_FILE, SPEC_BYTES_MAX) {
        Err(MediaError::NotFound { .. }) => return Err(DriveError::NoDrive),
        text => text?,
    };
    String::from_utf8(text).map_err(|error| DriveError::Spec(error.to_string()))
}

/// Refuses, before anything is made or changed, what could not be opened.
pub(super) fn check_settings(spec: &DriveSpec) -> Result<(), DriveError> {
    spec.bytes_policy()?;
    ByteNand::in_memory(spec.geometry, &spec.channel()?, WearModel::none())?;
    Ftl::format(IdentityNand::new(spec.geometry), NoDedup, settings(spec))?;
    Ok(())
}

/// The FTL's settings. A process that is killed has no capacitor: what the specification counts
/// as protected is written to the journal here, when the host asks for it.
pub(super) fn settings(spec: &DriveSpec) -> FtlSettings {
    let settings = spec.ftl_settings();
    let durability = match settings.durability {
        Durability::Protected => Durability::Journal,
        other => other,
    };
    FtlSettings { durability, packing_survives: false, ..settings }
}
