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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::{self, Folder};
    use crate::test_pool;

    #[test]
    fn limits_are_set_one_by_one_and_taken_away() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.ok("volume create ./p v --size 1M");
        let told = |line: &str| here.ok(&format!("volume limit ./p v {line}")).err;
        let set = told("--iops 1 --connection-rate 4K");
        assert!(set.starts_with("limits of volume 'v': ") && set.contains("4 KiB"), "{set}");
        let more = told("--rate 1M --connection-iops 7");
        assert!(more.contains("4 KiB") && more.contains("1 MiB") && more.contains('7'), "{more}");
        let none = "--iops none --rate none --connection-iops none --connection-rate none";
        assert_eq!(told(none), "limits of volume 'v': none\n");
        let nothing = here.refused("volume limit ./p v", 2);
        assert!(nothing.starts_with("error: there is nothing to limit\nhint: "), "{nothing}");
        assert!(here.refused("volume limit ./p w --iops 1", 2).contains("'w'"));
    }

    #[test]
    fn one_request_a_second_is_a_limit_and_none_is_not() {
        let pool = test_pool::pool();
        pool.create_volume("v", onefold_block::ByteSize(1 << 20)).unwrap();
        let limit = |iops| {
            let request = Request { name: "v".into(), iops: Some(iops), ..Request::default() };
            heard::operate(&pool, &table::VOLUME_LIMIT, &request).unwrap().notes.concat()
        };
        assert!(limit(1).contains(" 1 "), "{}", limit(1));
        assert_eq!(limit(0), "limits of volume 'v': none");
    }
}
