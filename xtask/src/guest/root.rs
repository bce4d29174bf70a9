//! The guest's files: the command, programs of this machine with their libraries, modules of its
//! kernel, and what is tried.
//! Room: xtask.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::modules::Modules;
use crate::programs::{answer, path_of, succeed};

/// What is loaded at once, and what a script loads with `load`.
const MODULES: &[&str] =
    &["ext4", "crc32c_generic", "loop", "nbd", "ublk_drv", "vsock_loopback", "fuse"];
const PROGRAMS: &[&str] =
    &["fio", "mkfs.ext4", "e2fsck", "nbdinfo", "nbdcopy", "losetup", "mount", "umount"];
const INIT: &str = include_str!("init.sh");

/// Make the file that the kernel unpacks, and return it.
pub fn make(
    folder: &Path,
    kernel: &Path,
    common: &str,
    scripts: &[(&str, &str)],
) -> Result<PathBuf> {
    let root = folder.join("root");
    let _ = fs::remove_dir_all(&root);
    for inner in ["bin", "dev", "proc", "sys", "run", "tmp", "tries", "modules", "scripts", "etc"] {
        fs::create_dir_all(root.join(inner))?;
    }
    program(&root, "init", INIT)?;
    fs::write(root.join("scripts/common"), common)?;
    for (name, text) in scripts {
        program(&root, &format!("scripts/{name}.sh"), text)?;
    }
    copy_modules(&root, kernel)?;
    copy_programs(&root)?;
    packed(folder, &root)
}

fn program(root: &Path, name: &str, text: &str) -> Result<()> {
    let at = root.join(name);
    fs::write(&at, text)?;
    fs::set_permissions(&at, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn copy_modules(root: &Path, kernel: &Path) -> Result<()> {
    let modules = Modules::below(&kernel.join("lib/modules"))?;
    for wanted in MODULES {
        let needed = modules.with_needed(&[wanted])?;
        let names: Vec<_> = needed.iter().map(|(name, _)| name.as_str()).collect();
        fs::write(root.join(format!("modules/{wanted}.order")), names.join("\n") + "\n")?;
        for (name, bytes) in &needed {
            fs::write(root.join(format!("modules/{name}.ko")), bytes)?;
        }
    }
    Ok(())
}

fn copy_programs(root: &Path) -> Result<()> {
    let own = root.join("bin/onefold");
    // Without what a debugger needs, which is most of its bytes.
    succeed(Command::new("strip").arg("-o").arg(&own).arg("target/debug/onefold"))?;
    let mut libraries = libraries(&own)?;
    let busybox = path_of("busybox").context("busybox is not installed")?;
    fs::copy(busybox, root.join("bin/busybox"))?;
    symlink("busybox", root.join("bin/sh"))?;
    for name in PROGRAMS {
        let at = path_of(name).with_context(|| format!("{name} is not installed"))?;
        libraries.extend(self::libraries(&at)?);
        fs::copy(at, root.join("bin").join(name))?;
    }
    for library in libraries {
        let at = root.join(library.strip_prefix("/")?);
        fs::create_dir_all(at.parent().context("a library is in a folder")?)?;
        fs::copy(&library, at)?;
    }
    Ok(())
}

/// The libraries of a program.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let said = answer(Command::new("ldd").arg(program))?;
    let words = said.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(|word| PathBuf::from(word.trim_end_matches(':'))).collect())
}

fn packed(folder: &Path, root: &Path) -> Result<PathBuf> {
    let image = folder.canonicalize()?.join("root.cpio");
    let mut find = Command::new("find")
        .args([".", "-print0"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run find")?;
    let found = find.stdout.take().context("it prints")?;
    let mut pack = Command::new("cpio");
    pack.args(["--quiet", "--create", "--null", "--format=newc", "--owner=+0:+0"]);
    pack.current_dir(root).stdin(found).stdout(fs::File::create(&image)?);
    succeed(&mut pack)?;
    ensure!(find.wait()?.success(), "find failed");
    Ok(image)
}
