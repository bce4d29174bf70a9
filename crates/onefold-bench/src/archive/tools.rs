//! The programs that keep archives, and how each does a step.
//! Room: onefold-bench.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::stored::Footprint;

/// A program, or a way of using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Ours, not encrypted.
    Onefold,
    /// Ours, with a key file.
    Encrypted,
    /// borg, not encrypted, with Zstandard at level 3.
    Borg,
    /// restic with its second repository format, which has Zstandard.
    Restic,
}

/// Something that takes CPU seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All versions, one after the other.
    Add,
    /// The last one again, in which nothing changed.
    Again,
    /// All of the last one.
    Restore,
    /// All versions but the last ones go, and their space.
    Prune,
}

impl Step {
    /// All of them, in the order in which they are done.
    pub const ALL: [Self; 4] = [Self::Add, Self::Again, Self::Restore, Self::Prune];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Again => "add unchanged",
            Self::Restore => "restore",
            Self::Prune => "prune",
        }
    }
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Onefold, Self::Encrypted, Self::Borg, Self::Restic];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Onefold => "onefold",
            Self::Encrypted => "onefold, encrypted",
            Self::Borg => "borg",
            Self::Restic => "restic",
        }
    }

    /// The distribution's package that it comes in; ours is built.
    const fn package(self) -> Option<&'static str> {
        match self {
            Self::Onefold | Self::Encrypted => None,
            Self::Borg => Some("borgbackup"),
            Self::Restic => Some("restic"),
        }
    }

    fn program(self) -> PathBuf {
        match self {
            Self::Onefold | Self::Encrypted => std::env::current_exe()
                .map_or_else(|_| "onefold".into(), |bench| bench.with_file_name("onefold")),
            Self::Borg => "borg".into(),
            Self::Restic => "restic".into(),
        }
    }

    /// What it says of its version; `None` if it cannot be run.
    pub fn version(self) -> Option<String> {
        let argument = if self == Self::Restic { "version" } else { "--version" };
        let said = Command::new(self.program()).arg(argument).output().ok()?;
        let said = said.status.success().then_some(said.stdout)?;
        Some(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned())
    }
}

/// The programs to measure. Without a rival there is nothing to compare with: that is refused, but
/// when it is only to be shown that everything runs.
pub fn at_hand(quick: bool) -> Result<Vec<Tool>> {
    let (there, missing): (Vec<_>, Vec<_>) =
        Tool::ALL.into_iter().partition(|tool| tool.version().is_some());
    if quick {
        for tool in &missing {
            eprintln!("archive: {} is skipped", tool.name());
        }
    } else {
        refuse_missing(&missing)?;
    }
    Ok(there)
}

fn refuse_missing(missing: &[Tool]) -> Result<()> {
    let names: Vec<&str> = missing.iter().map(|tool| tool.name()).collect();
    let packages: Vec<&str> = missing.iter().filter_map(|tool| tool.package()).collect();
    ensure!(
        missing.is_empty(),
        "archives are measured beside others, and these cannot be run: {}; install what is \
         missing: apt-get install {}",
        names.join(", "),
        packages.join(" ")
    );
    Ok(())
}

/// A program's archive.
pub struct Store {
    tool: Tool,
    /// The archive itself.
    at: PathBuf,
    /// What the program keeps beside it: caches, keys.
    beside: PathBuf,
    /// Where it is restored to.
    target: PathBuf,
}

impl Store {
    /// Make one in a folder that is made, too.
    pub fn create(tool: Tool, here: &Path) -> Result<Self> {
        let store = Self {
            tool,
            at: here.join("archive"),
            beside: here.join("beside"),
            target: here.join("target"),
        };
        for folder in [&store.beside, &store.target] {
            fs::create_dir_all(folder).context("cannot make a folder")?;
        }
        let mut command = store.command(here);
        match tool {
            Tool::Onefold | Tool::Encrypted => command.args(["archive", "create"]).arg(&store.at),
            Tool::Borg => command.args(["init", "--encryption", "none"]).arg(&store.at),
            Tool::Restic => command.args(["init", "--repository-version", "2"]),
        };
        run(command)?;
        Ok(store)
    }

