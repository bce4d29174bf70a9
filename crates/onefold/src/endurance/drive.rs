//! The drive beneath a folder.
//! Room: onefold.
//! Source: Linux, Documentation/ABI/testing/sysfs-block: a partition lies in the folder of its
//! disk, and `slaves` names what a device of the device mapper or of md is made of.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Devices that may lie on one another.
const DEPTH: usize = 16;
/// What to do where the drive cannot be found.
const HINT: &str = "name it, as in smart:/dev/sda, or the bytes (TBW) of its data sheet";

/// The one drive that `folder` lies on, by the kernel's list of devices in `sys`.
pub fn beneath(folder: &Path, sys: &Path) -> Result<PathBuf, String> {
    let at = folder.display();
    let metadata =
        fs::metadata(folder).map_err(|error| format!("cannot look at '{at}': {error}"))?;
    let device = metadata.dev();
    let (major, minor) = (major(device), minor(device));
    let link = sys.join("dev/block").join(format!("{major}:{minor}"));
    let Ok(found) = link.canonicalize() else {
        return Err(format!(
            "'{at}' lies on a file system that is on no one drive (device {major}:{minor}), such \
             as btrfs, overlay, tmpfs or a network's; {HINT}"
        ));
    };
    let mut drives = BTreeSet::new();
    find(&found, DEPTH, &mut drives)?;
    let drives: Vec<String> = drives.into_iter().collect();
    match &drives[..] {
        [drive] => Ok(PathBuf::from(drive)),
        _ => Err(format!("'{at}' lies on several drives: {}; {HINT}", drives.join(", "))),
    }
}

/// Add the drives that the device in a folder of `/sys` lies on.
fn find(device: &Path, depth: usize, drives: &mut BTreeSet<String>) -> Result<(), String> {
    let whole = match device.parent() {
        Some(disk) if device.join("partition").exists() => disk,
        _ => device,
    };
    let listed = fs::read_dir(whole.join("slaves")).into_iter().flatten().flatten();
    let below: Vec<PathBuf> = listed.filter_map(|entry| entry.path().canonicalize().ok()).collect();
    if depth == 0 {
        return Err(format!("more than {DEPTH} devices lie on one another; {HINT}"));
    }
    for device in &below {
        find(device, depth - 1, drives)?;
    }
    if below.is_empty() {
        let name = whole.file_name().unwrap_or_default().to_string_lossy();
        // A name in `/sys` cannot have the slash of `/dev/cciss/c0d0`.
        drives.insert(format!("/dev/{}", name.replace('!', "/")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A `/sys` with disks `sda` and `nvme0n1`, partitions of both, and the folder's own device as
    /// a link to `of`.
    fn sys(of: &str) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let devices = sys.path().join("devices");
        for name in ["sda/sda1", "nvme0n1/nvme0n1p2", "virtual/dm-0/slaves", "virtual/md0/slaves"] {
            fs::create_dir_all(devices.join(name)).unwrap();
        }
        for part in ["sda/sda1", "nvme0n1/nvme0n1p2"] {
            fs::write(devices.join(part).join("partition"), "1\n").unwrap();
        }
        fs::create_dir_all(devices.join("cciss!c0d0")).unwrap();
        let slave = |of: &str, path: &str| {
            let name = Path::new(path).file_name().unwrap();
            symlink(devices.join(path), devices.join(of).join("slaves").join(name)).unwrap();
        };
        slave("virtual/dm-0", "nvme0n1/nvme0n1p2");
        slave("virtual/md0", "sda/sda1");
        slave("virtual/md0", "virtual/dm-0");
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        let device = fs::metadata(sys.path()).unwrap().dev();
        let link = format!("dev/block/{}:{}", major(device), minor(device));
        if !of.is_empty() {
            symlink(devices.join(of), sys.path().join(link)).unwrap();
        }
        sys
    }

    #[test]
    fn partitions_and_mapped_devices_lead_to_their_drive() {
        for (of, drive) in [
            ("sda", "/dev/sda"),
            ("sda/sda1", "/dev/sda"),
            ("nvme0n1/nvme0n1p2", "/dev/nvme0n1"),
            ("virtual/dm-0", "/dev/nvme0n1"),
            ("cciss!c0d0", "/dev/cciss/c0d0"),
        ] {
            let sys = sys(of);
            assert_eq!(beneath(sys.path(), sys.path()), Ok(PathBuf::from(drive)), "{of}");
        }
    }

    #[test]
    fn several_drives_and_none_are_named() {
        let both = sys("virtual/md0");
        let error = beneath(both.path(), both.path()).unwrap_err();
        assert!(error.contains("several drives: /dev/nvme0n1, /dev/sda; name it"), "{error}");
        let none = sys("");
        let error = beneath(none.path(), none.path()).unwrap_err();
        assert!(error.contains("on no one drive") && error.contains("smart:/dev/sda"), "{error}");
        assert!(beneath(Path::new("/nowhere at all"), none.path()).unwrap_err().contains("cannot"));
    }

    #[test]
    fn devices_that_lie_on_themselves_end() {
        let sys = sys("virtual/dm-0");
        let slaves = sys.path().join("devices/virtual/dm-0/slaves");
        fs::remove_file(slaves.join("nvme0n1p2")).unwrap();
        symlink(sys.path().join("devices/virtual/dm-0"), slaves.join("dm-0")).unwrap();
        assert!(beneath(sys.path(), sys.path()).unwrap_err().contains("more than 16"));
    }
}
