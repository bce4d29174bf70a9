//! Who may use a store: its owner, or its owner and one group.
//! Room: onefold-block.
//! A store's folder says it by its mode: one that was shared has the set-group-ID bit, so that all
//! that is made in it belongs to the group, and what the group may do with the folder it may do
//! with the files. Any other folder is its owner's alone. Nobody else is ever let in.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rustix::fs::fchown;
use rustix::process::Gid;

const SET_GROUP_ID: u32 = 0o2000;
const GROUP_BITS: u32 = 0o070;
const OTHER_BITS: u32 = 0o007;
/// The bits that say who may do what, without those of special meaning.
const PERMISSION_BITS: u32 = 0o777;

/// A group of the system, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub u32);

/// Who may use what is made in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The owner.
    Owner,
    /// The owner, and the folder's group as far as these bits of the folder's mode say.
    Group(u32),
}

impl Access {
    /// The mode of a file that is its owner's alone.
    pub(crate) const OWNER_FILE_MODE: u32 = 0o600;
    /// The mode of a folder that is its owner's alone.
    pub(crate) const OWNER_FOLDER_MODE: u32 = 0o700;

    /// What a folder says.
    pub(crate) fn of(folder: &Metadata) -> Self {
        let bits = folder.mode() & GROUP_BITS;
        if folder.mode() & SET_GROUP_ID != 0 && bits != 0 && folder.mode() & OTHER_BITS == 0 {
            Self::Group(bits)
        } else {
            Self::Owner
        }
    }

    /// Whether only these may open the folder.
    pub(crate) fn is_private(folder: &Metadata) -> bool {
        folder.mode() & (GROUP_BITS | OTHER_BITS) == 0 || Self::of(folder) != Self::Owner
    }

    const fn file_mode(self) -> u32 {
        match self {
            Self::Owner => Self::OWNER_FILE_MODE,
            // Files are not run.
            Self::Group(bits) => Self::OWNER_FILE_MODE | bits & 0o060,
        }
    }

    const fn folder_mode(self) -> u32 {
        match self {
            Self::Owner => Self::OWNER_FOLDER_MODE,
            Self::Group(bits) => SET_GROUP_ID | Self::OWNER_FOLDER_MODE | bits,
        }
    }

    /// Give a file this access, unless it has it. One that a member of the group emptied keeps the
    /// access that its owner gave it.
    pub(crate) fn set_file(self, file: &File) -> io::Result<()> {
        let metadata = file.metadata()?;
        if metadata.mode() & PERMISSION_BITS == self.file_mode() {
            return Ok(());
        }
        match set_mode(file, self.file_mode()) {
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && metadata.mode() & OTHER_BITS == 0 =>
            {
                Ok(())
            }
            result => result,
        }
    }

    /// Give a folder this access.
    pub(crate) fn set_folder(self, folder: &File) -> io::Result<()> {
        set_mode(folder, self.folder_mode())
    }

    /// Share a folder with `group`, or let nobody but these in; what is to hold from now on.
    pub(crate) fn give(self, folder: &File, group: Option<Group>) -> io::Result<Self> {
        let access = match group {
            None => self,
            Some(group) => {
                fchown(folder, None, Some(Gid::from_raw(group.0)))?;
                Self::Group(GROUP_BITS)
            }
        };
        access.set_folder(folder)?;
        Ok(access)
    }
}

/// Set who may do what. Where the file system keeps no such thing, as FAT and exFAT, all stays as
/// it was mounted: whose files these are may say so, and is refused all the same.
///
/// # Errors
/// Whatever else the system refuses, as for somebody else's file.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    match file.set_permissions(Permissions::from_mode(mode)) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let me = rustix::process::geteuid();
            let may = me.is_root() || file.metadata()?.uid() == me.as_raw();
            if may { Ok(()) } else { Err(error) }
        }
        result => result,
    }
}
