//! `onefold volume resize`: another size for a volume.
//! Room: onefold.

use onefold_block::{BlockDevice as _, ByteSize};
use onefold_control::Report;
use onefold_pool::Budgets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::VolumeResizeArgs;
use crate::failure::Result;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;

/// A volume to resize.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Name of the volume.
    pub name: String,
    /// The new size, in bytes.
    pub size_bytes: u64,
    /// Shrink even if stored data lies past the new end, and throw that data away.
    #[serde(default)]
    pub discard: bool,
}

/// Resize the volume. Clients that are connected may use the new size at once; most learn of it
/// when they connect again.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let (pool, name, size) = (context.pool, &request.name, ByteSize(request.size_bytes));
    let before = ByteSize(pool.volume(name).map_err(failed)?.size_bytes());
    pool.resize_volume(name, size, request.discard).map_err(failed)?;
    Ok(Report::note(format!("volume '{name}' has {size} now, {before} before")))
}

/// Resize the volume, and say so.
pub fn run(args: &VolumeResizeArgs, printer: &Printer) -> Result<()> {
    let (name, size_bytes) = (args.name.clone(), args.size.bytes());
    let request = Request { name, size_bytes, discard: args.discard };
    let opening = Opening::Write(Budgets::default());
    let report = door::call(&args.pool, opening, &table::VOLUME_RESIZE, &request, printer)?;
    printer.report(report, false)
}

#[cfg(test)]
mod tests {
    use crate::commands::heard::Folder;

    #[test]
    fn sizes_and_names_change_as_they_are_told() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.ok("volume create ./p v --size 1M");
        let said = here.ok("volume resize ./p v --size 2M");
        assert_eq!((&*said.out, &*said.err), ("", "volume 'v' has 2 MiB now, 1 MiB before\n"));
        let said = here.ok("volume rename ./p v w");
        assert_eq!((&*said.out, &*said.err), ("", "volume 'v' is called 'w' now\n"));
        let said = here.ok("volume resize ./p w --size 1M");
        assert_eq!(said.err, "volume 'w' has 1 MiB now, 2 MiB before\n");
        assert!(here.refused("volume resize ./p v --size 2M", 2).contains("'v'"));
        assert!(here.refused("volume create ./p w --size 2M", 2).contains("'w'"));
    }
}
