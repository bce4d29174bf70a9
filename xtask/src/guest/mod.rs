//! What only another kernel has, tried in a virtual machine: devices of the kernel, sockets between
//! machines.
//! Room: xtask.   In: `guest/*.sh`, a kernel as Debian packs it.   Out: `target/guest/`.

mod modules;
mod root;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::programs::{path_of, succeed};

const USAGE: &str = "\
usage: cargo xtask guest [--kvm] KERNEL.deb [NAME ...]

Boots a kernel with the command's test build and this machine's programs in a virtual machine, by
emulation or with --kvm, and runs what is in xtask/src/guest/NAME.sh, without a name all of them.
KERNEL.deb is a Debian package of a kernel, such as linux-image-6.12.95+deb13-amd64.

Needs qemu-system-x86, busybox, cpio, e2fsprogs, fio, libnbd-bin and xz-utils.
";

/// Everything that is made lies here.
const FOLDER: &str = "target/guest";
/// What is tried, and lies beside this file.
const SCRIPTS: &[(&str, &str)] = &[
    ("attach-nbd", include_str!("attach-nbd.sh")),
    ("attach-ublk", include_str!("attach-ublk.sh")),
    ("vsock", include_str!("vsock.sh")),
];
const COMMON: &str = include_str!("common.sh");
/// The guest ends itself when a script takes longer; this is for one that hangs.
const SECONDS_MAX: u32 = 1200;

/// Returns whether all that was tried went well.
pub fn run(args: &[String]) -> Result<bool> {
    let (accelerator, args) = match args {
        [flag, rest @ ..] if flag == "--kvm" => ("kvm", rest),
        args => ("tcg", args),
    };
    let [package, names @ ..] = args else { bail!("{USAGE}") };
    if package.starts_with('-') {
        print!("{USAGE}");
        return Ok(true);
    }
    let wanted = scripts(names)?;
    let folder = PathBuf::from(FOLDER);
    let kernel = folder.join("kernel");
    let _ = std::fs::remove_dir_all(&kernel);
    std::fs::create_dir_all(&kernel)?;
    succeed(Command::new("dpkg-deb").arg("-x").arg(package).arg(&kernel))?;
    let build = ["build", "--quiet", "--package", "onefold", "--features", crate::ci::FEATURES];
    succeed(&mut cargo::command(&build))?;
    let image = root::make(&folder, &kernel, COMMON, &wanted)?;
    let told = boot(accelerator, &boot_file(&kernel)?, &image)?;
    Ok(judge(&told, &wanted))
}

fn scripts(names: &[String]) -> Result<Vec<(&'static str, &'static str)>> {
    let known = || SCRIPTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = |name: &String| {
        let found = SCRIPTS.iter().find(|(known, _)| known == name);
        found.copied().with_context(|| format!("nothing is called '{name}'; there are {}", known()))
    };
    if names.is_empty() { Ok(SCRIPTS.to_vec()) } else { names.iter().map(found).collect() }
}

/// The kernel in what was unpacked.
fn boot_file(kernel: &Path) -> Result<PathBuf> {
    let boot = kernel.join("boot");
    let files = std::fs::read_dir(&boot).context("the package has no kernel in /boot")?;
    let mut files = files.filter_map(|file| Some(file.ok()?.path()));
    let is_kernel = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    files.find(is_kernel).context("the package has no kernel in /boot")
}

/// Run the machine until it ends itself; what it printed.
fn boot(accelerator: &str, kernel: &Path, image: &Path) -> Result<Vec<String>> {
    let qemu = path_of("qemu-system-x86_64").context("qemu-system-x86_64 is not installed")?;
    let mut command = Command::new("timeout");
    command.arg(SECONDS_MAX.to_string()).arg(qemu);
    command.args(["-accel", accelerator, "-cpu", "max", "-smp", "2", "-m", "3G"]);
    command.args(["-nographic", "-no-reboot", "-nic", "none", "-append"]);
    command.arg("console=ttyS0 quiet panic=-1").arg("-kernel").arg(kernel);
    command.arg("-initrd").arg(image).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut machine = command.spawn().context("cannot start the machine")?;
    let out = machine.stdout.take().context("it prints")?;
    let mut told = Vec::new();
    for line in BufReader::new(out).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end().to_owned();
        println!("| {line}");
        told.push(line);
    }
    let ended = machine.wait()?;
    ensure!(ended.success(), "the machine was ended: {ended}");
    Ok(told)
}

/// Every script has said how it ended.
fn judge(told: &[String], wanted: &[(&str, &str)]) -> bool {
    let mut all = true;
    for (name, _) in wanted {
        let passed = told.iter().any(|line| line.contains(&format!("GUEST passed {name}")));
        println!("{name}: {}", if passed { "passed" } else { "FAILED" });
        all &= passed;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_say_that_it_passed_has_failed() {
        let wanted = [("one", ""), ("two", "")];
        let told = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        assert!(judge(&told(&["GUEST passed one", "x GUEST passed two"]), &wanted));
        assert!(!judge(&told(&["GUEST passed one", "GUEST failed two"]), &wanted));
        assert!(!judge(&[], &wanted));
        assert!(scripts(&["nosuch".to_owned()]).unwrap_err().to_string().contains("attach-nbd"));
        assert_eq!(scripts(&[]).unwrap().len(), SCRIPTS.len());
    }
}
