//! The container image: nothing but the static program.
//! Room: xtask.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::FOLDER;
use crate::programs::{is_there, succeed};

/// Build it with what there is; both take the same words.
pub fn make(program: &Path) -> Result<()> {
    let builder = ["podman", "buildah"].into_iter().find(|builder| is_there(builder));
    let builder = builder.context("needs podman or buildah")?;
    // The file has no other neighbours there than what it copies.
    let context = Path::new(FOLDER).join("image");
    fs::create_dir_all(&context)?;
    fs::copy(program, context.join("onefold"))?;
    let mut build = Command::new(builder);
    build.args(["build", "--tag", "onefold", "--file", "packaging/Containerfile"]);
    succeed(build.arg(&context))
}
