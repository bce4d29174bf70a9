//! A block device with a file system of its own: a loop device, so that what goes to it and comes
//! from it is counted by the kernel.
//! Room: onefold-bench.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SECTOR_BYTES: u64 = 512;

/// A device, mounted. It goes with its handle.
pub struct Device {
    /// Where its files are.
    pub at: PathBuf,
    node: String,
}

/// What a device was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Requests to read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Asked {
    /// What came after `before`.
    pub const fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

/// Run a program that must succeed; what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {problem}");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Device {
    /// One of so many bytes, on a file in a folder.
    pub fn make(folder: &Path, name: &str, bytes: u64) -> Result<Self> {
        let image = folder.join(format!("{name}.img"));
        fs::File::create(&image)?.set_len(bytes)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image))?;
        let at = folder.join(name);
        fs::create_dir(&at)?;
        let mut attach = Command::new("losetup");
        let node = run(attach.args(["--find", "--show", "--direct-io=on"]).arg(&image))?;
        let device = Self { at, node };
        device.mount()?;
        Ok(device)
    }

    fn mount(&self) -> Result<()> {
        let mut mount = Command::new("mount");
        run(mount.args(["-o", "noatime"]).arg(&self.node).arg(&self.at)).map(drop)
    }

    /// Forget what memory has of it.
    pub fn forget(&self) -> Result<()> {
        run(Command::new("umount").arg(&self.at))?;
        self.mount()
    }

    fn told(&self, name: &str) -> Result<String> {
        let node = self.node.trim_start_matches("/dev/");
        let path = format!("/sys/block/{node}/{name}");
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }

    /// Its numbers, as the kernel writes them: `7:1`.
    pub fn numbers(&self) -> Result<String> {
        Ok(self.told("dev")?.trim().to_owned())
    }

    /// What it was asked for so far, with all that was written to files.
    pub fn asked(&self) -> Result<Asked> {
        run(Command::new("sync").arg("--file-system").arg(&self.at))?;
        let told = self.told("stat")?;
        let number = |at: usize| -> Result<u64> {
            told.split_whitespace().nth(at).and_then(|word| word.parse().ok()).context("no count")
        };
        Ok(Asked {
            reads: number(0)?,
            read_bytes: number(2)? * SECTOR_BYTES,
            written_bytes: number(6)? * SECTOR_BYTES,
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // What is still in use stays, and is said.
        for command in [Command::new("umount").arg(&self.at), Command::new("losetup").arg("-d")] {
            if command.get_program() == "losetup" {
                command.arg(&self.node);
            }
            if let Err(error) = run(command) {
                eprintln!("throttled: {error:#}");
            }
        }
    }
}
