//! Whether a lock on a folder keeps out everybody who can get at the folder.
//! Room: onefold-block.
//! A file system over a network or between virtual machines is mounted more than once, and many of
//! them leave `flock` to each kernel, or to each mount: two processes then have a lock at once that
//! only one can have. No call tells which ones do, so that those are named here of which others
//! than this kernel may have the files.
//!
//! Sources: `flock`(2), "NOTES"; `nfs`(5), `local_lock`; `mount.cifs`(8), `nobrl`; the kernel's
//! `fs/fuse/file.c`, which asks a file system about locks only if that said that it has some.

use std::fs::{self, File};

use rustix::fs::{fstat, fstatfs, major, minor};

const FUSE: u64 = 0x6573_5546;
const V9FS: u64 = 0x0102_1997;
const VBOXSF: u64 = 0x786F_4256;
const PARALLELS: u64 = 0x7C7C_6673;
const NFS: u64 = 0x6969;
const CIFS: u64 = 0xFF53_4D42;
const SMB2: u64 = 0xFE53_4D42;

/// All mounts that this process sees.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Whether somebody may get at what is in a folder whom a lock on it does not keep out.
pub fn falls_short(directory: &File) -> bool {
    // The type of the number differs between machines, and so does its sign.
    let Ok(system) = fstatfs(directory) else { return false };
    let mount = || {
        let device = fstat(directory).ok()?.st_dev;
        let mounts = fs::read(MOUNTS).ok()?;
        Mount::of(&String::from_utf8_lossy(&mounts), (major(device), minor(device)))
    };
    falls_short_on(system.f_type as u64 & 0xFFFF_FFFF, mount)
}

/// How something is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    kind: String,
    options: String,
}

impl Mount {
    /// That of a device in a list of mounts.
    fn of(mounts: &str, device: (u32, u32)) -> Option<Self> {
        let device = format!("{}:{}", device.0, device.1);
        mounts.lines().find_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            let mut kind = kind.split(' ');
            (place.split(' ').nth(2) == Some(&device)).then_some(())?;
            Some(Self { kind: kind.next()?.to_owned(), options: kind.nth(1)?.to_owned() })
        })
    }

    fn says(&self, options: &[&str]) -> bool {
        self.options.split(',').any(|option| options.contains(&option))
    }
}

/// The same by what `statfs` calls the file system, and by how that is mounted.
fn falls_short_on(system: u64, mount: impl FnOnce() -> Option<Mount>) -> bool {
    match system {
        V9FS | VBOXSF | PARALLELS => true,
        // Those over a disk of this machine have a name of their own.
        FUSE => mount().is_none_or(|mount| mount.kind != "fuseblk"),
        // Both ask the server, unless they were told not to.
        NFS => mount()
            .is_some_and(|mount| mount.says(&["nolock", "local_lock=all", "local_lock=flock"])),
        CIFS | SMB2 => mount().is_some_and(|mount| mount.says(&["nobrl"])),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: u64 = 0xEF53;
    const LIST: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 21 0:39 / /mnt/a\\040b rw,nosuid shared:7 master:1 - fuse.sshfs ann@nas:/ rw,user_id=0
41 21 0:47 / /mnt/disk rw - fuseblk /dev/sdb1 rw,user_id=0
42 21 0:48 / /mnt/nas rw - nfs4 nas:/ rw,vers=4.2,local_lock=none,addr=10.0.0.1
43 21 0:49 / /mnt/old rw - nfs nas:/ rw,vers=3,nolock,local_lock=all
44 21 0:50 / /mnt/win rw - cifs //nas/x rw,nobrl,soft
45 21 0:51 / /mnt/win2 rw - cifs //nas/x rw,soft
";

    #[test]
    fn locks_fall_short_where_others_may_have_the_files() {
        let on = |system, at: (u32, u32)| falls_short_on(system, || Mount::of(LIST, at));
        assert!(on(FUSE, (0, 39)));
        assert!(!on(FUSE, (0, 47)), "a disk of this machine");
        assert!(on(FUSE, (0, 99)), "nobody knows");
        for system in [V9FS, VBOXSF, PARALLELS] {
            assert!(on(system, (0, 99)), "{system:x}");
        }
        assert!(!on(NFS, (0, 48)) && on(NFS, (0, 49)) && !on(NFS, (0, 99)));
        assert!(on(CIFS, (0, 50)) && !on(CIFS, (0, 51)));
        assert!(on(SMB2, (0, 50)) && !on(SMB2, (0, 51)));
        assert!(!on(EXT4, (254, 0)));
    }

    #[test]
    fn a_mount_is_found_by_its_device() {
        let mount = Mount::of(LIST, (254, 0)).unwrap();
        assert_eq!(mount, Mount { kind: "ext4".to_owned(), options: "rw".to_owned() });
        assert_eq!(Mount::of(LIST, (0, 4)), None);
        assert_eq!(Mount::of("nothing\n1 2 0:4 / / - \n", (0, 4)), None);
    }

    #[test]
    fn a_folder_of_this_machine_is_known_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let directory = File::open(dir.path()).unwrap();
        let system = fstatfs(&directory).unwrap().f_type as u64 & 0xFFFF_FFFF;
        assert_eq!(falls_short(&directory), matches!(system, FUSE | V9FS | VBOXSF | PARALLELS));
    }
}
