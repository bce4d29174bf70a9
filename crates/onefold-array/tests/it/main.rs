//! What must hold for every server.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod drives;
mod index;
mod laws;
mod pictures;
mod queues;
mod refused;
mod rtl;
mod size;
mod storage;
mod told;
mod traces;

use onefold_array::{Report, ServerSpec, SpecBuilder, simulate};

/// A preset with settings on top.
pub fn spec(preset: &str, settings: &[&str]) -> ServerSpec {
    let builder = SpecBuilder::preset(preset).unwrap_or_else(|error| panic!("{error}"));
    let with = |builder: SpecBuilder, setting: &&str| {
        builder.set(setting).unwrap_or_else(|error| panic!("{error}"))
    };
    let builder = settings.iter().fold(builder, with);
    builder.build().unwrap_or_else(|error| panic!("{preset} {settings:?}: {error}"))
}

/// Its report.
pub fn run(preset: &str, settings: &[&str]) -> Report {
    simulate(&spec(preset, settings)).unwrap_or_else(|error| panic!("{preset}: {error}"))
}
