//! `onefold volume create`: a thin volume.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_pool::Budgets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::VolumeCreateArgs;
use crate::failure::Result;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;

/// A volume to make.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Name of the volume.
    pub name: String,
    /// Size that clients see, in bytes.
    pub size_bytes: u64,
}

/// Make the volume.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let size = ByteSize(request.size_bytes);
    let made = context.pool.create_volume(&request.name, size);
    made.map_err(|error| context.failed(error))?;
    Ok(Report::note(format!("made volume '{}' of {size}", request.name)))
}

/// Make the volume, and say so.
pub fn run(args: &VolumeCreateArgs, printer: &Printer) -> Result<()> {
    let request = Request { name: args.name.clone(), size_bytes: args.size.bytes() };
    let opening = Opening::Write(Budgets::default());
    let report = door::call(&args.pool, opening, &table::VOLUME_CREATE, &request, printer)?;
    printer.report(report, false)
}
