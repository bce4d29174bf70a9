//! `onefold volume limit`: how much may be asked of a volume.
//! Room: onefold.

use onefold_control::Report;
use onefold_pool::Budgets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::VolumeLimitArgs;
use crate::failure::{Failure, Result};
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;
use crate::sharing;

/// What to limit; what is left out stays as it is, and 0 is no limit.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Name of the volume.
    pub name: String,
    /// Reads, writes, trims and zeroings in a second, of all clients together.
    pub iops: Option<u64>,
    /// Bytes read and written in a second, of all clients together.
    pub bytes_per_second: Option<u64>,
    /// The same as `iops`, of each connection.
    pub connection_iops: Option<u64>,
    /// The same as `bytes_per_second`, of each connection.
    pub connection_bytes_per_second: Option<u64>,
}

/// Set limits. Clients that are connected feel them from their next request on.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let name = request.name.as_str();
    let sharing = sharing::change(context.pool, &failed, name, |sharing| {
        let limits = &mut sharing.limits;
        let mut said = false;
        for (asked, limit) in [
            (request.iops, &mut limits.iops),
            (request.bytes_per_second, &mut limits.bytes_per_second),
            (request.connection_iops, &mut limits.connection_iops),
            (request.connection_bytes_per_second, &mut limits.connection_bytes_per_second),
        ] {
            if let Some(asked) = asked {
                *limit = (asked > 0).then_some(asked);
                said = true;
            }
        }
        if said {
            return Ok(());
        }
        Err(Failure::nothing_done("there is nothing to limit").hint(
            "--iops, --rate, --connection-iops and --connection-rate can be set, to none too",
        ))
    })?;
    if let Some(live) = context.live {
        let volume = context.pool.volume(name).map_err(failed)?;
        live.exports.share_again(&volume);
    }
    let text = if sharing.limits.is_none() { "none".to_owned() } else { sharing.limits.text() };
    Ok(Report::note(format!("limits of volume '{name}': {text}")))
}

/// Set limits, and say what they are.
pub fn run(args: &VolumeLimitArgs, printer: &Printer) -> Result<()> {
    let request = Request {
        name: args.name.clone(),
        iops: args.iops,
        bytes_per_second: args.rate,
        connection_iops: args.connection_iops,
        connection_bytes_per_second: args.connection_rate,
    };
    let opening = Opening::Write(Budgets::default());
    let report = door::call(&args.pool, opening, &table::VOLUME_LIMIT, &request, printer)?;
    printer.report(report, false)
}
