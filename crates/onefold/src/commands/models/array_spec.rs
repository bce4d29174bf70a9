//! `onefold array spec`: a server's description, and how arguments become one.
//! Room: onefold.

use std::path::Path;

use onefold_array::ServerSpec;
use onefold_array::spec::{PRESETS, ParseError, SpecBuilder};

use crate::args::models::{ArraySpecArgs, ServerChoice};
use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::text_file;

/// Print it.
pub fn run(args: &ArraySpecArgs, printer: &Printer) -> Result<()> {
    let builder = builder(None, &args.server)?;
    build(&builder)?;
    printer.data(&builder.print())
}

/// The preset, the file, the seed and every `--set`, in this order.
pub fn builder(file: Option<&Path>, server: &ServerChoice) -> Result<SpecBuilder> {
    let preset = server.preset.as_deref().unwrap_or("software");
    let mut builder = SpecBuilder::preset(preset).map_err(|error| refused(&error))?;
    if let Some(path) = file {
        let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let text = text_file::read_or_hint(path, "description", &presets)?;
        let name = path.display().to_string();
        builder = builder.file(&name, &text).map_err(|error| refused(&error))?;
    }
    if let Some(seed) = server.seed {
        builder = set(builder, &format!("seed={seed}"))?;
    }
    server.set.iter().try_fold(builder, |builder, assignment| set(builder, assignment))
}

/// One more key.
pub fn set(builder: SpecBuilder, assignment: &str) -> Result<SpecBuilder> {
    builder.set(assignment).map_err(|error| refused(&error))
}

/// One more key, whose value is a text whatever it looks like.
pub fn set_text(builder: SpecBuilder, key: &str, value: &str) -> Result<SpecBuilder> {
    builder.set_text(key, value).map_err(|error| refused(&error))
}

/// A description from its builder.
pub fn build(builder: &SpecBuilder) -> Result<ServerSpec> {
    builder.build().map_err(|error| refused(&error))
}

fn refused(error: &ParseError) -> Failure {
    let failure = Failure::nothing_done(error.to_string());
    match error {
        ParseError::UnknownKey { .. } | ParseError::NoEquals(_) => {
            failure.hint("for a list of all keys: onefold array spec")
        }
        _ => failure,
    }
}
