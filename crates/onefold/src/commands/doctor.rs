//! `onefold doctor`: what this machine has for clients, mounts and tests, and what to install.
//! Room: onefold.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::failure::Result;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table};

/// Programs: their names, what each is for, and the Debian package that has it.
const PROGRAMS: [(&str, &str, &str); 12] = [
    ("nbdinfo", "asking a server what it has", "libnbd-bin"),
    ("nbdcopy", "copying disks in and out", "libnbd-bin"),
    ("nbdfuse", "attach without a kernel module: a volume as a file", "libnbd-bin"),
    ("fusermount3", "mounts without root", "fuse3"),
    ("nbd-client", "a volume as /dev/nbd0", "nbd-client"),
    ("qemu-img", "disk images over NBD", "qemu-utils"),
    ("fio", "load over NBD; tests", "fio"),
    ("mkfs.ext4", "a file system on a volume", "e2fsprogs"),
    ("losetup", "attach, where a file is mounted; tests", "mount"),
    ("openssl", "certificates; tests", "openssl"),
    ("promtool", "checking metrics; tests", "prometheus"),
    ("chromedriver", "the page in a browser; tests", "chromium-driver"),
];
/// What a server and its cache may want to have open at once.
const OPEN_FILES: u64 = 1024;
/// Where programs are that a user's search path may leave out.
const SYSTEM_PATHS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// One thing that was looked for.
#[derive(Serialize)]
struct Finding {
    what: String,
    found: bool,
    purpose: &'static str,
    /// What to do where it is missing.
    remedy: String,
}

#[derive(Serialize)]
struct DoctorJson {
    schema_version: u32,
    findings: Vec<Finding>,
}

/// Look, and say.
pub fn run(args: &DoctorArgs, printer: &Printer) -> Result<ExitCode> {
    let findings = findings();
    let missing = findings.iter().any(|finding| !finding.found);
    if args.json {
        printer.json(&DoctorJson { schema_version: JSON_SCHEMA_VERSION, findings })?;
    } else {
        printer.data(&text(&findings, printer))?;
    }
    Ok(if missing { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn findings() -> Vec<Finding> {
    let program = |(name, purpose, package): (&str, &'static str, &str)| Finding {
        what: name.to_owned(),
        found: is_program(name),
        purpose,
        remedy: format!("apt-get install {package}"),
    };
    let mut findings: Vec<Finding> = PROGRAMS.map(program).into();
    let mut add = |what: &str, found, purpose, remedy: &str| {
        let (what, remedy) = (what.to_owned(), remedy.to_owned());
        findings.push(Finding { what, found, purpose, remedy });
    };
    let exists = |path| Path::new(path).exists();
    add(
        "kernel: nbd",
        exists("/sys/module/nbd") || exists("/dev/nbd0"),
        "attach as /dev/nbd0, nbd-client",
        "modprobe nbd, or use nbdfuse",
    );
    add(
        "kernel: ublk",
        onefold_ublk::Control::is_there(),
        "attach as /dev/ublkb0",
        "modprobe ublk_drv, or use nbd or nbdfuse",
    );
    add("kernel: FUSE", exists("/dev/fuse"), "nbdfuse, archive mount", "modprobe fuse");
    add("kernel: loop", exists("/dev/loop-control"), "file systems in tests", "modprobe loop");
    add(
        "/dev/shm",
        rustix::fs::access("/dev/shm", rustix::fs::Access::WRITE_OK).is_ok(),
        "writes that outlive a killed server",
        "mount -t tmpfs tmpfs /dev/shm",
    );
    let files = getrlimit(Resource::Nofile).maximum.is_none_or(|most| most >= OPEN_FILES);
    add("open files", files, "hundreds of clients", "ulimit -n, or LimitNOFILE= of a service");
    findings
}

/// Whether there is a program of this name.
fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    is_program_in(std::env::split_paths(&path).chain(SYSTEM_PATHS.map(Into::into)), name)
}

/// Whether one of these folders has a file of this name that can be run.
fn is_program_in(mut folders: impl Iterator<Item = PathBuf>, name: &str) -> bool {
    folders.any(|folder| {
        let at = folder.join(name);
        at.is_file() && rustix::fs::access(&at, rustix::fs::Access::EXEC_OK).is_ok()
    })
}

fn text(findings: &[Finding], printer: &Printer) -> String {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left, Align::Left]);
    table.row(["WHAT", "", "FOR", "WHAT TO DO"]);
    for finding in findings {
        let state = if finding.found { "there" } else { "missing" };
        let remedy = if finding.found { "" } else { &finding.remedy };
        table.row([&finding.what, state, finding.purpose, remedy]);
    }
    let mut lines = table.lines(0).into_iter();
    let head = lines.next().map(|head| printer.heading(&head)).unwrap_or_default();
    let lines: Vec<String> = std::iter::once(head).chain(lines).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_is_a_file_that_can_be_run_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(place("there/folder")).unwrap();
        for (name, mode) in [("program", 0o755), ("text", 0o644)] {
            let path = place("there").join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let folders = [place("missing"), place("there")];
        let is_there = |name| is_program_in(folders.clone().into_iter(), name);
        let found = ["program", "text", "folder", "nothing"].map(is_there);
        assert_eq!(found, [true, false, false, false]);
    }

    #[test]
    fn what_is_missing_is_told_with_what_helps() {
        use crate::output::Heard;

        let finding = |what: &str, found| Finding {
            what: what.to_owned(),
            found,
            purpose: "tests",
            remedy: "install it".to_owned(),
        };
        let printer = Printer::heard(&Heard::default());
        let told = text(&[finding("fio", false), finding("openssl", true)], &printer);
        let expected = "WHAT              FOR    WHAT TO DO\n\
                        fio      missing  tests  install it\n\
                        openssl  there    tests\n";
        assert_eq!(told, expected);
        let all = findings();
        let named: Vec<&str> = all[PROGRAMS.len()..].iter().map(|one| &*one.what).collect();
        let kernel = ["kernel: nbd", "kernel: ublk", "kernel: FUSE", "kernel: loop"];
        assert_eq!(named, [&kernel[..], &["/dev/shm", "open files"]].concat());
        assert!(is_program("sh") && !is_program("no-such-program"));
        // As many are enough, and any test machine allows them.
        assert!(all.last().unwrap().found);
        let here = crate::commands::heard::Folder::new();
        let json = here.onefold("doctor --json");
        let missing = all.iter().any(|finding| !finding.found);
        assert_eq!(json.code, u8::from(missing));
        assert_eq!(json.json()["findings"].as_array().unwrap().len(), all.len());
        assert!(here.onefold("doctor").out.starts_with("WHAT "));
    }
}
