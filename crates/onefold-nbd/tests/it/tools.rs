//! Runs the clients people use.
//! Room: onefold-nbd.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Packages that hold the clients, for the message when one is missing.
const PACKAGES: &str = "libnbd-bin python3-libnbd qemu-utils nbdkit fio";

/// Run a client and return what it did; a missing client fails the test.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    // `nbdsh` runs whichever python3 comes first; its module belongs to the system's.
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    Command::new(program)
        .args(arguments)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; these tests need {PACKAGES}"))
}

/// Run a client that must succeed; what it printed.
pub fn succeed(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}{complained}");
    said
}

/// Run a client that must fail; what it complained about.
pub fn fail(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    assert!(!output.status.success(), "{program} {arguments:?} should have failed");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Run a script with the `nbd` module of libnbd on a connected handle `h`.
pub fn nbdsh(uri: &str, script: &str) -> String {
    succeed("nbdsh", &["--base-allocation", "-u", uri, "-c", script])
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("paths in tests are UTF-8")
}
