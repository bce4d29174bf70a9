//! What is different on btrfs, which copies what is overwritten.
//! Room: onefold-block.
//! 1. Space that was set aside for a file does not cover what is written over: each overwrite takes
//!    new space, and on a full disk a flush would fail whose writes were answered. So files that
//!    are overwritten are made without copying, as `chattr +C` does it; libvirt's disks and
//!    journald's logs are made so, too.
//! 2. What a removed file took counts as free only after the next transaction, though it can be had
//!    before.
//! 3. What was reserved or written together is an extent, and none of it is given back as long as
//!    any of it is in use: a hole in its middle gives nothing.
//!
//! Source: btrfs(5), "nodatacow" and "Bookend extents"; `FS_NOCOW_FL` in `ioctl_iflags`(2).

use std::fs::File;

use rustix::fs::{IFlags, fstatfs, ioctl_getflags, ioctl_setflags};

/// What `statfs` calls btrfs.
const BTRFS_SUPER_MAGIC: u64 = 0x9123_683E;

/// Whether a file or folder is on btrfs.
pub fn is_btrfs(file: &File) -> bool {
    // The type of the number differs between machines, and so does its sign.
    fstatfs(file).is_ok_and(|system| system.f_type as u64 & 0xFFFF_FFFF == BTRFS_SUPER_MAGIC)
}

/// Have what is made in a folder from now on be overwritten where it lies. Where that cannot be
/// said, all stays as it is: what is stored is as safe, but for a flush on a full disk.
pub fn overwrite_in_place(directory: &File) {
    if !is_btrfs(directory) {
        return;
    }
    let _ = ioctl_getflags(directory)
        .and_then(|flags| ioctl_setflags(directory, flags | IFlags::NOCOW));
}
