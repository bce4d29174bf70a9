//! `onefold ssd spec`: a drive's specification, and how arguments become one.
//! Room: onefold.

use std::path::Path;

use onefold_flash::DriveSpec;
use onefold_flash::dedup::{POLICIES, check_policy};
use onefold_flash::spec::{PRESET_NAMES, ParseError, SpecBuilder};

use crate::args::models::{DriveChoice, SsdSpecArgs};
use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::text_file;

/// Print it.
pub fn run(args: &SsdSpecArgs, printer: &Printer) -> Result<()> {
    let spec = builder(None, &args.drive)?.build().map_err(|error| refused(&error))?;
    check_policy(&spec.dedup.policy, &spec.dedup.options)
        .map_err(|error| Failure::nothing_done(error.to_string()))?;
    printer.data(&spec.to_commented_toml())
}

/// The preset, the file, the seed and every `--set`, in this order.
pub fn builder(file: Option<&Path>, drive: &DriveChoice) -> Result<SpecBuilder> {
    let preset = drive.preset.as_deref().unwrap_or(PRESET_NAMES[0]);
    let mut builder = SpecBuilder::preset(preset).map_err(|error| refused(&error))?;
    if let Some(path) = file {
        let text = text_file::read_or_hint(path, "specification", &PRESET_NAMES)?;
        let name = path.display().to_string();
        builder = builder.file(&name, &text).map_err(|error| refused(&error))?;
    }
    if let Some(seed) = drive.seed {
        builder = set(builder, &format!("seed={seed}"))?;
    }
    drive.set.iter().try_fold(builder, |builder, assignment| set(builder, assignment))
}

/// One more key.
pub fn set(builder: SpecBuilder, assignment: &str) -> Result<SpecBuilder> {
    builder.set(assignment).map_err(|error| refused(&error))
}

/// A specification that cannot be used.
pub fn refused(error: &ParseError) -> Failure {
    let failure = Failure::nothing_done(error.to_string());
    match error {
        ParseError::UnknownKey { key, .. } => match policy_with(key) {
            Some((policy, option)) => failure.hint(format!(
                "dedup.{option} is an option of a policy; for a list of its options: onefold ssd \
                 spec --set policy={policy}"
            )),
            None => failure.hint(LISTS),
        },
        ParseError::NoEquals(_) => failure.hint(LISTS),
        _ => failure,
    }
}

/// Where all keys are listed.
const LISTS: &str = "for a list of all keys: onefold ssd spec; of the options of a deduplication \
                     policy: onefold ssd spec --set policy=NAME";

/// The first policy that has an option of this name, whatever table it was looked for in.
fn policy_with(key: &str) -> Option<(&'static str, &'static str)> {
    let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
    POLICIES.iter().find_map(|policy| {
        let option = policy.options.iter().find(|option| option.key == name)?;
        Some((policy.name, option.key))
    })
}

/// A specification from its builder.
pub fn build(builder: SpecBuilder) -> Result<DriveSpec> {
    builder.build().map_err(|error| refused(&error))
}