    /// The program, in a folder, with what it needs to know.
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(self.tool.program());
        command.current_dir(folder).stdin(Stdio::null());
        // Of whoever measures.
        command.env_remove("ONEFOLD_KEY_FILE").env_remove("ONEFOLD_PASSPHRASE_FILE");
        match self.tool {
            Tool::Onefold => {}
            Tool::Encrypted => {
                command.env("ONEFOLD_KEY_FILE", self.beside.join("key"));
            }
            Tool::Borg => {
                command
                    .env("BORG_BASE_DIR", &self.beside)
                    .env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes");
            }
            Tool::Restic => {
                command
                    .env("RESTIC_REPOSITORY", &self.at)
                    .env("RESTIC_PASSWORD", "benchmark")
                    .env("RESTIC_CACHE_DIR", &self.beside);
            }
        }
        command
    }

    /// The name of an archive in a borg repository.
    fn borg_name(&self, number: usize) -> String {
        format!("{}::{number}", self.at.display())
    }

    /// Add a version.
    pub fn add(&self, number: usize, version: &Path) -> Result<()> {
        let mut command = self.command(version);
        match self.tool {
            Tool::Onefold | Tool::Encrypted => {
                command.args(["archive", "add"]).arg(&self.at).arg(".")
            }
            Tool::Borg => command
                .args(["create", "--compression", "zstd,3"])
                .arg(self.borg_name(number))
                .arg("."),
            Tool::Restic => command.args(["backup", "--quiet", "."]),
        };
        run(command)
    }

    /// Write the newest version, which has this number, back.
    pub fn restore(&self, number: usize) -> Result<()> {
        let mut command = self.command(&self.target);
        match self.tool {
            Tool::Onefold | Tool::Encrypted => {
                command.args(["archive", "restore"]).arg(&self.at).arg("--target").arg(".")
            }
            Tool::Borg => command.arg("extract").arg(self.borg_name(number)),
            Tool::Restic => command.args(["restore", "latest", "--target", "."]),
        };
        run(command)
    }

    /// Whether what was restored is that version.
    pub fn is_as(&self, version: &Path) -> Result<bool> {
        // restic restores below the path that it had.
        let inside = self.target.join(version.strip_prefix("/").unwrap_or(version));
        let restored = if inside.is_dir() { &inside } else { &self.target };
        let same = Command::new("diff")
            .args(["-r", "--no-dereference"])
            .arg(version)
            .arg(restored)
            .output()
            .context("diff is needed")?;
        Ok(same.status.success())
    }

    /// Read everything in the newest version through a mount of ours; false where that cannot be.
    pub fn read_mounted(&self) -> Result<bool> {
        if self.tool != Tool::Onefold || !Path::new("/dev/fuse").exists() {
            return Ok(false);
        }
        let dir = self.beside.join("mount");
        fs::create_dir(&dir).context("cannot make a folder")?;
        let read = "find \"$mount/newest/\" -type f -exec cat {} + > /dev/null";
        let mut command = self.command(&self.beside);
        command.args(["archive", "mount"]).arg(&self.at).arg(&dir).args(["--run", read]);
        match run(command) {
            Ok(()) => Ok(true),
            Err(error) => {
                eprintln!("archive: mounting is skipped: {error:#}");
                Ok(false)
            }
        }
    }

    /// Remove all versions but the newest ones, and give their space back.
    pub fn prune(&self, keep: usize) -> Result<()> {
        let keep = keep.to_string();
        let mut command = self.command(&self.beside);
        match self.tool {
            Tool::Onefold | Tool::Encrypted => {
                command.args(["archive", "prune"]).arg(&self.at).args(["--keep-last", &keep])
            }
            Tool::Borg => command.args(["prune", "--keep-last", &keep]).arg(&self.at),
            Tool::Restic => {
                command.args(["forget", "--prune", "--group-by", "", "--keep-last"]).arg(&keep)
            }
        };
        run(command)?;
        if self.tool == Tool::Borg {
            let mut command = self.command(&self.beside);
            command.arg("compact").arg(&self.at);
            run(command)?;
        }
        Ok(())
    }

    /// Bytes of all its files.
    pub fn bytes(&self) -> Result<u64> {
        Ok(Footprint::of(&self.at)?.apparent)
    }
}

fn run(mut command: Command) -> Result<()> {
    let said = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let told = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "{command:?}: {}: {told}", said.status);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_refused_with_the_packages_that_have_it() {
        refuse_missing(&[]).unwrap();
        let error = refuse_missing(&[Tool::Borg, Tool::Restic]).unwrap_err().to_string();
        assert!(error.contains("cannot be run: borg, restic"), "{error}");
        assert!(error.ends_with("apt-get install borgbackup restic"), "{error}");
    }
}
