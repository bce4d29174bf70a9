//! Calling cargo, the one that called us.
//! Room: xtask.

use std::ffi::OsString;
use std::process::Command;

/// The cargo to call.
pub fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo command, free of what an outer cargo run has set for its own package.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let kept = ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_TERM_COLOR", "CARGO_INCREMENTAL"];
        let inherited = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        if inherited && !kept.contains(&text.as_ref()) {
            command.env_remove(&name);
        }
    }
    command
}
