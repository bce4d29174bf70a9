//! How fast devices are for a process, and how much memory it has with the files that the kernel
//! keeps for it: a control group, of the old kind or the new.
//! Room: onefold-bench.
//! Source: `Documentation/admin-guide/cgroup-v2.rst` (`io.max`, `memory.max`) and
//! `cgroup-v1/blkio-controller.rst` of Linux.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";

/// How fast a device is.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Requests in a second, reads and writes each.
    pub requests: u64,
    /// Bytes in a second, read and written each.
    pub bytes: u64,
}

/// A group of processes.
pub struct Cage {
    /// Folders of the group: one, or one for each of what it limits.
    disks: PathBuf,
    memory: PathBuf,
    is_new: bool,
}

impl Cage {
    /// A new one, without limits.
    pub fn new(name: &str) -> Result<Self> {
        let root = Path::new(ROOT);
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let has = |name: &str| controllers.split_whitespace().any(|word| word == name);
        let is_new = has("io") && has("memory");
        if is_new {
            put(&root.join("cgroup.subtree_control"), "+io +memory")?;
        }
        let of = |old: &str| if is_new { root.join(name) } else { root.join(old).join(name) };
        let cage = Self { disks: of("blkio"), memory: of("memory"), is_new };
        for folder in [&cage.disks, &cage.memory] {
            if let Err(error) = fs::create_dir(folder)
                && !folder.is_dir()
            {
                bail!("this machine has no control groups for disks and memory: {error}");
            }
        }
        Ok(cage)
    }

    /// A device, by its numbers, is only so fast for it.
    pub fn slow_down(&self, numbers: &str, speed: Speed) -> Result<()> {
        let Speed { requests, bytes } = speed;
        if self.is_new {
            let line =
                format!("{numbers} riops={requests} wiops={requests} rbps={bytes} wbps={bytes}");
            return put(&self.disks.join("io.max"), &line);
        }
        for (what, most) in [("iops", requests), ("bps", bytes)] {
            for way in ["read", "write"] {
                let file = self.disks.join(format!("blkio.throttle.{way}_{what}_device"));
                put(&file, &format!("{numbers} {most}"))?;
            }
        }
        Ok(())
    }

    /// It has only so much memory.
    pub fn hold(&self, bytes: u64) -> Result<()> {
        let name = if self.is_new { "memory.max" } else { "memory.limit_in_bytes" };
        put(&self.memory.join(name), &bytes.to_string())
    }

    /// A process belongs to it from now on.
    pub fn take(&self, process: u32) -> Result<()> {
        for folder in [&self.disks, &self.memory] {
            put(&folder.join("cgroup.procs"), &process.to_string())?;
        }
        Ok(())
    }
}

fn put(file: &Path, words: &str) -> Result<()> {
    fs::write(file, words).with_context(|| format!("cannot write to {}", file.display()))
}

impl Drop for Cage {
    fn drop(&mut self) {
        // Only an empty one can go; what it held has ended.
        for folder in [&self.disks, &self.memory] {
            let _ = fs::remove_dir(folder);
        }
    }
}
