//! `onefold volume rename`: another name for a volume.
//! Room: onefold.

use onefold_control::Report;
use onefold_pool::Budgets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::VolumeRenameArgs;
use crate::failure::Result;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;

/// A volume to rename.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Name of the volume.
    pub name: String,
    /// Its new name, which no other volume has.
    pub to: String,
}

/// Rename the volume. Clients that are connected keep it.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let Request { name, to } = request;
    context.pool.rename_volume(name, to).map_err(|error| context.failed(error))?;
    Ok(Report::note(format!("volume '{name}' is called '{to}' now")))
}

/// Rename the volume, and say so.
pub fn run(args: &VolumeRenameArgs, printer: &Printer) -> Result<()> {
    let request = Request { name: args.name.clone(), to: args.to.clone() };
    let opening = Opening::Write(Budgets::default());
    let report = door::call(&args.pool, opening, &table::VOLUME_RENAME, &request, printer)?;
    printer.report(report, false)
}
